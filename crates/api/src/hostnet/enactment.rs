//! `NodeNetworkConfigurationEnactment`: what one node made of one policy.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HostnetCondition;
use crate::schema;

/// What one node made of one policy. Named `<node>.<policy>`; all of it is status.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nmstate.io",
    version = "v1beta1",
    kind = "NodeNetworkConfigurationEnactment",
    plural = "nodenetworkconfigurationenactments",
    shortname = "nnce",
    no_spec,
    status = "NodeNetworkConfigurationEnactmentStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "What one node made of one policy.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.status=="True")].type"#,
        description = "Status"
    ),
    printcolumn(
        name = "Status Age",
        type_ = "date",
        json_path = r#".status.conditions[?(@.status=="True")].lastTransitionTime"#,
        description = "Status Age"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.status=="True")].reason"#,
        description = "Reason"
    )
)]
pub struct EnactmentData {}

impl NodeNetworkConfigurationEnactment {
    /// The name of what `node` made of `policy`.
    pub fn name_of(node: &str, policy: &str) -> String {
        format!("{node}.{policy}")
    }
}

/// How far the node is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigurationEnactmentStatus {
    /// `Available`, `Failing`, `Progressing`, `Pending`, `Aborted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::condition_list")]
    pub conditions: Vec<HostnetCondition>,
    /// The policy's desired state, filled in for this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form")]
    pub desired_state: Option<Value>,
    /// When and how it was filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_state_meta_info: Option<MetaInfo>,
    /// What the policy's captures found. Kept and used again: after a change the same expression
    /// may find something else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captured_states: BTreeMap<String, CapturedState>,
    /// The generation of the policy the conditions speak of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_generation: Option<i64>,
    /// Features of nmstate that the desired state uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub features: Vec<String>,
    /// How often this was tried, by generation of the policy in decimal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "super::policy::counts")]
    pub retry_count: BTreeMap<String, i64>,
}

/// What one capture found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapturedState {
    /// The part of the network it found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form")]
    pub state: Option<Value>,
    /// When and how it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_info: Option<MetaInfo>,
}

/// When and how something was computed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaInfo {
    /// Version of the form it is kept in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub time: Option<Time>,
}
