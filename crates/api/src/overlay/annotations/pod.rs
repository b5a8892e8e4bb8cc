//! `k8s.ovn.org/pod-networks`: the addresses of a pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::DEFAULT_NETWORK;
use super::gateway::{one_or_many, singular};
use crate::annotation::{Mac, Wired, address, json_annotation, network, truncated};

/// `k8s.ovn.org/pod-networks`: the addresses of a pod, by network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PodNetworks(pub BTreeMap<String, PodNetwork>);

impl PodNetworks {
    /// The addresses in the default network.
    pub fn of_default(network: PodNetwork) -> PodNetworks {
        PodNetworks(BTreeMap::from([(DEFAULT_NETWORK.to_owned(), network)]))
    }

    /// The addresses in the default network.
    pub fn default_network(&self) -> Option<&PodNetwork> {
        self.0.get(DEFAULT_NETWORK)
    }
}

/// The addresses of a pod in one network. A hardware address alone is enough.
///
/// Invariant: no route is a default route; those are the `gateways`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodNetwork {
    addresses: Vec<IpNet>,
    mac: Mac,
    gateways: Vec<IpAddr>,
    routes: Vec<PodRoute>,
    role: Option<String>,
}

/// A route of a pod besides its default routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodRoute {
    /// Where to.
    pub dest: IpNet,
    /// Through which address; without one, straight out of the interface.
    pub next_hop: Option<IpAddr>,
}

impl PodNetwork {
    /// A pod that has a hardware address and nothing else yet.
    pub fn new(mac: Mac) -> PodNetwork {
        PodNetwork { addresses: Vec::new(), mac, gateways: Vec::new(), routes: Vec::new(), role: None }
    }

    /// With these addresses and default gateways.
    #[must_use]
    pub fn with_addresses(self, addresses: Vec<IpNet>, gateways: Vec<IpAddr>) -> PodNetwork {
        PodNetwork { addresses, gateways, ..self }
    }

    /// With these routes; a default route among them becomes a gateway, where it belongs.
    #[must_use]
    pub fn with_routes(mut self, routes: Vec<PodRoute>) -> PodNetwork {
        let (default, routes): (Vec<_>, Vec<_>) = routes.into_iter().partition(|r| r.dest.prefix_len() == 0);
        for gateway in default.into_iter().filter_map(|route| route.next_hop) {
            if !self.gateways.contains(&gateway) {
                self.gateways.push(gateway);
            }
        }
        PodNetwork {
            routes: routes.into_iter().map(|r| PodRoute { dest: r.dest.trunc(), ..r }).collect(),
            ..self
        }
    }

    /// With this role, such as `primary`.
    #[must_use]
    pub fn with_role(self, role: impl Into<String>) -> PodNetwork {
        PodNetwork { role: Some(role.into()).filter(|role| !role.is_empty()), ..self }
    }

    /// Addresses with prefix length.
    pub fn addresses(&self) -> &[IpNet] {
        &self.addresses
    }

    /// The hardware address.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// The default gateways.
    pub fn gateways(&self) -> &[IpAddr] {
        &self.gateways
    }

    /// Routes besides the default ones.
    pub fn routes(&self) -> &[PodRoute] {
        &self.routes
    }

    /// What the network is to the pod.
    pub fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    fn from_wire(wire: PodNetworkWire) -> Result<PodNetwork, String> {
        let many = wire.ip_addresses.unwrap_or_default();
        let addresses = one_or_many(&many, ("ip_addresses", &wire.ip_address, "ip_address"), network)?;
        let gateways =
            one_or_many(&wire.gateway_ips, ("gateway_ips", &wire.gateway_ip, "gateway_ip"), address)?;
        let mac = wire.mac_address.parse().map_err(|e| format!("mac_address: {e}"))?;
        let mut routes = Vec::new();
        for route in wire.routes {
            let dest = truncated(&route.dest).map_err(|problem| format!("routes: dest {problem}"))?;
            if dest.prefix_len() == 0 {
                return Err(format!("routes: {dest} is a default route, which belongs in gateway_ips"));
            }
            let next_hop = match route.next_hop.as_str() {
                "" => None,
                text => Some(address(text).map_err(|problem| format!("routes: nextHop {problem}"))?),
            };
            if next_hop.is_some_and(|hop| hop.is_ipv4() != dest.addr().is_ipv4()) {
                return Err(format!("routes: {dest} goes through {}, of the other family", route.next_hop));
            }
            routes.push(PodRoute { dest, next_hop });
        }
        Ok(PodNetwork { addresses, mac, gateways, routes, role: Some(wire.role).filter(|r| !r.is_empty()) })
    }

    fn to_wire(&self) -> PodNetworkWire {
        PodNetworkWire {
            ip_addresses: Some(self.addresses.iter().map(IpNet::to_string).collect::<Vec<_>>())
                .filter(|addresses| !addresses.is_empty()),
            mac_address: self.mac.to_string(),
            gateway_ips: self.gateways.iter().map(IpAddr::to_string).collect(),
            routes: self
                .routes
                .iter()
                .map(|route| PodRouteWire {
                    dest: route.dest.to_string(),
                    next_hop: route.next_hop.map(|hop| hop.to_string()).unwrap_or_default(),
                })
                .collect(),
            ip_address: singular(&self.addresses),
            gateway_ip: singular(&self.gateways),
            role: self.role.clone().unwrap_or_default(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PodNetworkWire {
    // Without addresses this is written as null, not left out.
    #[serde(default)]
    ip_addresses: Option<Vec<String>>,
    #[serde(default)]
    mac_address: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gateway_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    routes: Vec<PodRouteWire>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ip_address: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    gateway_ip: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    role: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PodRouteWire {
    dest: String,
    #[serde(rename = "nextHop", default)]
    next_hop: String,
}

impl Wired for PodNetworks {
    type Wire = BTreeMap<String, PodNetworkWire>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        wire.into_iter()
            .map(|(name, pod)| match PodNetwork::from_wire(pod) {
                Ok(pod) => Ok((name, pod)),
                Err(problem) => Err(format!("network {name:?}: {problem}")),
            })
            .collect::<Result<_, _>>()
            .map(PodNetworks)
    }

    fn to_wire(&self) -> Self::Wire {
        self.0.iter().map(|(name, pod)| (name.clone(), pod.to_wire())).collect()
    }
}

json_annotation!(PodNetworks, "k8s.ovn.org/pod-networks");
