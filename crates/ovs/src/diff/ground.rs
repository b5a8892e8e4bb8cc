//! What is there: which row is which wanted one, and which of ours nobody wants.

use super::want::{Gathered, Wanted};
use super::{DiffError, Hold, Owner};
use crate::copy::{Row, Snapshot, TableCopy};
use crate::table::Key;
use crate::value::{Atom, Datum, RowKey};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use uuid::Uuid;

/// How far a comparison reaches.
#[derive(Clone, Copy)]
pub(super) enum Extent<'a> {
    /// All rows of ours that are not wanted go.
    Everything,
    /// Of those only these.
    Only(&'a [RowKey]),
}

pub(super) struct Ground<'a> {
    /// The row that a wanted one is.
    pub(super) matched: BTreeMap<RowKey, Uuid>,
    /// Rows of ours that nobody wants.
    pub(super) unwanted: BTreeSet<(&'a str, Uuid)>,
    gone: HashSet<Uuid>,
    keys: HashMap<Uuid, RowKey>,
    /// Rows of ours, wanted and unwanted, by table.
    ours: BTreeMap<String, HashSet<Uuid>>,
    have: &'a Snapshot,
    id: String,
    /// Rows of tables keyed by id, where so many are looked up that it pays.
    by_id: HashMap<&'a str, HashMap<String, Vec<Uuid>>>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(
        have: &'a Snapshot,
        owner: &Owner,
        wanted: &Gathered<'_>,
        extent: Extent<'_>,
    ) -> Result<Ground<'a>, DiffError> {
        let mut ground = Ground {
            matched: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            gone: HashSet::new(),
            keys: HashMap::new(),
            ours: BTreeMap::new(),
            have,
            id: owner.id.clone(),
            by_id: HashMap::new(),
        };
        if let Extent::Everything = extent {
            ground.read_ids();
        }
        for (key, row) in wanted {
            let table =
                have.table(&key.table).ok_or_else(|| DiffError::NotCopied { table: key.table.clone() })?;
            let found = ground.lookup(table, &key.key);
            if let Some(uuid) = choose(table, &found, key, row, owner)? {
                ground.matched.insert(key.clone(), uuid);
                ground.keys.insert(uuid, key.clone());
                if row.hold.owns() {
                    ground.ours.entry(key.table.clone()).or_default().insert(uuid);
                }
            }
        }
        match extent {
            Extent::Everything => {
                for table in have.tables() {
                    table.rows().for_each(|row| ground.consider(table, row, owner));
                }
            }
            // Wanted ones too: there may be a second row of that key.
            Extent::Only(gone) => {
                for key in gone.iter().chain(wanted.keys()) {
                    let Some(table) = have.table(&key.table) else { continue };
                    for uuid in ground.lookup(table, &key.key) {
                        let row = table.get(uuid).expect("it was just looked up");
                        ground.consider(table, row, owner);
                    }
                }
            }
        }
        Ok(ground)
    }

    /// A row of ours that nobody wants is unwanted.
    fn consider(&mut self, table: &'a TableCopy, row: &Row, owner: &Owner) {
        if is_ours(table, row, owner) && !self.keys.contains_key(&row.uuid) {
            let name = table.decl().name;
            self.unwanted.insert((name, row.uuid));
            self.gone.insert(row.uuid);
            self.ours.entry(name.to_owned()).or_default().insert(row.uuid);
        }
    }

    fn read_ids(&mut self) {
        for table in self.have.tables().filter(|t| t.decl().key == Key::ExternalId) {
            let mut by_id: HashMap<String, Vec<Uuid>> = HashMap::new();
            for row in table.rows() {
                if let Some(key) = table.key(row, &self.id) {
                    by_id.entry(key).or_default().push(row.uuid);
                }
            }
            self.by_id.insert(table.decl().name, by_id);
        }
    }

    /// Rows with this key, by UUID.
    fn lookup(&self, table: &TableCopy, key: &str) -> Vec<Uuid> {
        match self.by_id.get(table.decl().name) {
            Some(by_id) => by_id.get(key).cloned().unwrap_or_default(),
            None => table.with_key(key, &self.id).into_iter().map(|row| row.uuid).collect(),
        }
    }

    /// Those rows of ours of `table` that a value refers to; the shorter of the two lists is walked.
    pub(super) fn ours_among(&self, table: &str, datum: &Datum) -> BTreeSet<Uuid> {
        match self.ours.get(table) {
            None => BTreeSet::new(),
            Some(ours) if ours.len() < datum.len() => {
                ours.iter().filter(|uuid| datum.contains(&Atom::Uuid(**uuid))).copied().collect()
            }
            Some(ours) => datum.references().filter(|uuid| ours.contains(uuid)).collect(),
        }
    }

    /// A row that is not wanted by us but stays: somebody else's.
    pub(super) fn other(&self, key: &RowKey) -> Option<Uuid> {
        let table = self.have.table(&key.table)?;
        self.lookup(table, &key.key).into_iter().find(|uuid| !self.gone.contains(uuid))
    }

    pub(super) fn is_unwanted(&self, uuid: Uuid) -> bool {
        self.gone.contains(&uuid)
    }

    pub(super) fn key_of(&self, uuid: Uuid) -> Option<&RowKey> {
        self.keys.get(&uuid)
    }
}

/// Which of the rows of a key the wanted one is. Of several of ours the first stays, the others are
/// unwanted.
fn choose(
    table: &TableCopy,
    found: &[Uuid],
    key: &RowKey,
    wanted: &Wanted,
    owner: &Owner,
) -> Result<Option<Uuid>, DiffError> {
    let ours = |uuid: &&Uuid| table.get(**uuid).is_some_and(|row| is_ours(table, row, owner));
    let markable = table.decl().column("external_ids").is_some();
    match wanted.hold {
        Hold::Own if markable => match found.iter().find(ours) {
            Some(uuid) => Ok(Some(*uuid)),
            // An id says nothing about rows that are not ours; a name does.
            None if found.is_empty() || table.decl().key == Key::ExternalId => Ok(None),
            None => Err(DiffError::Foreign { row: key.clone() }),
        },
        Hold::Own | Hold::Adopt | Hold::Share | Hold::Ensure | Hold::IfThere => {
            Ok(found.iter().find(ours).or(found.first()).copied())
        }
    }
}

/// Does the row carry the owner's mark?
fn is_ours(table: &TableCopy, row: &Row, owner: &Owner) -> bool {
    match table.value(row, "external_ids") {
        Some(ids) => ids.get_str(&owner.mark.0) == Some(owner.mark.1.as_str()),
        None => owner.whole_tables.contains(table.decl().name),
    }
}
