//! What `update`, `update2` and `update3` say about rows.

use super::layout::{Layout, TableLayout};
use crate::error::shortened;
use crate::value::{Datum, NotAValue};
use serde_json::{Map, Value};
use uuid::Uuid;

/// What happened to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// It is there, with these values in the order of the declaration.
    Is(Box<[Datum]>),
    /// It was there before; these columns differ from what they held ([`TableLayout::apply`]).
    Differs(Vec<(usize, Datum)>),
    /// It is gone.
    Gone,
}

/// Changes that happened together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Update {
    /// Table (position in the layout), row, change.
    pub rows: Vec<(usize, Uuid, RowChange)>,
}

/// A part of an update that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// Not of the form the RFC gives.
    #[error("an update of table {table} is malformed: {text}")]
    Malformed {
        /// The table, as far as known.
        table: String,
        /// The beginning of the offending part.
        text: String,
    },
    /// A table or column we did not ask for.
    #[error("an update is about {name}, which was not asked for")]
    Unasked {
        /// Its name.
        name: String,
    },
    /// A column's value is none.
    #[error("an update of column {column} of table {table} holds no value")]
    Value {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Why not.
        #[source]
        source: NotAValue,
    },
}

impl TableLayout {
    /// A row's values after a difference: single values are replaced, sets and maps toggled.
    pub fn apply(&self, old: &[Datum], difference: &[(usize, Datum)]) -> Box<[Datum]> {
        let mut new: Box<[Datum]> = old.into();
        for (at, datum) in difference {
            let single = self.columns[*at].as_ref().is_none_or(|c| c.max == 1);
            new[*at] = if single { datum.clone() } else { old[*at].xor(datum) };
        }
        new
    }

    fn columns(&self, row: &Value) -> Result<Vec<(usize, Datum)>, UpdateError> {
        let table = || self.decl.name.to_owned();
        let fields = row
            .as_object()
            .ok_or_else(|| UpdateError::Malformed { table: table(), text: shortened(&row.to_string()) })?;
        fields
            .iter()
            // `_uuid` and `_version` come unasked from some servers.
            .filter(|(column, _)| !column.starts_with('_'))
            .map(|(column, value)| {
                let at = self.decl.position(column).ok_or_else(|| UpdateError::Unasked {
                    name: format!("column {column} of table {}", self.decl.name),
                })?;
                let datum = Datum::from_wire(value).map_err(|source| UpdateError::Value {
                    table: table(),
                    column: column.clone(),
                    source,
                })?;
                Ok((at, datum))
            })
            .collect()
    }

    fn full(&self, row: &Value) -> Result<Box<[Datum]>, UpdateError> {
        let mut values = self.defaults.clone();
        for (at, datum) in self.columns(row)? {
            values[at] = datum;
        }
        Ok(values)
    }

    /// `{"old": …, "new": …}`: what the first kind of monitor sends.
    fn change1(&self, change: &Map<String, Value>) -> Result<RowChange, UpdateError> {
        match change.get("new") {
            None | Some(Value::Null) => Ok(RowChange::Gone),
            Some(new) => {
                let row = self.full(new)?;
                Ok(if self.selects(&row) { RowChange::Is(row) } else { RowChange::Gone })
            }
        }
    }

    /// `{"initial" | "insert" | "modify" | "delete": …}`: what the later kinds send.
    fn change2(&self, change: &Map<String, Value>) -> Result<RowChange, UpdateError> {
        if let Some(row) = change.get("initial").or_else(|| change.get("insert")) {
            return Ok(RowChange::Is(self.full(row)?));
        }
        if let Some(row) = change.get("modify") {
            return Ok(RowChange::Differs(self.columns(row)?));
        }
        if change.contains_key("delete") {
            return Ok(RowChange::Gone);
        }
        Err(UpdateError::Malformed {
            table: self.decl.name.to_owned(),
            text: shortened(&Value::Object(change.clone()).to_string()),
        })
    }
}

impl Layout {
    /// Reads the `<table-updates>` of `update` (`first`) or of `update2` and `update3`.
    pub fn read_update(&self, updates: &Value, first: bool) -> Result<Update, UpdateError> {
        let malformed = |table: &str, value: &Value| UpdateError::Malformed {
            table: table.to_owned(),
            text: shortened(&value.to_string()),
        };
        let mut rows = Vec::new();
        for (name, of_table) in updates.as_object().ok_or_else(|| malformed("(all)", updates))? {
            let at = self
                .position(name)
                .ok_or_else(|| UpdateError::Unasked { name: format!("table {}", shortened(name)) })?;
            let table = &self.tables[at];
            for (uuid, change) in of_table.as_object().ok_or_else(|| malformed(name, of_table))? {
                let uuid = Uuid::parse_str(uuid).map_err(|_| malformed(name, &Value::from(uuid.as_str())))?;
                let change = change.as_object().ok_or_else(|| malformed(name, change))?;
                let change = if first { table.change1(change)? } else { table.change2(change)? };
                rows.push((at, uuid, change));
            }
        }
        Ok(Update { rows })
    }
}
