//! From what is wanted and what is there to operations.

use super::edit::Edits;
use super::ground::{Extent, Ground};
use super::want::{Doubted, Gathered, Wanted};
use super::{DiffError, Hold, Owner};
use crate::copy::{Snapshot, TableCopy};
use crate::schema::Schema;
use crate::transaction::{Columns, Operation, Transaction};
use crate::value::{Atom, Datum, RowKey};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub(super) struct Plan<'a> {
    pub(super) schema: &'a Schema,
    pub(super) have: &'a Snapshot,
    pub(super) owner: &'a Owner,
    pub(super) wanted: &'a Gathered<'a>,
    pub(super) ground: &'a Ground<'a>,
    pub(super) extent: Extent<'a>,
    pub(super) doubted: &'a Doubted,
}

/// A wanted row's columns, ready to be compared and sent.
type Resolved<'a> = BTreeMap<&'a str, Cow<'a, Datum>>;

/// References that are wanted: from which row, in which column, to which row.
type Attached<'a> = BTreeSet<(Uuid, &'a str, Uuid)>;

impl<'a> Plan<'a> {
    pub(super) fn transaction(&self) -> Result<Transaction, DiffError> {
        let mut transaction = Transaction::new();
        let makes = |hold| matches!(hold, Hold::Own | Hold::Adopt | Hold::Ensure);
        let names: BTreeMap<&RowKey, Atom> = self
            .wanted
            .iter()
            .filter(|(key, row)| !self.ground.matched.contains_key(*key) && makes(row.hold))
            .map(|(key, _)| (key, Atom::Named(transaction.fresh_name())))
            .collect();
        let mut edits = Edits::default();
        let mut attached = Attached::new();
        let mut referred: BTreeSet<Atom> = BTreeSet::new();
        let mut inserts = Vec::new();
        for (key, row) in self.wanted {
            let found = self.ground.matched.get(key);
            match (found, row.hold) {
                (None, Hold::IfThere) => continue,
                (None, Hold::Share) => return Err(DiffError::Missing { row: key.clone() }),
                (Some(_), _) | (None, Hold::Own | Hold::Adopt | Hold::Ensure) => {}
            }
            let columns = self.resolved(key, row, &names)?;
            let is_row = |a: &&Atom| matches!(a, Atom::Uuid(_) | Atom::Named(_));
            referred.extend(columns.values().flat_map(|d| d.atoms().iter().filter(is_row)).cloned());
            match found {
                Some(uuid) => {
                    self.enter(key, *uuid, &columns, &mut attached);
                    self.compare(key, row, *uuid, &columns, &mut edits);
                    self.dismiss(key, row, *uuid, &columns, &mut edits);
                }
                None => inserts.push((key, columns)),
            }
        }
        for (key, columns) in inserts {
            let Some(Atom::Named(name)) = names.get(key) else { continue };
            let root = self.schema.tables.get(&key.table).is_some_and(|t| t.is_root);
            if !root && !referred.contains(&names[key]) {
                return Err(DiffError::Orphan { row: key.clone() });
            }
            let row = self.without_defaults(&key.table, columns);
            transaction.push(Operation::Insert { table: key.table.clone(), name: name.clone(), row });
        }
        self.detach(&attached, &referred, &mut edits);
        edits.write(&mut transaction);
        for (table, uuid) in self.deleted() {
            transaction.delete(table, uuid);
        }
        Ok(transaction)
    }

    fn enter(&self, key: &RowKey, uuid: Uuid, columns: &Resolved<'a>, attached: &mut Attached<'a>) {
        for (column, datum) in columns {
            if datum.references().next().is_some() && self.holds_children(&key.table, column) {
                attached.extend(datum.references().map(|child| (uuid, *column, child)));
            }
        }
    }

    /// Do references in this column keep their targets alive, and are those rows of no use elsewhere?
    fn holds_children(&self, table: &str, column: &str) -> bool {
        let target = self.schema.column(table, column).and_then(|c| c.key_ref.as_ref());
        target.is_some_and(|to| to.strong && self.schema.tables.get(&to.table).is_some_and(|t| !t.is_root))
    }

    /// A wanted row's columns with keys replaced by rows, and with our mark.
    fn resolved(
        &self,
        key: &RowKey,
        row: &'a Wanted,
        names: &BTreeMap<&RowKey, Atom>,
    ) -> Result<Resolved<'a>, DiffError> {
        let mut columns = Resolved::new();
        for (column, datum) in &row.columns {
            let Some(declared) = row.decl.column(column) else {
                return Err(DiffError::Undeclared { row: key.clone(), column: column.clone() });
            };
            // What is not optional was seen to be there when connecting.
            if declared.optional && self.schema.column(&key.table, column).is_none() {
                if *datum == declared.shape.default_datum() {
                    continue;
                }
                let version = self.schema.version.clone();
                return Err(DiffError::NoColumn { row: key.clone(), column: column.clone(), version });
            }
            let is_key = |atom: &Atom| matches!(atom, Atom::Key(_));
            if !datum.atoms().iter().chain(datum.pairs().iter().map(|(_, v)| v)).any(is_key) {
                columns.insert(column, Cow::Borrowed(datum));
                continue;
            }
            let resolved = datum.try_map(|atom| {
                let Atom::Key(to) = atom else { return Ok(atom.clone()) };
                self.target(to, names).ok_or_else(|| DiffError::Dangling {
                    row: key.clone(),
                    column: column.clone(),
                    to: to.as_ref().clone(),
                })
            })?;
            columns.insert(column, Cow::Owned(resolved));
        }
        if row.hold.owns() && row.decl.column("external_ids").is_some() {
            let mut pairs = columns.get("external_ids").map_or_else(Vec::new, |ids| ids.pairs().to_vec());
            pairs.push((Atom::from(self.owner.mark.0.as_str()), Atom::from(self.owner.mark.1.as_str())));
            if row.decl.key == crate::table::Key::ExternalId {
                pairs.push((Atom::from(self.owner.id.as_str()), Atom::from(key.key.as_str())));
            }
            columns.insert("external_ids", Cow::Owned(Datum::map(pairs)));
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
    fn compare(&self, key: &RowKey, row: &Wanted, uuid: Uuid, columns: &Resolved<'_>, edits: &mut Edits) {
        let table = self.have.table(&key.table).expect("a matched row's table is copied");
        let actual = table.get(uuid).expect("a matched row exists");
        for (column, want) in columns {
            let want = want.as_ref();
            let Some(have) = table.value(actual, column).filter(|have| *have != want) else { continue };
            let Some(schema) = self.schema.column(&key.table, column) else { continue };
            let edit = edits.of(&key.table, uuid, column);
            if want.is_map() {
                // A mark alone does not decide about the other entries.
                let lists_it = row.columns.contains_key(*column);
                let merge = row.merges(column) || !lists_it;
                let absent = row.absent.get(*column);
                edit.map(have, want, |key| !merge || absent.is_some_and(|gone| gone.contains(key)));
            } else if schema.max == 1 {
                edit.replace(want.clone());
            } else if self.holds_children(&key.table, column)
                || !row.hold.owns()
                || self.names_some_of(row, column)
            {
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

    /// Are the children in this column those that are named, and perhaps others?
    fn names_some_of(&self, row: &Wanted, column: &str) -> bool {
        matches!(self.extent, Extent::Only(_)) && row.listed.contains(column)
    }

    /// Takes out references in doubt that no child of the row makes. Strong ones are seen to where their targets are,
    /// and columns that the row itself decides about were compared.
    fn dismiss(&self, key: &RowKey, row: &Wanted, uuid: Uuid, columns: &Resolved<'_>, edits: &mut Edits) {
        let Some(doubted) = self.doubted.get(key).filter(|_| row.hold.owns()) else { return };
        let Some(actual) = self.have.table(&key.table).and_then(|table| Some((table, table.get(uuid)?)))
        else {
            return;
        };
        for (column, doubted) in doubted {
            let decides = row.columns.contains_key(column) && !row.listed.contains(column.as_str());
            let Some(have) = actual.0.value(actual.1, column).filter(|_| !decides) else { continue };
            if self.holds_children(&key.table, column) {
                continue;
            }
            let wanted = |to: &Atom| columns.get(column.as_str()).is_some_and(|want| want.contains(to));
            let gone = doubted.iter().filter(|to| have.contains(to) && !wanted(to));
            edits.of(&key.table, uuid, column).remove(gone);
        }
    }

    /// Takes rows of ours out of strong references: unwanted ones everywhere, wanted ones where they are
    /// not wanted (a port that moved to another switch).
    fn detach(&self, attached: &Attached<'_>, referred: &BTreeSet<Atom>, edits: &mut Edits) {
        for table in self.have.tables() {
            let decl = table.decl();
            for (at, column) in decl.columns.iter().enumerate() {
                let target = self.schema.column(decl.name, column.name).and_then(|c| c.key_ref.as_ref());
                let Some(target) = target.filter(|to| to.strong) else { continue };
                let children = self.holds_children(decl.name, column.name);
                let markable = |t: &TableCopy| t.decl().column("external_ids").is_some();
                let unmarked = children && self.have.table(&target.table).is_some_and(|t| !markable(t));
                for row in table.rows().filter(|row| !self.ground.is_unwanted(row.uuid)) {
                    let wanted_here = |child: Uuid| attached.contains(&(row.uuid, column.name, child));
                    let mut leaving = self.ground.ours_among(&target.table, &row.values[at]);
                    leaving.retain(|child| {
                        let moved = children && referred.contains(&Atom::Uuid(*child));
                        !wanted_here(*child) && (self.ground.is_unwanted(*child) || moved)
                    });
                    // Children that cannot carry a mark are their parent's.
                    if unmarked && self.owns_with(row.uuid, column.name) {
                        leaving.extend(row.values[at].references().filter(|child| !wanted_here(*child)));
                    }
                    if !leaving.is_empty() {
                        let leaving: Vec<Atom> = leaving.into_iter().map(Atom::Uuid).collect();
                        edits.of(decl.name, row.uuid, column.name).remove(leaving.iter());
                    }
                }
            }
        }
    }

    /// Is this row wanted as ours, and with this column?
    fn owns_with(&self, row: Uuid, column: &str) -> bool {
        let wanted = self.ground.key_of(row).and_then(|key| self.wanted.get(key));
        wanted.is_some_and(|w| w.hold.owns() && w.columns.contains_key(column))
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

    fn without_defaults(&self, table: &str, columns: Resolved<'_>) -> Columns {
        let differs = |column: &str, datum: &Datum| {
            self.schema.column(table, column).is_none_or(|c| c.default_datum() != *datum)
        };
        let kept = columns.into_iter().filter(|(column, datum)| differs(column, datum));
        kept.map(|(column, datum)| (column.to_owned(), datum.into_owned())).collect()
    }
}
