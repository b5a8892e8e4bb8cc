//! `MachineConfigPool`: the nodes that share a configuration, and how fast they move to a new one.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// The nodes that share a configuration, and how fast they move to a new one.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    plural = "machineconfigpools",
    shortname = "mcp",
    status = "MachineConfigPoolStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "The nodes that share a configuration, and how fast they move to a new one.",
    printcolumn(name = "Config", type_ = "string", json_path = ".status.configuration.name"),
    printcolumn(
        name = "Updated",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Updated")].status"#,
        description = "Every machine runs the pool's configuration"
    ),
    printcolumn(
        name = "Updating",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Updating")].status"#,
        description = "Machines are on their way to the pool's configuration"
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Degraded")].status"#,
        description = "A machine failed, or the configuration could not be rendered"
    ),
    printcolumn(name = "MachineCount", type_ = "number", json_path = ".status.machineCount"),
    printcolumn(name = "ReadyMachineCount", type_ = "number", json_path = ".status.readyMachineCount"),
    printcolumn(name = "UpdatedMachineCount", type_ = "number", json_path = ".status.updatedMachineCount"),
    printcolumn(name = "DegradedMachineCount", type_ = "number", json_path = ".status.degradedMachineCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct MachineConfigPoolSpec {
    /// The MachineConfigs that are merged for this pool; an empty selector matches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub machine_config_selector: Option<LabelSelector>,
    /// The nodes of this pool; an empty selector matches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub node_selector: Option<LabelSelector>,
    /// No further node is started on its way; those that are finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Most nodes that may be unavailable, as a number or a percentage rounded down; 0 counts as 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// The rendered MachineConfig the pool should be on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "configuration")]
    pub configuration: Option<PoolConfiguration>,
}

impl MachineConfigPoolSpec {
    /// Whether further nodes are held back.
    pub fn is_paused(&self) -> bool {
        self.paused.unwrap_or(false)
    }
}

/// A rendered MachineConfig and what it was made from.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolConfiguration {
    /// The rendered MachineConfig.
    #[serde(flatten)]
    pub rendered: ObjectReference,
    /// The MachineConfigs it was merged from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<ObjectReference>,
}

fn configuration(_: &mut SchemaGenerator) -> Schema {
    let reference = serde_json::json!({
        "apiVersion": { "type": "string" },
        "fieldPath": { "type": "string" },
        "kind": { "type": "string" },
        "name": { "type": "string" },
        "namespace": { "type": "string" },
        "resourceVersion": { "type": "string" },
        "uid": { "type": "string" }
    });
    let mut own = reference.clone();
    own["source"] = serde_json::json!({
        "type": "array",
        "items": { "type": "object", "properties": reference, "x-kubernetes-map-type": "atomic" },
        "x-kubernetes-list-type": "atomic"
    });
    json_schema!({ "type": "object", "properties": own, "x-kubernetes-map-type": "atomic" })
}

/// How far the pool is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::without_defaults)]
pub struct MachineConfigPoolStatus {
    /// The newest generation of the spec that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last rendered MachineConfig that every node of the pool finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "configuration")]
    pub configuration: Option<PoolConfiguration>,
    /// Nodes of the pool.
    #[serde(default)]
    pub machine_count: i32,
    /// Those that run the pool's configuration.
    #[serde(default)]
    pub updated_machine_count: i32,
    /// Those of them that are ready.
    #[serde(default)]
    pub ready_machine_count: i32,
    /// Those that are away, for whatever reason.
    #[serde(default)]
    pub unavailable_machine_count: i32,
    /// Those that failed.
    #[serde(default)]
    pub degraded_machine_count: i32,
    /// `Updated`, `Updating`, `Degraded` and more; see [`super::conditions`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pool_conditions")]
    pub conditions: Vec<PoolCondition>,
}

/// One condition of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolCondition {
    /// The type; see [`super::conditions::PoolConditionType`].
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status last changed.
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default)]
    pub message: String,
}

fn pool_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": { "type": "string" },
                "status": { "type": "string" },
                "lastTransitionTime": { "type": "string", "format": "date-time", "nullable": true },
                "reason": { "type": "string" },
                "message": { "type": "string" }
            }
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]
    })
}
