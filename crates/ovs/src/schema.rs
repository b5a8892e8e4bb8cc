//! The server's schema, and whether it has what we use.

use crate::shape::{AtomType, Shape};
use crate::table::TableDecl;
use crate::value::{Atom, Datum};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Where a reference column points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefTo {
    /// The table.
    pub table: String,
    /// A strong reference keeps its target alive and forbids deleting it; a weak one vanishes with it.
    pub strong: bool,
}

/// Type of a column on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Type of the elements, or of a map's keys.
    pub key: AtomType,
    /// Type of a map's values.
    pub value: Option<AtomType>,
    /// Table that elements or keys refer to.
    pub key_ref: Option<RefTo>,
    /// Table that a map's values refer to.
    pub value_ref: Option<RefTo>,
    /// Fewest elements.
    pub min: u64,
    /// Most elements; `u64::MAX` is "unlimited".
    pub max: u64,
    /// Can the column change after the row was inserted?
    pub mutable: bool,
}

impl ColumnSchema {
    /// What the column holds when nobody has set it; the server leaves such columns out of messages.
    pub fn default_datum(&self) -> Datum {
        match self.value {
            Some(_) => Datum::map::<Atom, Atom>([]),
            None if self.min == 0 => Datum::set::<Atom>([]),
            None => Datum::one(self.key.default_atom()),
        }
    }

    /// The references of this column, to follow without looking whether keys or values refer.
    pub fn refers(&self) -> Option<&RefTo> {
        self.key_ref.as_ref().or(self.value_ref.as_ref())
    }

    fn fits(&self, shape: Shape) -> bool {
        match shape {
            Shape::One(t) => self.value.is_none() && self.key == t && self.min == 1 && self.max == 1,
            Shape::Optional(t) => self.value.is_none() && self.key == t && self.max == 1,
            Shape::Set(t) => self.value.is_none() && self.key == t,
            Shape::Map(k, v) => self.key == k && self.value == Some(v),
        }
    }
}

impl fmt::Display for ColumnSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.value, self.min, self.max) {
            (Some(value), _, _) => write!(f, "a map from {} to {value}", self.key),
            (None, 1, 1) => write!(f, "one {}", self.key),
            (None, 0, 1) => write!(f, "an optional {}", self.key),
            (None, _, _) => write!(f, "a set of {}", self.key),
        }
    }
}

/// A table on the server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableSchema {
    /// Its columns.
    pub columns: BTreeMap<String, ColumnSchema>,
    /// Rows of a root table live until deleted; others only while a strong reference points at them.
    pub is_root: bool,
    /// Columns that together are unique.
    pub indexes: Vec<Vec<String>>,
}

/// A database's schema, as `get_schema` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schema {
    /// Name of the database.
    pub name: String,
    /// Version of the schema.
    pub version: String,
    /// Its tables.
    pub tables: BTreeMap<String, TableSchema>,
}

/// A text that was to be a schema is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema is malformed at {at}")]
pub struct NotASchema {
    at: String,
}

impl Schema {
    /// Reads a schema: the result of `get_schema`, or a packaged `.ovsschema` file.
    pub fn parse(value: &Value) -> Result<Schema, NotASchema> {
        let bad = |at: &str| NotASchema { at: at.to_owned() };
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut tables = BTreeMap::new();
        for (name, table) in value.get("tables").and_then(Value::as_object).ok_or_else(|| bad("tables"))? {
            let columns = table.get("columns").and_then(Value::as_object).ok_or_else(|| bad(name))?;
            let columns = columns.iter().map(|(column, c)| match parse_column(c) {
                Some(parsed) => Ok((column.clone(), parsed)),
                None => Err(bad(&format!("{name}.{column}"))),
            });
            let index = |i: &Value| {
                let columns = i.as_array()?.iter().map(|c| c.as_str().map(str::to_owned));
                columns.collect::<Option<Vec<String>>>()
            };
            let indexes = table.get("indexes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let parsed = TableSchema {
                columns: columns.collect::<Result<_, _>>()?,
                is_root: table.get("isRoot").and_then(Value::as_bool).unwrap_or(false),
                indexes: indexes.iter().map(index).collect::<Option<_>>().ok_or_else(|| bad(name))?,
            };
            tables.insert(name.clone(), parsed);
        }
        // Where no table says it is a root, all are: the schema is older than the distinction.
        if tables.values().all(|t| !t.is_root) {
            tables.values_mut().for_each(|t| t.is_root = true);
        }
        Ok(Schema {
            name: text("name").ok_or_else(|| bad("name"))?,
            version: text("version").unwrap_or_else(|| "0.0.0".to_owned()),
            tables,
        })
    }

    /// A column of a table.
    pub fn column(&self, table: &str, column: &str) -> Option<&ColumnSchema> {
        self.tables.get(table)?.columns.get(column)
    }

    /// Refuses a server that lacks what `declared` uses.
    ///
    /// Better at connect, with the name of what is missing, than in the middle of a migration. What the
    /// server has and we do not know is no reason to refuse.
    pub fn check(&self, declared: &[&'static TableDecl]) -> Result<(), Refusal> {
        let refuse = |table: &TableDecl, column: Option<&str>, why| Refusal {
            database: self.name.clone(),
            version: self.version.clone(),
            table: table.name,
            column: column.map(str::to_owned),
            why,
        };
        for table in declared {
            let have = self.tables.get(table.name).ok_or_else(|| refuse(table, None, Lack::Missing))?;
            for column in table.columns {
                match have.columns.get(column.name) {
                    None if column.optional => {}
                    None => return Err(refuse(table, Some(column.name), Lack::Missing)),
                    Some(schema) if schema.fits(column.shape) => {}
                    Some(schema) => {
                        let lack = Lack::Other { is: schema.to_string(), used_as: column.shape };
                        return Err(refuse(table, Some(column.name), lack));
                    }
                }
            }
        }
        Ok(())
    }
}

fn parse_column(column: &Value) -> Option<ColumnSchema> {
    let kind = column.get("type")?;
    let (key, key_ref) = parse_base(kind.get("key").unwrap_or(kind))?;
    let value = match kind.get("value") {
        Some(value) => Some(parse_base(value)?),
        None => None,
    };
    let max = match kind.get("max") {
        Some(Value::String(s)) if s == "unlimited" => u64::MAX,
        Some(n) => n.as_u64()?,
        None => 1,
    };
    Some(ColumnSchema {
        key,
        key_ref,
        value: value.as_ref().map(|v| v.0),
        value_ref: value.and_then(|v| v.1),
        min: kind.get("min").map_or(Some(1), Value::as_u64)?,
        max,
        mutable: column.get("mutable").and_then(Value::as_bool).unwrap_or(true),
    })
}

fn parse_base(base: &Value) -> Option<(AtomType, Option<RefTo>)> {
    if let Some(name) = base.as_str() {
        return Some((AtomType::parse(name)?, None));
    }
    let atom = AtomType::parse(base.get("type")?.as_str()?)?;
    let target = base.get("refTable").and_then(Value::as_str);
    let strong = base.get("refType").and_then(Value::as_str) != Some("weak");
    Some((atom, target.map(|table| RefTo { table: table.to_owned(), strong })))
}

/// What the server lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// It is not there.
    Missing,
    /// It is there, as something else.
    Other {
        /// What it is.
        is: String,
        /// What we take it to be.
        used_as: Shape,
    },
}

/// Why a server is refused: table, column and version, so that one line says what to upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The database.
    pub database: String,
    /// Version of its schema.
    pub version: String,
    /// The table that lacks something, or is lacking.
    pub table: &'static str,
    /// The column, if the table is there.
    pub column: Option<String>,
    /// What is wrong with it.
    pub why: Lack,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {} (schema version {}) ", self.database, self.version)?;
        match (&self.column, &self.why) {
            (None, _) => write!(f, "has no table {}", self.table),
            (Some(column), Lack::Missing) => write!(f, "has no column {column} in table {}", self.table),
            (Some(column), Lack::Other { is, used_as }) => {
                write!(f, "has {is} as column {column} of table {}, where we need {used_as}", self.table)
            }
        }
    }
}

impl std::error::Error for Refusal {}
