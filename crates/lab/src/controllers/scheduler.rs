//! Binding: every pod that waits gets a node that suits, the emptier the better.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::json;

use super::cache::{Cache, Key, controller_of, is_over};
use super::fit::{Unfit, fits};
use super::write::{Kind, What, Write};

/// Pods a node takes if it does not say.
const USUAL_CAPACITY: usize = 110;
/// How many pods are bound in one look.
const BATCH: usize = 200;

pub(super) fn look(cache: &mut Cache) -> Vec<Write> {
    let waiting: Vec<Key> = cache.unbound.iter().cloned().collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let mut room = Room::of(cache);
    let mut writes = Vec::new();
    for key in waiting {
        if writes.len() >= BATCH {
            // The rest is looked at when these are done.
            break;
        }
        let Some(pod) = cache.pods.get(&key.0, &key.1).cloned() else { continue };
        if !ours(&pod) {
            continue;
        }
        match room.best(&pod) {
            Ok(node) => {
                room.take(&pod, &node);
                cache.assume(&key, &node);
                let uid = pod.uid().unwrap_or_default();
                writes.push(Write::new(Kind::Pod, &key.0, &key.1, What::Bind { uid, node }));
            }
            Err(why) => writes.extend(unschedulable(&pod, &why)),
        }
    }
    writes
}

/// Whether a pod asks for this scheduler, and for being bound at all yet.
fn ours(pod: &Pod) -> bool {
    let spec = pod.spec.clone().unwrap_or_default();
    let scheduler = spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
    scheduler == "default-scheduler" && spec.scheduling_gates.is_none_or(|gates| gates.is_empty())
}

/// How full the nodes are.
struct Room {
    nodes: Vec<Arc<Node>>,
    pods: BTreeMap<String, usize>,
    /// Pods of one controller on one node.
    alike: BTreeMap<(String, String), usize>,
}

impl Room {
    fn of(cache: &Cache) -> Room {
        let nodes: Vec<Arc<Node>> = cache.nodes.iter().cloned().collect();
        let (mut pods, mut alike) = (BTreeMap::new(), BTreeMap::new());
        for node in &nodes {
            let name = node.name_any();
            for pod in cache.pods_on(&name).filter(|pod| !is_over(pod)) {
                *pods.entry(name.clone()).or_default() += 1;
                if let Some(owner) = controller_of(&pod.metadata) {
                    *alike.entry((owner.uid.clone(), name.clone())).or_default() += 1;
                }
            }
        }
        Room { nodes, pods, alike }
    }

    /// The node with the fewest of the pod's kind, then the fewest pods, then the first by name.
    fn best(&self, pod: &Pod) -> Result<String, Vec<Unfit>> {
        let spec = pod.spec.clone().unwrap_or_default();
        let owner = controller_of(&pod.metadata).map(|owner| owner.uid.clone()).unwrap_or_default();
        let (mut best, mut unfit) = (None, Vec::new());
        for node in &self.nodes {
            let name = node.name_any();
            let has = self.pods.get(&name).copied().unwrap_or(0);
            if let Err(why) = fits(&spec, node) {
                unfit.push(why);
            } else if has >= capacity(node) {
                unfit.push(Unfit::Full);
            } else {
                let alike = self.alike.get(&(owner.clone(), name.clone())).copied().unwrap_or(0);
                let score = (alike, has, name);
                best = Some(best.map_or_else(|| score.clone(), |best| score.clone().min(best)));
            }
        }
        best.map(|(_, _, name)| name).ok_or(unfit)
    }

    fn take(&mut self, pod: &Pod, node: &str) {
        *self.pods.entry(node.to_owned()).or_default() += 1;
        if let Some(owner) = controller_of(&pod.metadata) {
            *self.alike.entry((owner.uid.clone(), node.to_owned())).or_default() += 1;
        }
    }
}

fn capacity(node: &Node) -> usize {
    let status = node.status.as_ref();
    let said =
        status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref())?.get("pods"));
    said.and_then(|said| said.0.parse().ok()).unwrap_or(USUAL_CAPACITY)
}

/// Says on the pod why it waits, unless it says so already.
fn unschedulable(pod: &Pod, why: &[Unfit]) -> Option<Write> {
    let mut counts: BTreeMap<&Unfit, usize> = BTreeMap::new();
    for one in why {
        *counts.entry(one).or_default() += 1;
    }
    let reasons: Vec<String> = counts.iter().map(|(why, count)| format!("{count} {why}")).collect();
    let message = if reasons.is_empty() {
        "no nodes available to schedule pods".to_owned()
    } else {
        format!("0/{} nodes are available: {}.", why.len(), reasons.join(", "))
    };
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let said = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
    if said.is_some_and(|said| said.status == "False" && said.message.as_ref() == Some(&message)) {
        return None;
    }
    let mut all: Vec<_> =
        conditions.iter().filter(|one| one.type_ != "PodScheduled").map(|one| json!(one)).collect();
    all.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }));
    let patch =
        json!({"metadata": {"resourceVersion": pod.resource_version()}, "status": {"conditions": all}});
    let namespace = pod.namespace().unwrap_or_default();
    Some(Write::new(Kind::Pod, &namespace, &pod.name_any(), What::Status(patch)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::write::Answer;
    use super::*;
    use serde_json::Value;

    fn node(name: &str) -> (&'static str, Value) {
        ("Node", json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": "3"}}}))
    }

    fn pod(name: &str, spec: Value) -> (&'static str, Value) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]},
            "spec": {"containers": []},
        });
        merge(&mut pod["spec"], &spec);
        ("Pod", pod)
    }

    fn bound(objects: Vec<(&str, Value)>) -> BTreeMap<String, String> {
        let writes = look(&mut cache(objects));
        let binding = |write: Write| match write.what {
            What::Bind { node, .. } => Some((write.name, node)),
            What::Create(_) | What::Merge(_) | What::Status(_) | What::Delete { .. } => None,
        };
        writes.into_iter().filter_map(binding).collect()
    }

    /// The answer to a pod's creation may come after the pod was bound. Counted nowhere, the pod would leave room for others.
    #[test]
    fn a_late_answer_to_a_creation_does_not_unbind_a_pod() {
        let (_, mut first) = pod("first", json!({}));
        first["metadata"]["resourceVersion"] = json!("7");
        let mut cache = cache(vec![node("a"), node("b"), ("Pod", first.clone())]);
        let mut dirty = std::collections::BTreeSet::new();
        let writes = look(&mut cache);
        let What::Bind { uid, node } = &writes[0].what else { panic!("it is bound") };
        cache.fold(Answer::Bound("shop".into(), "first".into(), uid.clone(), node.clone()), &mut dirty);
        cache.settle(&mut dirty);
        let created = serde_json::from_value(first).unwrap();
        cache.fold(Answer::Is(Kind::Pod, Box::new(created)), &mut dirty);
        let (kind, second) = pod("second", json!({}));
        put(&mut cache, kind, second, &mut dirty);
        let writes = look(&mut cache);
        let [Write { name, what: What::Bind { node: other, .. }, .. }] = &writes[..] else {
            panic!("the second one alone is bound")
        };
        assert_eq!(name, "second");
        assert_ne!(other, node, "spread");
    }

    #[test]
    fn pods_are_spread_and_a_node_takes_no_more_than_it_says() {
        let mut objects = vec![node("a"), node("b")];
        for n in 0..8 {
            objects.push(pod(&format!("p{n}"), json!({})));
        }
        let bound = bound(objects);
        let on = |name: &str| bound.values().filter(|node| *node == name).count();
        assert_eq!((on("a"), on("b")), (3, 3), "{bound:?}");
    }

    #[test]
    fn pods_that_are_bound_gated_or_somebody_else_s_are_left_alone() {
        let bound = bound(vec![
            node("a"),
            pod("bound", json!({"nodeName": "a"})),
            pod("gated", json!({"schedulingGates": [{"name": "x"}]})),
            pod("other", json!({"schedulerName": "mine"})),
            pod("free", json!({})),
        ]);
        assert_eq!(bound, BTreeMap::from([("free".to_owned(), "a".to_owned())]));
    }

    #[test]
    fn a_pod_no_node_takes_says_why_and_says_it_once() {
        let mut cache = cache(vec![
            node("a"),
            ("Node", json!({"metadata": {"name": "b"}, "spec": {"unschedulable": true}})),
            pod("picky", json!({"nodeSelector": {"gpu": "yes"}, "nodeName": null})),
        ]);
        let writes = look(&mut cache);
        let What::Status(patch) = &writes[0].what else { panic!("{writes:?}") };
        let condition = &patch["status"]["conditions"][0];
        assert_eq!(condition["reason"], "Unschedulable");
        assert_eq!(
            condition["message"],
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
        );
        let (_, mut told) = pod("picky", json!({"nodeSelector": {"gpu": "yes"}}));
        told["status"] = json!({"conditions": [condition]});
        put(&mut cache, "Pod", told, &mut Default::default());
        assert_eq!(look(&mut cache), []);
    }
}
