//! Declarative host networking: policies, what each node made of them, and what each node looks like.

pub mod annotations;
pub mod conditions;
mod enactment;
mod nmstate;
mod policy;
mod state;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use enactment::*;
pub use nmstate::*;
pub use policy::*;
pub use state::*;

/// One condition of a policy, an enactment or a state. See [`conditions`] for types and reasons.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostnetCondition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// One per type: a second `Available` would contradict the first.
fn condition_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["status", "type"],
            "properties": {
                "type": { "type": "string" },
                "status": { "type": "string" },
                "reason": { "type": "string" },
                "message": { "type": "string" },
                "lastHeartbeatTime": { "type": "string", "format": "date-time" },
                "lastTransitionTime": { "type": "string", "format": "date-time" }
            }
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]
    })
}
