//! Every kind of path a cluster's network promises, as flows for a meter.
//!
//! [`Sites`] says what there is (nodes, pods, Services, the outside: their namespaces and addresses), [`flows`] makes
//! flows of every wanted kind, family and protocol out of it, and [`preflight`] waits until each of them is answered
//! once, so that what is measured afterwards is the network and not its coming up. [`draw`] shows it all as text.

mod draw;
pub mod fixture;
pub mod in_lab;
mod legs;
mod preflight;
mod sites;
mod sizes;

pub use draw::draw;
pub use legs::{BUDGET, Selection, flows};
pub use netferry_core::overlay::path::{Kind, UnknownKind};
pub use preflight::{Silent, preflight, silent};
pub use sites::{Node, Outside, Pod, Service, Sites};
pub use sizes::{carried, wrong_sizes};

/// Where meters answer, on pods and hosts.
pub const PORT: u16 = 4242;
