//! The two `Network` objects: what is edited for the administrator, what is published, what is reported.

use std::fmt::Debug;

use kube::api::Patch;
use kube::{Api, Resource, ResourceExt};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_core::mtu::plan::SpecEdit;
use netferry_core::mtu::record::Record;
use netferry_core::overlay::topology::Mode;
use netferry_translate::mtu as translate;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
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
        // Of the plugin alone: what carries its packets is nothing its configuration says.
        let Some(cluster) = translate::cluster(&network.spec, Mode::default()) else { return Ok(()) };
        mtu::apply(&self.client, &self.leadership, &self.namespace, over, record, cluster.plugin).await
    }

    /// Makes an edit of the operator's `Network` that nobody has to make by hand.
    pub(super) async fn edit(&self, network: &OperatorNetwork, edit: &SpecEdit) -> Result<(), RoundError> {
        info!(?edit, "editing the operator's Network");
        let spec = translate::printed_edit(edit, &network.spec);
        self.patch(network, Part::Spec, spec, "the operator's Network").await
    }

    /// Takes away what was said of how far the change that ends goes by itself.
    pub(super) async fn forget(&self, network: &OperatorNetwork) -> Result<(), RoundError> {
        info!("forgetting how far the change goes by itself: it has ended");
        let none = translate::forgotten_mode();
        self.patch(network, Part::Annotations, none, "the annotations of the operator's Network").await
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
        let status = json!({ "clusterNetworkMTU": mtu, "migration": migration });
        self.patch(config, Part::Status, status, "the status of the cluster's Network").await
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
        let status = json!({ "conditions": conditions });
        self.patch(network, Part::Status, status, "the status of the operator's Network").await
    }

    /// Patches a `Network`, if it still is as it was seen.
    async fn patch<K>(&self, seen: &K, part: Part, value: Value, what: &str) -> Result<(), RoundError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = Api::<K>::all(self.client.clone());
        let mut seen = json!({ "resourceVersion": seen.resource_version() });
        let params = report::written_by_us();
        let written = match part {
            Part::Annotations => {
                seen["annotations"] = value;
                let patch = Patch::Merge(json!({ "metadata": seen }));
                self.leadership.act(api.patch(SINGLETON, &params, &patch)).await
            }
            Part::Spec => {
                let patch = Patch::Merge(json!({ "metadata": seen, "spec": value }));
                self.leadership.act(api.patch(SINGLETON, &params, &patch)).await
            }
            Part::Status => {
                let patch = Patch::Merge(json!({ "metadata": seen, "status": value }));
                self.leadership.act(api.patch_status(SINGLETON, &params, &patch)).await
            }
        };
        written.map(drop).map_err(RoundError::writing(what))
    }
}

/// A part of an object that is written apart from the others.
#[derive(Clone, Copy)]
enum Part {
    Annotations,
    Spec,
    Status,
}
