//! Networks pods may ask for by name, besides the default one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network pods may ask for by name.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalNetwork {
    /// The name pods ask for.
    pub name: String,
    /// Where its definition is put; unset, the default namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `Raw` or `SimpleMacvlan`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A CNI configuration in JSON, for the type `Raw`.
    #[serde(rename = "rawCNIConfig", skip_serializing_if = "Option::is_none")]
    pub raw_cni_config: Option<String>,
    /// Settings of the type `SimpleMacvlan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simple_macvlan_config: Option<SimpleMacvlanConfig>,
}

/// Settings of a macvlan network.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimpleMacvlanConfig {
    /// The host interface; unset, that of the default route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// How addresses are given out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipam_config: Option<IpamConfig>,
    /// `bridge`, `private`, `vepa` or `passthru`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// MTU; unset, the kernel's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// How addresses are given out.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpamConfig {
    /// `DHCP` or `Static`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Settings of the type `Static`.
    #[serde(rename = "staticIPAMConfig", skip_serializing_if = "Option::is_none")]
    pub static_ipam_config: Option<StaticIpamConfig>,
}

/// Fixed addresses, routes and name servers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamConfig {
    /// The addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<StaticIpamAddress>,
    /// The routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub routes: Vec<StaticIpamRoute>,
    /// The name servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<StaticIpamDns>,
}

/// One fixed address.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamAddress {
    /// Address with prefix length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The gateway of that subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// One fixed route.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamRoute {
    /// Where to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Through which gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// Fixed name servers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpamDns {
    /// Addresses of the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Domains short names are looked up in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub search: Vec<String>,
}
