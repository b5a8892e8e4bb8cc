//! Moving pods off nodes that ask for it, and letting them come back.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::annotations::{CordonedFor, LastAppliedDrain};
use netferry_api::rollout::conditions::RolloutEvent;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::rollout::drain::{Alarm, Blocking, Facts, Obstacle, Refused, Request, Step, decide};
use netferry_translate::{drain as wire, machine, object_name};
use serde_json::json;
use tokio::time::Instant;
use tracing::info;

use super::Rollout;
use super::snapshot::{ClusterSnapshot, SeenNode};
use crate::lead::ActError;
use crate::report::EventNote;
use crate::round::{RoundError, read};

/// How many evictions are asked for at once.
const AT_ONCE: usize = 16;
/// How soon pods that are ending are looked at again.
const ENDING: Duration = Duration::from_secs(1);
/// Steps of one node in one pass: more than any drain makes without waiting.
const STEPS: usize = 16;

/// What this leadership knows of drains beside what the API says: since when, and what was refused.
///
/// A successor begins to count anew; the only harm is an alarm that comes later.
#[derive(Default)]
pub(super) struct Drains(BTreeMap<NodeName, Drain>);

struct Drain {
    request: Request,
    since: Instant,
    refused: BTreeMap<ObjectName, Refused>,
    alarmed: Option<Alarm>,
    blocking: Vec<Blocking>,
    /// What was said of it last.
    said: Option<String>,
}

impl Drains {
    /// What keeps nodes from being drained, node by node.
    pub(super) fn blocking(&self) -> BTreeMap<NodeName, String> {
        let waiting = |drain: &Drain| {
            let stuck = drain.blocking.iter().filter(|one| !matches!(one.why, Obstacle::Untried));
            let said: Vec<String> = stuck.map(ToString::to_string).collect();
            (!said.is_empty()).then(|| said.join("; "))
        };
        self.0.iter().filter_map(|(node, drain)| Some((node.clone(), waiting(drain)?))).collect()
    }
}

impl Rollout {
    /// Does what nodes ask for, as far as it can be done now. Says when to look again.
    pub(super) async fn drain(&mut self, snapshot: &ClusterSnapshot) -> Result<Option<Duration>, RoundError> {
        let asks = |seen: &'_ SeenNode| Some((seen.machine.node.name.clone(), seen.machine.asked.clone()?));
        let asked: BTreeMap<NodeName, Request> = snapshot.nodes.iter().filter_map(asks).collect();
        self.drains.0.retain(|name, drain| asked.get(name) == Some(&drain.request));
        let mut again = None;
        let mut failed = None;
        for seen in &snapshot.nodes {
            let Some(request) = &seen.machine.asked else { continue };
            match self.drain_one(seen, request).await {
                Ok(next) => again = [again, next].into_iter().flatten().min(),
                Err(overtaken) if overtaken.is_overtaken() => again = Some(super::OVERTAKEN),
                // The others still get theirs.
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        failed.map_or(Ok(again), Err)
    }

    async fn drain_one(
        &mut self,
        seen: &SeenNode,
        request: &Request,
    ) -> Result<Option<Duration>, RoundError> {
        let name = seen.machine.node.name.clone();
        let machine = &seen.machine;
        let (mut cordoned, mut ours) = (machine.node.unschedulable, machine.cordoned_by_us);
        let mut fulfilled = machine.fulfilled.clone();
        let mut version = seen.object.resource_version();
        for _ in 0..STEPS {
            let pods = match request {
                Request::Drain(_) if cordoned => self.pods_of(&name).await?,
                Request::Drain(_) | Request::Uncordon(_) => Vec::new(),
            };
            let drain = self.drains.0.entry(name.clone()).or_insert_with(|| Drain {
                request: request.clone(),
                since: Instant::now(),
                refused: BTreeMap::new(),
                alarmed: None,
                blocking: Vec::new(),
                said: None,
            });
            let facts = Facts {
                request,
                fulfilled: fulfilled.as_ref(),
                cordoned,
                ours,
                pods: &pods.iter().map(wire::pod).collect::<Vec<_>>(),
                refused: &drain.refused,
                since: Duration::ZERO,
                now: drain.since.elapsed(),
                told: drain.alarmed,
            };
            let decision = decide(&facts);
            drain.blocking.clone_from(&decision.blocking);
            if let Some(alarm) = decision.alarm {
                drain.alarmed = Some(alarm);
                self.alarm(seen, alarm).await;
            }
            match decision.step {
                Step::Rest => return Ok(None),
                Step::Wait(pause) => {
                    self.say_blocking(seen).await;
                    let ending = decision.blocking.iter().any(|one| one.why == Obstacle::Leaving);
                    return Ok(Some(if ending { pause.min(ENDING) } else { pause }));
                }
                Step::Cordon => {
                    let config = match request {
                        Request::Drain(config) | Request::Uncordon(config) => config,
                    };
                    let mark = CordonedFor::new(config).map(|mark| mark.to_string());
                    let patch = json!({
                        "metadata": { "annotations": { CordonedFor::KEY: mark } }, "spec": { "unschedulable": true },
                    });
                    version = self.step(seen, version, patch).await?;
                    (cordoned, ours) = (true, true);
                    self.say(seen, RolloutEvent::Cordon, format!("node {name} takes no further pods")).await;
                    self.say(seen, RolloutEvent::Drain, format!("moving the pods of node {name} away")).await;
                }
                Step::Uncordon => {
                    version = self.uncordon(seen, version).await?;
                    (cordoned, ours) = (false, false);
                }
                Step::Fulfilled => {
                    let done = LastAppliedDrain(machine::printed_request(request)).to_string();
                    let patch = json!({ "metadata": { "annotations": { LastAppliedDrain::KEY: done } } });
                    version = self.step(seen, version, patch).await?;
                    info!(node = %name, request = done, "fulfilled");
                    fulfilled = Some(request.clone());
                }
                Step::Evict(which) => self.evict(&name, &which, &pods).await?,
            }
        }
        Ok(Some(ENDING))
    }

    /// Lifts our cordon and its mark, in one write.
    pub(super) async fn uncordon(
        &self,
        seen: &SeenNode,
        version: Option<String>,
    ) -> Result<Option<String>, RoundError> {
        let patch = json!({
            "metadata": { "annotations": { CordonedFor::KEY: null } }, "spec": { "unschedulable": null },
        });
        let version = self.step(seen, version, patch).await?;
        let note = format!("node {} takes pods again", seen.machine.node.name);
        self.say(seen, RolloutEvent::Uncordon, note).await;
        Ok(version)
    }

    async fn step(
        &self,
        seen: &SeenNode,
        version: Option<String>,
        patch: serde_json::Value,
    ) -> Result<Option<String>, RoundError> {
        let name = seen.machine.node.name.as_str();
        let written = self.context.writer.patch_node(name, version.as_deref(), patch).await;
        written.map_err(RoundError::writing(format!("node {name}")))
    }

    async fn pods_of(&self, node: &NodeName) -> Result<Vec<Pod>, RoundError> {
        let api = Api::<Pod>::all(self.context.client.clone());
        let on_it = ListParams::default().fields(&format!("spec.nodeName={node}"));
        Ok(read("the pods of a node", api.list(&on_it)).await?.items)
    }

    /// Asks for evictions, several at once, and keeps what was refused.
    async fn evict(&mut self, node: &NodeName, which: &[ObjectName], pods: &[Pod]) -> Result<(), RoundError> {
        let wanted = pods.iter().filter(|pod| which.contains(&object_name(&pod.metadata)));
        let requests: Vec<BoxFuture<'_, _>> = wanted
            .map(|pod| async { (object_name(&pod.metadata), self.evict_one(pod).await) }.boxed())
            .collect();
        let answers: Vec<(ObjectName, Result<Option<Obstacle>, RoundError>)> =
            stream::iter(requests).buffered(AT_ONCE).collect().await;
        let Some(drain) = self.drains.0.get_mut(node) else { return Ok(()) };
        let now = drain.since.elapsed();
        let mut failed = None;
        for (pod, answer) in answers {
            match answer {
                // It is looked at again soon, and asked again only if it stays.
                Ok(None) => _ = drain.refused.insert(pod, Refused { at: now, why: Obstacle::Leaving }),
                Ok(Some(why)) => _ = drain.refused.insert(pod, Refused { at: now, why }),
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Asks for one eviction; what keeps the pod, if anything does.
    async fn evict_one(&self, pod: &Pod) -> Result<Option<Obstacle>, RoundError> {
        let name = object_name(&pod.metadata);
        let eviction = Eviction {
            metadata: ObjectMeta {
                name: pod.metadata.name.clone(),
                namespace: pod.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            // Another pod of that name, perhaps on another node, was not asked to go.
            delete_options: Some(DeleteOptions {
                preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
                ..DeleteOptions::default()
            }),
        };
        match self.context.writer.evict(&name.namespace, &name.name, &eviction).await {
            Ok(()) => Ok(None),
            Err(ActError::Api(kube::Error::Api(status))) => match status.code {
                404 | 409 => Ok(None),
                429 => Ok(Some(self.keeps(pod, &status.message).await?)),
                _ => Ok(Some(Obstacle::Other(status.message.clone()))),
            },
            Err(error) => Err(RoundError::writing(format!("the eviction of pod {name}"))(error)),
        }
    }

    /// Which budgets keep a pod.
    async fn keeps(&self, pod: &Pod, said: &str) -> Result<Obstacle, RoundError> {
        let api = Api::<PodDisruptionBudget>::namespaced(
            self.context.client.clone(),
            &pod.namespace().unwrap_or_default(),
        );
        let budgets = read("the disruption budgets", api.list(&ListParams::default())).await?;
        let names = wire::budgets(pod.metadata.labels.as_ref(), &budgets.items);
        Ok(if names.is_empty() { Obstacle::Other(said.to_owned()) } else { Obstacle::Budgets(names) })
    }

    /// Says what a drain waits for, when that is something else than it was.
    async fn say_blocking(&mut self, seen: &SeenNode) {
        let name = &seen.machine.node.name;
        let Some(said) = self.drains.blocking().remove(name) else { return };
        let refused = |one: &Blocking| matches!(one.why, Obstacle::Budgets(_) | Obstacle::Other(_));
        let Some(drain) = self.drains.0.get_mut(name) else { return };
        if !drain.blocking.iter().any(refused) || drain.said.as_ref() == Some(&said) {
            return;
        }
        drain.said = Some(said.clone());
        let note = format!("node {name} is not drained yet: {said}");
        self.warn(seen, RolloutEvent::FailedToDrain, note).await;
    }

    async fn alarm(&mut self, seen: &SeenNode, alarm: Alarm) {
        let name = &seen.machine.node.name;
        let waits = self.drains.blocking().remove(name).unwrap_or_default();
        let (event, long) = match alarm {
            Alarm::ThresholdExceeded => (RolloutEvent::DrainThresholdExceeded, "ten minutes"),
            Alarm::Failed => (RolloutEvent::DrainFailed, "an hour"),
        };
        let note = format!("node {name} has not been drained for {long}; it is tried further: {waits}");
        self.warn(seen, event, note).await;
    }

    async fn warn(&self, seen: &SeenNode, event: RolloutEvent, note: String) {
        self.events.send(&EventNote::warning(seen.reference(), "DrainNode", event.as_str(), note)).await;
    }

    async fn say(&self, seen: &SeenNode, event: RolloutEvent, note: String) {
        self.events.send(&EventNote::news(seen.reference(), "DrainNode", event.as_str(), note)).await;
    }
}
