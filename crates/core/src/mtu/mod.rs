//! Changing the MTU of a running cluster, of its pods and its hosts together.
//!
//! A packet that is larger than what its receiver's link carries is dropped without a word, so two nodes at different
//! MTUs lose traffic for as long as they differ. The way around it is to separate what a node *sends* from what it
//! *carries* ([`Envelope`](crate::size::Envelope)): routes are pinned to the smaller of the old and the new MTU while interfaces take the
//! larger, on every node, and only then each settles on the new one. `docs/adr/0009-one-size-every-node-holds.md` tells
//! why that is safe whatever dies in between.

pub mod admit;
pub mod boot;
pub mod check;
pub mod cni;
pub mod equipment;
pub mod file;
pub mod outline;
pub mod paths;
pub mod plan;
pub mod preflight;
pub mod probe;
pub mod record;
pub mod status;
pub mod steps;
pub mod trial;

/// The name under which MachineConfigs of this capability are counted.
pub const SOURCE: &str = "mtu";
