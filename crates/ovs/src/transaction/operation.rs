//! The operations of a transaction, and how they are sent.

use crate::error::shortened;
use crate::spec::Condition;
use crate::value::{Atom, Datum, Unresolved};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Columns and what to put into them.
pub type Columns = BTreeMap<String, Datum>;

/// A change to a set or map that leaves its other elements alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Adds elements, or pairs whose keys are not there.
    Insert(String, Datum),
    /// Removes elements or pairs; a set given for a map removes keys.
    Delete(String, Datum),
    /// Adds to an integer.
    Add(String, i64),
}

/// One operation of a [`Transaction`](super::Transaction).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Makes a row, known under `name` to the other operations.
    Insert {
        /// The table.
        table: String,
        /// Its name within the transaction.
        name: String,
        /// What it holds; other columns get their defaults.
        row: Columns,
    },
    /// Overwrites columns of the rows that meet the conditions.
    Update {
        /// The table.
        table: String,
        /// Which rows.
        rows: Vec<Condition>,
        /// The columns.
        row: Columns,
    },
    /// Changes sets and maps of the rows that meet the conditions.
    Mutate {
        /// The table.
        table: String,
        /// Which rows.
        rows: Vec<Condition>,
        /// The changes, in order.
        mutations: Vec<Mutation>,
    },
    /// Removes the rows that meet the conditions.
    Delete {
        /// The table.
        table: String,
        /// Which rows.
        rows: Vec<Condition>,
    },
    /// Fails the transaction unless the rows that meet the conditions are, in these columns, exactly these.
    Require {
        /// The table.
        table: String,
        /// Which rows.
        rows: Vec<Condition>,
        /// What to compare; rows hold these and no others.
        columns: Vec<String>,
        /// What they must be.
        are: Vec<Columns>,
    },
    /// Fails the transaction unless we hold this lock.
    Assert {
        /// The lock.
        lock: String,
    },
}

impl Operation {
    /// The table, if the operation has one.
    pub fn table(&self) -> Option<&str> {
        match self {
            Operation::Insert { table, .. }
            | Operation::Update { table, .. }
            | Operation::Mutate { table, .. }
            | Operation::Delete { table, .. }
            | Operation::Require { table, .. } => Some(table),
            Operation::Assert { .. } => None,
        }
    }

    pub(super) fn to_wire(&self) -> Result<Value, Unresolved> {
        Ok(match self {
            Operation::Insert { table, name, row } => {
                json!({ "op": "insert", "table": table, "uuid-name": name, "row": columns(row)? })
            }
            Operation::Update { table, rows, row } => {
                json!({ "op": "update", "table": table, "where": conditions(rows)?, "row": columns(row)? })
            }
            Operation::Mutate { table, rows, mutations } => {
                let mutations: Result<Vec<Value>, Unresolved> = mutations.iter().map(mutation).collect();
                json!({ "op": "mutate", "table": table, "where": conditions(rows)?, "mutations": mutations? })
            }
            Operation::Delete { table, rows } => {
                json!({ "op": "delete", "table": table, "where": conditions(rows)? })
            }
            Operation::Require { table, rows, columns: names, are } => json!({
                "op": "wait", "timeout": 0, "table": table, "where": conditions(rows)?,
                "columns": names, "until": "==",
                "rows": are.iter().map(columns).collect::<Result<Vec<_>, _>>()?,
            }),
            Operation::Assert { lock } => json!({ "op": "assert", "lock": lock }),
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = |rows: &[Condition]| {
            let each = rows.iter().map(|c| format!("{} {:?} {:?}", c.column, c.is, c.value));
            shortened(&each.collect::<Vec<_>>().join(" and "))
        };
        match self {
            Operation::Insert { table, name, row } => match row.get("name") {
                Some(named) => write!(f, "insert {name} {named:?} into {table}"),
                None => write!(f, "insert {name} into {table}"),
            },
            Operation::Update { table, rows, row } => {
                let columns: Vec<&str> = row.keys().map(String::as_str).collect();
                write!(f, "update {} of {table} where {}", columns.join(", "), which(rows))
            }
            Operation::Mutate { table, rows, mutations } => {
                let columns = mutations.iter().map(|m| match m {
                    Mutation::Insert(c, d) => format!("{c}+{}", d.len()),
                    Mutation::Delete(c, d) => format!("{c}-{}", d.len()),
                    Mutation::Add(c, by) => format!("{c}+={by}"),
                });
                write!(
                    f,
                    "mutate {} of {table} where {}",
                    columns.collect::<Vec<_>>().join(", "),
                    which(rows)
                )
            }
            Operation::Delete { table, rows } => write!(f, "delete from {table} where {}", which(rows)),
            Operation::Require { table, rows, .. } => write!(f, "require of {table} where {}", which(rows)),
            Operation::Assert { lock } => write!(f, "assert lock {lock}"),
        }
    }
}

fn columns(row: &Columns) -> Result<Value, Unresolved> {
    let fields = row.iter().map(|(k, v)| Ok((k.clone(), v.to_wire()?)));
    Ok(Value::Object(fields.collect::<Result<Map<_, _>, Unresolved>>()?))
}

fn conditions(rows: &[Condition]) -> Result<Vec<Value>, Unresolved> {
    rows.iter().map(Condition::to_wire).collect()
}

fn mutation(mutation: &Mutation) -> Result<Value, Unresolved> {
    Ok(match mutation {
        // Elements are always sent as a set: a lone map key would be taken for a value otherwise.
        Mutation::Insert(column, datum) => json!([column, "insert", as_collection(datum)?]),
        Mutation::Delete(column, datum) => json!([column, "delete", as_collection(datum)?]),
        Mutation::Add(column, by) => json!([column, "+=", by]),
    })
}

fn as_collection(datum: &Datum) -> Result<Value, Unresolved> {
    if datum.is_map() {
        return datum.to_wire();
    }
    Ok(json!(["set", datum.atoms().iter().map(Atom::to_wire).collect::<Result<Vec<_>, _>>()?]))
}
