//! Why something in a lab did not work, and which kind of failure it is: exit codes depend on it.

use std::error::Error as StdError;
use std::time::Duration;

/// Why something in a lab did not work.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Understood, and not done; the text says what to do instead.
    #[error("{0}")]
    Refused(String),
    /// Tried, and it did not work.
    #[error("{attempt}")]
    Failed {
        /// What was tried, on which object.
        attempt: String,
        /// Why it did not work.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// It may still come about; nothing was undone.
    #[error("{waiting_for}: not within {} s", within.as_secs())]
    TimedOut {
        /// What did not come.
        waiting_for: String,
        /// For how long it was waited for.
        within: Duration,
    },
}

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    /// A failure without a further cause.
    pub fn failed(attempt: impl Into<String>, why: impl Into<String>) -> LabError {
        LabError::Failed { attempt: attempt.into(), source: why.into().into() }
    }

    /// The attempt and all its causes, in one line.
    pub fn chain(&self) -> String {
        netferry_core::error::chain(self)
    }
}

/// Says what was being tried when an error came.
pub trait During<T> {
    /// Adds the attempt; the error becomes its cause.
    fn during(self, attempt: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> During<T> for std::result::Result<T, E> {
    fn during(self, attempt: impl Into<String>) -> Result<T> {
        self.map_err(|source| LabError::Failed { attempt: attempt.into(), source: source.into() })
    }
}
