//! The protocol (RFC 7047 and what `ovsdb-server` added to it) as a machine without I/O.
//!
//! Bytes and the time go in; bytes, events and a deadline come out. Everything that can go wrong on a
//! connection can therefore be tested without one.

mod error;
mod frame;
mod layout;
mod message;
mod server;
mod session;
mod update;

#[cfg(test)]
mod tests;

pub use error::SessionError;
pub use frame::{FrameError, Framer, MAX_DEPTH};
pub use layout::{Layout, TableLayout};
pub use message::{Message, MessageError, RpcError, error_reply, reply, request};
pub use session::{Event, Resume, Session, SessionOptions};
pub use update::{RowChange, Update, UpdateError};
