//! ReplicaSets: as many pods as are asked for.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::cache::{Cache, is_over, is_ready};
use super::template;
use super::write::{Kind, What, Write};

/// How many pods are made at once: a set that asks for thousands must not starve the others.
const BATCH: usize = 100;

pub(super) fn look(cache: &Cache, namespace: &str, name: &str) -> Vec<Write> {
    let Some(set) = cache.replica_sets.get(namespace, name) else { return Vec::new() };
    let Some(uid) = set.uid() else { return Vec::new() };
    let spec = set.spec.clone().unwrap_or_default();
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let mut pods: Vec<&Arc<Pod>> = cache.pods_of(&uid).filter(|pod| counts(pod)).collect();
    let mut writes = Vec::new();
    if set.metadata.deletion_timestamp.is_none() {
        if pods.len() < wanted {
            let template = spec.template.clone().unwrap_or_default();
            let missing = (wanted - pods.len()).min(BATCH);
            writes.extend((0..missing).map(|_| template::pod(set.as_ref(), &template, |_| {})));
        }
        if pods.len() > wanted {
            let gone = surplus(&mut pods, wanted);
            writes.extend(gone.iter().map(|pod| deletion(pod)));
        }
    }
    writes.extend(status(set, &pods));
    writes
}

/// Whether a pod is one of those asked for: it is not over and not on its way out.
pub(super) fn counts(pod: &Pod) -> bool {
    !is_over(pod) && pod.metadata.deletion_timestamp.is_none()
}

pub(super) fn deletion(pod: &Pod) -> Write {
    let uid = pod.uid().unwrap_or_default();
    let namespace = pod.namespace().unwrap_or_default();
    Write::new(Kind::Pod, &namespace, &pod.name_any(), What::Delete { uid, grace: None })
}

/// Takes out what is least worth keeping until as many are left as are wanted: what has no node, what is not ready,
/// what shares its node with the most of its kind, what is youngest.
fn surplus<'a>(pods: &mut Vec<&'a Arc<Pod>>, wanted: usize) -> Vec<&'a Arc<Pod>> {
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let mut on: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for pod in pods.iter() {
        *on.entry(node(pod)).or_default() += 1;
    }
    let mut gone = Vec::new();
    while pods.len() > wanted {
        let worth = |pod: &Pod| {
            let born = pod.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |time| time.0.as_second());
            (node(pod).is_some(), is_ready(pod), Reverse(on[&node(pod)]), Reverse(born), pod.name_any())
        };
        let Some(at) = (0..pods.len()).min_by_key(|at| worth(pods[*at])) else { break };
        let pod = pods.swap_remove(at);
        on.entry(node(pod)).and_modify(|count| *count -= 1);
        gone.push(pod);
    }
    gone
}

fn status(set: &ReplicaSet, pods: &[&Arc<Pod>]) -> Option<Write> {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let template =
        set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.clone());
    let labels = template.unwrap_or_default();
    let labelled = |pod: &&&Arc<Pod>| labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
    let ready = count(pods.iter().filter(|pod| is_ready(pod)).count());
    let (replicas, labelled) = (count(pods.len()), count(pods.iter().filter(labelled).count()));
    let now = set.status.clone().unwrap_or_default();
    let wanted = ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: Some(labelled),
        ready_replicas: Some(ready),
        available_replicas: Some(ready),
        observed_generation: set.metadata.generation,
        ..now.clone()
    };
    let said = |status: &ReplicaSetStatus| {
        let or_none = |n: Option<i32>| n.unwrap_or(0);
        (
            status.replicas,
            or_none(status.fully_labeled_replicas),
            or_none(status.ready_replicas),
            or_none(status.available_replicas),
            status.observed_generation,
        )
    };
    if said(&now) == said(&wanted) {
        return None;
    }
    // What is none is left out, as the real controller leaves it out.
    let some = |n: i32| if n == 0 { json!(null) } else { json!(n) };
    let patch = json!({"status": {
        "replicas": replicas,
        "fullyLabeledReplicas": some(labelled),
        "readyReplicas": some(ready),
        "availableReplicas": some(ready),
        "observedGeneration": set.metadata.generation,
    }});
    let namespace = set.namespace().unwrap_or_default();
    Some(Write::new(Kind::ReplicaSet, &namespace, &set.name_any(), What::Status(patch)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use serde_json::Value;

    fn set(replicas: u32) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "set-1", "generation": 1},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
        })
    }

    fn pod(name: &str, more: Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set-1", "controller": true}]},
            "spec": {"containers": [], "nodeName": "n1"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        merge(&mut pod, &more);
        pod
    }

    fn deleted(writes: &[Write]) -> Vec<String> {
        let deleting = writes.iter().filter(|write| matches!(write.what, What::Delete { .. }));
        deleting.map(|write| write.name.clone()).collect()
    }

    #[test]
    fn missing_pods_are_made_with_an_owner_and_ended_ones_replaced() {
        let over = json!({"status": {"phase": "Failed"}});
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let cache = cache(vec![
            ("ReplicaSet", set(3)),
            ("Pod", pod("a", json!({}))),
            ("Pod", pod("b", over)),
            ("Pod", pod("c", going)),
        ]);
        let writes = look(&cache, "shop", "web");
        let made: Vec<&Value> = writes
            .iter()
            .filter_map(|write| if let What::Create(pod) = &write.what { Some(pod) } else { None })
            .collect();
        assert_eq!(made.len(), 2);
        assert_eq!(made[0]["metadata"]["generateName"], "web-");
        assert_eq!(made[0]["metadata"]["ownerReferences"][0]["uid"], "set-1");
        assert_eq!(made[0]["metadata"]["labels"]["app"], "web");
    }

    #[test]
    fn of_too_many_those_go_that_serve_least() {
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let cache = cache(vec![
            ("ReplicaSet", set(2)),
            ("Pod", pod("ready", json!({}))),
            ("Pod", pod("unready", unready)),
            ("Pod", pod("unbound", json!({"spec": {"nodeName": null}}))),
            ("Pod", pod("other", json!({"spec": {"nodeName": "n2"}}))),
        ]);
        assert_eq!(deleted(&look(&cache, "shop", "web")), ["unbound", "unready"]);
    }

    #[test]
    fn pods_that_go_leave_the_others_spread() {
        let on = |name: &str, node: &str| ("Pod", pod(name, json!({"spec": {"nodeName": node}})));
        let mut objects = vec![("ReplicaSet", set(3))];
        objects.extend([
            on("a", "n1"),
            on("b", "n1"),
            on("c", "n2"),
            on("d", "n2"),
            on("e", "n3"),
            on("f", "n3"),
        ]);
        assert_eq!(deleted(&look(&cache(objects), "shop", "web")), ["a", "c", "e"]);
    }

    #[test]
    fn a_status_that_says_so_already_is_not_written_again() {
        let mut whole = set(1);
        whole["status"] = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1,
            "availableReplicas": 1, "observedGeneration": 1});
        let cache = cache(vec![("ReplicaSet", whole), ("Pod", pod("a", json!({})))]);
        assert_eq!(look(&cache, "shop", "web"), []);
    }
}
