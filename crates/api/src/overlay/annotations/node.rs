//! What the allocator gives a node, and what the node says of its zone.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::DEFAULT_NETWORK;
use crate::annotation::{
    Annotation, AnnotationError, FamilyPair, FamilyPairWire, Mac, Wired, any_value, decimal, json_annotation,
    nonempty, text_annotation, truncated,
};

/// `k8s.ovn.org/node-subnets`: the pod subnets of a node, by network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeSubnets(BTreeMap<String, Vec<IpNet>>);

impl NodeSubnets {
    /// The subnets of the default network.
    ///
    /// # Errors
    /// If there is none: a network without a subnet is left out, not listed empty.
    pub fn of_default(subnets: Vec<IpNet>) -> Result<Self, AnnotationError> {
        Self::new(BTreeMap::from([(DEFAULT_NETWORK.to_owned(), subnets)]))
    }

    /// The subnets of every network.
    ///
    /// # Errors
    /// If a network has no subnet.
    pub fn new(by_network: BTreeMap<String, Vec<IpNet>>) -> Result<Self, AnnotationError> {
        let by_network: BTreeMap<_, Vec<_>> = by_network
            .into_iter()
            .map(|(name, subnets)| (name, subnets.iter().map(IpNet::trunc).collect()))
            .collect();
        match by_network.iter().find(|(_, subnets)| subnets.is_empty()) {
            Some((network, _)) => Err(AnnotationError::Value {
                key: Self::KEY,
                problem: format!("network {network:?} has no subnet"),
            }),
            None => Ok(NodeSubnets(by_network)),
        }
    }

    /// The subnets in one network; empty if it is not there.
    pub fn network(&self, name: &str) -> &[IpNet] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The subnets in the default network.
    pub fn default_network(&self) -> &[IpNet] {
        self.network(DEFAULT_NETWORK)
    }

    /// Every network.
    pub fn networks(&self) -> &BTreeMap<String, Vec<IpNet>> {
        &self.0
    }
}

/// Until 2022 a network had one subnet, written without a list.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Wired for NodeSubnets {
    type Wire = BTreeMap<String, OneOrMany>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        let mut by_network = BTreeMap::new();
        for (network, subnets) in wire {
            let subnets = match subnets {
                OneOrMany::One(subnet) => vec![subnet],
                OneOrMany::Many(subnets) => subnets,
            };
            if subnets.is_empty() {
                return Err(format!("network {network:?} has no subnet"));
            }
            let subnets: Result<Vec<_>, _> = subnets.iter().map(|text| truncated(text)).collect();
            by_network.insert(
                network.clone(),
                subnets.map_err(|problem| format!("network {network:?}: {problem}"))?,
            );
        }
        Ok(NodeSubnets(by_network))
    }

    fn to_wire(&self) -> Self::Wire {
        let print = |subnets: &Vec<IpNet>| OneOrMany::Many(subnets.iter().map(IpNet::to_string).collect());
        self.0.iter().map(|(network, subnets)| (network.clone(), print(subnets))).collect()
    }
}

json_annotation!(NodeSubnets, "k8s.ovn.org/node-subnets");

text_annotation! {
    /// `k8s.ovn.org/node-id`: a number no other node has; addresses on shared switches follow from it.
    NodeId(u32), "k8s.ovn.org/node-id", decimal
}

/// `k8s.ovn.org/network-ids`: the number of each network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkIds(pub BTreeMap<String, u32>);

impl Wired for NetworkIds {
    type Wire = BTreeMap<String, String>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        wire.into_iter()
            .map(|(network, id)| match decimal(&id) {
                Ok(id) => Ok((network, id)),
                Err(problem) => Err(format!("network {network:?}: {problem}")),
            })
            .collect::<Result<_, _>>()
            .map(NetworkIds)
    }

    fn to_wire(&self) -> Self::Wire {
        self.0.iter().map(|(network, id)| (network.clone(), id.to_string())).collect()
    }
}

json_annotation!(NetworkIds, "k8s.ovn.org/network-ids");

/// Declares an annotation that holds one [`FamilyPair`].
macro_rules! pair_annotation {
    ($(#[$meta:meta])* $name:ident, $key:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(pub FamilyPair);

        impl Wired for $name {
            type Wire = FamilyPairWire;

            fn from_wire(wire: FamilyPairWire) -> Result<Self, String> {
                FamilyPair::from_wire(wire).map($name)
            }

            fn to_wire(&self) -> FamilyPairWire {
                self.0.to_wire()
            }
        }

        json_annotation!($name, $key);
    };
}

pair_annotation! {
    /// `k8s.ovn.org/node-transit-switch-port-ifaddr`: the node's addresses on the switch that joins the zones.
    TransitSwitchPortIfAddr, "k8s.ovn.org/node-transit-switch-port-ifaddr"
}
pair_annotation! {
    /// `k8s.ovn.org/node-primary-ifaddr`: the host's addresses on the interface that carries the overlay.
    PrimaryIfAddr, "k8s.ovn.org/node-primary-ifaddr"
}
pair_annotation! {
    /// `k8s.ovn.org/node-masquerade-subnet`: the networks used between a host and its own services.
    MasqueradeSubnet, "k8s.ovn.org/node-masquerade-subnet"
}
pair_annotation! {
    /// `k8s.ovn.org/node-gateway-router-lrp-ifaddr`: the older key of [`GatewayRouterLrpIfAddrs`],
    /// for the default network only. Read, never written.
    GatewayRouterLrpIfAddr, "k8s.ovn.org/node-gateway-router-lrp-ifaddr"
}

/// `k8s.ovn.org/node-gateway-router-lrp-ifaddrs`: the node's addresses on the join network, by network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GatewayRouterLrpIfAddrs(pub BTreeMap<String, FamilyPair>);

impl GatewayRouterLrpIfAddrs {
    /// The addresses in the default network, under this key or the older one.
    ///
    /// # Errors
    /// If the annotation that is there cannot be understood.
    pub fn default_network(
        annotations: &BTreeMap<String, String>,
    ) -> Result<Option<FamilyPair>, AnnotationError> {
        if let Some(all) = Self::read(annotations)? {
            return Ok(all.0.get(DEFAULT_NETWORK).copied());
        }
        Ok(GatewayRouterLrpIfAddr::read(annotations)?.map(|old| old.0))
    }
}

impl Wired for GatewayRouterLrpIfAddrs {
    type Wire = BTreeMap<String, FamilyPairWire>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        wire.into_iter()
            .map(|(network, pair)| match FamilyPair::from_wire(pair) {
                Ok(pair) => Ok((network, pair)),
                Err(problem) => Err(format!("network {network:?}: {problem}")),
            })
            .collect::<Result<_, _>>()
            .map(GatewayRouterLrpIfAddrs)
    }

    fn to_wire(&self) -> Self::Wire {
        self.0.iter().map(|(network, pair)| (network.clone(), pair.to_wire())).collect()
    }
}

json_annotation!(GatewayRouterLrpIfAddrs, "k8s.ovn.org/node-gateway-router-lrp-ifaddrs");

text_annotation! {
    /// `k8s.ovn.org/zone-name`: the OVN zone the node belongs to.
    ZoneName(String), "k8s.ovn.org/zone-name", nonempty
}
text_annotation! {
    /// `k8s.ovn.org/remote-zone-migrated`: the zone the node has been handed over to.
    RemoteZoneMigrated(String), "k8s.ovn.org/remote-zone-migrated", nonempty
}
text_annotation! {
    /// `k8s.ovn.org/node-chassis-id`: the system-id of the node's Open vSwitch.
    ChassisId(String), "k8s.ovn.org/node-chassis-id", nonempty
}

impl ZoneName {
    /// The zone of nodes that name none.
    pub const GLOBAL: &'static str = "global";
}

/// `k8s.ovn.org/node-mgmt-port-mac-addresses`: the hardware address of the management port, by network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ManagementPortMacs(pub BTreeMap<String, Mac>);

impl Wired for ManagementPortMacs {
    type Wire = BTreeMap<String, String>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        wire.into_iter()
            .map(|(network, mac)| match mac.parse() {
                Ok(mac) => Ok((network, mac)),
                Err(problem) => Err(format!("network {network:?}: {problem}")),
            })
            .collect::<Result<_, _>>()
            .map(ManagementPortMacs)
    }

    fn to_wire(&self) -> Self::Wire {
        self.0.iter().map(|(network, mac)| (network.clone(), mac.to_string())).collect()
    }
}

json_annotation!(ManagementPortMacs, "k8s.ovn.org/node-mgmt-port-mac-addresses");

text_annotation! {
    /// `k8s.ovn.org/gateway-mtu-support`: only ever `false`, on a node whose datapath cannot check
    /// packet sizes; absent means it can.
    GatewayMtuSupport(bool), "k8s.ovn.org/gateway-mtu-support", |value| match value {
        "false" => Ok(false),
        other => Err(format!("{other:?}: only \"false\" is ever written, support is said by leaving it out")),
    }
}

impl GatewayMtuSupport {
    /// The only value there is.
    pub const UNSUPPORTED: GatewayMtuSupport = GatewayMtuSupport(false);
}

any_value!(NodeId(u32));
