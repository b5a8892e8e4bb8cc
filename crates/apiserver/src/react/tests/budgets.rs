//! Disruption budgets.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, owner, pod};
use crate::Settings;

const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b";

async fn budget(cluster: &Cluster, mut spec: Value) {
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    cluster.create(budgets, json!({"metadata": {"name": "b"}, "spec": spec})).await;
}

/// Healthy, desired, expected and allowed, as the budget says.
async fn counted(cluster: &Cluster) -> [i64; 4] {
    let status = &cluster.get(BUDGET).await.expect("the budget")["status"];
    ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"]
        .map(|field| status[field].as_i64().unwrap_or_else(|| panic!("{field} in {status:#}")))
}

async fn condition(cluster: &Cluster) -> (String, String) {
    let budget = cluster.get(BUDGET).await.expect("the budget");
    let condition = &budget["status"]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

async fn evict(cluster: &Cluster, name: &str) -> u16 {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    cluster.ask("POST", &path, Some(&eviction)).await.0
}

fn app() -> Value {
    json!({"app": "x"})
}

/// A Deployment's ReplicaSet of that size; gives a reference to it. `above` is the Deployment's size, when there is one.
async fn replica_set(cluster: &Cluster, replicas: i64, above: Option<i64>) -> Value {
    let spec = |replicas: i64| {
        json!({
            "replicas": replicas, "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        })
    };
    let mut owners = Vec::new();
    if let Some(above) = above {
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        let object = json!({"metadata": {"name": "d"}, "spec": spec(above)});
        let mut reference = owner(&cluster.create(deployments, object).await, true);
        reference["controller"] = json!(true);
        owners.push(reference);
    }
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let object = json!({"metadata": {"name": "r", "ownerReferences": owners}, "spec": spec(replicas)});
    let mut reference = owner(&cluster.create(sets, object).await, true);
    reference["controller"] = json!(true);
    reference
}

#[tokio::test]
async fn a_budget_counts_by_number_and_by_percentage() {
    // The budget, how many of four pods are ready, and what it should say: healthy, desired, expected, allowed.
    let table = [
        (json!({"minAvailable": 2}), 4, [4, 2, 4, 2]),
        (json!({"minAvailable": 2}), 2, [2, 2, 4, 0]),
        (json!({"minAvailable": 9}), 4, [4, 9, 4, 0]),
        (json!({"minAvailable": 0}), 4, [4, 0, 4, 4]),
        // Percentages and maxUnavailable are of what the controller wants: six.
        (json!({"minAvailable": "50%"}), 4, [4, 3, 6, 1]),
        (json!({"minAvailable": "51%"}), 4, [4, 4, 6, 0]),
        (json!({"minAvailable": "100%"}), 4, [4, 6, 6, 0]),
        (json!({"maxUnavailable": 3}), 4, [4, 3, 6, 1]),
        (json!({"maxUnavailable": "34%"}), 4, [4, 3, 6, 1]),
        (json!({"maxUnavailable": 0}), 4, [4, 6, 6, 0]),
        (json!({"maxUnavailable": 9}), 1, [1, 0, 6, 1]),
    ];
    for (spec, ready, expected) in table {
        let cluster = Cluster::new();
        let set = replica_set(&cluster, 6, None).await;
        for nth in 0..4 {
            pod(&cluster, &format!("p{nth}"), app(), std::slice::from_ref(&set), nth < ready).await;
        }
        pod(&cluster, "other", json!({"app": "y"}), &[], true).await;
        budget(&cluster, spec.clone()).await;
        assert_eq!(counted(&cluster).await, expected, "{spec} with {ready} ready");
        let reason = if expected[3] > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        assert_eq!(condition(&cluster).await, (reason.0.to_owned(), reason.1.to_owned()), "{spec}");
    }
}

#[tokio::test]
async fn the_deployment_behind_a_replica_set_decides_how_many_pods_are_expected() {
    let cluster = Cluster::new();
    let set = replica_set(&cluster, 2, Some(10)).await;
    pod(&cluster, "p", app(), &[set], true).await;
    budget(&cluster, json!({"maxUnavailable": "90%"})).await;
    assert_eq!(counted(&cluster).await, [1, 1, 10, 0]);
    // Its size counts as soon as it changes.
    cluster
        .merge("/apis/apps/v1/namespaces/default/deployments/d/scale", json!({"spec": {"replicas": 1}}))
        .await;
    assert_eq!(counted(&cluster).await, [1, 0, 1, 1]);
}

#[tokio::test]
async fn a_budget_follows_its_pods() {
    let cluster = Cluster::new();
    budget(&cluster, json!({"minAvailable": 1})).await;
    assert_eq!(counted(&cluster).await, [0, 1, 0, 0]);
    pod(&cluster, "a", app(), &[], true).await;
    assert_eq!(counted(&cluster).await, [1, 1, 1, 0]);
    pod(&cluster, "b", app(), &[], false).await;
    assert_eq!(counted(&cluster).await, [1, 1, 2, 0]);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.merge("/api/v1/namespaces/default/pods/b/status", ready).await;
    assert_eq!(counted(&cluster).await, [2, 1, 2, 1]);
    // One that no longer matches no longer counts.
    cluster.merge("/api/v1/namespaces/default/pods/b", json!({"metadata": {"labels": {"app": "y"}}})).await;
    assert_eq!(counted(&cluster).await, [1, 1, 1, 0]);
    cluster.merge(BUDGET, json!({"spec": {"minAvailable": 0}})).await;
    assert_eq!(counted(&cluster).await, [1, 0, 1, 1]);
    cluster.delete("/api/v1/namespaces/default/pods/a", "").await;
    assert_eq!(counted(&cluster).await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn evictions_stop_where_the_budget_ends() {
    let cluster = Cluster::new();
    for name in ["a", "b", "c"] {
        pod(&cluster, name, app(), &[], true).await;
    }
    budget(&cluster, json!({"minAvailable": 2})).await;
    assert_eq!(evict(&cluster, "a").await, 201);
    assert!(!cluster.there("/api/v1/namespaces/default/pods/a").await);
    assert_eq!(counted(&cluster).await, [2, 2, 2, 0]);
    assert_eq!(evict(&cluster, "b").await, 429);
    assert!(cluster.there("/api/v1/namespaces/default/pods/b").await);
    // A replacement makes room.
    pod(&cluster, "d", app(), &[], true).await;
    assert_eq!(evict(&cluster, "b").await, 201);
}

#[tokio::test]
async fn a_pod_whose_controller_is_not_there_stops_the_count() {
    let cluster = Cluster::new();
    let set = replica_set(&cluster, 3, None).await;
    pod(&cluster, "p", app(), &[set], true).await;
    budget(&cluster, json!({"maxUnavailable": 1})).await;
    assert_eq!(counted(&cluster).await, [1, 2, 3, 0]);
    // The set goes and leaves its pod behind, which then belongs to nobody.
    cluster.delete("/apis/apps/v1/namespaces/default/replicasets/r", "Orphan").await;
    assert!(cluster.there("/api/v1/namespaces/default/pods/p").await);
    assert_eq!(counted(&cluster).await[3], 0);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_that_does_not_go_counts_again_after_two_minutes() {
    let cluster = Cluster::with(Settings { seed: Some(1), ..Settings::default() });
    for name in ["a", "b"] {
        pod(&cluster, name, app(), &[], true).await;
    }
    budget(&cluster, json!({"minAvailable": 1})).await;
    assert_eq!(counted(&cluster).await, [2, 1, 2, 1]);
    // As an eviction leaves it whose deletion never came.
    let now = cluster.server.core.clock.stamp();
    let noted = json!({"status": {"disruptedPods": {"a": now}, "disruptionsAllowed": 0}});
    cluster.merge(&format!("{BUDGET}/status"), noted).await;
    assert_eq!(counted(&cluster).await, [1, 1, 2, 0]);
    tokio::time::advance(Duration::from_secs(100)).await;
    assert_eq!(counted(&cluster).await, [1, 1, 2, 0]);
    assert_eq!(evict(&cluster, "b").await, 429);
    // Nothing happens to any pod or budget: time alone must do it.
    tokio::time::advance(Duration::from_secs(25)).await;
    assert_eq!(counted(&cluster).await, [2, 1, 2, 1]);
    let budget = cluster.get(BUDGET).await.expect("the budget");
    assert!(budget["status"]["disruptedPods"].is_null(), "{budget:#}");
}
