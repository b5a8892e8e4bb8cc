//! The node side: one node's zone of the overlay, the host around it and the pods on it, kept as the cluster says.
//!
//! - `cluster` follows the API and holds what `core` needs of it;
//! - `zone` keeps the node's OVN databases and their daemons, `switch` the node's Open vSwitch;
//! - `host` keeps the kernel's side, `host_init` prepares it at boot, `facts` tells the cluster what is true here;
//! - `pods` answers the CNI plugin.

pub mod host;
