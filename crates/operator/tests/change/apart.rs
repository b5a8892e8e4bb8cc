//! What becomes of a change when the network is no longer ours to run, and what is said where it never was.

use kube::ResourceExt;
use kube::api::ListParams;
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::rollout::annotations::{CordonedFor, LastAppliedDrain};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::budget;
use crate::support::chance::Chance;
use crate::support::site::{HOSTS, PODS, Site};
use crate::support::{Operator, pass};

const REFUSED: &str = MtuConditionType::Refused.as_str();

/// A change of which the first node is on its way back from its restart.
async fn changing(seed: u64) -> (Site, Operator) {
    let mut site = Site::new(1, Chance::new(seed)).await;
    let operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("a node restarts", async |site| {
        site.fleet.truth.with(|seen| (seen.reboots > 0).then_some(()))
    })
    .await;
    (site, operator)
}

/// Nobody else is taken, and nobody stays away.
async fn stands_still(site: &Site) {
    site.until("whoever was away is let back in", async |site| {
        let nodes = site.cluster.nodes().list(&ListParams::default()).await.expect("a list").items;
        let away: Vec<String> = nodes
            .iter()
            .filter(|node| node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)))
            .map(|node| node.name_any())
            .collect();
        away.is_empty().then_some(())
    })
    .await;
    let reboots = site.fleet.truth.with(|seen| seen.reboots);
    pass(600).await;
    assert_eq!(site.fleet.truth.with(|seen| seen.reboots), reboots, "a node is taken");
}

async fn arrives(site: &Site) {
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_let_be_in_the_middle_of_a_change_keeps_no_node_away_and_goes_on_later() {
    let (site, _operator) = changing(31).await;
    site.edit(json!({ "spec": { "managementState": "Unmanaged" } })).await;
    stands_still(&site).await;
    site.edit(json!({ "spec": { "managementState": "Managed" } })).await;
    arrives(&site).await;
}

/// Whether we keep a node from pods, and whether its last drain is said to be done.
async fn kept_away(site: &Site, node: &str) -> (bool, bool) {
    let object = site.cluster.nodes().get(node).await.expect("the node");
    let cordoned = object.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    let said = object.annotations();
    assert_eq!(cordoned, said.contains_key(CordonedFor::KEY), "the cordon and its mark come and go together");
    (cordoned, said.get(LastAppliedDrain::KEY).is_some_and(|done| done.starts_with("drain-")))
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_let_be_keeps_no_node_away_that_waits_to_be_drained() {
    let mut site = Site::new(1, Chance::new(34)).await;
    let _operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    budget::keep(&site, "kept", "n001").await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("the node is cordoned", async |site| {
        let told = site.cluster.events("Node", "n001").await;
        told.iter().any(|(reason, _)| reason == "FailedToDrain").then_some(())
    })
    .await;
    assert_eq!(kept_away(&site, "n001").await, (true, false));
    site.edit(json!({ "spec": { "managementState": "Unmanaged" } })).await;
    stands_still(&site).await;
    assert_eq!(kept_away(&site, "n001").await, (false, false));
    site.edit(json!({ "spec": { "managementState": "Managed" } })).await;
    site.until("it is cordoned again", async |site| kept_away(site, "n001").await.0.then_some(())).await;
    budget::let_go(&site, "kept").await;
    arrives(&site).await;
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_let_be_puts_no_pods_on_a_node_that_restarts() {
    let mut site = Site::new(1, Chance::new(35)).await;
    let _operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    let names: Vec<String> = site.fleet.names().cloned().collect();
    site.fleet.truth.with(|seen| seen.dark.extend(names));
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("n001 is off", async |site| {
        site.fleet.truth.with(|seen| (!seen.serving.contains_key("n001")).then_some(()))
    })
    .await;
    site.edit(json!({ "spec": { "managementState": "Unmanaged" } })).await;
    pass(600).await;
    assert_eq!(kept_away(&site, "n001").await, (true, true));
    site.fleet.truth.with(|seen| seen.dark.clear());
    stands_still(&site).await;
    site.edit(json!({ "spec": { "managementState": "Managed" } })).await;
    arrives(&site).await;
}

#[tokio::test(start_paused = true)]
async fn another_plugin_named_in_the_middle_of_a_change_is_refused_and_the_change_goes_on() {
    let (site, _operator) = changing(32).await;
    site.edit(json!({ "spec": { "defaultNetwork": { "type": "OpenShiftSDN" } } })).await;
    let (reason, message) = site.cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "InvalidOperatorConfig", "{message}");
    assert!(message.contains("spec.defaultNetwork.type cannot become \"OpenShiftSDN\""), "{message}");
    arrives(&site).await;
}

/// What an operator says that it measures.
async fn measured(at: std::net::SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(at).await.ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await.ok()?;
    Some(page)
}

/// What is published is the network of the older plugin, as where it was there before us.
async fn of_the_older_plugin(site: &Site) {
    site.edit(json!({ "spec": { "defaultNetwork": { "type": "OpenShiftSDN" } } })).await;
    site.publish(json!({ "networkType": "OpenShiftSDN" })).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_the_older_plugin_s_mtu_is_checked_by_its_numbers_and_answered() {
    let mut site = Site::new(1, Chance::new(33)).await;
    let listen =
        TcpListener::bind("127.0.0.1:0").await.and_then(|free| free.local_addr()).expect("an address");
    let operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    operator.stop().await;
    of_the_older_plugin(&site).await;
    let _operator = site.cluster.operator_at("two", listen);
    let asked = |to: u32| {
        let mtu = json!({ "network": { "from": PODS.0, "to": to }, "machine": { "to": HOSTS.0 } });
        json!({ "spec": { "defaultNetwork": { "type": "OpenShiftSDN" }, "migration": { "mtu": mtu } } })
    };
    site.edit(asked(1500)).await;
    let (reason, message) = site.cluster.until_condition(REFUSED, "True").await;
    assert_eq!(reason, "MachineTooSmall", "{message}");
    assert!(message.contains("1550") && message.contains("OpenShiftSDN"), "{message}");
    site.edit(asked(1450)).await;
    site.until("only the plugin is refused", async |site| {
        let condition = site.cluster.condition(REFUSED).await?;
        (condition.reason.as_deref() == Some("PluginNotServed")).then_some(())
    })
    .await;
    let told = site.cluster.events("Network", "cluster").await;
    assert!(told.iter().any(|(reason, _)| reason == "PluginNotServed"), "{told:#?}");
    let page = site.until("an answer", async |_| measured(listen).await).await;
    assert!(page.contains("\nnetferry_mtu_refusals_total{reason=\"MachineTooSmall\"} 1\n"), "{page}");
    assert!(page.contains("\nnetferry_mtu_refusals_total{reason=\"PluginNotServed\"} "), "{page}");
    assert_eq!(site.record().await, None, "nothing is applied");
    site.edit(json!({ "spec": { "migration": null } })).await;
    site.cluster.until_condition(REFUSED, "False").await;
}
