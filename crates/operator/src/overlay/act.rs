//! Writing what was decided, under the leader's right to do so and for the versions it was decided for.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use kube::{Api, Resource, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::LeadershipMark;
use netferry_api::overlay::{ConfigNetwork, ConfigNetworkSpec, OperatorNetwork, SINGLETON};
use serde_json::json;
use tracing::debug;

use super::Overlay;
use super::decide::{NodeWrite, Published};
use super::problem::{About, Problem};
use crate::lead::ActError;
use crate::report::{self, Told};
use crate::round::RoundError;

/// How many nodes are written to at once.
const AT_ONCE: usize = 16;

/// What became of the writes.
#[derive(Debug, Default)]
pub(super) struct Wrote {
    pub(super) written: usize,
    /// Nodes that had changed since they were read.
    pub(super) conflicts: usize,
    /// The writes that failed otherwise, by node.
    pub(super) failed: Vec<(String, RoundError)>,
}

impl Wrote {
    /// The writes, if none failed; otherwise the first error.
    pub(super) fn whole(mut self) -> Result<Wrote, RoundError> {
        if self.failed.is_empty() { Ok(self) } else { Err(self.failed.swap_remove(0).1) }
    }
}

impl Overlay {
    /// Writes annotations; a node that changed meanwhile, or is gone, is left for the next round.
    pub(super) async fn write(&self, writes: &[NodeWrite]) -> Wrote {
        // Boxed one by one: a stream that borrows makes futures the compiler cannot prove to be `Send`.
        let requests: Vec<BoxFuture<'_, _>> =
            writes.iter().map(|write| async move { (write, self.annotate(write).await) }.boxed()).collect();
        let mut answers = stream::iter(requests).buffer_unordered(AT_ONCE);
        let mut wrote = Wrote::default();
        while let Some((write, answer)) = answers.next().await {
            match answer {
                Ok(()) => wrote.written += 1,
                Err(ActError::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    debug!(node = write.name, "changed since it was read");
                    wrote.conflicts += 1;
                }
                // The others still get theirs: one node that cannot be written must not keep the rest waiting.
                Err(error) => {
                    let what = format!("node {}", write.name);
                    wrote.failed.push((write.name.clone(), RoundError::writing(what)(error)));
                }
            }
        }
        wrote
    }

    async fn annotate(&self, write: &NodeWrite) -> Result<(), ActError> {
        let mut annotations = write.annotations.clone();
        annotations.extend([LeadershipMark::from(self.leadership.mark().to_owned()).entry()]);
        let patch = json!({
            "metadata": { "resourceVersion": write.version, "annotations": annotations },
        });
        let api = Api::<Node>::all(self.client());
        let params = report::written_by_us();
        let patch = Patch::Merge(&patch);
        self.leadership.act(api.patch_metadata(&write.name, &params, &patch)).await.map(|_| ())
    }

    /// Publishes what the network is, in the cluster's `Network`, which is made if it is not there.
    pub(super) async fn publish(
        &self,
        wanted: &OperatorNetwork,
        config: Option<&ConfigNetwork>,
        published: &Published,
    ) -> Result<(), RoundError> {
        let Published { status, topology, .. } = published;
        let api = Api::<ConfigNetwork>::all(self.client());
        // Before the ranges: who reads them must not take the network for another kind.
        let annotations: BTreeMap<String, String> = topology.iter().cloned().collect();
        let version = match config {
            Some(config) if annotations.is_empty() => config.resource_version(),
            Some(config) => {
                let metadata =
                    json!({"resourceVersion": config.resource_version(), "annotations": annotations});
                let (params, patch) = (report::written_by_us(), Patch::Merge(json!({"metadata": metadata})));
                let written = self.leadership.act(api.patch(SINGLETON, &params, &patch)).await;
                written.map_err(RoundError::writing("the cluster's Network"))?.resource_version()
            }
            None => {
                let spec = ConfigNetworkSpec {
                    cluster_network: wanted.spec.cluster_network.clone(),
                    service_network: wanted.spec.service_network.clone(),
                    network_type: status.network_type.clone(),
                    ..ConfigNetworkSpec::default()
                };
                let mut config = ConfigNetwork::new(SINGLETON, spec);
                config.metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
                let params = report::made_by_us();
                let made = self.leadership.act(api.create(&params, &config)).await;
                made.map_err(RoundError::writing("the cluster's Network"))?.resource_version()
            }
        };
        let patch = json!({
            "metadata": { "resourceVersion": version },
            "status": {
                "clusterNetwork": status.cluster_network,
                "serviceNetwork": status.service_network,
                "networkType": status.network_type,
                "clusterNetworkMTU": status.cluster_network_mtu,
            },
        });
        let (params, patch) = (report::written_by_us(), Patch::Merge(&patch));
        let written = self.leadership.act(api.patch_status(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the status of the cluster's Network"))
    }

    /// Sends an Event about each problem that is new.
    pub(super) async fn tell(
        &mut self,
        network: &OperatorNetwork,
        nodes: &[ObjectMeta],
        problems: &[Problem],
    ) {
        let told = problems.iter().map(|problem| {
            let about = match &problem.about {
                About::Network => network.object_ref(&()),
                About::Node(name) => node_reference(name, nodes),
            };
            Told::warning(about, problem.action, problem.reason.as_str(), problem.message.clone())
        });
        self.events.send_new(told).await;
    }

    /// Writes the conditions of the operator's `Network`, if they say something else than they do.
    pub(super) async fn conditions(
        &self,
        network: &OperatorNetwork,
        problems: &BTreeSet<Problem>,
        runs: bool,
        pending: usize,
    ) -> Result<(), RoundError> {
        let now = network.status.clone().unwrap_or_default();
        let problems: Vec<(&str, &str)> =
            problems.iter().map(|problem| (problem.reason.as_str(), problem.message.as_str())).collect();
        let wanted = report::of_the_overlay(&problems, runs, pending);
        let observed = network.metadata.generation;
        let changed = report::merged(&now.conditions, &wanted, jiff::Timestamp::now());
        if changed.is_none() && now.observed_generation == observed {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "resourceVersion": network.resource_version() },
            "status": {
                "conditions": changed.unwrap_or(now.conditions),
                "observedGeneration": observed,
            },
        });
        let api = Api::<OperatorNetwork>::all(self.client());
        let (params, patch) = (report::written_by_us(), Patch::Merge(&patch));
        let written = self.leadership.act(api.patch_status(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the status of the operator's Network"))
    }
}

fn node_reference(name: &str, nodes: &[ObjectMeta]) -> ObjectReference {
    let node = nodes.iter().find(|node| node.name.as_deref() == Some(name));
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Node".into()),
        name: Some(name.to_owned()),
        uid: node.and_then(|node| node.uid.clone()),
        ..ObjectReference::default()
    }
}
