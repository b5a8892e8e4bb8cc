//! A cluster of one node: there is nowhere to drain it to.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_api::rollout::annotations::{ControlPlaneTopology, LastAppliedDrain};
use serde_json::json;

use crate::support::chance::Chance;
use crate::support::site::{HOSTS, PODS, Site};

async fn one_node(seed: u64) -> (Site, crate::support::Operator) {
    let mut site = Site::new(1, Chance::new(seed)).await;
    let operator = site.cluster.operator("one");
    site.populate(1, 1).await;
    (site, operator)
}

/// Asks for a change that finishes by itself.
async fn ask(site: &Site, from: u32, to: u32, machine: u32) {
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(from, to, machine).await;
}

async fn arrives_at(site: &Site, size: u32) {
    site.until(&format!("all is at {size}"), async |site| site.settled().await.ok().filter(|at| *at == size))
        .await;
}

async fn topology(site: &Site, node: &str) -> Option<String> {
    site.cluster.annotations(node).await.get(ControlPlaneTopology::KEY).cloned()
}

#[tokio::test(start_paused = true)]
async fn the_only_node_of_a_cluster_changes_its_mtu_without_being_drained() {
    let (site, _operator) = one_node(41).await;
    // The operator's own: evicted, it would find no other node, and nobody would let this one back in.
    let pod = json!({
        "metadata": { "name": "operator" },
        "spec": { "nodeName": "n000", "containers": [{ "name": "c", "image": "none" }] },
    });
    let pods = Api::<Pod>::namespaced(site.cluster.client.clone(), "default");
    let pod = serde_json::from_value(pod).expect("a pod");
    let made = pods.create(&PostParams::default(), &pod).await.expect("a pod");
    ask(&site, PODS.0, PODS.1, HOSTS.1).await;
    arrives_at(&site, PODS.1).await;
    let pod = pods.get("operator").await.expect("the pod");
    assert_eq!((pod.uid(), pod.metadata.deletion_timestamp), (made.uid(), None), "it was evicted");
    assert_eq!(topology(&site, "n000").await.as_deref(), Some("SingleReplica"));
}

#[tokio::test(start_paused = true)]
async fn an_only_node_that_already_waits_to_be_drained_is_told_that_it_is_alone() {
    let (site, _operator) = one_node(42).await;
    ask(&site, PODS.0, PODS.1, HOSTS.1).await;
    arrives_at(&site, PODS.1).await;
    // As an operator that says nothing of it leaves a node.
    site.cluster.scribble("n000", ControlPlaneTopology::KEY, json!(null)).await;
    site.until("it is told again", async |site| {
        topology(site, "n000").await.filter(|topology| topology == "SingleReplica")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_no_longer_alone_is_drained_like_any_other() {
    let (mut site, _operator) = one_node(43).await;
    ask(&site, PODS.0, PODS.1, HOSTS.1).await;
    arrives_at(&site, PODS.1).await;
    ask(&site, PODS.1, PODS.0, HOSTS.0).await;
    arrives_at(&site, PODS.0).await;
    site.join("n001", false).await;
    site.until("the first is told", async |site| {
        topology(site, "n000").await.filter(|topology| topology == "HighlyAvailable")
    })
    .await;
    arrives_at(&site, PODS.0).await;
    ask(&site, PODS.0, PODS.1, HOSTS.1).await;
    arrives_at(&site, PODS.1).await;
    for node in ["n000", "n001"] {
        let said = site.cluster.annotations(node).await;
        assert_eq!(said.get(ControlPlaneTopology::KEY).map(String::as_str), Some("HighlyAvailable"));
        assert!(said.contains_key(LastAppliedDrain::KEY), "{node} was not drained: {said:?}");
    }
}
