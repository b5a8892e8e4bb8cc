//! One table of the copy, with its indexes.

use crate::spec::{Index, TableSpec};
use crate::table::{Key, TableDecl};
use crate::value::{Atom, Datum};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use uuid::Uuid;

/// A row of the copy.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its identity.
    pub uuid: Uuid,
    /// Its values, in the order of the table's declaration.
    pub values: Box<[Datum]>,
}

/// Which rows have which values, by the values' hash: the values themselves are in the rows.
type Entries = BTreeSet<(u64, Uuid)>;

/// The rows of one table.
#[derive(Debug, Clone)]
pub struct TableCopy {
    decl: &'static TableDecl,
    rows: BTreeMap<Uuid, Arc<Row>>,
    indexes: Vec<(Index, Entries)>,
}

impl TableCopy {
    pub(crate) fn new(spec: &TableSpec) -> TableCopy {
        let indexes = spec.indexes.iter().map(|index| (index.clone(), Entries::new())).collect();
        TableCopy { decl: spec.decl, rows: BTreeMap::new(), indexes }
    }

    /// The declaration.
    pub fn decl(&self) -> &'static TableDecl {
        self.decl
    }

    /// A row.
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid)
    }

    /// All rows, by UUID.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.values()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A column of a row of this table.
    pub fn value<'r>(&self, row: &'r Row, column: &str) -> Option<&'r Datum> {
        self.decl.position(column).map(|at| &row.values[at])
    }

    /// The rows that `index` has under these values: one lookup if the index was declared, else a walk.
    pub fn find(&self, index: &Index, values: &[Datum]) -> Vec<&Arc<Row>> {
        let has = |row: &&Arc<Row>| entry(self.decl, index, row).as_deref() == Some(values);
        if let Some((_, entries)) = self.indexes.iter().find(|(declared, _)| declared == index) {
            let hash = hash(values);
            let rows = entries.range((hash, Uuid::nil())..=(hash, Uuid::max()));
            return rows.filter_map(|(_, uuid)| self.rows.get(uuid)).filter(has).collect();
        }
        self.rows().filter(has).collect()
    }

    /// The key of a row, as the declaration makes it; `id` is the `external_ids` entry that holds it where
    /// the declaration says so.
    pub fn key(&self, row: &Row, id: &str) -> Option<String> {
        key_of(self.decl, |column| self.value(row, column), id)
    }

    /// The rows with this key, by UUID; see [`key`](TableCopy::key).
    pub fn with_key(&self, key: &str, id: &str) -> Vec<&Arc<Row>> {
        match self.decl.key {
            Key::Singleton => self.rows().take(1).collect(),
            Key::ExternalId => self.find(&Index::MapKey("external_ids", id.to_owned()), &[Datum::one(key)]),
            Key::Columns(columns) => {
                let mut values: Vec<Datum> = key.rsplitn(columns.len(), ' ').map(Datum::one).collect();
                values.reverse();
                self.find(&Index::Columns(columns.to_vec()), &values)
            }
        }
    }

    pub(crate) fn replace(&mut self, uuid: Uuid, new: Option<Arc<Row>>) {
        let old = match &new {
            Some(row) => self.rows.insert(uuid, Arc::clone(row)),
            None => self.rows.remove(&uuid),
        };
        for (index, entries) in &mut self.indexes {
            let at = |row: &Arc<Row>| entry(self.decl, index, row).map(|values| (hash(&values), uuid));
            let (before, after) = (old.as_ref().and_then(at), new.as_ref().and_then(at));
            if before == after {
                continue;
            }
            if let Some(before) = before {
                entries.remove(&before);
            }
            entries.extend(after);
        }
    }
}

fn hash(values: &[Datum]) -> u64 {
    let mut hasher = DefaultHasher::new();
    values.hash(&mut hasher);
    hasher.finish()
}

fn entry(decl: &TableDecl, index: &Index, row: &Row) -> Option<Vec<Datum>> {
    match index {
        Index::Columns(columns) => {
            columns.iter().map(|c| decl.position(c).map(|at| row.values[at].clone())).collect()
        }
        Index::MapKey(column, key) => {
            let map = &row.values[decl.position(column)?];
            map.get(&Atom::from(key.as_str())).map(|v| vec![Datum::one(v.clone())])
        }
    }
}

/// A row's key from its values.
pub(crate) fn key_of<'v>(
    decl: &TableDecl,
    value: impl Fn(&str) -> Option<&'v Datum>,
    id: &str,
) -> Option<String> {
    match decl.key {
        Key::Singleton => Some(String::new()),
        Key::ExternalId => value("external_ids")?.get_str(id).map(str::to_owned),
        Key::Columns(columns) => {
            let texts: Option<Vec<&str>> =
                columns.iter().map(|c| value(c)?.atoms().first()?.as_str()).collect();
            texts.map(|texts| texts.join(" "))
        }
    }
}
