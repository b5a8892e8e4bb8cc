//! Changes to rows that exist, gathered so that each row costs at most two operations.

use crate::transaction::{Columns, Mutation, Transaction};
use crate::value::{Atom, Datum};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

#[derive(Default)]
pub(super) struct ColumnEdit {
    replace: Option<Datum>,
    remove: BTreeSet<Atom>,
    remove_keys: BTreeSet<Atom>,
    add: BTreeSet<Atom>,
    add_pairs: BTreeMap<Atom, Atom>,
}

impl ColumnEdit {
    pub(super) fn replace(&mut self, datum: Datum) {
        self.replace = Some(datum);
    }

    pub(super) fn add<'a>(&mut self, atoms: impl Iterator<Item = &'a Atom>) {
        self.add.extend(atoms.cloned());
    }

    pub(super) fn remove<'a>(&mut self, atoms: impl Iterator<Item = &'a Atom>) {
        self.remove.extend(atoms.cloned());
    }

    pub(super) fn remove_keys<'a>(&mut self, keys: impl Iterator<Item = &'a Atom>) {
        self.remove_keys.extend(keys.cloned());
    }

    /// From one map to another; keys that `want` does not have go if `goes` says so.
    pub(super) fn map(&mut self, have: &Datum, want: &Datum, goes: impl Fn(&Atom) -> bool) {
        for (key, value) in want.pairs() {
            let before = have.get(key);
            if before == Some(value) {
                continue;
            }
            // `insert` leaves a key that is there as it is.
            if before.is_some() {
                self.remove_keys.insert(key.clone());
            }
            self.add_pairs.insert(key.clone(), value.clone());
        }
        let gone = have.pairs().iter().map(|(key, _)| key).filter(|key| want.get(key).is_none() && goes(key));
        self.remove_keys.extend(gone.cloned());
    }
}

#[derive(Default)]
pub(super) struct Edits(BTreeMap<(String, Uuid), BTreeMap<String, ColumnEdit>>);

impl Edits {
    pub(super) fn of(&mut self, table: &str, row: Uuid, column: &str) -> &mut ColumnEdit {
        self.0.entry((table.to_owned(), row)).or_default().entry(column.to_owned()).or_default()
    }

    pub(super) fn write(self, transaction: &mut Transaction) {
        for ((table, uuid), columns) in self.0 {
            let mut replaced = Columns::new();
            let mut mutations = Vec::new();
            for (column, edit) in columns {
                if let Some(datum) = edit.replace {
                    replaced.insert(column, datum);
                    continue;
                }
                // The server checks after each mutation. A set that may not be empty must gain before it
                // loses; a pair whose value changes must go before it comes.
                if !edit.add.is_empty() {
                    mutations.push(Mutation::Insert(column.clone(), Datum::set(edit.add)));
                }
                let removed: BTreeSet<Atom> = edit.remove.union(&edit.remove_keys).cloned().collect();
                if !removed.is_empty() {
                    mutations.push(Mutation::Delete(column.clone(), Datum::set(removed)));
                }
                if !edit.add_pairs.is_empty() {
                    mutations.push(Mutation::Insert(column, Datum::map(edit.add_pairs)));
                }
            }
            if !replaced.is_empty() {
                transaction.update(table.clone(), uuid, replaced);
            }
            if !mutations.is_empty() {
                transaction.mutate(table, uuid, mutations);
            }
        }
    }
}
