//! The life of nodes: one that gives no sign of life is not ready, nobody new is sent there, and its endpoints serve
//! nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Item;
use super::cache::{Cache, is_over, is_ready};
use super::fit::tolerates;
use super::write::{Kind, What, Write};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// How long nodes are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Without a sign of life for this long, a node is not ready.
    pub silence: Duration,
    /// Pods of a node that is gone for this long are removed.
    pub absence: Duration,
}

impl Default for Patience {
    /// What kubelets here renew in time for, and what Kubernetes waits before it removes pods of a node that is gone.
    fn default() -> Patience {
        Patience { silence: Duration::from_secs(40), absence: Duration::from_secs(40) }
    }
}

/// When something last changed, by the clock here: clocks of nodes are not compared with it.
pub(super) struct Watchman {
    patience: Patience,
    heard: BTreeMap<String, (Value, Instant)>,
    missed: BTreeMap<String, Instant>,
    /// Since when a node drives pods off, by taint.
    driving: BTreeMap<(String, String), Instant>,
}

impl Watchman {
    pub(super) fn new(patience: Patience) -> Watchman {
        Watchman { patience, heard: BTreeMap::new(), missed: BTreeMap::new(), driving: BTreeMap::new() }
    }

    /// Looks at what only time brings.
    pub(super) fn tick(&mut self, cache: &Cache, now: Instant, dirty: &mut BTreeSet<Item>) {
        if !cache.complete() {
            return;
        }
        let there: BTreeSet<String> = cache.nodes.iter().map(|node| node.name_any()).collect();
        self.heard.retain(|name, _| there.contains(name));
        for node in cache.nodes.iter() {
            let name = node.name_any();
            self.hear(cache, node, now);
            let evicting = taints(node).iter().any(|taint| taint.effect == "NoExecute");
            if evicting || (self.silent(&name, now) && ready(node) != "Unknown") {
                dirty.insert(Item::Node(name));
            }
        }
        let strays: BTreeSet<&String> = cache.nodes_of_pods().filter(|name| !there.contains(*name)).collect();
        self.missed.retain(|name, _| strays.contains(name));
        for name in strays {
            let since = *self.missed.entry(name.clone()).or_insert(now);
            if now >= since + self.patience.absence {
                dirty.insert(Item::Node(name.clone()));
            }
        }
    }

    fn hear(&mut self, cache: &Cache, node: &Node, now: Instant) {
        let name = node.name_any();
        let lease = cache.leases.get("kube-node-lease", &name);
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
        let heartbeat = condition(node, "Ready").and_then(|one| one.last_heartbeat_time);
        let sign = json!([renewed, heartbeat]);
        match self.heard.get(&name) {
            Some((before, _)) if *before == sign => {}
            Some(_) | None => {
                self.heard.insert(name, (sign, now));
            }
        }
    }

    /// While the API is gone nobody can give a sign of life, and its absence says nothing about a node: silence counts
    /// from when there is somebody to hear again. (Real controllers lose their own lease meanwhile and start anew.)
    pub(super) fn was_deaf(&mut self, now: Instant) {
        self.heard.values_mut().for_each(|(_, since)| *since = now);
    }

    /// The taints that drive pods off a node, each with how long it has.
    fn driving(&mut self, node: &Node, now: Instant) -> Vec<(Taint, Duration)> {
        let name = node.name_any();
        let all: Vec<Taint> =
            taints(node).iter().filter(|taint| taint.effect == "NoExecute").cloned().collect();
        self.driving.retain(|(of, key), _| *of != name || all.iter().any(|taint| taint.key == *key));
        let since = |taint: Taint| {
            let since = *self.driving.entry((name.clone(), taint.key.clone())).or_insert(now);
            (taint, now.saturating_duration_since(since))
        };
        all.into_iter().map(since).collect()
    }

    fn silent(&self, node: &str, now: Instant) -> bool {
        self.heard.get(node).is_some_and(|(_, since)| now >= *since + self.patience.silence)
    }

    pub(super) fn look(&mut self, cache: &Cache, name: &str, now: Instant) -> Vec<Write> {
        let Some(node) = cache.nodes.get("", name) else {
            let gone = self.missed.get(name).is_some_and(|since| now >= *since + self.patience.absence);
            return if gone {
                cache.pods_on(name).map(|pod| removal(pod, Some(0))).collect()
            } else {
                Vec::new()
            };
        };
        self.hear(cache, node, now);
        if self.silent(name, now) && ready(node) != "Unknown" {
            // Taints and pods follow when the node says so.
            return vec![lost(node)];
        }
        let mut writes = Vec::new();
        writes.extend(tainted(node));
        if ready(node) == "Unknown" {
            writes.extend(cache.pods_on(name).filter(|pod| is_ready(pod)).map(|pod| unready(pod)));
        }
        let evicted =
            cache.pods_on(name).filter(|pod| pod.metadata.deletion_timestamp.is_none() && !is_over(pod));
        let driving = self.driving(node, now);
        let evicted = evicted.filter(|pod| evicts(&driving, pod));
        writes.extend(evicted.map(|pod| removal(pod, None)));
        writes
    }
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn condition(node: &Node, kind: &str) -> Option<k8s_openapi::api::core::v1::NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == kind).cloned()
}

/// What the node's Ready condition says; nothing is as good as no.
fn ready(node: &Node) -> String {
    condition(node, "Ready").map_or_else(|| "False".to_owned(), |one| one.status)
}

fn stamp() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Nobody knows how the node is.
fn lost(node: &Node) -> Write {
    let before = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut all: Vec<Value> = before.iter().map(|one| json!(one)).collect();
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let at = before.iter().position(|one| one.type_ == kind);
        let never = ("NodeStatusNeverUpdated", "Kubelet never posted node status.");
        let stopped = ("NodeStatusUnknown", "Kubelet stopped posting node status.");
        let (reason, message) = if at.is_some() { stopped } else { never };
        let mut one = at.map_or_else(|| json!({"type": kind}), |at| all[at].clone());
        one["status"] = json!("Unknown");
        one["reason"] = json!(reason);
        one["message"] = json!(message);
        one["lastTransitionTime"] = json!(stamp());
        match at {
            Some(at) => all[at] = one,
            None => all.push(one),
        }
    }
    // Refused if the node has spoken meanwhile.
    let patch =
        json!({"metadata": {"resourceVersion": node.resource_version()}, "status": {"conditions": all}});
    Write::new(Kind::Node, "", &node.name_any(), What::Status(patch))
}

/// The taints that follow from how the node is, if it has others.
fn tainted(node: &Node) -> Option<Write> {
    let state = match ready(node).as_str() {
        "True" => None,
        "False" => Some(NOT_READY),
        _ => Some(UNREACHABLE),
    };
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    if let Some(key) = state {
        wanted.extend([(key, "NoSchedule"), (key, "NoExecute")]);
    }
    // Before its kubelet has said anything a node is not ready, but nothing is driven off it.
    if condition(node, "Ready").is_none() {
        wanted.retain(|(_, effect)| *effect == "NoSchedule");
    }
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((CORDONED, "NoSchedule"));
    }
    let ours = |taint: &&Taint| [UNREACHABLE, NOT_READY, CORDONED].contains(&taint.key.as_str());
    let now: BTreeSet<(&str, &str)> =
        taints(node).iter().filter(ours).map(|taint| (taint.key.as_str(), taint.effect.as_str())).collect();
    if now == wanted.iter().copied().collect() {
        return None;
    }
    let keeps =
        |taint: &&Taint| !ours(taint) || wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut all: Vec<Value> = taints(node).iter().filter(keeps).map(|taint| json!(taint)).collect();
    for (key, effect) in wanted.iter().filter(|one| !now.contains(*one)) {
        let mut taint = json!({"key": key, "effect": effect});
        if *effect == "NoExecute" || *key == CORDONED {
            taint["timeAdded"] = json!(stamp());
        }
        all.push(taint);
    }
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": all}});
    Some(Write::new(Kind::Node, "", &node.name_any(), What::Merge(patch)))
}

/// Nobody knows whether the pod serves: nothing is sent to it.
fn unready(pod: &Pod) -> Write {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let all: Vec<Value> = conditions
        .iter()
        .map(|one| {
            let mut one = json!(one);
            if one["type"] == "Ready" {
                one["status"] = json!("False");
                one["lastTransitionTime"] = json!(stamp());
            }
            one
        })
        .collect();
    let patch =
        json!({"metadata": {"resourceVersion": pod.resource_version()}, "status": {"conditions": all}});
    Write::new(Kind::Pod, &pod.namespace().unwrap_or_default(), &pod.name_any(), What::Status(patch))
}

fn removal(pod: &Pod, grace: Option<u32>) -> Write {
    let uid = pod.uid().unwrap_or_default();
    Write::new(Kind::Pod, &pod.namespace().unwrap_or_default(), &pod.name_any(), What::Delete { uid, grace })
}

/// Whether taints that have been there for so long drive a pod off by now.
fn evicts(taints: &[(Taint, Duration)], pod: &Pod) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    taints.iter().any(|(taint, age)| {
        let tolerating: Vec<_> = tolerations.iter().filter(|one| tolerates(one, taint)).collect();
        if tolerating.is_empty() {
            return true;
        }
        // The most impatient of those that have a limit decides.
        let limit = tolerating.iter().filter_map(|one| one.toleration_seconds).min();
        limit.is_some_and(|seconds| age.as_secs() >= u64::try_from(seconds).unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn node(ready: Option<&str>, more: Value) -> Value {
        let mut node = json!({"metadata": {"name": "n", "resourceVersion": "3"}, "spec": {}});
        if let Some(ready) = ready {
            node["status"] = json!({"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]});
        }
        merge(&mut node, &more);
        node
    }

    fn wanted_taints(node: Value) -> Option<Vec<String>> {
        let node: Node = serde_json::from_value(node).unwrap();
        let write = tainted(&node)?;
        let What::Merge(patch) = write.what else { panic!("{write:?}") };
        let taints = patch["spec"]["taints"].as_array().unwrap().clone();
        let short = |taint: &Value| {
            format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap())
        };
        Some(taints.iter().map(short).map(|text| text.replace("node.kubernetes.io/", "")).collect())
    }

    #[test]
    fn taints_follow_from_how_a_node_is_and_those_of_others_stay() {
        let of = |ready, more| wanted_taints(node(ready, more)).map(|taints| taints.join(" "));
        let tainted = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
        assert_eq!(of(Some("True"), json!({})), None);
        assert_eq!(of(Some("False"), json!({})).unwrap(), "not-ready:NoSchedule not-ready:NoExecute");
        assert_eq!(of(Some("Unknown"), json!({})).unwrap(), "unreachable:NoSchedule unreachable:NoExecute");
        assert_eq!(of(None, json!({})).unwrap(), "not-ready:NoSchedule");
        assert_eq!(
            of(Some("True"), json!({"spec": {"unschedulable": true}})).unwrap(),
            "unschedulable:NoSchedule"
        );
        assert_eq!(of(Some("True"), tainted(UNREACHABLE, "NoExecute")).unwrap(), "");
        assert_eq!(of(Some("True"), tainted("mine", "NoExecute")), None);
        let both = of(Some("False"), tainted("mine", "NoExecute")).unwrap();
        assert_eq!(both, "mine:NoExecute not-ready:NoSchedule not-ready:NoExecute");
    }

    #[test]
    fn a_node_is_lost_after_its_silence_and_not_before_and_any_sign_of_life_counts() {
        let lease = |n: u32| {
            json!({"metadata": {"name": "n", "namespace": "kube-node-lease"},
            "spec": {"renewTime": format!("2026-01-01T00:00:{n:02}.000000Z")}})
        };
        let mut cache = cache(vec![("Node", node(Some("True"), json!({}))), ("Lease", lease(0))]);
        let mut watchman = Watchman::new(Patience::default());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watchman.look(&cache, "n", at(0)), []);
        assert_eq!(watchman.look(&cache, "n", at(39)), []);
        put(&mut cache, "Lease", lease(1), &mut BTreeSet::new());
        assert_eq!(watchman.look(&cache, "n", at(39)), []);
        assert_eq!(watchman.look(&cache, "n", at(78)), []);
        let writes = watchman.look(&cache, "n", at(79));
        let What::Status(patch) = &writes[0].what else { panic!("{writes:?}") };
        assert_eq!(patch["status"]["conditions"][0]["status"], "Unknown");
        assert_eq!(patch["metadata"]["resourceVersion"], "3");
    }

    #[test]
    fn silence_does_not_count_while_the_api_was_gone() {
        let lease = json!({"metadata": {"name": "n", "namespace": "kube-node-lease"},
            "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
        let cache = cache(vec![("Node", node(Some("True"), json!({}))), ("Lease", lease)]);
        let mut watchman = Watchman::new(Patience::default());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watchman.look(&cache, "n", at(0)), []);
        watchman.was_deaf(at(30));
        watchman.was_deaf(at(60));
        assert_eq!(watchman.look(&cache, "n", at(99)), []);
        assert_eq!(watchman.look(&cache, "n", at(100)).len(), 1);
    }

    #[test]
    fn a_taint_drives_off_who_does_not_tolerate_it_or_not_for_longer() {
        let taint = || -> Taint {
            serde_json::from_value(json!({"key": UNREACHABLE, "effect": "NoExecute"})).unwrap()
        };
        let after = |seconds| [(taint(), Duration::from_secs(seconds))];
        let pod = |tolerations: Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap()
        };
        let for_300 = json!([{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
        let for_ever = json!([{"key": UNREACHABLE, "operator": "Exists"}]);
        assert!(evicts(&after(0), &pod(json!([]))));
        assert!(!evicts(&after(299), &pod(for_300.clone())));
        assert!(evicts(&after(300), &pod(for_300)));
        assert!(!evicts(&after(100_000), &pod(for_ever)));
    }
}
