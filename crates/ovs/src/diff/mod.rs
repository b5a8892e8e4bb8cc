//! The smallest transaction that turns the rows that are into the rows that are wanted.
//!
//! Rows are recognised by stable keys ([`Key`](crate::Key)), never by UUID. What carries our mark in
//! `external_ids` and is not wanted is removed; what does not carry it is not touched, except that rows
//! of ours are taken into and out of its references. Sets and maps are changed element by element, so
//! that two writers of different children of one row do not get in each other's way.

mod edit;
mod ground;
mod plan;
mod want;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use want::{Desired, Hold, Wanted};

use crate::copy::{Snapshot, TableCopy};
use crate::count;
use crate::transaction::Transaction;
use crate::value::RowKey;
use ground::{Extent, Ground};
use plan::Plan;
use std::collections::BTreeSet;

/// Whose rows: the entries of `external_ids` that make a row ours and name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Entry that says whose the row is.
    pub mark: (String, String),
    /// Entry that holds the key of rows that have no name of their own ([`Key::ExternalId`](crate::Key)).
    pub id: String,
    /// Tables without `external_ids`, hence without a mark, that are ours with every row in them.
    pub whole_tables: BTreeSet<String>,
}

impl Owner {
    /// Rows with `external_ids:key=value` are ours; `id` names those that need it.
    pub fn new(key: impl Into<String>, value: impl Into<String>, id: impl Into<String>) -> Owner {
        Owner { mark: (key.into(), value.into()), id: id.into(), whole_tables: BTreeSet::new() }
    }

    /// Takes all rows of a table without `external_ids` for ours.
    #[must_use]
    pub fn with_whole_table(mut self, table: impl Into<String>) -> Owner {
        self.whole_tables.insert(table.into());
        self
    }
}

/// Why there is no transaction that does what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// Nothing is known yet of what there is.
    #[error("the database was not loaded yet")]
    NotLoaded,
    /// A table that is not copied cannot be compared.
    #[error("table {table} is not among those copied")]
    NotCopied {
        /// The table.
        table: String,
    },
    /// Two wanted rows are the same row.
    #[error("{row} is wanted twice")]
    Twice {
        /// The row.
        row: RowKey,
    },
    /// A wanted row has no key.
    #[error("a wanted row of {table} has no key")]
    Keyless {
        /// The table.
        table: String,
    },
    /// A row that is to be ours is there, and is somebody else's.
    #[error("{row} exists and is not ours")]
    Foreign {
        /// The row.
        row: RowKey,
    },
    /// A row to share is not there.
    #[error("{row} is to be shared and does not exist")]
    Missing {
        /// The row.
        row: RowKey,
    },
    /// A reference to a row that neither is nor is wanted.
    #[error("column {column} of {row} refers to {to}, which neither exists nor is wanted")]
    Dangling {
        /// The row that refers.
        row: RowKey,
        /// Its column.
        column: String,
        /// The row it refers to.
        to: RowKey,
    },
    /// A row that would vanish at once, because its table's rows live only while referred to.
    #[error("{row} is wanted but no row refers to it, so it would not stay")]
    Orphan {
        /// The row.
        row: RowKey,
    },
    /// A column that is not in the table's declaration, so that nobody knows what it holds.
    #[error("column {column} of {row} is to be set, and is not declared")]
    Undeclared {
        /// The row.
        row: RowKey,
        /// The column.
        column: String,
    },
    /// The server is too old for a column that is to be set.
    #[error("column {column} of {row} is to be set, and schema version {version} does not have it")]
    NoColumn {
        /// The row.
        row: RowKey,
        /// The column.
        column: String,
        /// The server's version.
        version: String,
    },
}

impl DiffError {
    /// The wanted row that is the trouble, if it is one row.
    pub fn row(&self) -> Option<&RowKey> {
        match self {
            DiffError::NotLoaded | DiffError::NotCopied { .. } | DiffError::Keyless { .. } => None,
            DiffError::Twice { row }
            | DiffError::Foreign { row }
            | DiffError::Missing { row }
            | DiffError::Dangling { row, .. }
            | DiffError::Orphan { row }
            | DiffError::Undeclared { row, .. }
            | DiffError::NoColumn { row, .. } => Some(row),
        }
    }
}

/// Makes the transaction.
///
/// # Guarantees
///
/// Applied to `have`, it leaves every wanted row as wanted, no other row with the owner's mark, and
/// every row without it as it was (apart from references to rows of ours). If that is so already, the
/// transaction is empty. The number of operations depends on what differs, not on what is there.
///
/// Tables whose rows refer to ours must be among those copied, or unwanted rows stay referred to.
///
/// Pure: the same rows give the same transaction.
pub fn diff(desired: &Desired, have: &Snapshot, owner: &Owner) -> Result<Transaction, DiffError> {
    make(desired, Extent::Everything, have, owner)
}

/// Makes the transaction for some rows only: those wanted, and those named in `gone` that are ours and
/// not wanted. Other rows of ours stay, and stay referred to: a row that is named with some of its children
/// ([`Wanted::under`]) keeps those that are not named, apart from such as are in doubt ([`Desired::doubt`]).
///
/// For one pod among thousands of rows: the work, not only the transaction, depends on what is asked.
/// Rows named by id are looked up quickly if the copy has an index for it
/// ([`Spec::indexed_by_id`](crate::Spec::indexed_by_id)).
pub fn diff_part(
    desired: &Desired,
    gone: &[RowKey],
    have: &Snapshot,
    owner: &Owner,
) -> Result<Transaction, DiffError> {
    make(desired, Extent::Only(gone), have, owner)
}

/// Makes the transaction for all rows for which there is one, and says what is wrong with the others.
///
/// One impossible row must not keep the rest from being put right. Rows in trouble are left as they are;
/// a set that refers to a row that is nowhere does without it.
pub fn diff_most(mut desired: Desired, have: &Snapshot, owner: &Owner) -> (Transaction, Vec<DiffError>) {
    let mut wrong = Vec::new();
    loop {
        let error = match diff(&desired, have, owner) {
            Ok(transaction) => return (transaction, wrong),
            Err(error) => error,
        };
        let set_aside = desired.set_aside(&error, have, owner);
        wrong.push(error);
        if !set_aside {
            return (Transaction::new(), wrong);
        }
    }
}

fn make(
    desired: &Desired,
    extent: Extent<'_>,
    have: &Snapshot,
    owner: &Owner,
) -> Result<Transaction, DiffError> {
    let schema = have.schema().ok_or(DiffError::NotLoaded)?;
    let wanted = desired.gathered(owner)?;
    let ground = Ground::new(have, owner, &wanted, extent)?;
    count::compared(match extent {
        Extent::Everything => have.tables().map(TableCopy::len).sum(),
        Extent::Only(gone) => gone.len() + wanted.len(),
    });
    let doubted = &desired.doubted;
    Plan { schema, have, owner, wanted: &wanted, ground: &ground, extent, doubted }.transaction()
}
