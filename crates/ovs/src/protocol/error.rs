//! Everything that ends a session.

use super::frame::FrameError;
use super::message::{MessageError, RpcError};
use super::update::UpdateError;
use crate::schema::{NotASchema, Refusal};
use std::time::Duration;

/// Why a connection is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Bytes that are no messages.
    #[error("the server sent what cannot be cut into messages")]
    Frame(#[from] FrameError),
    /// A message that is none.
    #[error("the server sent what is no message")]
    Message(#[from] MessageError),
    /// An update that cannot be.
    #[error("the server sent an update that cannot be")]
    Update(#[from] UpdateError),
    /// A schema that is none.
    #[error("the server sent a schema that cannot be read")]
    Schema(#[from] NotASchema),
    /// The server lacks what we use. Trying again helps only after it was upgraded.
    #[error("the server is refused")]
    Refused(#[from] Refusal),
    /// The server does not have the database.
    #[error("the server has no database {database}")]
    NoDatabase {
        /// The database.
        database: String,
    },
    /// The server lost its cluster.
    #[error("the server is cut off from the cluster of database {database}")]
    CutOff {
        /// The database.
        database: String,
    },
    /// The leader is another server.
    #[error("the server is not the leader of database {database}")]
    NotLeader {
        /// The database.
        database: String,
    },
    /// The schema was converted; connecting again checks it.
    #[error("the schema of database {database} changed")]
    SchemaChanged {
        /// The database.
        database: String,
    },
    /// The server ended our monitor.
    #[error("the server ended the monitor of database {database}")]
    MonitorEnded {
        /// The database.
        database: String,
    },
    /// A request without which we cannot work was refused.
    #[error("the server refused {method}")]
    Denied {
        /// The method.
        method: &'static str,
        /// Its words.
        #[source]
        source: RpcError,
    },
    /// A reply whose content is not what the method returns.
    #[error("the server answered {method} with {text}")]
    Nonsense {
        /// The method.
        method: &'static str,
        /// The beginning of the answer.
        text: String,
    },
    /// A condition referred to a row by key.
    #[error("a monitor condition cannot be sent")]
    Condition(#[from] crate::value::Unresolved),
    /// No sign of life.
    #[error("nothing heard from the server for {0:?}, although asked")]
    Silent(Duration),
}

impl SessionError {
    /// Is the server the wrong one for good, so that trying again needs somebody to act first?
    pub fn is_refusal(&self) -> bool {
        matches!(self, SessionError::Refused(_) | SessionError::Schema(_))
    }
}
