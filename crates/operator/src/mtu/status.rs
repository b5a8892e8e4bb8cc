//! What a change of MTU writes to the two `Network` objects: edits for the administrator, and what is published.

use kube::ResourceExt;
use netferry_api::overlay::{OperatorNetwork, SINGLETON};
use netferry_core::mtu::plan::SpecEdit;
use netferry_core::mtu::record::Record;
use netferry_translate::mtu::{forgotten_mode, printed_edit, published_migration};
use serde_json::json;
use tracing::info;

use crate::capability::Pass;
use crate::network_status;
use crate::round::RoundError;
use crate::writer::{Part, Writer};

/// Edits the operator's `Network` where the administrator does not have to.
pub(super) async fn edit(
    writer: &Writer,
    network: &OperatorNetwork,
    edit: &SpecEdit,
) -> Result<(), RoundError> {
    info!(?edit, "editing the operator's Network");
    let patch = json!({ "spec": printed_edit(edit, &network.spec) });
    let version = network.resource_version();
    writer.patch::<OperatorNetwork>(SINGLETON, version, Part::Object, patch).await.map(drop)
}

/// Removes the annotations that say how far a change goes unattended: they are for the change that has ended.
pub(super) async fn forget(writer: &Writer, network: &OperatorNetwork) -> Result<(), RoundError> {
    info!("removing the annotations of the change that has ended");
    let patch = json!({ "metadata": { "annotations": forgotten_mode() } });
    let version = network.resource_version();
    writer.patch::<OperatorNetwork>(SINGLETON, version, Part::Object, patch).await.map(drop)
}

/// Publishes where the cluster is going. Without a cluster's `Network`, the overlay creates it first.
pub(super) async fn publish(pass: Pass<'_>, record: &Record) -> Result<(), RoundError> {
    let Some(config) = pass.config else { return Ok(()) };
    let (mtu, migration) = (record.published().bytes(), published_migration(record));
    network_status::publish_mtu(&pass.context.writer, config, mtu, migration).await
}
