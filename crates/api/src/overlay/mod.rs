//! The pod network itself: how it is configured, what it publishes on nodes and pods, and the
//! resources of the two plugins.

mod additional;
pub mod annotations;
pub mod conditions;
mod config;
mod egress_firewall;
mod operator;
mod ovn_kubernetes;
mod sdn;

pub use additional::*;
pub use config::*;
pub use egress_firewall::*;
pub use operator::*;
pub use ovn_kubernetes::*;
pub use sdn::*;

/// The network plugins this product runs.
///
/// A `networkType` that is neither is somebody else's plugin, to be left alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Plugin {
    /// OVN, every node its own zone.
    OvnKubernetes,
    /// One OVS bridge and VXLAN; what clusters migrate from, and may go back to.
    OpenShiftSdn,
}

impl Plugin {
    /// As written in `networkType`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Plugin::OvnKubernetes => "OVNKubernetes",
            Plugin::OpenShiftSdn => "OpenShiftSDN",
        }
    }

    /// The plugin of a `networkType`, or `None` if it is not one of ours.
    pub fn named(network_type: &str) -> Option<Plugin> {
        [Plugin::OvnKubernetes, Plugin::OpenShiftSdn].into_iter().find(|p| p.as_str() == network_type)
    }
}

impl std::fmt::Display for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Both `Network` objects are singletons of this name.
pub const SINGLETON: &str = "cluster";
