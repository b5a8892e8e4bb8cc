//! The pod network on this node.
//!
//! - [`follow`] watches the API and feeds the zone;
//! - [`ovn`] keeps the node's OVN databases and their daemons; [`switch`] the node's Open vSwitch;
//! - [`host`] keeps the kernel's side: routes, rules, nftables, sysctls; [`forward`] remembers it across a boot without the API;
//! - [`pods`] answers the CNI plugin.

pub mod follow;
pub mod forward;
pub mod host;
pub mod ovn;
pub mod pods;
mod session;
mod start;
pub mod switch;

pub(crate) use start::start;
