//! Nodes that no pool selects, and nodes of the control plane by their old label.

use kube::api::{DeleteParams, Patch, PatchParams};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_api::mtu::conditions::MtuConditionType;
use serde_json::{Value, json};

use crate::support::chance::Chance;
use crate::support::fleet::CONTROL_PLANE;
use crate::support::pass;
use crate::support::site::{HOSTS, PODS, Site};

const WORKER: &str = "node-role.kubernetes.io/worker";

async fn label(site: &Site, node: &str, labels: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    site.cluster.nodes().patch(node, &PatchParams::default(), &patch).await.expect("a label");
}

async fn arrives(site: &Site) {
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_no_pool_selects_is_named_until_one_does() {
    let mut site = Site::new(1, Chance::new(51)).await;
    let _operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    let labelled = json!({ "matchExpressions": [{ "key": WORKER, "operator": "Exists" }] });
    let patch = Patch::Merge(json!({ "spec": { "nodeSelector": labelled } }));
    site.pools().patch("worker", &PatchParams::default(), &patch).await.expect("a pool");
    label(&site, "n003", json!({ WORKER: null })).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    pass(1200).await;
    let (_, message) = site.cluster.until_condition(MtuConditionType::InProgress.as_str(), "True").await;
    assert!(message.contains("3 of 4 nodes") && message.contains("n003 (is in no pool)"), "{message}");
    let told = site.cluster.events("Node", "n003").await;
    assert!(told.iter().any(|(reason, _)| reason == "NoPool"), "{told:?}");
    for other in ["n000", "n001"] {
        let told = site.cluster.events("Node", other).await;
        assert!(!told.iter().any(|(reason, _)| reason == "NoPool"), "{other}: {told:?}");
    }
    label(&site, "n003", json!({ WORKER: "" })).await;
    arrives(&site).await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_node_with_the_old_label_alone_is_in_the_control_planes_pool() {
    // Nobody counts this one to the control plane who only knows the new label.
    let mut site = Site::new(2, Chance::new(52)).await;
    site.pools().delete("worker", &DeleteParams::default()).await.expect("a deletion");
    let _operator = site.cluster.operator("one");
    site.populate(2, 1).await;
    label(&site, "n000", json!({ CONTROL_PLANE: null, "node-role.kubernetes.io/master": "" })).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    arrives(&site).await;
    for pool in ["master", "worker"] {
        let status = site.pools().get(pool).await.expect("a pool").status.expect("a status");
        assert_eq!(status.machine_count, 1, "{pool}");
    }
}
