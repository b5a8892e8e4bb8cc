//! DaemonSets: one pod on every node that suits.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::cache::{Cache, is_over, is_ready};
use super::fit::{chosen, tolerated};
use super::replicas::deletion;
use super::rollout::part_of;
use super::template::{self, hash_of};
use super::write::{Kind, What, Write};

const HASH: &str = "controller-revision-hash";

pub(super) fn look(cache: &Cache, namespace: &str, name: &str) -> Vec<Write> {
    let Some(set) = cache.daemon_sets.get(namespace, name) else { return Vec::new() };
    let (Some(uid), Some(spec)) = (set.uid(), set.spec.as_ref()) else { return Vec::new() };
    if set.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let hash = hash_of(&spec.template);
    let mut by_node: BTreeMap<String, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in cache.pods_of(&uid) {
        by_node.entry(meant_for(pod).unwrap_or_default()).or_default().push(pod);
    }
    let whole = daemon_spec(spec);
    let mut writes = Vec::new();
    let mut tally = Tally::default();
    let mut old = Vec::new();
    for node in cache.nodes.iter() {
        let mut pods = by_node.remove(&node.name_any()).unwrap_or_default();
        pods.sort_by_key(|pod| (is_over(pod), pod.metadata.creation_timestamp.clone(), pod.name_any()));
        let place = suits(&whole, node);
        if place == Place::None {
            tally.misplaced += usize::from(!pods.is_empty());
            writes.extend(pods.iter().filter(|pod| staying(pod)).map(|pod| deletion(pod)));
            continue;
        }
        // One that has ended makes room for the next, and of two the older stays.
        let mut kept = pods.iter().filter(|pod| staying(pod) && !is_over(pod));
        let keeps = kept.next();
        let surplus = kept.chain(pods.iter().filter(|pod| staying(pod) && is_over(pod)));
        writes.extend(surplus.map(|pod| deletion(pod)));
        match (keeps, place) {
            (None, Place::New) => {
                tally.wanted += 1;
                // What is still ending holds the place: two at once would be two too many.
                if pods.iter().all(|pod| staying(pod)) {
                    writes.push(for_node(set, spec, &hash, &node.name_any()));
                }
            }
            (None, Place::Kept | Place::None) => {}
            (Some(pod), _) => {
                tally.wanted += usize::from(place == Place::New);
                tally.here += 1;
                tally.ready += usize::from(is_ready(pod));
                let current = pod.labels().get(HASH) == Some(&hash);
                tally.updated += usize::from(current);
                if !current {
                    old.push(*pod);
                }
            }
        }
    }
    // Pods meant for nodes that are gone.
    let stray = by_node.into_values().flatten().filter(|pod| staying(pod));
    writes.extend(stray.map(|pod| deletion(pod)));
    writes.extend(update(spec, &tally, &old).into_iter().map(|pod| deletion(&pod)));
    writes.extend(status(set, &tally));
    writes
}

#[derive(Default)]
struct Tally {
    wanted: usize,
    here: usize,
    ready: usize,
    updated: usize,
    misplaced: usize,
}

/// What a node is to a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// A pod belongs there.
    New,
    /// A pod that is there stays; no other comes.
    Kept,
    /// No pod belongs there.
    None,
}

fn suits(pod: &PodSpec, node: &Node) -> Place {
    if !chosen(pod, node) {
        return Place::None;
    }
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let untolerated = |effect: &str| {
        taints.iter().any(|taint: &Taint| taint.effect == effect && !tolerated(tolerations, taint))
    };
    match (untolerated("NoExecute"), untolerated("NoSchedule")) {
        (true, _) => Place::None,
        (false, true) => Place::Kept,
        (false, false) => Place::New,
    }
}

fn staying(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

/// What daemons tolerate without saying so: they are there for the node, however it fares.
fn daemon_spec(spec: &DaemonSetSpec) -> PodSpec {
    let mut pod = spec.template.spec.clone().unwrap_or_default();
    let node = |what: &str, effect: &str| Toleration {
        key: Some(format!("node.kubernetes.io/{what}")),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    };
    let mut all = vec![
        node("not-ready", "NoExecute"),
        node("unreachable", "NoExecute"),
        node("disk-pressure", "NoSchedule"),
        node("memory-pressure", "NoSchedule"),
        node("pid-pressure", "NoSchedule"),
        node("unschedulable", "NoSchedule"),
    ];
    if pod.host_network == Some(true) {
        all.push(node("network-unavailable", "NoSchedule"));
    }
    // The scheduler binds daemons to nodes that are not ready yet, or no network could ever start.
    let tolerations = pod.tolerations.get_or_insert_default();
    all.retain(|one| !tolerations.contains(one));
    tolerations.extend(all);
    pod
}

fn for_node(set: &DaemonSet, spec: &DaemonSetSpec, hash: &str, node: &str) -> Write {
    template::pod(set, &spec.template, |pod| {
        pod["metadata"]["labels"][HASH] = json!(hash);
        pod["spec"] = json!(daemon_spec(spec));
        let field = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        // Bound by the scheduler like every other pod, but to this node and no other.
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [field]});
    })
}

/// The node a daemon's pod is for: where it is, or where it is to go.
fn meant_for(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.clone().filter(|node| !node.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let field = required.node_selector_terms.first()?.match_fields.as_ref()?.first()?;
    field.values.as_ref()?.first().cloned()
}

/// Pods of an older template that may go now.
fn update(spec: &DaemonSetSpec, tally: &Tally, old: &[&Arc<Pod>]) -> Vec<Arc<Pod>> {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return Vec::new();
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let most = rolling.and_then(|rolling| rolling.max_unavailable.clone()).unwrap_or(IntOrString::Int(1));
    let wanted = i32::try_from(tally.wanted).unwrap_or(i32::MAX);
    let most = usize::try_from(part_of(&most, wanted, true).max(1)).unwrap_or(1);
    let missing = tally.wanted.saturating_sub(tally.ready);
    let (ready, unready): (Vec<_>, Vec<_>) = old.iter().partition(|pod| is_ready(pod));
    let room = most.saturating_sub(missing);
    // Those that do not serve are missing already.
    unready.into_iter().chain(ready.into_iter().take(room)).map(Arc::clone).collect()
}

fn status(set: &DaemonSet, tally: &Tally) -> Option<Write> {
    let wanted = json!({
        "desiredNumberScheduled": tally.wanted,
        "currentNumberScheduled": tally.here,
        "numberMisscheduled": tally.misplaced,
        "numberReady": tally.ready,
        "updatedNumberScheduled": some(tally.updated),
        "numberAvailable": some(tally.ready),
        "numberUnavailable": some(tally.wanted.saturating_sub(tally.ready)),
        "observedGeneration": set.metadata.generation,
    });
    let now = json!(set.status.clone().unwrap_or_default());
    let same = wanted.as_object().into_iter().flatten().all(|(key, value)| now[key] == *value);
    let namespace = set.namespace().unwrap_or_default();
    let patch = What::Status(json!({"status": wanted}));
    (!same).then(|| Write::new(Kind::DaemonSet, &namespace, &set.name_any(), patch))
}

/// What is none is left out, as the real controller leaves it out.
fn some(n: usize) -> Value {
    if n == 0 { Value::Null } else { json!(n) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn set(more: Value) -> Value {
        let mut set = json!({
            "metadata": {"name": "agent", "namespace": "sys", "uid": "ds", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "agent"}},
                "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}}},
        });
        merge(&mut set, &more);
        set
    }

    fn node(name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name, "labels": {"name": name}}, "spec": spec})
    }

    fn pod(name: &str, node: &str, hash: &str, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        json!({
            "metadata": {"name": name, "namespace": "sys", "uid": name, "labels": {"app": "agent", HASH: hash},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": true}]},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn hash() -> String {
        let set: DaemonSet = serde_json::from_value(set(json!({}))).unwrap();
        hash_of(&set.spec.unwrap().template)
    }

    /// Nodes that get a pod, and pods that go.
    fn outcome(objects: Vec<(&str, Value)>) -> (Vec<String>, Vec<String>) {
        let writes = look(&cache(objects), "sys", "agent");
        let (mut made, mut gone) = (Vec::new(), Vec::new());
        for write in writes {
            match write.what {
                What::Create(pod) => {
                    let pod: Pod = serde_json::from_value(pod).unwrap();
                    made.extend(meant_for(&pod));
                }
                What::Delete { .. } => gone.push(write.name),
                What::Merge(_) | What::Status(_) | What::Bind { .. } => {}
            }
        }
        (made, gone)
    }

    #[test]
    fn every_node_that_suits_gets_one_even_if_it_is_cordoned_or_not_ready() {
        let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
        let not_ready = json!({"taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        ]});
        let made = outcome(vec![
            ("DaemonSet", set(json!({}))),
            ("Node", node("a", json!({}))),
            ("Node", node("b", json!({"unschedulable": true}))),
            ("Node", node("c", not_ready)),
            ("Node", node("d", taint("role", "NoSchedule"))),
            ("Node", node("e", taint("role", "NoExecute"))),
        ]);
        assert_eq!(made, (vec!["a".into(), "b".into(), "c".into()], vec![]));
    }

    #[test]
    fn a_node_that_no_longer_suits_loses_its_pod_only_if_it_must() {
        let selecting = set(json!({"spec": {"template": {"spec": {"nodeSelector": {"name": "a"}}}}}));
        let selecting_hash = {
            let set: DaemonSet = serde_json::from_value(selecting.clone()).unwrap();
            hash_of(&set.spec.unwrap().template)
        };
        let gone = outcome(vec![
            ("DaemonSet", selecting),
            ("Node", node("a", json!({"taints": [{"key": "role", "effect": "NoSchedule"}]}))),
            ("Node", node("b", json!({}))),
            ("Pod", pod("on-a", "a", &selecting_hash, true)),
            ("Pod", pod("on-b", "b", &selecting_hash, true)),
            ("Pod", pod("on-none", "gone", &selecting_hash, true)),
        ]);
        assert_eq!(gone, (vec![], vec!["on-b".into(), "on-none".into()]));
    }

    #[test]
    fn of_two_on_one_node_one_goes_and_one_that_failed_is_replaced() {
        let mut failed = pod("failed", "b", &hash(), false);
        failed["status"]["phase"] = json!("Failed");
        let (made, gone) = outcome(vec![
            ("DaemonSet", set(json!({}))),
            ("Node", node("a", json!({}))),
            ("Node", node("b", json!({}))),
            ("Pod", pod("p1", "a", &hash(), true)),
            ("Pod", pod("p2", "a", &hash(), true)),
            ("Pod", failed),
        ]);
        assert_eq!(made, ["b"]);
        assert_eq!(gone, ["p2", "failed"]);
    }

    #[test]
    fn an_update_replaces_one_after_the_other() {
        let nodes = || {
            vec![
                ("DaemonSet", set(json!({}))),
                ("Node", node("a", json!({}))),
                ("Node", node("b", json!({}))),
                ("Node", node("c", json!({}))),
            ]
        };
        let with = |ready: [bool; 3], current: [bool; 3]| {
            let mut all = nodes();
            for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
                let hash = if current[i] { hash() } else { "older".into() };
                all.push(("Pod", pod(&format!("on-{name}"), name, &hash, ready[i])));
            }
            outcome(all).1
        };
        assert_eq!(with([true, true, true], [false, false, false]), ["on-a"]);
        assert_eq!(with([false, true, true], [true, false, false]), [""; 0], "one is missing already");
        assert_eq!(
            with([true, true, false], [true, false, false]),
            ["on-c"],
            "what does not serve goes first"
        );
        assert_eq!(with([true, true, true], [true, true, true]), [""; 0]);
    }
}
