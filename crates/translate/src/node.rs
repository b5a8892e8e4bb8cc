//! Nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1 as k8s;
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::overlay::annotations::{
    ChassisId, DEFAULT_NETWORK, Gateway, HostCidrs, L3GatewayConfig, NodeId as WrittenId, NodeSubnets,
    OverlayRunning, PrimaryIfAddr,
};
use netferry_core::name::{NodeName, NotANodeName};
use netferry_core::net::{Family, Mac, Stack, Subnets};
use netferry_core::overlay::allocate::{Assignment, NodeId};
use netferry_core::overlay::cluster::Node;
use netferry_core::overlay::networks::Networks;

/// Why a node has no place in the overlay.
#[derive(Debug, thiserror::Error)]
pub enum NodeGap {
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] NotANodeName),
    /// Somebody has not said yet what there is to say: the operator its place, or its agent what is true there.
    #[error("annotation {0} is not there yet")]
    Missing(&'static str),
    /// An annotation cannot be understood.
    #[error("an annotation cannot be read")]
    Mangled(#[from] AnnotationError),
    /// Two subnets of one family, or none.
    #[error("annotation {key} has not one subnet per family", key = NodeSubnets::KEY)]
    Subnets,
    /// Its id has no place in the cluster's networks, or its subnets are not of those the ranges are divided into.
    #[error("id {id} and subnets {subnets:?} are no place in the cluster's networks")]
    NoSuchPlace {
        /// The id.
        id: u32,
        /// The subnets.
        subnets: Subnets,
    },
    /// Its own zone says that it runs elsewhere.
    #[error("the place of its annotations is not the one its zone runs with, by annotation {key}", key = OverlayRunning::KEY)]
    RunsElsewhere,
}

impl NodeGap {
    /// Whether time alone may mend it: the node is new.
    pub fn is_waiting(&self) -> bool {
        matches!(self, NodeGap::Missing(_))
    }
}

/// A node's place in the overlay and what it says of itself.
pub fn node(networks: &Networks, node: &k8s::Node) -> Result<Node, NodeGap> {
    let name = NodeName::new(node.metadata.name.clone().unwrap_or_default())?;
    let none = BTreeMap::new();
    let annotations = node.metadata.annotations.as_ref().unwrap_or(&none);
    let assignment = assignment(networks, annotations)?;
    let chassis = need::<ChassisId>(annotations)?.get().clone();
    let primary = need::<PrimaryIfAddr>(annotations)?.0;
    let encap = primary.iter().next().ok_or(NodeGap::Missing(PrimaryIfAddr::KEY))?.addr();
    let host_addresses = need::<HostCidrs>(annotations)?.addresses().iter().map(|net| net.addr()).collect();
    Ok(Node { name, assignment, chassis, encap, host_addresses })
}

/// Another node, as [`node`] reads it, unless its own zone says that it runs elsewhere. Then somebody changed its
/// annotations, or the node has not moved yet: its pods are where they were, and what is sent to them must go there.
pub fn peer(networks: &Networks, written: &k8s::Node) -> Result<Node, NodeGap> {
    let read = node(networks, written)?;
    let annotations = written.metadata.annotations.iter();
    // A report that cannot be read, or cannot be true, says nothing: the node writes it again.
    let report = annotations.flat_map(|all| OverlayRunning::read(all).ok().flatten()).next();
    let Some(report) = report else { return Ok(read) };
    let place = &read.assignment;
    let given = |net: &ipnet::IpNet| place.subnets().iter().find(|given| same_family(*given, *net));
    let lives = report.subnets().iter().filter(|net| networks.gives(**net));
    // Of a family the report does not speak of it has only not heard yet.
    let mut moved = lives.filter_map(|net| given(net).map(|given| given != *net));
    if report.id() != u32::from(place.id().number()) || moved.any(|moved| moved) {
        return Err(NodeGap::RunsElsewhere);
    }
    Ok(read)
}

fn same_family(a: ipnet::IpNet, b: ipnet::IpNet) -> bool {
    Family::of_net(a) == Family::of_net(b)
}

/// The node of a network for one machine. Its place is all it needs: nobody sends it anything wrapped, so it works where
/// the host has no uplink and no address, and where it has another one every hour.
pub fn alone(networks: &Networks, node: &k8s::Node) -> Result<Node, NodeGap> {
    let name = NodeName::new(node.metadata.name.clone().unwrap_or_default())?;
    let none = BTreeMap::new();
    let annotations = node.metadata.annotations.as_ref().unwrap_or(&none);
    let assignment = assignment(networks, annotations)?;
    let chassis = need::<ChassisId>(annotations)?.get().clone();
    let host = HostCidrs::read(annotations)?;
    let host_addresses = host.iter().flat_map(|host| host.addresses()).map(|net| net.addr()).collect();
    let encap = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Ok(Node { name, assignment, chassis, encap, host_addresses })
}

/// What the operator gave a node.
pub fn assignment(
    networks: &Networks,
    annotations: &BTreeMap<String, String>,
) -> Result<Assignment, NodeGap> {
    let id = *need::<WrittenId>(annotations)?.get();
    let written = need::<NodeSubnets>(annotations)?;
    let subnets = one_per_family(written.default_network()).ok_or(NodeGap::Subnets)?;
    let place = NodeId::new(id.into()).and_then(|id| Assignment::new(networks, id, subnets));
    place.ok_or(NodeGap::NoSuchPlace { id, subnets })
}

/// Where frames to the end of a node's tunnels go, if the node says so.
pub fn tunnel_neighbour(node: &k8s::Node) -> Result<Option<(IpAddr, Mac)>, AnnotationError> {
    let Some(annotations) = node.metadata.annotations.as_ref() else { return Ok(None) };
    let Some(primary) = PrimaryIfAddr::read(annotations)? else { return Ok(None) };
    let Some(gateways) = L3GatewayConfig::read(annotations)? else { return Ok(None) };
    let mac = match gateways.0.get(DEFAULT_NETWORK) {
        Some(Gateway::Bridge(bridge)) => Mac::new(bridge.mac_address.0),
        Some(Gateway::Disabled) | None => return Ok(None),
    };
    Ok(primary.0.iter().next().map(|net| (net.addr(), mac)))
}

fn need<A: Annotation>(annotations: &BTreeMap<String, String>) -> Result<A, NodeGap> {
    A::read(annotations)?.ok_or(NodeGap::Missing(A::KEY))
}

fn one_per_family(nets: &[ipnet::IpNet]) -> Option<Subnets> {
    let (mut v4, mut v6) = (None, None);
    for net in nets {
        let twice = match net {
            ipnet::IpNet::V4(net) => v4.replace(*net).is_some(),
            ipnet::IpNet::V6(net) => v6.replace(*net).is_some(),
        };
        if twice {
            return None;
        }
    }
    Stack::from_parts(v4, v6)
}
