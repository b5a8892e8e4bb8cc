//! `NodeNetworkConfigurationPolicy`: how the hosts' network shall look.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HostnetCondition;
use crate::schema::{self, rule};

/// How the network of the selected nodes shall look.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "nmstate.io",
    version = "v1",
    kind = "NodeNetworkConfigurationPolicy",
    plural = "nodenetworkconfigurationpolicies",
    shortname = "nncp",
    status = "NodeNetworkConfigurationPolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "How the network of the selected nodes shall look.",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.status=="True")].type"#,
        description = "Status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.status=="True")].reason"#,
        description = "Reason"
    )
)]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.capture) == has(oldSelf.capture) && (!has(self.capture) || self.capture == oldSelf.capture)",
    "capture cannot be changed: what it found is kept for as long as the policy lives"
)]))]
pub struct NodeNetworkConfigurationPolicySpec {
    /// Labels the nodes must have; none, every node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "node_labels")]
    pub node_selector: BTreeMap<String, String>,
    /// Named expressions whose results the desired state may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capture: BTreeMap<String, String>,
    /// The network in nmstate's language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form")]
    pub desired_state: Option<Value>,
    /// Most nodes that change at once, as a number or a percentage rounded up; unset, 50%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
}

fn node_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
        },
        "x-kubernetes-validations": [rule(
            "self.all(key, !format.qualifiedName().validate(key).hasValue())",
            "every key must be a qualified name, as the keys of labels are"
        )]
    })
}

/// How far the policy is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigurationPolicyStatus {
    /// `Available`, `Degraded`, `Progressing`, `Ignored`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::condition_list")]
    pub conditions: Vec<HostnetCondition>,
    /// How many nodes are changing, by generation of the policy in decimal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "counts")]
    pub unavailable_node_count_map: BTreeMap<String, i64>,
    /// Kept for objects that carry it; no longer written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count")]
    pub unavailable_node_count: Option<i64>,
    /// Kept for objects that carry it; no longer written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_unavailable_node_count_update: Option<Time>,
}

pub(super) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

pub(super) fn counts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "integer" } })
}
