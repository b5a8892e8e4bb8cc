//! What tests of this crate make up about a host and its place.

use std::collections::BTreeSet;

use netferry_api::overlay::{ClusterNetworkEntry, ConfigNetworkStatus};
use netferry_core::net::Subnets;
use netferry_core::overlay::allocate::{Assignment, NodeId};
use netferry_core::overlay::cluster::Node;
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::topology::Topology;
use netferry_core::overlay::zone::Datapath;
use netferry_core::size::Mtu;
use netferry_kernel::link::{Kind, Link};
use netferry_kernel::{IfName, Mac};

use crate::cluster::Written;
use crate::overlay::pods::Place;

pub(crate) fn name(name: &str) -> IfName {
    IfName::new(name).unwrap()
}

/// A device that is up and carries 1500 bytes, with a MAC address after its index.
pub(crate) fn link(index: u32, called: &str) -> Link {
    Link {
        index,
        name: name(called),
        kind: Kind::Device,
        up: true,
        carrier: true,
        loopback: called == "lo",
        mtu: 1500,
        min_mtu: 0,
        max_mtu: 0,
        mac: Some(Mac([2, 0, 0, 0, 0, index as u8])),
        master: None,
        lower: None,
        lower_namespace: None,
        group: 0,
        alias: None,
        alt_names: BTreeSet::new(),
    }
}

/// What is published of a network of this range.
pub(crate) fn written(range: &str, host_prefix: u32, service: &str) -> Written {
    let entry = ClusterNetworkEntry { cidr: Some(range.to_owned()), host_prefix: Some(host_prefix) };
    let status = ConfigNetworkStatus {
        cluster_network: vec![entry],
        service_network: vec![service.to_owned()],
        cluster_network_mtu: Some(1400),
        ..ConfigNetworkStatus::default()
    };
    Written { status, ..Written::default() }
}

/// The place of a node with id 5 and these subnets.
pub(crate) fn place(networks: Networks, subnets: Subnets) -> Place {
    let address = [172, 30, 0, 2].into();
    let assignment = Assignment::new(&networks, NodeId::new(5).unwrap(), subnets).unwrap();
    Place {
        networks,
        topology: Topology::multi_node(),
        node: Node {
            name: "n1".parse().unwrap(),
            assignment,
            chassis: "6a5b".to_owned(),
            encap: address,
            host_addresses: [address].into(),
        },
        mtu: Mtu::new(1400).unwrap(),
        sends: None,
        datapath: Datapath::Kernel,
    }
}
