//! Transactions: several operations that happen together or not at all.

mod operation;

pub use operation::{Columns, Mutation, Operation};

use crate::error::shortened;
use crate::protocol::RpcError;
use crate::spec::Condition;
use crate::table::Table;
use crate::value::{Atom, Unresolved};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

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
    /// A reference by key was left in it; only [`diff`](crate::diff()) resolves those.
    #[error("the transaction cannot be sent")]
    Unresolved(#[from] Unresolved),
}
