//! The in-memory copy of a database: changed as a whole per update, read as a snapshot.

mod snapshot;
mod table;
mod watch;

#[cfg(test)]
mod tests;

pub use snapshot::{Entry, Snapshot};
pub(crate) use table::key_of;
pub use table::{Row, TableCopy};
pub use watch::{Change, Watcher};

use crate::protocol::{Layout, RowChange, Update};
use crate::spec::{Spec, TableSpec};
use crate::value::{Datum, Recent};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;
use watch::Queue;

/// An update spoke of a row that is not there. The copy can no longer be trusted: load it anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server changed row {uuid} of table {table}, which it never showed")]
pub struct Inconsistent {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub uuid: Uuid,
}

/// The copy itself. One writer; readers take [`Snapshot`]s.
#[derive(Debug)]
pub struct Replica {
    now: Snapshot,
    /// Per table, per column.
    recent: Vec<Vec<Recent>>,
    queues: Vec<std::sync::Weak<Queue>>,
}

impl Replica {
    /// An empty copy of what `spec` asks for.
    pub fn new(spec: &Spec) -> Replica {
        let columns = |table: &TableSpec| table.decl.columns.iter().map(|_| Recent::default()).collect();
        let recent = spec.tables.iter().map(columns).collect();
        Replica { now: Snapshot::empty(spec), recent, queues: Vec::new() }
    }

    /// The rows as they are now. Cheap; later updates do not show in it.
    pub fn snapshot(&self) -> Snapshot {
        self.now.clone()
    }

    /// Applies an update as one change, or not at all. `whole` means the update is everything there is:
    /// what it does not name is gone, and what it names unchanged did not change.
    ///
    /// Returns the number of rows that differ from before.
    pub fn apply(
        &mut self,
        layout: &Arc<Layout>,
        whole: bool,
        update: Update,
    ) -> Result<usize, Inconsistent> {
        let mut net: BTreeMap<(usize, Uuid), Option<Arc<Row>>> = BTreeMap::new();
        if whole {
            for (at, table) in self.now.tables.iter().enumerate() {
                net.extend(table.rows().map(|row| ((at, row.uuid), None)));
            }
        }
        for (at, uuid, change) in update.rows {
            let old = self.now.tables[at].get(uuid);
            let values = match (change, old) {
                (RowChange::Is(values), _) => Some(values),
                (RowChange::Differs(difference), Some(old)) => {
                    Some(layout.tables[at].apply(&old.values, &difference))
                }
                (RowChange::Differs(_), None) => {
                    return Err(Inconsistent { table: layout.tables[at].decl.name, uuid });
                }
                (RowChange::Gone, _) => None,
            };
            let recent = &mut self.recent[at];
            let share = |values: Box<[Datum]>| {
                let shared = values.into_iter().zip(recent).map(|(value, recent)| recent.share(value));
                Arc::new(Row { uuid, values: shared.collect() })
            };
            net.insert((at, uuid), values.map(share));
        }
        let mut changes = Vec::new();
        for ((at, uuid), new) in net {
            let old = self.now.tables[at].get(uuid).cloned();
            if old.as_ref().map(|r| &r.values) == new.as_ref().map(|r| &r.values) {
                continue;
            }
            // In place while nobody holds a snapshot, else on a copy of this table alone.
            Arc::make_mut(&mut self.now.tables[at]).replace(uuid, new.clone());
            changes.push((at, Change { table: self.now.tables[at].decl().name, uuid, old, new }));
        }
        if self.now.layout.as_ref().is_none_or(|l| !Arc::ptr_eq(l, layout)) {
            self.now.layout = Some(Arc::clone(layout));
        }
        self.now.sequence += 1;
        self.queues.retain(|queue| match queue.upgrade() {
            Some(queue) => {
                queue.push(&changes);
                true
            }
            None => false,
        });
        Ok(changes.len())
    }

    /// A watcher of these tables (of all, if none is named). Its first batch holds the rows there are now.
    pub fn watch(&mut self, tables: &[&str]) -> Watcher {
        let wanted: Vec<bool> =
            self.now.tables.iter().map(|t| tables.is_empty() || tables.contains(&t.decl().name)).collect();
        let queue = Arc::new(Queue::new(wanted));
        let rows = self.now.tables.iter().enumerate().flat_map(|(at, table)| {
            table.rows().map(move |row| {
                let new = Some(Arc::clone(row));
                (at, Change { table: table.decl().name, uuid: row.uuid, old: None, new })
            })
        });
        queue.push(&rows.collect::<Vec<_>>());
        self.queues.push(Arc::downgrade(&queue));
        Watcher::new(queue)
    }
}
