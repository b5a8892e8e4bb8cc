//! Bringing a database to what is wanted.

use super::{CallError, Client};
use crate::diff::{Desired, DiffError, Owner, diff, diff_most, diff_part};
use crate::transaction::Transaction;
use crate::value::RowKey;

/// Why a database could not be brought to what is wanted.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// There is no transaction that does it.
    #[error("comparing with database {database}")]
    Diff {
        /// The database.
        database: String,
        /// Why not.
        #[source]
        source: DiffError,
    },
    /// The transaction was not carried out.
    #[error("changing database {database}")]
    Call {
        /// The database.
        database: String,
        /// Why not.
        #[source]
        source: CallError,
    },
}

impl Client {
    /// Makes the rows of `owner` what is wanted ([`diff`]), in one transaction with this comment; returns
    /// the number of operations it took. When it returns, the copy shows it.
    ///
    /// One after the other: two comparisons with the same state would both insert what is missing.
    pub async fn settle(
        &self,
        desired: &Desired,
        owner: &Owner,
        comment: &str,
    ) -> Result<usize, SettleError> {
        let _one_at_a_time = self.shared.settling.lock().await;
        let made = diff(desired, &self.snapshot(), owner);
        self.carry_out(made, comment).await
    }

    /// The same for some rows only ([`diff_part`]).
    pub async fn settle_part(
        &self,
        desired: &Desired,
        gone: &[RowKey],
        owner: &Owner,
        comment: &str,
    ) -> Result<usize, SettleError> {
        let _one_at_a_time = self.shared.settling.lock().await;
        let made = diff_part(desired, gone, &self.snapshot(), owner);
        self.carry_out(made, comment).await
    }

    /// The same for all rows for which it can be done ([`diff_most`]); also says what is wrong with the others.
    pub async fn settle_most(
        &self,
        desired: Desired,
        owner: &Owner,
        comment: &str,
    ) -> (Result<usize, SettleError>, Vec<DiffError>) {
        let _one_at_a_time = self.shared.settling.lock().await;
        let (made, wrong) = diff_most(desired, &self.snapshot(), owner);
        (self.carry_out(Ok(made), comment).await, wrong)
    }

    // The snapshot a transaction was made from is dropped before this: held any longer it would make the next update
    // copy its tables.
    async fn carry_out(
        &self,
        made: Result<Transaction, DiffError>,
        comment: &str,
    ) -> Result<usize, SettleError> {
        let database = || self.shared.database.clone();
        let mut transaction = made.map_err(|source| SettleError::Diff { database: database(), source })?;
        if transaction.is_empty() {
            return Ok(0);
        }
        transaction.comment(comment);
        let done = self.transact(&transaction).await;
        done.map_err(|source| SettleError::Call { database: database(), source })?;
        Ok(transaction.operations().len())
    }
}
