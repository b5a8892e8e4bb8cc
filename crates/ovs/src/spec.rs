//! What of a database to copy: tables, conditions on their rows, indexes.

use crate::shape::ColumnType;
use crate::table::{Column, Table, TableDecl};
use crate::value::{Atom, Datum, Unresolved};
use serde_json::{Value, json};

/// A function of a condition, as RFC 7047 names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `includes`: all given elements or pairs are there.
    Including,
    /// `excludes`: none of the given elements or pairs is there.
    Excluding,
}

impl Is {
    fn wire(self) -> &'static str {
        match self {
            Is::Equal => "==",
            Is::NotEqual => "!=",
            Is::Including => "includes",
            Is::Excluding => "excludes",
        }
    }
}

/// A condition on one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The column, or `_uuid`.
    pub column: String,
    /// The function.
    pub is: Is,
    /// What to compare with.
    pub value: Datum,
}

impl Condition {
    /// A condition on a column by name.
    pub fn new(column: impl Into<String>, is: Is, value: Datum) -> Condition {
        Condition { column: column.into(), is, value }
    }

    /// A condition on a declared column.
    pub fn on<T: ColumnType>(column: Column<T>, is: Is, value: T) -> Condition {
        Condition::new(column.decl.name, is, value.to_datum())
    }

    /// The row with this UUID.
    pub fn uuid(uuid: uuid::Uuid) -> Condition {
        Condition::new("_uuid", Is::Equal, Datum::one(uuid))
    }

    /// What goes over the wire.
    pub fn to_wire(&self) -> Result<Value, Unresolved> {
        Ok(json!([self.column, self.is.wire(), self.value.to_wire()?]))
    }

    /// Does a column with this value meet it?
    pub fn holds(&self, value: &Datum) -> bool {
        let there = |a: &Atom| value.contains(a);
        let pair = |(k, v): &(Atom, Atom)| value.get(k) == Some(v);
        match self.is {
            Is::Equal => *value == self.value,
            Is::NotEqual => *value != self.value,
            Is::Including => self.value.atoms().iter().all(there) && self.value.pairs().iter().all(pair),
            Is::Excluding => !self.value.atoms().iter().any(there) && !self.value.pairs().iter().any(pair),
        }
    }
}

/// An index of the copy: which rows have a given value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// By the values of these columns together.
    Columns(Vec<&'static str>),
    /// By the value of one key of a map column.
    MapKey(&'static str, String),
}

/// One table to copy.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// Its declaration.
    pub decl: &'static TableDecl,
    /// Only rows that meet one of these (an OR, as the protocol has it); none means all rows.
    pub conditions: Vec<Condition>,
    /// Indexes; the key columns of the declaration are always indexed.
    pub indexes: Vec<Index>,
}

/// What of a database to copy.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Name of the database.
    pub database: String,
    /// The tables, each once.
    pub tables: Vec<TableSpec>,
}

impl Spec {
    /// Nothing yet of this database.
    pub fn new(database: impl Into<String>) -> Spec {
        Spec { database: database.into(), tables: Vec::new() }
    }

    /// All rows of a table.
    #[must_use]
    pub fn table<T: Table>(self) -> Spec {
        self.decl(T::DECL, [])
    }

    /// Those rows of a table that meet one of the conditions.
    #[must_use]
    pub fn table_where<T: Table>(self, conditions: impl IntoIterator<Item = Condition>) -> Spec {
        self.decl(T::DECL, conditions)
    }

    /// A table by its declaration.
    #[must_use]
    pub fn decl(mut self, decl: &'static TableDecl, conditions: impl IntoIterator<Item = Condition>) -> Spec {
        let mut indexes = Vec::new();
        if let crate::table::Key::Columns(columns) = decl.key {
            indexes.push(Index::Columns(columns.to_vec()));
        }
        self.tables.retain(|t| t.decl.name != decl.name);
        self.tables.push(TableSpec { decl, conditions: conditions.into_iter().collect(), indexes });
        self
    }

    /// One more index on a table that was added before.
    #[must_use]
    pub fn index<T: Table>(mut self, index: Index) -> Spec {
        if let Some(table) = self.tables.iter_mut().find(|t| t.decl.name == T::DECL.name)
            && !table.indexes.contains(&index)
        {
            table.indexes.push(index);
        }
        self
    }

    /// An index on this entry of `external_ids`, in every table added so far whose rows are named by it.
    #[must_use]
    pub fn indexed_by_id(mut self, id: &str) -> Spec {
        let index = Index::MapKey("external_ids", id.to_owned());
        for table in self.tables.iter_mut().filter(|t| t.decl.key == crate::table::Key::ExternalId) {
            if !table.indexes.contains(&index) {
                table.indexes.push(index.clone());
            }
        }
        self
    }

    /// The declarations.
    pub fn decls(&self) -> Vec<&'static TableDecl> {
        self.tables.iter().map(|t| t.decl).collect()
    }
}
