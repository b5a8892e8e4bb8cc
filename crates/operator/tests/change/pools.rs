//! Nodes that no pool selects, and nodes of the control plane by their old label.

use kube::api::{DeleteParams, Patch, PatchParams};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::rollout::annotations::{CurrentConfig, DesiredConfig};
use netferry_core::name::NodeName;
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

/// Whoever moves away leaves what it has begun to the next one, which has to find out.
#[tokio::test(start_paused = true)]
async fn the_node_the_operator_runs_on_moves_when_those_of_all_pools_have() {
    let mut site = Site::new(1, Chance::new(53)).await;
    let own = NodeName::new("n000").expect("a name");
    let settings = netferry_operator::Settings {
        namespace: "netferry".into(),
        identity: "one".into(),
        timing: site.cluster.timing,
        overlay: netferry_operator::overlay::Settings::default(),
        rollout: netferry_operator::rollout::Settings { node: Some(own) },
        listen: None,
    };
    let client = site.cluster.client.clone();
    tokio::spawn(netferry_operator::run(client, settings, std::future::pending()));
    // The control plane's only node, which nobody of its pool is before.
    site.populate(3, 1).await;
    pass(600).await;
    let told = async |node: &str, key: &str| site.cluster.annotations(node).await.get(key).cloned();
    let (before, workers) = (told("n000", DesiredConfig::KEY).await, told("n001", DesiredConfig::KEY).await);
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("it is told", async |_| (told("n000", DesiredConfig::KEY).await != before).then_some(()))
        .await;
    let target = told("n001", DesiredConfig::KEY).await;
    assert_ne!(target, workers);
    for node in ["n001", "n002"] {
        assert_eq!(told(node, CurrentConfig::KEY).await, target, "{node} has not moved");
    }
}
