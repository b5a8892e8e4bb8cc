//! Southbound to Open vSwitch and OVN.
//!
//! - [`Client`] keeps an in-memory copy of a database ([`Snapshot`]), tells what changes in it
//!   ([`Watcher`]) and sends [`Transaction`]s.
//! - [`diff()`] makes the smallest transaction that turns the rows that are into the rows that are wanted.
//! - [`mod@tables`] declares the tables of `Open_vSwitch`, `OVN_Northbound` and `OVN_Southbound` that we use.
//! - [`protocol`] is the same protocol without I/O.
//! - [`unixctl`] talks to the daemons themselves.
//!
//! This crate knows OVSDB (RFC 7047) and nothing of Kubernetes.
//!
//! ```no_run
//! use netferry_ovs::tables::northbound::{self, LogicalSwitch, LogicalSwitchPort};
//! use netferry_ovs::{Client, Desired, Options, Owner, Spec, Wanted};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = Spec::new(northbound::DATABASE).table::<LogicalSwitch>().table::<LogicalSwitchPort>();
//! let client = Client::connect(spec, vec!["unix:/run/ovn/ovnnb_db.sock".parse()?], Options::default()).await?;
//!
//! let switch = LogicalSwitch { name: "node-1".into(), ..Default::default() };
//! let port = LogicalSwitchPort { name: "web_pod-1".into(), ..Default::default() };
//! let desired = Desired::new()
//!     .with(Wanted::own(&switch))
//!     .with(Wanted::own(&port).under::<LogicalSwitch>("node-1", &LogicalSwitch::ports()));
//! let owner = Owner::new("owner", "example", "id");
//! client.settle(&desired, &owner, "example").await?;
//!
//! let port = client.snapshot().named::<LogicalSwitchPort>("web_pod-1")?;
//! assert!(port.is_some());
//! # Ok(())
//! # }
//! ```

pub mod client;
pub mod copy;
pub mod count;
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

pub use client::{CallError, Client, Driver, Lock, Options, Remote, SettleError, Status};
pub use copy::{Change, Entry, Replica, Row, Snapshot, TableCopy, Watcher};
pub use diff::{Desired, DiffError, Hold, Owner, Wanted, diff, diff_most, diff_part};
pub use schema::{Refusal, Schema};
pub use shape::Ref;
pub use spec::{Condition, Index, Is, Spec};
pub use table::{Key, Table, TableDecl};
pub use transaction::{Outcome, Transaction, TransactionError};
pub use value::{Atom, Datum, RowKey};
