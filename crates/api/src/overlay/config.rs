//! `Network` of config.openshift.io: what the cluster's network is.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterNetworkEntry;
use crate::migration::MigrationStatus;
use crate::schema::{self, rule};

/// What the cluster's network is. There is one, named `cluster`; its status is the truth others consume.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Network",
    root = "ConfigNetwork",
    plural = "networks",
    status = "ConfigNetworkStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "What the cluster's network is."
)]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(self.networkDiagnostics) || !has(self.networkDiagnostics.mode) || self.networkDiagnostics.mode != 'Disabled' \
     || (!has(self.networkDiagnostics.sourcePlacement) && !has(self.networkDiagnostics.targetPlacement))",
    "networkDiagnostics that are Disabled have no sourcePlacement and no targetPlacement"
)]))]
pub struct ConfigNetworkSpec {
    /// Where pod addresses come from, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_network: Vec<ClusterNetworkEntry>,
    /// Where Service addresses come from: one network, or one of each family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub service_network: Vec<String>,
    /// `OVNKubernetes`, `OpenShiftSDN`, or the name of a plugin that is not ours.
    ///
    /// Changing it migrates a running cluster, if the object carries the annotation
    /// `network.openshift.io/network-type-migration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    /// Which external addresses Services may claim.
    #[serde(rename = "externalIP", skip_serializing_if = "Option::is_none")]
    pub external_ip: Option<ExternalIpConfig>,
    /// The ports of Services of type NodePort, such as `30000-32767`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PORT_RANGE))]
    pub service_node_port_range: Option<String>,
    /// The connectivity checks between nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_diagnostics: Option<NetworkDiagnostics>,
}

const PORT_RANGE: &str = "^([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])-([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";

/// Which external addresses Services may claim.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalIpConfig {
    /// What is allowed and what is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExternalIpPolicy>,
    /// Networks from which Services of type LoadBalancer get an address by themselves.
    #[serde(rename = "autoAssignCIDRs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub auto_assign_cidrs: Vec<String>,
}

/// What is allowed and what is refused; a refusal outweighs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalIpPolicy {
    /// Allowed networks.
    #[serde(rename = "allowedCIDRs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed_cidrs: Vec<String>,
    /// Refused networks.
    #[serde(rename = "rejectedCIDRs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rejected_cidrs: Vec<String>,
}

/// The connectivity checks between nodes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkDiagnostics {
    /// Whether they run; unset or empty, they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DiagnosticsMode>,
    /// Where the asking side runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_placement: Option<DiagnosticsPlacement>,
    /// Where the answering side runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_placement: Option<DiagnosticsPlacement>,
}

/// Whether the connectivity checks run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub enum DiagnosticsMode {
    /// No opinion; the same as `All`.
    #[serde(rename = "")]
    Unset,
    /// They run.
    All,
    /// They do not.
    Disabled,
}

/// Where one side of the checks runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosticsPlacement {
    /// Labels the nodes must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
}

/// The network as it is deployed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigNetworkStatus {
    /// Where pod addresses come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_network: Vec<ClusterNetworkEntry>,
    /// Where Service addresses come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub service_network: Vec<String>,
    /// The plugin that is deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    /// The pods' MTU. During a change it already shows the target.
    #[serde(rename = "clusterNetworkMTU", skip_serializing_if = "Option::is_none")]
    pub cluster_network_mtu: Option<u32>,
    /// The migration nodes are to follow; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationStatus>,
    /// How a change of plugin goes; see [`crate::migration::conditions`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
