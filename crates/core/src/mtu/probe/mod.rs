//! What the nodes' probes ([`crate::probe`]) mean for a change of MTU.

pub mod judge;
pub mod verify;
