//! Egress addresses.

pub mod annotations;
pub mod events;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Source addresses of what selected pods send to the outside.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "EgressIP",
    plural = "egressips",
    shortname = "eip",
    status = "EgressIPStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "Source addresses of what selected pods send to the outside.",
    printcolumn(name = "EgressIPs", type_ = "string", json_path = ".spec.egressIPs[*]"),
    printcolumn(name = "Assigned Node", type_ = "string", json_path = ".status.items[*].node"),
    printcolumn(name = "Assigned EgressIPs", type_ = "string", json_path = ".status.items[*].egressIP")
)]
pub struct EgressIPSpec {
    /// The addresses, of either family, without prefix length.
    #[serde(rename = "egressIPs")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub egress_ips: Vec<String>,
    /// The namespaces of the pods.
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: LabelSelector,
    /// Which pods of those namespaces; unset or empty, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub pod_selector: Option<LabelSelector>,
}

/// Which node holds which address.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressIPStatus {
    /// The addresses that are on a node.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<EgressIPStatusItem>,
}

/// One address on one node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressIPStatusItem {
    /// The node.
    pub node: String,
    /// The address, in its shortest form.
    #[serde(rename = "egressIP")]
    pub egress_ip: String,
    /// The network of the node that holds it. For people; nothing may depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// Label of a node that may hold egress addresses. Its presence counts, not its value.
pub const EGRESS_ASSIGNABLE_LABEL: &str = "k8s.ovn.org/egress-assignable";
