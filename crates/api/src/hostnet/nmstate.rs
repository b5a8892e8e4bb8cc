//! `NMState`: where and how the host-network agent runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HostnetCondition;
use crate::schema;

/// Where and how the host-network agent runs. There is one; an older one outweighs a newer.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "nmstate.io",
    version = "v1",
    kind = "NMState",
    plural = "nmstates",
    status = "NMStateStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "Where and how the host-network agent runs."
)]
pub struct NMStateSpec {
    /// Labels of the nodes it runs on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints it tolerates; unset, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
    /// Where it prefers to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form")]
    pub affinity: Option<Affinity>,
    /// Labels of the nodes its webhooks and metrics run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub infra_node_selector: BTreeMap<String, String>,
    /// Taints its webhooks and metrics tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub infra_tolerations: Vec<Toleration>,
    /// Where its webhooks and metrics prefer to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form")]
    pub infra_affinity: Option<Affinity>,
    /// Life times of certificates it signs itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_sign_configuration: Option<SelfSignConfiguration>,
    /// How it finds out whether a node is still connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_configuration: Option<ProbeConfiguration>,
    /// Where metrics are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_configuration: Option<MetricsConfiguration>,
    /// How much it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["info", "debug"]))]
    pub log_level: Option<String>,
}

/// Life times of certificates, as durations such as `8760h0m0s`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfSignConfiguration {
    /// How long a certificate authority is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_rotate_interval: Option<String>,
    /// How long the old one is accepted beside the new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_overlap_interval: Option<String>,
    /// How long a certificate is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_rotate_interval: Option<String>,
    /// How long the old one is accepted beside the new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_overlap_interval: Option<String>,
}

/// How it is found out whether a node is still connected.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeConfiguration {
    /// Name resolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsProbe>,
}

/// The question put to the name servers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsProbe {
    /// The name asked for; unset, `root-servers.net`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Where metrics are served.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsConfiguration {
    /// Address and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_address: Option<String>,
}

/// Whether it runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NMStateStatus {
    /// `Available`, `Progressing`, `Degraded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::condition_list")]
    pub conditions: Vec<HostnetCondition>,
}
