//! The smallest transaction that turns the rows that are into the rows that are wanted.
//!
//! Rows are recognised by stable keys ([`Key`](crate::Key)), never by UUID. What carries our mark in
//! `external_ids` and is not wanted is removed; what does not carry it is not touched, except that rows
//! of ours are taken into and out of its references. Sets and maps are changed element by element, so
//! that two writers of different children of one row do not get in each other's way.

mod edit;
mod ground;
mod want;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use want::{Desired, Hold, Wanted};

use crate::copy::Snapshot;
use crate::schema::Schema;
use crate::transaction::{Columns, Transaction};
use crate::value::{Atom, Datum, RowKey};
use edit::Edits;
use ground::Ground;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Whose rows: the entries of `external_ids` that make a row ours and name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Entry that says whose the row is.
    pub mark: (String, String),
    /// Entry that holds the key of rows that have no name of their own ([`Key::ExternalId`](crate::Key)).
    pub id: String,
    /// Tables without `external_ids`, hence without a mark, that are ours with every row in them.
    pub whole_tables: BTreeSet<String>,
}

impl Owner {
    /// Rows with `external_ids:key=value` are ours; `id` names those that need it.
    pub fn new(key: impl Into<String>, value: impl Into<String>, id: impl Into<String>) -> Owner {
        Owner { mark: (key.into(), value.into()), id: id.into(), whole_tables: BTreeSet::new() }
    }

    /// Takes all rows of a table without `external_ids` for ours.
    #[must_use]
    pub fn with_whole_table(mut self, table: impl Into<String>) -> Owner {
        self.whole_tables.insert(table.into());
        self
    }
}

/// Why there is no transaction that does what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// Nothing is known yet of what there is.
    #[error("the database was not loaded yet")]
    NotLoaded,
    /// A table that is not copied cannot be compared.
    #[error("table {table} is not among those copied")]
    NotCopied {
        /// The table.
        table: String,
    },
    /// Two wanted rows are the same row.
    #[error("{row} is wanted twice")]
    Twice {
        /// The row.
        row: RowKey,
    },
    /// A wanted row has no key.
    #[error("a wanted row of {table} has no key")]
    Keyless {
        /// The table.
        table: String,
    },
    /// A row that is to be ours is there, and is somebody else's.
    #[error("{row} exists and is not ours")]
    Foreign {
        /// The row.
        row: RowKey,
    },
    /// A row to share is not there.
    #[error("{row} is to be shared and does not exist")]
    Missing {
        /// The row.
        row: RowKey,
    },
    /// A reference to a row that neither is nor is wanted.
    #[error("column {column} of {row} refers to {to}, which neither exists nor is wanted")]
    Dangling {
        /// The row that refers.
        row: RowKey,
        /// Its column.
        column: String,
        /// The row it refers to.
        to: RowKey,
    },
    /// A row that would vanish at once, because its table's rows live only while referred to.
    #[error("{row} is wanted but no row refers to it, so it would not stay")]
    Orphan {
        /// The row.
        row: RowKey,
    },
    /// The server is too old for a column that is to be set.
    #[error("column {column} of {row} is to be set, and schema version {version} does not have it")]
    NoColumn {
        /// The row.
        row: RowKey,
        /// The column.
        column: String,
        /// The server's version.
        version: String,
    },
}

/// Makes the transaction.
///
/// # Guarantees
///
/// Applied to `have`, it leaves every wanted row as wanted, no other row with the owner's mark, and
/// every row without it as it was (apart from references to rows of ours). If that is so already, the
/// transaction is empty. The number of operations depends on what differs, not on what is there.
///
/// Pure: the same rows give the same transaction.
pub fn diff(desired: &Desired, have: &Snapshot, owner: &Owner) -> Result<Transaction, DiffError> {
    let schema = have.schema().ok_or(DiffError::NotLoaded)?;
    let wanted = desired.gathered(owner)?;
    let ground = Ground::new(have, owner, &wanted)?;
    let plan = Plan { schema, have, owner, wanted: &wanted, ground: &ground };
    let mut transaction = Transaction::new();
    let names: BTreeMap<&RowKey, Atom> = wanted
        .iter()
        .filter(|(key, row)| !ground.matched.contains_key(*key) && row.hold != Hold::Share)
        .map(|(key, _)| (key, Atom::Named(transaction.fresh_name())))
        .collect();
    let mut edits = Edits::default();
    let mut attached: BTreeSet<(Uuid, &str, Uuid)> = BTreeSet::new();
    let mut referred: BTreeSet<Atom> = BTreeSet::new();
    let mut inserts = Vec::new();
    for (key, row) in &wanted {
        let columns = plan.resolved(key, row, &names)?;
        for datum in columns.values() {
            referred.extend(
                datum.atoms().iter().filter(|a| matches!(a, Atom::Uuid(_) | Atom::Named(_))).cloned(),
            );
        }
        match ground.matched.get(key) {
            Some(uuid) => {
                for (column, datum) in &columns {
                    if plan.holds_children(&key.table, column) {
                        let (name, _) = row.columns.get_key_value(column).expect("resolved from it");
                        attached.extend(datum.references().map(|child| (*uuid, name.as_str(), child)));
                    }
                }
                plan.compare(key, row, *uuid, &columns, &mut edits);
            }
            None if row.hold == Hold::Share => return Err(DiffError::Missing { row: key.clone() }),
            None => inserts.push((key, columns)),
        }
    }
    for (key, columns) in inserts {
        let Some(Atom::Named(name)) = names.get(key) else { continue };
        let root = schema.tables.get(&key.table).is_some_and(|t| t.is_root);
        if !root && !referred.contains(&names[key]) {
            return Err(DiffError::Orphan { row: key.clone() });
        }
        transaction.push(crate::transaction::Operation::Insert {
            table: key.table.clone(),
            name: name.clone(),
            row: plan.without_defaults(&key.table, columns),
        });
    }
    plan.detach(&attached, &referred, &mut edits);
    edits.write(&mut transaction);
    for (table, uuid) in plan.deleted() {
        transaction.delete(table, uuid);
    }
    Ok(transaction)
}

struct Plan<'a> {
    schema: &'a Schema,
    have: &'a Snapshot,
    owner: &'a Owner,
    wanted: &'a BTreeMap<RowKey, Wanted>,
    ground: &'a Ground<'a>,
}

impl Plan<'_> {
    /// Do references in this column keep their targets alive, and are those rows of no use elsewhere?
    fn holds_children(&self, table: &str, column: &str) -> bool {
        let target = self.schema.column(table, column).and_then(|c| c.key_ref.as_ref());
        target.is_some_and(|to| to.strong && self.schema.tables.get(&to.table).is_some_and(|t| !t.is_root))
    }

    /// A wanted row's columns with keys replaced by rows, and with our mark.
    fn resolved(
        &self,
        key: &RowKey,
        row: &Wanted,
        names: &BTreeMap<&RowKey, Atom>,
    ) -> Result<Columns, DiffError> {
        let mut columns = Columns::new();
        for (column, datum) in &row.columns {
            if self.schema.column(&key.table, column).is_none() {
                let default = row.decl.column(column).map(|c| c.shape.default_datum());
                if default.as_ref() == Some(datum) {
                    continue;
                }
                let version = self.schema.version.clone();
                return Err(DiffError::NoColumn { row: key.clone(), column: column.clone(), version });
            }
            let resolved = datum.try_map(|atom| {
                let Atom::Key(to) = atom else { return Ok(atom.clone()) };
                self.target(to, names).ok_or_else(|| DiffError::Dangling {
                    row: key.clone(),
                    column: column.clone(),
                    to: to.as_ref().clone(),
                })
            })?;
            columns.insert(column.clone(), resolved);
        }
        if matches!(row.hold, Hold::Own | Hold::Adopt) && row.decl.column("external_ids").is_some() {
            let ids = columns.remove("external_ids").unwrap_or_else(|| Datum::map::<Atom, Atom>([]));
            let mut pairs = ids.pairs().to_vec();
            pairs.push((Atom::from(self.owner.mark.0.as_str()), Atom::from(self.owner.mark.1.as_str())));
            if row.decl.key == crate::table::Key::ExternalId {
                pairs.push((Atom::from(self.owner.id.as_str()), Atom::from(key.key.as_str())));
            }
            columns.insert("external_ids".to_owned(), Datum::map(pairs));
        }
        Ok(columns)
    }

    fn target(&self, to: &RowKey, names: &BTreeMap<&RowKey, Atom>) -> Option<Atom> {
        if let Some(uuid) = self.ground.matched.get(to) {
            return Some(Atom::Uuid(*uuid));
        }
        names.get(to).cloned().or_else(|| self.ground.other(to).map(Atom::Uuid))
    }

    /// Records how a row that exists must change.
    fn compare(&self, key: &RowKey, row: &Wanted, uuid: Uuid, columns: &Columns, edits: &mut Edits) {
        let table = self.have.table(&key.table).expect("a matched row's table is copied");
        let actual = table.get(uuid).expect("a matched row exists");
        for (column, want) in columns {
            let (Some(have), Some(schema)) =
                (table.value(actual, column), self.schema.column(&key.table, column))
            else {
                continue;
            };
            if have == want {
                continue;
            }
            let edit = edits.of(&key.table, uuid, column);
            if want.is_map() {
                // A mark alone does not decide about the other entries.
                let lists_it = row.columns.contains_key(column);
                let merge = row.merges(column) || !lists_it;
                let absent = row.absent.get(column);
                edit.map(have, want, |key| !merge || absent.is_some_and(|gone| gone.contains(key)));
            } else if schema.max == 1 {
                edit.replace(want.clone());
            } else if self.holds_children(&key.table, column) || row.hold.shares() {
                edit.add(want.atoms().iter().filter(|a| !have.contains(a)));
            } else {
                // A weak reference vanishes with its target.
                let weak = schema.key_ref.as_ref().is_some_and(|to| !to.strong);
                let vanishes = |a: &Atom| weak && a.as_uuid().is_some_and(|u| self.ground.is_unwanted(u));
                edit.remove(have.atoms().iter().filter(|a| !want.contains(a) && !vanishes(a)));
                edit.add(want.atoms().iter().filter(|a| !have.contains(a)));
            }
        }
        for (column, gone) in &row.absent {
            let Some(have) = table.value(actual, column) else { continue };
            let edit = edits.of(&key.table, uuid, column);
            edit.remove_keys(have.pairs().iter().map(|(k, _)| k).filter(|k| gone.contains(k)));
        }
    }

    /// Takes rows of ours out of strong references: unwanted ones everywhere, wanted ones where they are
    /// not wanted (a port that moved to another switch).
    fn detach(&self, attached: &BTreeSet<(Uuid, &str, Uuid)>, referred: &BTreeSet<Atom>, edits: &mut Edits) {
        for table in self.have.tables() {
            let decl = table.decl();
            for (at, column) in decl.columns.iter().enumerate() {
                let target = self.schema.column(decl.name, column.name).and_then(|c| c.key_ref.as_ref());
                let Some(target) = target.filter(|to| to.strong) else { continue };
                let children = self.holds_children(decl.name, column.name);
                let unmarked =
                    self.have.table(&target.table).is_some_and(|t| t.decl().column("external_ids").is_none());
                if !(self.ground.concerns(&target.table) || children && unmarked) {
                    continue;
                }
                for row in table.rows().filter(|row| !self.ground.is_unwanted(row.uuid)) {
                    let parent_is_ours =
                        || self.ground.key_of(row.uuid).is_some_and(|key| !self.wanted[key].hold.shares());
                    let leaves = |child: &Uuid| {
                        if attached.contains(&(row.uuid, column.name, *child)) {
                            return false;
                        }
                        if self.ground.is_unwanted(*child) {
                            return true;
                        }
                        let is_wanted = children && self.ground.owns(*child);
                        (is_wanted && referred.contains(&Atom::Uuid(*child)))
                            || (children && unmarked && parent_is_ours() && self.lists(row.uuid, column.name))
                    };
                    let leaving: Vec<Atom> =
                        row.values[at].references().filter(leaves).map(Atom::Uuid).collect();
                    if !leaving.is_empty() {
                        edits.of(decl.name, row.uuid, column.name).remove(leaving.iter());
                    }
                }
            }
        }
    }

    /// Unwanted rows that must be deleted by name. Rows of other tables than roots go by themselves once
    /// nothing refers to them, but only after the server has checked that nothing refers to what is
    /// deleted: those that do have to be deleted too, and whatever refers to them.
    fn deleted(&self) -> BTreeSet<(&str, Uuid)> {
        let mut referrers: BTreeMap<Uuid, Vec<(&str, Uuid)>> = BTreeMap::new();
        for (name, uuid) in &self.ground.unwanted {
            let table = self.have.table(name).expect("an unwanted row's table is copied");
            let row = table.get(*uuid).expect("an unwanted row exists");
            for (column, datum) in table.decl().columns.iter().zip(&row.values) {
                let schema = self.schema.column(name, column.name);
                if schema.and_then(|c| c.refers()).is_some_and(|to| to.strong) {
                    datum.references().for_each(|to| referrers.entry(to).or_default().push((name, *uuid)));
                }
            }
        }
        let is_root = |table: &str| self.schema.tables.get(table).is_some_and(|t| t.is_root);
        let mut left: Vec<(&str, Uuid)> =
            self.ground.unwanted.iter().filter(|(table, _)| is_root(table)).copied().collect();
        let mut deleted = BTreeSet::new();
        while let Some(row) = left.pop() {
            if deleted.insert(row) {
                left.extend(referrers.get(&row.1).into_iter().flatten());
            }
        }
        deleted
    }

    fn lists(&self, row: Uuid, column: &str) -> bool {
        self.ground.key_of(row).is_some_and(|key| self.wanted[key].columns.contains_key(column))
    }

    fn without_defaults(&self, table: &str, mut columns: Columns) -> Columns {
        columns.retain(|column, datum| {
            self.schema.column(table, column).is_none_or(|c| c.default_datum() != *datum)
        });
        columns
    }
}
