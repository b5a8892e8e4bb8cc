//! What a zone is made of.
//!
//! A topology is a list of parts. Each part knows the rows it stands for and nothing of its neighbours, so that another
//! topology is another list, not a condition in every function.

use std::net::IpAddr;

use crate::size::Mtu;

/// How many nodes a network is made for. It is chosen once: what pods and nodes are given differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Mode {
    /// Any number of nodes, each a zone, with tunnels between them.
    #[default]
    MultiNode,
    /// One machine. Nothing is wrapped, nothing leads to other nodes, and its uplink is its own.
    SingleNode,
}

impl Mode {
    /// What a zone is made of.
    pub fn topology(self) -> Topology {
        match self {
            Mode::MultiNode => Topology::multi_node(),
            Mode::SingleNode => Topology::single_node(),
        }
    }
}

/// What a zone is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// The parts of the zone.
    pub parts: Vec<Part>,
    /// How packets get from the zone to the host, and what the host does with them.
    pub way_out: WayOut,
}

/// A part of a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The router of the zone.
    ClusterRouter,
    /// The switch of the node's pods, tied to the router.
    NodeSwitch,
    /// The node's own port on its switch.
    ManagementPort,
    /// The switch that joins the zones, with a port for every other node.
    Transit,
    /// What does not know its way goes to the host through the management port.
    HostRoute,
    /// What the host sends to a Service whose backend lies outside the overlay comes back to it under the router's
    /// address; under its own the kernel would drop it.
    HostReturn,
    /// The groups load balancers are put into.
    LoadBalancerGroups,
    /// What policies never forbid: the node reaching its pods, and a pod reaching itself through a Service.
    AlwaysAllowed,
}

/// How the host treats what comes from outside for a Service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ServiceSource {
    /// Backends may be on other nodes, so answers must find back: everything forwarded to a Service comes from the
    /// node's join address, which no policy admits by itself.
    Join,
    /// Every backend is here. The client's address is kept; only where a backend is outside the overlay it is replaced
    /// by the join address, or the answer would leave past the translation.
    KeepUnlessHostBacked,
}

/// How packets get from the zone to the host, and what the host does with them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WayOut {
    /// See [`ServiceSource`].
    pub service_source: ServiceSource,
    /// Whether packets between nodes are wrapped; then the pods' MTU leaves room for it and the wrapping is not
    /// tracked as connections.
    pub tunnels: bool,
}

impl Topology {
    /// One zone per node, joined by the transit switch.
    pub fn multi_node() -> Topology {
        Topology {
            parts: vec![
                Part::ClusterRouter,
                Part::NodeSwitch,
                Part::ManagementPort,
                Part::Transit,
                Part::HostRoute,
                Part::HostReturn,
                Part::LoadBalancerGroups,
                Part::AlwaysAllowed,
            ],
            way_out: WayOut { service_source: ServiceSource::Join, tunnels: true },
        }
    }

    /// One machine: the same, but for the way to other nodes.
    pub fn single_node() -> Topology {
        let mut parts = Topology::multi_node().parts;
        parts.retain(|part| *part != Part::Transit);
        let way_out = WayOut { service_source: ServiceSource::KeepUnlessHostBacked, tunnels: false };
        Topology { parts, way_out }
    }
}

impl WayOut {
    /// The largest packet of a pod that an underlay of this MTU carries, tunnels ending at `encap`; nothing when the
    /// underlay is too small for any.
    pub fn room(&self, underlay: Mtu, encap: IpAddr) -> Option<Mtu> {
        let overhead = match (self.tunnels, encap) {
            (false, _) => 0,
            (true, IpAddr::V4(_)) => GENEVE_OVERHEAD_V4,
            (true, IpAddr::V6(_)) => GENEVE_OVERHEAD_V6,
        };
        Mtu::new(underlay.bytes().saturating_sub(overhead)).ok()
    }
}

/// Outer IPv4, UDP, Geneve with one option, inner Ethernet.
const GENEVE_OVERHEAD_V4: u32 = 58;
/// The same in IPv6.
const GENEVE_OVERHEAD_V6: u32 = 78;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_packet_leaves_room_for_what_it_is_wrapped_in() {
        let way_out = Topology::multi_node().way_out;
        let room = |way_out: WayOut, underlay, encap: &str| {
            way_out.room(Mtu::new(underlay).unwrap(), encap.parse().unwrap()).map(Mtu::bytes)
        };
        assert_eq!(room(way_out, 1500, "172.18.0.1"), Some(1442));
        assert_eq!(room(way_out, 1500, "fd00::1"), Some(1422));
        assert_eq!(room(way_out, 600, "fd00::1"), None);
        assert_eq!(room(Topology::single_node().way_out, 1500, "172.18.0.1"), Some(1500));
    }
}
