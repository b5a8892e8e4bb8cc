//! Settings of the OVN plugin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ClusterNetworkEntry;
use crate::schema::{rule, v4_subnet, v6_subnet};

/// Settings of the OVN plugin.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = transport_rules()))]
pub struct OvnKubernetesConfig {
    /// MTU of the pods' interfaces. Unset, what is deployed; in a new cluster 1400, on one machine 1500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// UDP port of the tunnels. Unset, 6081.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub geneve_port: Option<u32>,
    /// An overlay to nodes that do not run OVN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hybrid_overlay_config: Option<HybridOverlayConfig>,
    /// Encryption of pod traffic. An empty object is an old way of asking for `Full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "mode": "Disabled" }))]
    pub ipsec_config: Option<IpsecConfig>,
    /// Records of what network policies allowed and denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_audit_config: Option<PolicyAuditConfig>,
    /// How pod traffic leaves the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_config: Option<GatewayConfig>,
    /// The older name of `ipv4.internalJoinSubnet`.
    #[serde(rename = "v4InternalSubnet", skip_serializing_if = "Option::is_none")]
    pub v4_internal_subnet: Option<String>,
    /// The older name of `ipv6.internalJoinSubnet`.
    #[serde(rename = "v6InternalSubnet", skip_serializing_if = "Option::is_none")]
    pub v6_internal_subnet: Option<String>,
    /// Egress addresses.
    #[serde(rename = "egressIPConfig", skip_serializing_if = "Option::is_none")]
    pub egress_ip_config: Option<EgressIpConfig>,
    /// IPv4 networks the plugin uses inside itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Config>,
    /// IPv6 networks the plugin uses inside itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Config>,
    /// Announces pod routes through a routing protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "Enabled", "Disabled"]))]
    pub route_advertisements: Option<String>,
    /// How pod traffic crosses between nodes: `Geneve`, or `NoOverlay` without any tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "enum" = ["NoOverlay", "Geneve"],
        "x-kubernetes-validations" = [rule("self == oldSelf", "transport cannot be changed once set")]
    ))]
    pub transport: Option<String>,
    /// Settings of the transport `NoOverlay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_overlay_config: Option<NoOverlayConfig>,
    /// The routing protocol of `NoOverlay` networks whose routing is `Managed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp_managed_config: Option<BgpManagedConfig>,
}

fn transport_rules() -> Value {
    let no_overlay = "has(self.transport) && self.transport == 'NoOverlay'";
    json!([
        rule(
            &format!("has(self.noOverlayConfig) == ({no_overlay})"),
            "noOverlayConfig belongs to transport NoOverlay, and only to it"
        ),
        rule(
            &format!(
                "!({no_overlay}) || (has(self.routeAdvertisements) && self.routeAdvertisements == 'Enabled')"
            ),
            "transport NoOverlay needs routeAdvertisements Enabled"
        ),
        rule(
            "!has(self.noOverlayConfig) || self.noOverlayConfig.routing != 'Managed' || has(self.bgpManagedConfig)",
            "routing Managed needs bgpManagedConfig"
        ),
        rule(
            "!has(self.transport) || self.transport == 'Geneve' || has(oldSelf.transport)",
            "a running cluster cannot be given transport NoOverlay"
        ),
        rule("!has(oldSelf.transport) || has(self.transport)", "transport cannot be removed once set"),
        rule(
            "!has(oldSelf.noOverlayConfig) || has(self.noOverlayConfig)",
            "noOverlayConfig cannot be removed once set"
        ),
    ])
}

/// An overlay to nodes that do not run OVN.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HybridOverlayConfig {
    /// Where those nodes' pods get their addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub hybrid_cluster_network: Vec<ClusterNetworkEntry>,
    /// UDP port of the VXLAN tunnels. Unset, 4789.
    #[serde(rename = "hybridOverlayVXLANPort", skip_serializing_if = "Option::is_none")]
    pub hybrid_overlay_vxlan_port: Option<i32>,
}

/// Encryption of pod traffic.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("self == oldSelf || has(self.mode)", "mode cannot be removed once set"),
    rule("!has(self.full) || (has(self.mode) && self.mode == 'Full')", "full belongs to mode Full, and only to it"),
]))]
pub struct IpsecConfig {
    /// What is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<IpsecMode>,
    /// Settings of the mode `Full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<IpsecFullConfig>,
}

impl IpsecConfig {
    /// What this asks for; an object without a mode is an old way of saying `Full`.
    pub fn effective_mode(&self) -> IpsecMode {
        self.mode.unwrap_or(IpsecMode::Full)
    }
}

/// What is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub enum IpsecMode {
    /// Nothing.
    Disabled,
    /// What the administrator sets up by hand, on nodes that are prepared for it.
    External,
    /// All pod traffic between nodes.
    Full,
}

/// Settings of the IPsec mode `Full`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct IpsecFullConfig {
    /// Whether encrypted packets travel inside UDP: `Always`, or `Auto` when an address translator is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Always", "Auto"]))]
    pub encapsulation: Option<String>,
}

/// Records of what network policies allowed and denied.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAuditConfig {
    /// Most messages a node writes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 20))]
    pub rate_limit: Option<u32>,
    /// Largest size of a log file, in megabytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 50))]
    pub max_file_size: Option<u32>,
    /// How many log files are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 5))]
    pub max_log_files: Option<i32>,
    /// Where messages also go: `libc`, `udp:<host>:<port>`, `unix:<file>`, or `null` for nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "null"))]
    pub destination: Option<String>,
    /// The syslog facility of the messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "local0"))]
    pub syslog_facility: Option<String>,
}

/// How pod traffic leaves the node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(self.uplinkMode) || (has(self.routingViaHost) && self.routingViaHost)",
    "uplinkMode needs routingViaHost"
)]))]
pub struct GatewayConfig {
    /// Sends pod traffic through the host's own routing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub routing_via_host: Option<bool>,
    /// Whether the host forwards traffic that is not of the cluster: `Restricted` or `Global`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_forwarding: Option<String>,
    /// IPv4 settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4GatewayConfig>,
    /// IPv6 settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6GatewayConfig>,
    /// Whether the external bridge must have a port to the outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Required", "Optional"]))]
    pub uplink_mode: Option<String>,
}

/// IPv4 settings of the gateway.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ipv4GatewayConfig {
    /// Addresses used between a host and its own services; at least six.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18), extend("x-kubernetes-validations" = v4_subnet(29)))]
    pub internal_masquerade_subnet: Option<String>,
}

/// IPv6 settings of the gateway.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ipv6GatewayConfig {
    /// Addresses used between a host and its own services; at least six.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 48), extend("x-kubernetes-validations" = v6_subnet()))]
    pub internal_masquerade_subnet: Option<String>,
}

/// IPv4 networks the plugin uses inside itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ipv4Config {
    /// Joins the nodes' routers; one address per node. Unset, 100.64.0.0/16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18), extend("x-kubernetes-validations" = v4_subnet(30)))]
    pub internal_join_subnet: Option<String>,
    /// Joins the zones; one address per node. Unset, 100.88.0.0/16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18), extend("x-kubernetes-validations" = v4_subnet(30)))]
    pub internal_transit_switch_subnet: Option<String>,
}

/// IPv6 networks the plugin uses inside itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ipv6Config {
    /// Joins the nodes' routers; one address per node. Unset, fd98::/64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 48), extend("x-kubernetes-validations" = v6_subnet()))]
    pub internal_join_subnet: Option<String>,
    /// Joins the zones; one address per node. Unset, fd97::/64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 48), extend("x-kubernetes-validations" = v6_subnet()))]
    pub internal_transit_switch_subnet: Option<String>,
}

/// Settings of egress addresses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressIpConfig {
    /// Seconds after which a node that does not answer is taken for dead; 0 never asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 60))]
    pub reachability_total_timeout_seconds: Option<u32>,
}

/// Settings of a pod network without tunnels.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoOverlayConfig {
    /// Whether pods are hidden behind their node towards the outside.
    #[serde(rename = "outboundSNAT")]
    #[schemars(extend("enum" = ["Enabled", "Disabled"]))]
    pub outbound_snat: String,
    /// Who keeps the routes to the pods: `Managed` by the plugin, or `Unmanaged`.
    #[schemars(extend(
        "enum" = ["Managed", "Unmanaged"],
        "x-kubernetes-validations" = [rule("self == oldSelf", "routing cannot be changed once set")]
    ))]
    pub routing: String,
}

/// The routing protocol between the nodes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpManagedConfig {
    /// The autonomous system of the nodes.
    #[serde(rename = "asNumber", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_i64), extend("default" = 64512))]
    pub as_number: Option<i64>,
    /// Who peers with whom; `FullMesh` is the only way known.
    #[schemars(extend("enum" = ["FullMesh"]))]
    pub bgp_topology: String,
}
