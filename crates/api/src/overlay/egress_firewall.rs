//! `EgressFirewall`: where the pods of a namespace may connect to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Where the pods of a namespace may connect to outside the cluster. The first rule that matches
/// decides; without a match the connection is allowed. There is one per namespace, named `default`.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "EgressFirewall",
    plural = "egressfirewalls",
    namespaced,
    status = "EgressFirewallStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "Where the pods of a namespace may connect to outside the cluster.",
    printcolumn(name = "EgressFirewall Status", type_ = "string", json_path = ".status.status")
)]
pub struct EgressFirewallSpec {
    /// The rules, in order.
    pub egress: Vec<EgressFirewallRule>,
}

/// One rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallRule {
    /// `Allow` or `Deny`.
    #[serde(rename = "type")]
    #[schemars(regex(pattern = "^(Allow|Deny)$"))]
    pub kind: String,
    /// What it is about.
    pub to: EgressFirewallDestination,
    /// Which ports; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EgressFirewallPort>,
}

/// What a rule is about: exactly one of the three.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct EgressFirewallDestination {
    /// A network in CIDR notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr_selector: Option<String>,
    /// A DNS name; a leading `*` stands for one label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(\*\.)?([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+\.?$"))]
    pub dns_name: Option<String>,
    /// Nodes, by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub node_selector: Option<LabelSelector>,
}

/// A port of one protocol.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallPort {
    /// `TCP`, `UDP` or `SCTP`.
    #[schemars(regex(pattern = "^(TCP|UDP|SCTP)$"))]
    pub protocol: String,
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

/// Whether the rules are in force.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressFirewallStatus {
    /// One sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What each zone said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub messages: Vec<String>,
}
