//! The node side: one node's zone of the overlay, the host around it and the pods on it, kept as the cluster says.
//!
//! - [`cluster`] follows the API and tells the zone what is new;
//! - [`zone`] keeps the node's OVN databases and their daemons, and the node's Open vSwitch; [`switch`] knows that;
//! - [`host`] keeps the kernel's side, [`host_init`] prepares it at boot, [`facts`] tells the cluster what is true here;
//! - [`pods`] answers the CNI plugin; [`on_host`] starts what must outlive a container;
//! - [`boot`] is what this boot runs at, [`sizes`] sets it in the kernel, [`machine`] takes the next configuration,
//!   [`probe`] tries whether packets of that size get to the other nodes.

pub mod admission;
pub mod boot;
pub mod cluster;
pub mod config;
pub mod facts;
#[cfg(test)]
mod fixtures;
pub mod host;
pub mod host_init;
mod kept;
pub mod leave;
pub mod machine;
pub mod on_host;
mod packet_room;
mod pause;
pub mod pods;
pub mod probe;
mod run;
pub mod sizes;
mod stale_flows;
pub mod switch;
mod zero_snat;
pub mod zone;

pub use config::{Config, PROBE_PORT, Paths};
pub use run::{RunError, run, run_on};
