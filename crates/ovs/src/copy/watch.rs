//! Watching the copy change.
//!
//! A watcher that is slow does not hold up others and does not make the process grow: what happened to a
//! row since the last look is kept as one net change.

use super::snapshot::typed;
use super::table::Row;
use crate::table::{BadRow, Table};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use uuid::Uuid;

/// What happened to a row between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its table.
    pub table: &'static str,
    /// The row.
    pub uuid: Uuid,
    /// The row before; nothing if it is new.
    pub old: Option<Arc<Row>>,
    /// The row now; nothing if it is gone.
    pub new: Option<Arc<Row>>,
}

impl Change {
    /// The row before and now, if the change is of `T`'s table.
    #[allow(clippy::type_complexity, reason = "a pair of options is what it is")]
    pub fn typed<T: Table>(&self) -> Option<Result<(Option<T>, Option<T>), BadRow>> {
        let read = |row: &Option<Arc<Row>>| row.as_ref().map(|r| typed::<T>(r).map(|e| e.row)).transpose();
        (self.table == T::DECL.name).then(|| Ok((read(&self.old)?, read(&self.new)?)))
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    tables: Vec<bool>,
    pending: Mutex<BTreeMap<(usize, Uuid), Change>>,
    more: Notify,
}

impl Queue {
    pub(super) fn new(tables: Vec<bool>) -> Queue {
        Queue { tables, pending: Mutex::new(BTreeMap::new()), more: Notify::new() }
    }

    pub(super) fn push(&self, changes: &[(usize, Change)]) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, change) in changes.iter().filter(|(at, _)| self.tables[*at]) {
            let slot = (*at, change.uuid);
            match pending.remove(&slot) {
                None => drop(pending.insert(slot, change.clone())),
                Some(earlier) => {
                    let net = Change { old: earlier.old, ..change.clone() };
                    if net.old.as_ref().map(|r| &r.values) != net.new.as_ref().map(|r| &r.values) {
                        pending.insert(slot, net);
                    }
                }
            }
        }
        if !pending.is_empty() {
            self.more.notify_one();
        }
    }

    fn take(&self) -> Vec<Change> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *pending).into_values().collect()
    }
}

/// Receives the changes of some tables.
#[derive(Debug)]
pub struct Watcher {
    queue: Arc<Queue>,
}

impl Watcher {
    pub(super) fn new(queue: Arc<Queue>) -> Watcher {
        Watcher { queue }
    }

    /// The net changes since the last call; waits until there is one. Cancelling loses nothing.
    pub async fn next(&mut self) -> Vec<Change> {
        loop {
            let changes = self.queue.take();
            if !changes.is_empty() {
                return changes;
            }
            self.queue.more.notified().await;
        }
    }

    /// The net changes since the last call, without waiting.
    pub fn now(&mut self) -> Vec<Change> {
        self.queue.take()
    }
}
