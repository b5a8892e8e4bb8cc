//! Writing what was decided, under the leader's right to do so and for the versions it was decided for.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, ResourceExt};
use netferry_api::overlay::{ConfigNetwork, ConfigNetworkSpec, OperatorNetwork, SINGLETON};
use serde_json::json;
use tracing::debug;

use super::Overlay;
use super::decide::{NodeWrite, Published};
use super::problem::{About, Problem};
use crate::lead::ActError;
use crate::network_status;
use crate::report::{self, EventNote};
use crate::round::RoundError;
use crate::writer::Part;

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
        let patch = json!({ "metadata": { "annotations": write.annotations } });
        self.context.writer.patch_node(&write.name, Some(&write.version), patch).await.map(drop)
    }

    /// Publishes what the network is, in the cluster's `Network`, which is made if it is not there.
    pub(super) async fn publish(
        &self,
        wanted: &OperatorNetwork,
        config: Option<&ConfigNetwork>,
        published: &Published,
    ) -> Result<(), RoundError> {
        let Published { status, topology, .. } = published;
        let writer = &self.context.writer;
        // Before the ranges: who reads them must not take the network for another kind.
        let annotations: BTreeMap<String, String> = topology.iter().cloned().collect();
        let version = match config {
            Some(config) if annotations.is_empty() => config.resource_version(),
            Some(config) => {
                let patch = json!({ "metadata": { "annotations": annotations } });
                let version = config.resource_version();
                let written = writer.patch::<ConfigNetwork>(SINGLETON, version, Part::Object, patch).await?;
                written.resource_version()
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
                let api = Api::<ConfigNetwork>::all(self.context.client.clone());
                writer.create(&api, &config).await?.resource_version()
            }
        };
        network_status::publish_overlay(writer, version, status).await
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
            EventNote::warning(about, problem.action, problem.reason.as_str(), problem.message.clone())
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
        let problems: Vec<(&str, &str)> =
            problems.iter().map(|problem| (problem.reason.as_str(), problem.message.as_str())).collect();
        let updates = report::of_the_overlay(&problems, runs, pending);
        network_status::write_conditions_of_generation(&self.context.writer, network, &updates).await
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
