//! Transactions: several operations that happen together or not at all.

use crate::error::shortened;
use crate::protocol::RpcError;
use crate::spec::Condition;
use crate::table::Table;
use crate::value::{Atom, Datum, Unresolved};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

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

/// One operation of a [`Transaction`].
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

    fn to_wire(&self) -> Result<Value, Unresolved> {
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

/// Operations that happen together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    operations: Vec<Operation>,
    comment: Option<String>,
    names: usize,
}

impl Transaction {
    /// Nothing yet.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// Nothing to do?
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Written into the database's log, for whoever reads it later.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.comment = Some(text.into());
    }

    /// Adds an operation.
    pub fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// A name that no row of this transaction has yet.
    pub fn fresh_name(&mut self) -> String {
        self.names += 1;
        format!("row{}", self.names)
    }

    /// Makes a row; the atom refers to it from other rows of this transaction.
    pub fn insert_columns(&mut self, table: impl Into<String>, row: Columns) -> Atom {
        let name = self.fresh_name();
        self.push(Operation::Insert { table: table.into(), name: name.clone(), row });
        Atom::Named(name)
    }

    /// Makes a row with all columns of `row` that we write; those left at their default are not sent.
    pub fn insert<T: Table + Default>(&mut self, row: &T) -> crate::shape::Ref {
        let defaults = T::default().to_values();
        let columns = T::DECL.columns.iter().zip(row.to_values()).zip(defaults);
        let columns = columns
            .filter(|((decl, value), default)| !decl.status && value != default)
            .map(|((decl, value), _)| (decl.name.to_owned(), value));
        let name = self.fresh_name();
        self.push(Operation::Insert {
            table: T::DECL.name.into(),
            name: name.clone(),
            row: columns.collect(),
        });
        crate::shape::Ref::Named(name)
    }

    /// Overwrites columns of one row.
    pub fn update(&mut self, table: impl Into<String>, uuid: Uuid, row: Columns) {
        self.push(Operation::Update { table: table.into(), rows: vec![Condition::uuid(uuid)], row });
    }

    /// Changes sets and maps of one row.
    pub fn mutate(&mut self, table: impl Into<String>, uuid: Uuid, mutations: Vec<Mutation>) {
        self.push(Operation::Mutate { table: table.into(), rows: vec![Condition::uuid(uuid)], mutations });
    }

    /// Removes one row.
    pub fn delete(&mut self, table: impl Into<String>, uuid: Uuid) {
        self.push(Operation::Delete { table: table.into(), rows: vec![Condition::uuid(uuid)] });
    }

    /// Fails the transaction unless a row still holds these values.
    pub fn require(&mut self, table: impl Into<String>, uuid: Uuid, holds: Columns) {
        self.push(Operation::Require {
            table: table.into(),
            rows: vec![Condition::uuid(uuid)],
            columns: holds.keys().cloned().collect(),
            are: vec![holds],
        });
    }

    /// Fails the transaction if there is a row that meets the conditions.
    pub fn require_none(&mut self, table: impl Into<String>, rows: Vec<Condition>) {
        self.push(Operation::Require {
            table: table.into(),
            rows,
            columns: vec!["_uuid".to_owned()],
            are: vec![],
        });
    }

    /// Fails the transaction unless we hold this lock.
    pub fn assert_lock(&mut self, lock: impl Into<String>) {
        self.push(Operation::Assert { lock: lock.into() });
    }

    /// Parameters of the `transact` request.
    pub fn to_wire(&self, database: &str) -> Result<Value, Unresolved> {
        let mut params = vec![json!(database)];
        for operation in &self.operations {
            params.push(operation.to_wire()?);
        }
        if let Some(comment) = &self.comment {
            params.push(json!({ "op": "comment", "comment": comment }));
        }
        Ok(Value::Array(params))
    }

    /// Reads the answer to the `transact` request.
    pub fn read_reply(&self, reply: &Value) -> Result<Outcome, TransactionError> {
        let nonsense = || TransactionError::Nonsense { text: shortened(&reply.to_string()) };
        let results = reply.as_array().ok_or_else(nonsense)?;
        if let Some(at) = results.iter().position(|r| r.get("error").is_some()) {
            let source = RpcError::parse(&results[at]);
            // One result more than operations: every operation was fine, the whole was not.
            return Err(match self.operations.get(at) {
                Some(operation) => {
                    TransactionError::Operation { at, operation: operation.to_string(), source }
                }
                None => TransactionError::Commit { source },
            });
        }
        let mut outcome = Outcome::default();
        for (at, operation) in self.operations.iter().enumerate() {
            let result = results.get(at).ok_or_else(nonsense)?;
            if let Operation::Insert { name, .. } = operation {
                let uuid = result.get("uuid").and_then(|u| Atom::from_wire(u).ok());
                let uuid = uuid.as_ref().and_then(Atom::as_uuid).ok_or_else(nonsense)?;
                outcome.inserted.insert(name.clone(), uuid);
            }
            outcome.counts.push(result.get("count").and_then(Value::as_u64).unwrap_or(1));
        }
        Ok(outcome)
    }
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// UUIDs of the inserted rows, by their names in the transaction.
    pub inserted: BTreeMap<String, Uuid>,
    /// Per operation the number of rows it met.
    pub counts: Vec<u64>,
}

impl Outcome {
    /// The row behind a reference that [`Transaction::insert`] gave.
    pub fn uuid(&self, reference: &crate::shape::Ref) -> Option<Uuid> {
        match reference {
            crate::shape::Ref::Uuid(uuid) => Some(*uuid),
            crate::shape::Ref::Named(name) => self.inserted.get(name).copied(),
            crate::shape::Ref::Key(_) => None,
        }
    }
}

/// Why the server did not carry out a transaction. Nothing of it happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// One operation could not be done.
    #[error("operation {at} of the transaction failed: {operation}")]
    Operation {
        /// Its position.
        at: usize,
        /// What it was to do.
        operation: String,
        /// The server's words.
        #[source]
        source: RpcError,
    },
    /// All operations could be done, but the database may not be left like that.
    #[error("the transaction as a whole was refused")]
    Commit {
        /// The server's words.
        #[source]
        source: RpcError,
    },
    /// The server refused to look at it.
    #[error("the transaction was not accepted")]
    Denied {
        /// The server's words.
        #[source]
        source: RpcError,
    },
    /// An answer that is none.
    #[error("the server answered a transaction with {text}")]
    Nonsense {
        /// Its beginning.
        text: String,
    },
    /// A reference by key was left in it; only [`diff`](crate::diff) resolves those.
    #[error("the transaction cannot be sent")]
    Unresolved(#[from] Unresolved),
}
