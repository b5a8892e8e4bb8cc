//! The two `Network` objects: what is edited for the administrator, what is published, what is reported.

use kube::api::Patch;
use kube::{Api, ResourceExt};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_core::mtu::plan::SpecEdit;
use netferry_core::mtu::record::Record;
use netferry_translate::mtu as translate;
use serde_json::json;
use tracing::info;

use super::Rollout;
use crate::mtu;
use crate::report::{self, Wanted};
use crate::round::RoundError;

impl Rollout {
    pub(super) async fn store(
        &self,
        network: &OperatorNetwork,
        over: Option<&str>,
        record: &Record,
    ) -> Result<(), RoundError> {
        let Some(cluster) = translate::cluster(&network.spec) else { return Ok(()) };
        mtu::apply(&self.client, &self.leadership, &self.namespace, over, record, cluster.plugin).await
    }

    /// Makes an edit of the operator's `Network` that nobody has to make by hand.
    pub(super) async fn edit(&self, network: &OperatorNetwork, edit: &SpecEdit) -> Result<(), RoundError> {
        info!(?edit, "editing the operator's Network");
        let patch = json!({
            "metadata": { "resourceVersion": network.resource_version() },
            "spec": translate::printed_edit(edit, &network.spec),
        });
        let api = Api::<OperatorNetwork>::all(self.client.clone());
        let params = report::written_by_us();
        let patch = Patch::Merge(&patch);
        let written = self.leadership.act(api.patch(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the operator's Network"))
    }

    /// Publishes where the cluster is going.
    pub(super) async fn publish(
        &self,
        config: Option<&ConfigNetwork>,
        record: &Record,
    ) -> Result<(), RoundError> {
        // Without one, whoever gives nodes their places makes it first.
        let Some(config) = config else { return Ok(()) };
        let now = config.status.clone().unwrap_or_default();
        let (mtu, migration) = (record.published().bytes(), translate::migration(record));
        if now.cluster_network_mtu == Some(mtu) && now.migration == migration {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "resourceVersion": config.resource_version() },
            "status": { "clusterNetworkMTU": mtu, "migration": migration },
        });
        let api = Api::<ConfigNetwork>::all(self.client.clone());
        let params = report::written_by_us();
        let patch = Patch::Merge(&patch);
        let written = self.leadership.act(api.patch_status(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the status of the cluster's Network"))
    }

    /// Writes conditions of the operator's `Network`, if they say something else than they do.
    pub(super) async fn conditions(
        &self,
        network: &OperatorNetwork,
        wanted: &[Wanted],
    ) -> Result<(), RoundError> {
        let now = network.status.clone().unwrap_or_default();
        let Some(conditions) = report::merged(&now.conditions, wanted, jiff::Timestamp::now()) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": { "resourceVersion": network.resource_version() },
            "status": { "conditions": conditions },
        });
        let api = Api::<OperatorNetwork>::all(self.client.clone());
        let params = report::written_by_us();
        let patch = Patch::Merge(&patch);
        let written = self.leadership.act(api.patch_status(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the status of the operator's Network"))
    }
}
