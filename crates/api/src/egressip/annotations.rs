//! Annotations of egress addresses, on nodes and on the EgressIP itself.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::annotation::{
    FamilyPair, FamilyPairWire, Wired, address, decimal, json_annotation, nonempty, text_annotation,
};

/// Declares an annotation that lists bare addresses, in the order they were put there.
macro_rules! addresses_annotation {
    ($(#[$meta:meta])* $name:ident, $key:literal) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $name(pub Vec<IpAddr>);

        impl Wired for $name {
            type Wire = Vec<String>;

            fn from_wire(wire: Vec<String>) -> Result<Self, String> {
                wire.iter().map(|text| address(text)).collect::<Result<_, _>>().map($name)
            }

            fn to_wire(&self) -> Vec<String> {
                self.0.iter().map(IpAddr::to_string).collect()
            }
        }

        json_annotation!($name, $key);
    };
}

addresses_annotation! {
    /// `k8s.ovn.org/secondary-host-egress-ips`, on a node: egress addresses it put on interfaces the
    /// overlay does not manage.
    SecondaryHostEgressIps, "k8s.ovn.org/secondary-host-egress-ips"
}
addresses_annotation! {
    /// `k8s.ovn.org/bridge-egress-ips`, on a node: egress addresses it put on the external bridge.
    BridgeEgressIps, "k8s.ovn.org/bridge-egress-ips"
}

text_annotation! {
    /// `k8s.ovn.org/egressip-mark`, on an EgressIP: the packet mark of its pods on networks of their own.
    EgressIpMark(u32), "k8s.ovn.org/egressip-mark", |value| decimal(value).and_then(EgressIpMark::in_range)
}

impl EgressIpMark {
    /// The smallest mark.
    pub const MIN: u32 = 50_000;
    /// The largest mark.
    pub const MAX: u32 = 54_999;

    /// The mark, if it is one that may be given out.
    pub fn new(mark: u32) -> Option<EgressIpMark> {
        Self::in_range(mark).ok().map(EgressIpMark)
    }

    fn in_range(mark: u32) -> Result<u32, String> {
        if (Self::MIN..=Self::MAX).contains(&mark) {
            Ok(mark)
        } else {
            Err(format!("{mark} is not between {} and {}", Self::MIN, Self::MAX))
        }
    }
}

text_annotation! {
    /// `k8s.ovn.org/egressip-owner-ref`, on a cloud's record of an address: the EgressIP it is for.
    EgressIpOwnerRef(String), "k8s.ovn.org/egressip-owner-ref", nonempty
}

/// `cloud.network.openshift.io/egress-ipconfig`, on a node: what the cloud lets it hold, by interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EgressIpConfig(pub Vec<CloudInterface>);

impl EgressIpConfig {
    /// The interface that counts: readers look at the first only.
    pub fn first(&self) -> Option<&CloudInterface> {
        self.0.first()
    }
}

/// What the cloud lets one interface hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloudInterface {
    /// The cloud's name of the interface.
    pub interface: String,
    /// The networks it is in.
    pub networks: FamilyPair,
    /// How many addresses it may hold.
    pub capacity: Capacity,
}

/// How many addresses an interface may hold. A missing number is no limit; `0` is none at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Capacity {
    /// IPv4 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<u32>,
    /// IPv6 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<u32>,
    /// Addresses of either family together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct CloudInterfaceWire {
    interface: String,
    ifaddr: FamilyPairWire,
    capacity: Capacity,
}

impl Wired for EgressIpConfig {
    type Wire = Vec<CloudInterfaceWire>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        wire.into_iter()
            .map(|wire| {
                let networks = FamilyPair::from_wire(wire.ifaddr)
                    .map_err(|problem| format!("interface {:?}: ifaddr: {problem}", wire.interface))?;
                Ok(CloudInterface { interface: wire.interface, networks, capacity: wire.capacity })
            })
            .collect::<Result<_, String>>()
            .map(EgressIpConfig)
    }

    fn to_wire(&self) -> Self::Wire {
        self.0
            .iter()
            .map(|own| CloudInterfaceWire {
                interface: own.interface.clone(),
                ifaddr: own.networks.to_wire(),
                capacity: own.capacity,
            })
            .collect()
    }
}

json_annotation!(EgressIpConfig, "cloud.network.openshift.io/egress-ipconfig");

impl CloudInterface {
    /// The networks an egress address may come from here.
    pub fn subnets(&self) -> impl Iterator<Item = IpNet> {
        self.networks.iter().map(|net| net.trunc())
    }
}
