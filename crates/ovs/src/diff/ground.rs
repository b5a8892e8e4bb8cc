//! What is there: which row is which wanted one, and which of ours nobody wants.

use super::want::Wanted;
use super::{DiffError, Hold, Owner};
use crate::copy::{Row, Snapshot, TableCopy};
use crate::table::Key;
use crate::value::RowKey;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use uuid::Uuid;

pub(super) struct Ground<'a> {
    /// The row that a wanted one is.
    pub(super) matched: BTreeMap<RowKey, Uuid>,
    /// Rows of ours that nobody wants.
    pub(super) unwanted: BTreeSet<(&'a str, Uuid)>,
    gone: HashSet<Uuid>,
    keys: HashMap<Uuid, RowKey>,
    owned: HashSet<Uuid>,
    concerned: BTreeSet<String>,
    by_key: HashMap<&'a str, HashMap<String, Vec<Uuid>>>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(
        have: &'a Snapshot,
        owner: &Owner,
        wanted: &BTreeMap<RowKey, Wanted>,
    ) -> Result<Ground<'a>, DiffError> {
        let mut ground = Ground {
            matched: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            gone: HashSet::new(),
            keys: HashMap::new(),
            owned: HashSet::new(),
            concerned: BTreeSet::new(),
            by_key: HashMap::new(),
        };
        for table in have.tables() {
            let mut by_key: HashMap<String, Vec<Uuid>> = HashMap::new();
            for row in table.rows() {
                if let Some(key) = table.key(row, &owner.id) {
                    by_key.entry(key).or_default().push(row.uuid);
                }
            }
            ground.by_key.insert(table.decl().name, by_key);
        }
        for (key, row) in wanted {
            let table =
                have.table(&key.table).ok_or_else(|| DiffError::NotCopied { table: key.table.clone() })?;
            if let Some(uuid) = ground.find(table, key, row, owner)? {
                ground.matched.insert(key.clone(), uuid);
                ground.keys.insert(uuid, key.clone());
                ground.concerned.insert(key.table.clone());
                if !row.hold.shares() {
                    ground.owned.insert(uuid);
                }
            }
        }
        for table in have.tables() {
            let name = table.decl().name;
            for row in table.rows().filter(|row| is_ours(table, row, owner)) {
                if !ground.keys.contains_key(&row.uuid) {
                    ground.unwanted.insert((name, row.uuid));
                    ground.gone.insert(row.uuid);
                    ground.concerned.insert(name.to_owned());
                }
            }
        }
        Ok(ground)
    }

    /// The row that `wanted` is. Of several of ours the first stays, the others are unwanted.
    fn find(
        &self,
        table: &TableCopy,
        key: &RowKey,
        wanted: &Wanted,
        owner: &Owner,
    ) -> Result<Option<Uuid>, DiffError> {
        let found = self.by_key[table.decl().name].get(&key.key).map_or(&[][..], Vec::as_slice);
        let ours = |uuid: &&Uuid| table.get(**uuid).is_some_and(|row| is_ours(table, row, owner));
        let markable = table.decl().column("external_ids").is_some();
        match wanted.hold {
            Hold::Own if markable => match found.iter().find(ours) {
                Some(uuid) => Ok(Some(*uuid)),
                // An id says nothing about rows that are not ours; a name does.
                None if found.is_empty() || table.decl().key == Key::ExternalId => Ok(None),
                None => Err(DiffError::Foreign { row: key.clone() }),
            },
            Hold::Own | Hold::Adopt | Hold::Share | Hold::Ensure => {
                Ok(found.iter().find(ours).or(found.first()).copied())
            }
        }
    }

    /// A row that is not wanted by us but stays: somebody else's.
    pub(super) fn other(&self, key: &RowKey) -> Option<Uuid> {
        let found = self.by_key.get(key.table.as_str())?.get(&key.key)?;
        found.iter().find(|uuid| !self.gone.contains(uuid)).copied()
    }

    pub(super) fn is_unwanted(&self, uuid: Uuid) -> bool {
        self.gone.contains(&uuid)
    }

    /// Is it wanted, as ours?
    pub(super) fn owns(&self, uuid: Uuid) -> bool {
        self.owned.contains(&uuid)
    }

    pub(super) fn key_of(&self, uuid: Uuid) -> Option<&RowKey> {
        self.keys.get(&uuid)
    }

    /// Can references into this table have to change?
    pub(super) fn concerns(&self, table: &str) -> bool {
        self.concerned.contains(table)
    }
}

/// Does the row carry the owner's mark?
fn is_ours(table: &TableCopy, row: &Row, owner: &Owner) -> bool {
    match table.value(row, "external_ids") {
        Some(ids) => ids.get_str(&owner.mark.0) == Some(owner.mark.1.as_str()),
        None => owner.whole_tables.contains(table.decl().name),
    }
}
