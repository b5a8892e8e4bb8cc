//! `k8s.ovn.org/l3-gateway-config`: how traffic leaves a node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::DEFAULT_NETWORK;
use crate::annotation::{Mac, Wired, address, decimal, flag, json_annotation, network};

/// `k8s.ovn.org/l3-gateway-config`: how traffic leaves a node, by network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct L3GatewayConfig(pub BTreeMap<String, Gateway>);

impl L3GatewayConfig {
    /// The gateway of the default network.
    pub fn of_default(gateway: Gateway) -> L3GatewayConfig {
        L3GatewayConfig(BTreeMap::from([(DEFAULT_NETWORK.to_owned(), gateway)]))
    }
}

/// How traffic of one network leaves a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gateway {
    /// Not through anything the plugin built; printed as the mode `""`.
    Disabled,
    /// Through an external bridge.
    Bridge(GatewayBridge),
}

/// The external bridge of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayBridge {
    /// Who routes between the pods and the bridge.
    pub mode: GatewayMode,
    /// The bridge, where it differs from what the interface id says.
    pub bridge_id: Option<String>,
    /// The name of the bridge's port in OVN.
    pub interface_id: String,
    /// Hardware address of the node on the bridge.
    pub mac_address: Mac,
    /// Addresses of the node on the bridge.
    pub ip_addresses: Vec<IpNet>,
    /// Gateways of the node.
    pub next_hops: Vec<IpAddr>,
    /// Whether Services of type NodePort are served here.
    pub node_port_enable: bool,
    /// VLAN of the outside.
    pub vlan_id: Option<u16>,
}

/// Who routes between the pods and the bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GatewayMode {
    /// OVN.
    Shared,
    /// The host.
    Local,
}

impl GatewayMode {
    /// As written in the annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            GatewayMode::Shared => "shared",
            GatewayMode::Local => "local",
        }
    }
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct GatewayWire {
    #[serde(default)]
    mode: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    bridge_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    interface_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    mac_address: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ip_addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ip_address: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    next_hops: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    next_hop: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    node_port_enable: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    vlan_id: String,
}

/// The plural form, the singular form when only that is there; both only if they agree.
pub(super) fn one_or_many<T>(
    many: &[String],
    (plural, one, singular): (&str, &str, &str),
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    match (many, one) {
        ([], "") => Ok(Vec::new()),
        ([], one) => parse(one).map(|v| vec![v]).map_err(|problem| format!("{singular}: {problem}")),
        (many, one) if !one.is_empty() && many.first().map(String::as_str) != Some(one) => {
            Err(format!("{singular} is {one:?} but {plural} says {many:?}"))
        }
        (many, _) => many
            .iter()
            .map(|text| parse(text))
            .collect::<Result<_, _>>()
            .map_err(|problem| format!("{plural}: {problem}")),
    }
}

/// The singular form, written only beside exactly one value.
pub(super) fn singular<T: ToString>(values: &[T]) -> String {
    match values {
        [only] => only.to_string(),
        _ => String::new(),
    }
}

impl Gateway {
    fn from_wire(wire: GatewayWire) -> Result<Gateway, String> {
        let mode = match wire.mode.as_str() {
            "" => return Ok(Gateway::Disabled),
            "shared" => GatewayMode::Shared,
            "local" => GatewayMode::Local,
            other => return Err(format!("mode {other:?} is not shared, local or empty")),
        };
        if wire.interface_id.is_empty() {
            return Err(format!("mode {:?} without interface-id", wire.mode));
        }
        Ok(Gateway::Bridge(GatewayBridge {
            mode,
            bridge_id: Some(wire.bridge_id).filter(|id| !id.is_empty()),
            interface_id: wire.interface_id,
            mac_address: wire.mac_address.parse().map_err(|e| format!("mac-address: {e}"))?,
            ip_addresses: one_or_many(
                &wire.ip_addresses,
                ("ip-addresses", &wire.ip_address, "ip-address"),
                network,
            )?,
            next_hops: one_or_many(&wire.next_hops, ("next-hops", &wire.next_hop, "next-hop"), address)?,
            node_port_enable: match wire.node_port_enable.as_str() {
                "" => false,
                text => flag(text).map_err(|problem| format!("node-port-enable: {problem}"))?,
            },
            vlan_id: match wire.vlan_id.as_str() {
                "" => None,
                text => match decimal::<u16>(text) {
                    Ok(id) if id < 4096 => Some(id),
                    _ => return Err(format!("vlan-id: {text:?} is not between 0 and 4095")),
                },
            },
        }))
    }

    fn to_wire(&self) -> GatewayWire {
        match self {
            Gateway::Disabled => GatewayWire::default(),
            Gateway::Bridge(bridge) => GatewayWire {
                mode: bridge.mode.as_str().into(),
                bridge_id: bridge.bridge_id.clone().unwrap_or_default(),
                interface_id: bridge.interface_id.clone(),
                mac_address: bridge.mac_address.to_string(),
                ip_addresses: bridge.ip_addresses.iter().map(IpNet::to_string).collect(),
                ip_address: singular(&bridge.ip_addresses),
                next_hops: bridge.next_hops.iter().map(IpAddr::to_string).collect(),
                next_hop: singular(&bridge.next_hops),
                node_port_enable: bridge.node_port_enable.to_string(),
                vlan_id: bridge.vlan_id.map(|id| id.to_string()).unwrap_or_default(),
            },
        }
    }
}

impl Wired for L3GatewayConfig {
    type Wire = BTreeMap<String, GatewayWire>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        wire.into_iter()
            .map(|(network, gateway)| match Gateway::from_wire(gateway) {
                Ok(gateway) => Ok((network, gateway)),
                Err(problem) => Err(format!("network {network:?}: {problem}")),
            })
            .collect::<Result<_, _>>()
            .map(L3GatewayConfig)
    }

    fn to_wire(&self) -> Self::Wire {
        self.0.iter().map(|(network, gateway)| (network.clone(), gateway.to_wire())).collect()
    }
}

json_annotation!(L3GatewayConfig, "k8s.ovn.org/l3-gateway-config");
