//! Taking nodes, and telling them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::MachineConfigPool;
use netferry_api::rollout::annotations::{
    ControlPlaneTopology, DesiredConfig, UPDATE_IN_PROGRESS_TAINT, update_in_progress,
};
use netferry_api::rollout::conditions::RolloutEvent;
use netferry_core::rollout::choose::{Choice, choose, own_last, to_be_avoided};
use netferry_translate::pool as pools;
use serde_json::{Value, json};
use tracing::{debug, info};

use super::snapshot::{ClusterSnapshot, SeenNode, SeenPool};
use super::{OVERTAKEN, Rollout};
use crate::lead::ActError;
use crate::report::EventNote;
use crate::round::{RoundError, read};
use crate::writer::Part;

/// How many nodes are written to at once.
const AT_ONCE: usize = 16;

impl Rollout {
    /// Takes nodes of each pool and tells them its target. Says when to look again, if a node changed meanwhile.
    pub(super) async fn choose(
        &self,
        snapshot: &mut ClusterSnapshot,
    ) -> Result<Option<Duration>, RoundError> {
        let choices: Vec<Choice> = snapshot
            .pools
            .iter()
            .map(|seen| {
                // A pool that cannot be merged keeps its last target; what was told of it goes on.
                let members = snapshot.of_pool(&seen.pool.name);
                choose(&seen.pool, &members, self.node.as_ref(), snapshot.held.as_ref())
            })
            .collect();
        for (seen, choice) in snapshot.pools.iter_mut().zip(choices) {
            seen.choice = choice;
        }
        if let Some(own) = &self.node {
            let mut pools: Vec<_> =
                snapshot.pools.iter_mut().map(|seen| (&seen.pool, &mut seen.choice)).collect();
            own_last(&mut pools, own);
        }
        self.assign_target(snapshot).await
    }

    /// Takes those that were chosen, and tells them.
    async fn assign_target(&self, snapshot: &ClusterSnapshot) -> Result<Option<Duration>, RoundError> {
        let mut again = None;
        let alone = snapshot.is_one_node();
        for seen in &snapshot.pools {
            let choice = &seen.choice;
            for (node, why) in &choice.left {
                debug!(%node, %why, "is not told yet");
            }
            if !self.are_back(snapshot, seen).await? {
                again = Some(OVERTAKEN);
                continue;
            }
            if choice.taken != seen.pool.taken {
                self.take(seen, &pools::printed_taken(&choice.taken)).await?;
            }
            let Some(target) = seen.pool.target.as_deref() else { continue };
            let told: Vec<&SeenNode> = snapshot
                .members(&seen.pool.name)
                .filter(|node| {
                    let name = &node.machine.node.name;
                    choice.tell.contains(name) || choice.tell_waiting.contains(name)
                })
                .collect();
            let written = self.write_nodes(&told, |node| self.tell_target(node, target, alone)).await?;
            again = again.or((written.len() < told.len()).then_some(OVERTAKEN));
            for node in written {
                let name = &node.machine.node.name;
                info!(%name, target, "told");
                let reason = RolloutEvent::SetDesiredConfig.as_str();
                let note = format!("node {name} is to run {target}");
                self.events.send(&EventNote::news(node.reference(), "TellNode", reason, note)).await;
            }
            let others = || {
                let is_told = |node: &&SeenNode| told.iter().any(|told| std::ptr::eq(*told, *node));
                snapshot.members(&seen.pool.name).filter(move |node| !is_told(node))
            };
            let mistainted: Vec<&SeenNode> = others()
                .filter(|node| node.machine.tainted != to_be_avoided(&seen.pool, &node.machine.node))
                .collect();
            self.write_nodes(&mistainted, |node| self.taint(node, !node.machine.tainted)).await?;
            // Others joined, or left, since it was told: it may be waiting to be drained, or about to restart undrained.
            let misled: Vec<&SeenNode> = others()
                .filter(|node| node.machine.node.desired.is_some() && node.machine.alone != alone)
                .collect();
            self.write_nodes(&misled, |node| self.tell_topology(node, alone)).await?;
        }
        Ok(again)
    }

    /// Whether nodes that give up their places are where their pool is, as their objects are now. What was heard of one may be
    /// older than what it was told: where a pool goes to something else and back, one that is about to leave for the one
    /// would look as if it were done with the other, and the next node would leave beside it.
    async fn are_back(&self, snapshot: &ClusterSnapshot, seen: &SeenPool) -> Result<bool, RoundError> {
        let api = Api::<Node>::all(self.context.client.clone());
        for node in snapshot.members(&seen.pool.name) {
            let identity = node.machine.node.identity();
            if !seen.pool.taken.contains(&identity) || seen.choice.taken.contains(&identity) {
                continue;
            }
            let now = read("a node that is back", api.get_metadata_opt(identity.name.as_str())).await?;
            // One that is gone takes its place along.
            let Some(now) = now.filter(|now| now.metadata.uid.as_deref() == Some(&identity.uid)) else {
                continue;
            };
            let desired = DesiredConfig::read(now.annotations()).ok().flatten();
            if desired.map(|desired| desired.to_string()) != seen.pool.target {
                debug!(node = %identity.name, "was told something else since it was heard of");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes to nodes, several at once; gives those that were written. One that changed meanwhile, or is gone, is left
    /// for the next pass.
    async fn write_nodes<'a, 'f, F>(
        &'f self,
        nodes: &[&'a SeenNode],
        write: F,
    ) -> Result<Vec<&'a SeenNode>, RoundError>
    where
        F: Fn(&'a SeenNode) -> BoxFuture<'f, Result<(), ActError>>,
    {
        let requests: Vec<_> = nodes
            .iter()
            .map(|node| {
                let (node, request) = (*node, write(node));
                async move { (node, request.await) }.boxed()
            })
            .collect();
        let answers: Vec<(&SeenNode, Result<(), ActError>)> =
            stream::iter(requests).buffered(AT_ONCE).collect().await;
        let mut written = Vec::new();
        let mut failed = None;
        for (node, answer) in answers {
            let what = format!("node {}", node.machine.node.name);
            match answer.map_err(RoundError::writing(what)) {
                Ok(()) => written.push(node),
                Err(overtaken) if overtaken.is_overtaken() => {}
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        failed.map_or(Ok(written), Err)
    }

    /// Writes down who is taken, before anybody is told: on the condition that nobody wrote to the pool meanwhile.
    async fn take(
        &self,
        seen: &SeenPool,
        taken: &netferry_api::rollout::annotations::Taken,
    ) -> Result<(), RoundError> {
        let name = seen.object.name_any();
        let annotations: BTreeMap<String, String> = [taken.entry()].into();
        let patch = json!({ "metadata": { "annotations": annotations } });
        let version = seen.object.resource_version();
        self.context.writer.patch::<MachineConfigPool>(&name, version, Part::Object, patch).await.map(drop)
    }

    fn tell_target<'a>(
        &'a self,
        node: &SeenNode,
        target: &str,
        alone: bool,
    ) -> BoxFuture<'a, Result<(), ActError>> {
        let desired = DesiredConfig::parse(target).expect("a rendered configuration has a name");
        let told = annotations([desired.entry(), topology(alone)]);
        let mut patch = json!({ "metadata": { "annotations": told } });
        if node.machine.tainted {
            patch["spec"] = json!({ "taints": taints(&node.object, false) });
        }
        self.patch_node(node, patch)
    }

    fn tell_topology<'a>(&'a self, node: &SeenNode, alone: bool) -> BoxFuture<'a, Result<(), ActError>> {
        self.patch_node(node, json!({ "metadata": { "annotations": annotations([topology(alone)]) } }))
    }

    fn taint<'a>(&'a self, node: &SeenNode, on: bool) -> BoxFuture<'a, Result<(), ActError>> {
        self.patch_node(node, json!({ "spec": { "taints": taints(&node.object, on) } }))
    }

    fn patch_node<'a>(&'a self, node: &SeenNode, patch: Value) -> BoxFuture<'a, Result<(), ActError>> {
        let (name, version) = (node.object.name_any(), node.object.resource_version());
        async move { self.context.writer.patch_node(&name, version.as_deref(), patch).await.map(drop) }
            .boxed()
    }
}

fn annotations<const N: usize>(entries: [(String, String); N]) -> BTreeMap<String, String> {
    entries.into()
}

/// Whether the cluster is one node, which is not drained: there is nowhere to drain it to.
fn topology(alone: bool) -> (String, String) {
    let topology =
        if alone { ControlPlaneTopology::SINGLE_REPLICA } else { ControlPlaneTopology::HIGHLY_AVAILABLE };
    ControlPlaneTopology::parse(topology).expect("it is not empty").entry()
}

/// The taints of a node with or without ours; a list is replaced as a whole.
fn taints(node: &Node, on: bool) -> Value {
    let now = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let others = now.into_iter().filter(|taint| taint.key != UPDATE_IN_PROGRESS_TAINT);
    let all: Vec<_> = others.chain(on.then(update_in_progress)).collect();
    if all.is_empty() { Value::Null } else { json!(all) }
}
