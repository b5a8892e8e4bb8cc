//! What a node says of its host's addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::annotation::{Wired, address, json_annotation, network};

/// `k8s.ovn.org/host-cidrs`: every address of the host, with prefix length.
///
/// Invariant: sorted as text, each once; so the same addresses give the same bytes, and writing
/// them again is no change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostCidrs(Vec<IpNet>);

impl HostCidrs {
    /// From any order.
    pub fn new(addresses: impl IntoIterator<Item = IpNet>) -> HostCidrs {
        let mut addresses: Vec<_> = addresses.into_iter().collect();
        addresses.sort_by_cached_key(IpNet::to_string);
        addresses.dedup();
        HostCidrs(addresses)
    }

    /// The addresses, sorted as text.
    pub fn addresses(&self) -> &[IpNet] {
        &self.0
    }
}

impl Wired for HostCidrs {
    type Wire = Vec<String>;

    fn from_wire(wire: Vec<String>) -> Result<Self, String> {
        wire.iter().map(|text| network(text)).collect::<Result<Vec<_>, _>>().map(HostCidrs::new)
    }

    fn to_wire(&self) -> Vec<String> {
        self.0.iter().map(IpNet::to_string).collect()
    }
}

json_annotation!(HostCidrs, "k8s.ovn.org/host-cidrs");

/// `k8s.ovn.org/host-addresses`: the older form of [`HostCidrs`], without prefix lengths. Read, never written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostAddresses(pub Vec<IpAddr>);

impl Wired for HostAddresses {
    type Wire = Vec<String>;

    fn from_wire(wire: Vec<String>) -> Result<Self, String> {
        wire.iter().map(|text| address(text)).collect::<Result<_, _>>().map(HostAddresses)
    }

    fn to_wire(&self) -> Vec<String> {
        self.0.iter().map(IpAddr::to_string).collect()
    }
}

json_annotation!(HostAddresses, "k8s.ovn.org/host-addresses");
