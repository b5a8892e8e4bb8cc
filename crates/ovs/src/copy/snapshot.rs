//! A consistent view of the copy.

use super::table::{Row, TableCopy};
use crate::protocol::Layout;
use crate::schema::Schema;
use crate::shape::ColumnType;
use crate::spec::{Index, Spec};
use crate::table::{BadRow, Column, Table};
use std::ops::Deref;
use std::sync::Arc;
use uuid::Uuid;

/// A typed row with its identity.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<T> {
    /// The row's identity.
    pub uuid: Uuid,
    /// The row.
    pub row: T,
}

impl<T> Deref for Entry<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.row
    }
}

/// All tables as they were between two updates.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) tables: Vec<Arc<TableCopy>>,
    pub(super) layout: Option<Arc<Layout>>,
    pub(super) sequence: u64,
}

impl Snapshot {
    /// No rows of the tables of `spec`.
    pub fn empty(spec: &Spec) -> Snapshot {
        let tables = spec.tables.iter().map(|table| Arc::new(TableCopy::new(table))).collect();
        Snapshot { tables, layout: None, sequence: 0 }
    }

    /// Number of updates it took to get here, in this process; grows by one with each.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The server's schema; nothing before the first load.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.layout.as_ref().map(|l| &l.schema)
    }

    /// The tables.
    pub fn tables(&self) -> impl Iterator<Item = &TableCopy> {
        self.tables.iter().map(Arc::as_ref)
    }

    /// A table by name; nothing if it is not copied.
    pub fn table(&self, name: &str) -> Option<&TableCopy> {
        self.tables().find(|t| t.decl().name == name)
    }

    /// All rows of a table.
    pub fn all<T: Table>(&self) -> Result<Vec<Entry<T>>, BadRow> {
        self.table(T::DECL.name).into_iter().flat_map(TableCopy::rows).map(typed).collect()
    }

    /// A row by UUID.
    pub fn get<T: Table>(&self, uuid: Uuid) -> Result<Option<Entry<T>>, BadRow> {
        self.table(T::DECL.name).and_then(|t| t.get(uuid)).map(typed).transpose()
    }

    /// The rows whose column has this value; one lookup if the column is indexed.
    pub fn find<T: Table, C: ColumnType>(
        &self,
        column: &Column<C>,
        value: &C,
    ) -> Result<Vec<Entry<T>>, BadRow> {
        let index = Index::Columns(vec![column.decl.name]);
        let Some(table) = self.table(T::DECL.name) else { return Ok(Vec::new()) };
        table.find(&index, &[value.to_datum()]).into_iter().map(typed).collect()
    }

    /// The row with this name, in a table whose rows have a column `name`.
    pub fn named<T: Table>(&self, name: &str) -> Result<Option<Entry<T>>, BadRow> {
        let index = Index::Columns(vec!["name"]);
        let Some(table) = self.table(T::DECL.name) else { return Ok(None) };
        let found = table.find(&index, &[crate::value::Datum::one(name)]);
        found.first().map(|row| typed(row)).transpose()
    }

    /// The one row of a table that has one.
    pub fn single<T: Table>(&self) -> Result<Option<Entry<T>>, BadRow> {
        self.table(T::DECL.name).and_then(|t| t.rows().next()).map(typed).transpose()
    }
}

/// Reads a row as `T`.
pub(crate) fn typed<T: Table>(row: &Arc<Row>) -> Result<Entry<T>, BadRow> {
    Ok(Entry { uuid: row.uuid, row: T::from_values(&row.values)? })
}
