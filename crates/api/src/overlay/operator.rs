//! `Network` of operator.openshift.io: how the operator runs the pod network.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdditionalNetwork, OpenShiftSdnConfig, OvnKubernetesConfig};
use crate::migration::NetworkMigration;
use crate::schema::{self, rule};

/// How the operator runs the cluster's network. There is one, named `cluster`.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "operator.openshift.io",
    version = "v1",
    kind = "Network",
    root = "OperatorNetwork",
    plural = "networks",
    status = "OperatorNetworkStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "How the operator runs the cluster's network."
)]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct OperatorNetworkSpec {
    /// Whether the operator acts at all. `Unmanaged` stops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(Managed|Unmanaged|Force|Removed)$"))]
    pub management_state: Option<String>,
    /// How much the components say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Normal"))]
    pub log_level: Option<LogLevel>,
    /// How much the operator itself says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Normal"))]
    pub operator_log_level: Option<LogLevel>,
    /// Kept for objects that carry it; not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::nullable_free_form")]
    pub observed_config: Option<Value>,
    /// Kept for objects that carry it; not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::nullable_free_form")]
    pub unsupported_config_overrides: Option<Value>,
    /// Where pod addresses come from, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_network: Vec<ClusterNetworkEntry>,
    /// Where Service addresses come from: one network, or one of each family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub service_network: Vec<String>,
    /// The network every pod is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_network: Option<DefaultNetwork>,
    /// Further networks pods may ask for by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub additional_networks: Vec<AdditionalNetwork>,
    /// Leaves out support for further networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_multi_network: Option<bool>,
    /// Enforces MultiNetworkPolicy objects on further networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_multi_network_policy: Option<bool>,
    /// Runs a kube-proxy beside the plugin. Unset, the plugin decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_kube_proxy: Option<bool>,
    /// Turns off the connectivity checks between nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub disable_network_diagnostics: Option<bool>,
    /// Settings of that kube-proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_proxy_config: Option<ProxyConfig>,
    /// Where records of network flows are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export_network_flows: Option<ExportNetworkFlows>,
    /// A change that cannot be made at once: of the MTU, or of the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<NetworkMigration>,
    /// Routing daemons the machine network relies on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_routing_capabilities: Option<AdditionalRoutingCapabilities>,
}

/// A value of `ipForwarding` that was accepted before it was checked may stay; every change must be
/// to a known one. On create there is no old object and the rule is not asked.
fn spec_rules() -> Value {
    let has = |object: &str| {
        format!(
            "has({object}.defaultNetwork) && has({object}.defaultNetwork.ovnKubernetesConfig) \
             && has({object}.defaultNetwork.ovnKubernetesConfig.gatewayConfig) \
             && has({object}.defaultNetwork.ovnKubernetesConfig.gatewayConfig.ipForwarding)"
        )
    };
    let value =
        |object: &str| format!("{object}.defaultNetwork.ovnKubernetesConfig.gatewayConfig.ipForwarding");
    json!([
        rule(
            &format!(
                "!({}) || {} in ['Restricted', 'Global'] || ({} && {} == {})",
                has("self"),
                value("self"),
                has("oldSelf"),
                value("oldSelf"),
                value("self")
            ),
            "ipForwarding may be changed only to Restricted or Global"
        ),
        rule(
            "!has(self.defaultNetwork) || !has(self.defaultNetwork.ovnKubernetesConfig) \
             || !has(self.defaultNetwork.ovnKubernetesConfig.routeAdvertisements) \
             || self.defaultNetwork.ovnKubernetesConfig.routeAdvertisements != 'Enabled' \
             || (has(self.additionalRoutingCapabilities) && 'FRR' in self.additionalRoutingCapabilities.providers)",
            "routeAdvertisements needs FRR among additionalRoutingCapabilities.providers"
        ),
    ])
}

/// How much a component says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub enum LogLevel {
    /// No opinion; the same as `Normal`.
    #[serde(rename = "")]
    Unset,
    /// What an administrator needs.
    Normal,
    /// What a developer needs.
    Debug,
    /// Every decision.
    Trace,
    /// Everything.
    TraceAll,
}

/// A range of addresses and the size of the piece each node gets of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkEntry {
    /// The whole range, in CIDR notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// The prefix length of one node's piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<u32>,
}

/// The network every pod is on: the plugin, and the settings of each plugin.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultNetwork {
    /// `OVNKubernetes`, `OpenShiftSDN`, or the name of a plugin that is not ours.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Settings of the OVN plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovn_kubernetes_config: Option<OvnKubernetesConfig>,
    /// Settings of the SDN plugin.
    #[serde(rename = "openshiftSDNConfig", skip_serializing_if = "Option::is_none")]
    pub openshift_sdn_config: Option<OpenShiftSdnConfig>,
}

/// Settings of a kube-proxy that runs beside the plugin.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfig {
    /// How often it rewrites its rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iptables_sync_period: Option<String>,
    /// The address it listens on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_address: Option<String>,
    /// Further arguments, each with its values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "argument_lists")]
    pub proxy_arguments: BTreeMap<String, Vec<String>>,
}

fn argument_lists(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": { "type": "string" },
            "x-kubernetes-list-type": "atomic"
        }
    })
}

/// Where records of network flows are sent, by protocol.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportNetworkFlows {
    /// Collectors of NetFlow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net_flow: Option<FlowCollectors>,
    /// Collectors of sFlow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s_flow: Option<FlowCollectors>,
    /// Collectors of IPFIX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipfix: Option<FlowCollectors>,
}

/// The collectors of one protocol.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowCollectors {
    /// IPv4 addresses with port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "collectors")]
    pub collectors: Vec<String>,
}

fn collectors(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let octet = "([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])";
    let port = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
    schemars::json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 10,
        "items": { "type": "string", "pattern": format!("^({octet}\\.){{3}}{octet}:{port}$") },
        "x-kubernetes-list-type": "atomic"
    })
}

/// Routing daemons the machine network relies on.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalRoutingCapabilities {
    /// The daemons; `FRR` is the only one known.
    #[schemars(schema_with = "routing_providers")]
    pub providers: Vec<String>,
}

fn routing_providers(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 1,
        "items": { "type": "string", "enum": ["FRR"] },
        "x-kubernetes-list-type": "atomic"
    })
}

/// What the operator says of itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorNetworkStatus {
    /// `Available`, `Progressing`, `Degraded`, `Upgradeable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::operator_conditions")]
    pub conditions: Vec<OperatorCondition>,
    /// The newest generation of the spec that was acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The version this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How many replicas are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The newest deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [rule("self >= oldSelf", "may only increase")]))]
    pub latest_available_revision: Option<i32>,
    /// The generations of the objects the operator deployed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["group", "resource", "namespace", "name"]
    ))]
    pub generations: Vec<GenerationStatus>,
}

/// One condition of the operator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorCondition {
    /// The type; see [`super::conditions::OperatorConditionType`].
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status last changed.
    #[schemars(schema_with = "schema::date_time")]
    pub last_transition_time: Time,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The generation of one deployed object.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationStatus {
    /// Group of the object.
    pub group: String,
    /// Plural name of its kind.
    pub resource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The generation last deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_generation: Option<i64>,
    /// A digest, for kinds without generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}
