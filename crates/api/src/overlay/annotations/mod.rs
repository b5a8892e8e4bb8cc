//! Annotations, labels and taints of the pod network (`k8s.ovn.org/…`).

use k8s_openapi::api::core::v1::Taint;

mod gateway;
mod host;
mod node;
mod pod;
mod policy;
mod running;
mod topology;

pub use gateway::*;
pub use host::*;
pub use node::*;
pub use pod::*;
pub use policy::*;
pub use running::*;
pub use topology::*;

/// The network every pod is on, in the maps that are keyed by network name.
pub const DEFAULT_NETWORK: &str = "default";

/// Key of the taint on a node whose interface is too small for the overlay.
pub const MTU_TOO_SMALL_TAINT: &str = "k8s.ovn.org/mtu-too-small";

/// The taint on a node whose interface is too small for the overlay: a pod there would send packets
/// that vanish.
pub fn mtu_too_small() -> Taint {
    Taint { key: MTU_TOO_SMALL_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

/// The prefix of all keys of the OVN plugin; what carries it is removed when a cluster leaves that plugin.
pub const PREFIX: &str = "k8s.ovn.org";
