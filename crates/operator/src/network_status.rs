//! The status of the two `Network` objects, and which part of the operator owns which field and condition of it.
//!
//! | object | field or condition | owner |
//! | --- | --- | --- |
//! | operator's | `Degraded`, `Available`, `Progressing`, `Upgradeable`, `observedGeneration` | `overlay` |
//! | operator's | `MTUMigration…` ([`MtuConditionType`]) | `mtu` |
//! | cluster's | `clusterNetwork`, `serviceNetwork`, `networkType` | `overlay` |
//! | cluster's | `clusterNetworkMTU` | `overlay` until a change of MTU was accepted, then `mtu` |
//! | cluster's | `migration` | `mtu` |
//!
//! [`MtuConditionType`]: netferry_api::mtu::conditions::MtuConditionType

use kube::ResourceExt;
use netferry_api::overlay::{ConfigNetwork, ConfigNetworkStatus, OperatorNetwork, SINGLETON};
use serde_json::{Value, json};

use crate::report::{self, ConditionUpdate};
use crate::round::RoundError;
use crate::writer::{Part, Writer};

/// Writes conditions of the operator's `Network` if they differ from those that are there.
pub(crate) async fn write_conditions(
    writer: &Writer,
    network: &OperatorNetwork,
    updates: &[ConditionUpdate],
) -> Result<(), RoundError> {
    write(writer, network, updates, None).await
}

/// As [`write_conditions`], with the generation of the spec they follow from.
pub(crate) async fn write_conditions_of_generation(
    writer: &Writer,
    network: &OperatorNetwork,
    updates: &[ConditionUpdate],
) -> Result<(), RoundError> {
    write(writer, network, updates, network.metadata.generation).await
}

async fn write(
    writer: &Writer,
    network: &OperatorNetwork,
    updates: &[ConditionUpdate],
    generation: Option<i64>,
) -> Result<(), RoundError> {
    let now = network.status.clone().unwrap_or_default();
    let changed = report::merged(&now.conditions, updates, jiff::Timestamp::now());
    let observed = generation.or(now.observed_generation);
    if changed.is_none() && now.observed_generation == observed {
        return Ok(());
    }
    let mut status = json!({ "conditions": changed.unwrap_or(now.conditions) });
    if generation.is_some() {
        status["observedGeneration"] = json!(generation);
    }
    let (version, patch) = (network.resource_version(), json!({ "status": status }));
    writer.patch::<OperatorNetwork>(SINGLETON, version, Part::Status, patch).await.map(drop)
}

/// Publishes what the overlay owns, over this version of the cluster's `Network`.
pub(crate) async fn publish_overlay(
    writer: &Writer,
    version: Option<String>,
    status: &ConfigNetworkStatus,
) -> Result<(), RoundError> {
    let status = json!({
        "clusterNetwork": status.cluster_network,
        "serviceNetwork": status.service_network,
        "networkType": status.network_type,
        "clusterNetworkMTU": status.cluster_network_mtu,
    });
    publish(writer, version, status).await
}

/// Publishes what a change of MTU owns, if it differs from what is published.
pub(crate) async fn publish_mtu(
    writer: &Writer,
    config: &ConfigNetwork,
    mtu: u32,
    migration: Option<netferry_api::migration::MigrationStatus>,
) -> Result<(), RoundError> {
    let now = config.status.clone().unwrap_or_default();
    if now.cluster_network_mtu == Some(mtu) && now.migration == migration {
        return Ok(());
    }
    let status = json!({ "clusterNetworkMTU": mtu, "migration": migration });
    publish(writer, config.resource_version(), status).await
}

async fn publish(writer: &Writer, version: Option<String>, status: Value) -> Result<(), RoundError> {
    let patch = json!({ "status": status });
    writer.patch::<ConfigNetwork>(SINGLETON, version, Part::Status, patch).await.map(drop)
}
