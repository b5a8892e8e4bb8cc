//! The node side: one node's zone of the overlay, its host and its pods.
//!
//! - [`overlay`] is the pod network: it follows the API, keeps OVN, the switch and the kernel, and answers the CNI plugin;
//! - [`mtu`] applies, holds and publishes the node's sizes; [`probe`] measures whether full-size packets reach other nodes;
//! - [`node`] observes the node and publishes it as annotations; [`cluster`] keeps what a boot without the API needs;
//! - [`host_init`] prepares the host before its kubelet starts; [`machine`] applies MachineConfigs; [`leave`] undoes it all;
//! - [`on_host`] starts what must outlive a container.

pub mod capability;
pub mod cluster;
pub mod config;
pub mod context;
#[cfg(test)]
mod fixtures;
pub mod host_init;
mod kept;
pub mod leave;
pub mod machine;
pub mod metrics;
pub mod mtu;
pub mod node;
pub mod on_host;
pub mod overlay;
pub mod ownership;
mod pause;
pub mod probe;
mod run;
mod tasks;

use capability::Capability;
pub use config::{Config, Paths};
pub use ownership::PROBE_PORT;
pub use run::{RunError, run, run_on};

/// The capabilities of this agent, in the order in which they start.
pub fn capabilities() -> Vec<Capability> {
    vec![mtu::capability()]
}
