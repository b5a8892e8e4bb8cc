//! `NodeNetworkState`: what the network of a node looks like.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HostnetCondition;
use crate::schema;

/// What the network of a node looks like. Named as the node; all of it is status.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nmstate.io",
    version = "v1beta1",
    kind = "NodeNetworkState",
    plural = "nodenetworkstates",
    shortname = "nns",
    no_spec,
    status = "NodeNetworkStateStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "What the network of a node looks like."
)]
pub struct NodeNetworkStateData {}

/// What the network of a node looks like.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkStateStatus {
    /// The network in nmstate's language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form")]
    pub current_state: Option<Value>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_successful_update_time: Option<Time>,
    /// Version of nmstate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_nmstate_version: Option<String>,
    /// Version of NetworkManager on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network_manager_version: Option<String>,
    /// Kept for objects that carry it; not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_network_manager_version: Option<String>,
    /// `Available`, `Failing`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::condition_list")]
    pub conditions: Vec<HostnetCondition>,
}
