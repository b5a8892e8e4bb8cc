//! Replacing the network plugin node by node: what asks for it, what tells how it goes.

pub mod annotations;
pub mod conditions;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mtu::MtuMigration;
use crate::schema::rule;

/// `spec.migration` of the operator's `Network`: a change that cannot be made at once.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(self.mtu) || !has(self.networkType) || self.networkType == '' || (has(self.mode) && self.mode == 'Live')",
    "an MTU change can accompany a change of networkType only in mode Live"
)]))]
pub struct NetworkMigration {
    /// The plugin to change to; unset or empty, the plugin stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    /// How the plugin is changed; unset or empty, `Offline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<MigrationMode>,
    /// The MTU to change to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<MtuMigration>,
    /// Which of the plugin's features are carried over; unset, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureMigration>,
}

/// How the plugin is changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub enum MigrationMode {
    /// No opinion; the same as `Offline`.
    #[serde(rename = "")]
    Unset,
    /// Node by node, with the pods of both plugins reaching each other throughout.
    Live,
    /// All nodes at once, without a pod network in between.
    Offline,
}

/// Which features are carried over.
///
/// A server fills in `true` for what is missing, so `false` must be written down to be kept:
/// these are options, and [`FeatureMigration::egress_ip`] and its siblings say what they mean.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeatureMigration {
    /// Egress addresses.
    #[serde(rename = "egressIP", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub egress_ip: Option<bool>,
    /// Egress firewalls.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub egress_firewall: Option<bool>,
    /// Multicast.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub multicast: Option<bool>,
}

impl FeatureMigration {
    /// Whether egress addresses are carried over.
    pub fn egress_ip(&self) -> bool {
        self.egress_ip.unwrap_or(true)
    }

    /// Whether egress firewalls are carried over.
    pub fn egress_firewall(&self) -> bool {
        self.egress_firewall.unwrap_or(true)
    }

    /// Whether multicast is carried over.
    pub fn multicast(&self) -> bool {
        self.multicast.unwrap_or(true)
    }
}

/// `status.migration` of the cluster's `Network`: what nodes are to follow.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationStatus {
    /// The plugin nodes are to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    /// The MTU nodes are to move to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<MtuMigration>,
}
