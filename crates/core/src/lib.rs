//! What netferry decides.
//!
//! Everything here is a function from values to values: the cluster as it is goes in, what should be true comes
//! out as data that can be printed, compared, checked by a second pair of eyes and replayed. Nothing in this crate
//! reads a clock, a file, a socket or a random number, and nothing in it knows the wire shapes of Kubernetes, of
//! netlink or of OVSDB; the shells around it translate.

pub mod error;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod label;
pub mod migration;
pub mod mtu;
pub mod name;
pub mod net;
pub mod overlay;
pub mod port;
pub mod probe;
pub mod rollout;
pub mod size;
