//! Southbound to Open vSwitch and OVN.
//!
//! - [`Client`] keeps an in-memory copy of a database ([`Snapshot`]), tells what changes in it
//!   ([`Watcher`]) and sends [`Transaction`]s.
//! - [`diff`] makes the smallest transaction that turns the rows that are into the rows that are wanted.
//! - [`tables`] declares the tables of `Open_vSwitch`, `OVN_Northbound` and `OVN_Southbound` that we use.
//! - [`protocol`] is the same protocol without I/O.
//! - [`unixctl`] talks to the daemons themselves.
//!
//! This crate knows OVSDB (RFC 7047) and nothing of Kubernetes.

pub mod client;
pub mod copy;
pub mod diff;
mod error;
pub mod protocol;
pub mod schema;
pub mod shape;
pub mod spec;
pub mod table;
pub mod tables;
pub mod transaction;
pub mod unixctl;
pub mod value;

pub use client::{CallError, Client, Driver, Lock, Options, Remote, Status};
pub use copy::{Change, Entry, Replica, Row, Snapshot, TableCopy, Watcher};
pub use diff::{Desired, DiffError, Hold, Owner, Wanted, diff};
pub use schema::{Refusal, Schema};
pub use shape::Ref;
pub use spec::{Condition, Index, Is, Spec};
pub use table::{Key, Table, TableDecl};
pub use transaction::{Outcome, Transaction, TransactionError};
pub use value::{Atom, Datum, RowKey};
