//! What waits says what it waits for, and goes on when that is over.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::{MtuOnLoss, MtuPaused, MtuUnattended};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::rollout::MachineConfig;
use netferry_core::mtu::record::{Change, Stage};
use netferry_translate::mtu::APPLIED;
use serde_json::json;

use crate::support::budget;
use crate::support::chance::Chance;
use crate::support::pass;
use crate::support::site::{HOSTS, PODS, Site};

const HELD: &str = MtuConditionType::Held.as_str();

async fn site(seed: u64) -> (Site, crate::support::Operator) {
    let mut site = Site::new(1, Chance::new(seed)).await;
    let operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    (site, operator)
}

async fn settled_at(site: &Site, mtu: u32) {
    site.until(&format!("all is at {mtu}"), async |site| site.settled().await.ok().filter(|at| *at == mtu))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_second_step_is_reported_and_made_it_finishes() {
    let (site, _operator) = site(1).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let message = site.held("AwaitingFinish").await;
    assert!(message.contains("remove spec.migration and set mtu to 8900"), "{message}");
    site.finish(PODS.1).await;
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_said_of_a_change_does_not_outlive_it() {
    let (site, _operator) = site(11).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.annotate(MtuOnLoss::KEY, Some("pause")).await;
    // Said before it is asked for, it waits for it.
    pass(600).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    settled_at(&site, PODS.1).await;
    assert_eq!(site.said_of_the_change().await, [""; 0]);
    site.ask_change(PODS.1, PODS.0, HOSTS.0).await;
    site.held("AwaitingFinish").await;
    pass(1200).await;
    let stage = site.record().await.and_then(|record| record.change).map(|change| change.stage);
    assert_eq!(stage, Some(Stage::Spreading { finish: false }), "phase two has begun unasked");
    // Taken back, too.
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.1, PODS.1, HOSTS.1).await;
    settled_at(&site, PODS.1).await;
    assert_eq!(site.said_of_the_change().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_change_takes_no_further_node_until_it_is_resumed() {
    let (site, _operator) = site(2).await;
    site.annotate(MtuPaused::KEY, Some("true")).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let (reason, _) = site.cluster.until_condition(HELD, "True").await;
    assert_eq!(reason, "Paused");
    pass(600).await;
    assert_eq!(site.fleet.truth.with(|seen| seen.reboots), 0);
    site.annotate(MtuPaused::KEY, None).await;
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_without_a_change_keeps_no_other_configuration_from_nodes() {
    let (site, _operator) = site(9).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    settled_at(&site, PODS.1).await;
    site.annotate(MtuPaused::KEY, Some("true")).await;
    let own = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "50-own", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": { "config": {
            "ignition": { "version": "3.2.0" },
            "storage": { "files": [{ "path": "/etc/motd", "mode": 420, "contents": { "source": "data:,hello" } }] },
        } },
    });
    let own: MachineConfig = serde_json::from_value(own).expect("a MachineConfig");
    let api = Api::<MachineConfig>::all(site.cluster.client.clone());
    api.create(&PostParams::default(), &own).await.expect("a MachineConfig");
    site.until("every worker has it", async |site| {
        let status = site.pools().get("worker").await.ok()?.status?;
        let has = status.configuration?.source.iter().any(|one| one.name.as_deref() == Some("50-own"));
        has.then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_holds_the_change_and_is_named() {
    let (site, _operator) = site(3).await;
    site.annotate(MtuUnattended::KEY, Some("perhaps")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let (reason, message) = site.cluster.until_condition(HELD, "True").await;
    assert_eq!(reason, "MTUAnnotationUnusable");
    assert!(message.contains(MtuUnattended::KEY) && message.contains("perhaps"), "{message}");
    pass(600).await;
    assert_eq!(site.fleet.truth.with(|seen| seen.reboots), 0);
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_pool_stops_phase_two_of_all_until_it_goes_on() {
    let (site, _operator) = site(4).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    let paused = |paused: bool| Patch::Merge(json!({ "spec": { "paused": paused } }));
    site.pools().patch("worker", &PatchParams::default(), &paused(true)).await.expect("a pool");
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    pass(1200).await;
    let stage = site.record().await.and_then(|record| record.change).map(|change| change.stage);
    assert_eq!(stage, Some(Stage::Spreading { finish: false }), "phase two has begun without the workers");
    let status = site.pools().get("worker").await.expect("a pool").status.expect("a status");
    let updating = status.conditions.iter().find(|one| one.type_ == "Updating").expect("a condition");
    assert_eq!((updating.status.as_str(), updating.reason.as_str()), ("False", "Paused"));
    site.pools().patch("worker", &PatchParams::default(), &paused(false)).await.expect("a pool");
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_edit_too_early_is_kept_and_names_the_nodes_it_waits_for() {
    let (site, _operator) = site(5).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("the change is applied", async |site| site.record().await?.change).await;
    site.finish(PODS.1).await;
    let (reason, message) = site.cluster.until_condition(HELD, "True").await;
    assert_eq!(reason, "NodesMissing");
    assert!(message.contains("n003"), "{message}");
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_in_the_way_of_a_drain_is_named_until_it_lets_go() {
    let (site, _operator) = site(6).await;
    budget::keep(&site, "kept", "n002").await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let waits = "node n002 is being drained and waits: pod default/kept: PodDisruptionBudget default/kept";
    site.until("the pool names the budget", async |site| {
        let status = site.pools().get("worker").await.ok()?.status?;
        status.conditions.iter().any(|one| one.message.contains(waits)).then_some(())
    })
    .await;
    // An hour and more: it is never given up, and somebody is told.
    pass(4000).await;
    let reasons: Vec<String> =
        site.cluster.events("Node", "n002").await.into_iter().map(|(reason, _)| reason).collect();
    for expected in ["FailedToDrain", "DrainThresholdExceeded", "DrainFailed"] {
        assert!(reasons.iter().any(|reason| reason == expected), "{expected}: {reasons:?}");
    }
    budget::let_go(&site, "kept").await;
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn another_pod_in_the_way_of_a_drain_is_told_like_the_first() {
    let (site, _operator) = site(12).await;
    budget::keep(&site, "first", "n002").await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let is_told = async |site: &Site, pod: &str| {
        let told = site.cluster.events("Node", "n002").await;
        let names = |note: &str| note.contains(&format!("not drained yet: pod default/{pod}: "));
        told.iter().any(|(reason, note)| reason == "FailedToDrain" && names(note)).then_some(())
    };
    site.until("the first is told", async |site| is_told(site, "first").await).await;
    budget::keep(&site, "second", "n002").await;
    budget::let_go(&site, "first").await;
    site.until("the second is told", async |site| is_told(site, "second").await).await;
    budget::let_go(&site, "second").await;
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_not_made_up_when_it_is_lost_in_the_middle_of_a_change() {
    let (site, _operator) = site(7).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("a node is taken", async |site| {
        site.fleet.truth.with(|seen| (seen.reboots > 0).then_some(()))
    })
    .await;
    let api = Api::<ConfigMap>::namespaced(site.cluster.client.clone(), "netferry");
    let mut kept = api.get(APPLIED).await.expect("what is applied");
    api.delete(APPLIED, &DeleteParams::default()).await.expect("a deletion");
    let (reason, message) = site.cluster.until_condition(HELD, "True").await;
    assert_eq!(reason, "RecordLost");
    assert!(message.contains("98-"), "{message}");
    pass(300).await;
    let reboots = site.fleet.truth.with(|seen| seen.reboots);
    pass(600).await;
    assert_eq!(
        site.fleet.truth.with(|seen| seen.reboots),
        reboots,
        "nodes are told without knowing what is applied"
    );
    kept.metadata.resource_version = None;
    kept.metadata.uid = None;
    api.create(&PostParams::default(), &kept).await.expect("what was applied");
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_holds_phase_two_and_others_are_taken_only_when_it_is_back() {
    let (mut site, _operator) = site(8).await;
    // A machine that never comes up: its node is there and says nothing.
    let silent = json!({
        "metadata": { "name": "silent", "labels": { "node-role.kubernetes.io/worker": "" } },
        "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
    });
    let node = serde_json::from_value(silent.clone()).expect("a node");
    site.cluster.nodes().create(&PostParams::default(), &node).await.expect("a node");
    let status = Patch::Merge(json!({ "status": silent["status"] }));
    site.cluster.nodes().patch_status("silent", &PatchParams::default(), &status).await.expect("a status");
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    let mtu =
        json!({ "network": { "from": PODS.0, "to": PODS.1 }, "machine": { "from": HOSTS.0, "to": HOSTS.1 } });
    site.edit(json!({ "spec": { "migration": { "mtu": mtu } } })).await;
    pass(1200).await;
    let change = site.record().await.and_then(|record| record.change);
    assert!(matches!(change, Some(Change { stage: Stage::Spreading { .. }, .. })), "{change:?}");
    let workers = site.cluster.nodes().list(&ListParams::default()).await.expect("a list").items;
    let moved = workers.iter().filter(|node| {
        node.annotations().contains_key("machineconfiguration.openshift.io/lastAppliedDrain")
            && !node.labels().contains_key("node-role.kubernetes.io/control-plane")
    });
    assert_eq!(moved.count(), 0, "one worker may be away, and one is");
    site.cluster.remove("silent").await;
    site.join("j000", false).await;
    settled_at(&site, PODS.1).await;
}

/// What the pool of the workers says of its update.
async fn updating(site: &Site) -> Option<String> {
    let status = site.pools().get("worker").await.ok()?.status?;
    status.conditions.into_iter().find(|one| one.type_ == "Updating").map(|one| one.message)
}

async fn until_updating(site: &Site, part: &str) {
    site.until(&format!("the pool says {part:?}"), async |site| {
        updating(site).await.filter(|message| message.contains(part))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_somebody_cordoned_is_named_by_its_pool_until_it_is_let_back_in() {
    let (site, _operator) = site(9).await;
    let cordon = |on: bool| Patch::Merge(json!({ "spec": { "unschedulable": on.then_some(true) } }));
    let nodes = site.cluster.nodes();
    nodes.patch("n002", &PatchParams::default(), &cordon(true)).await.expect("a cordon");
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    until_updating(&site, "waiting for n002 (cordoned)").await;
    pass(1200).await;
    assert_eq!(updating(&site).await.expect("a message").matches("n00").count(), 1, "nobody else is away");
    nodes.patch("n002", &PatchParams::default(), &cordon(false)).await.expect("an end of it");
    settled_at(&site, PODS.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_says_that_no_further_node_is_taken_while_the_change_is_paused() {
    let (site, _operator) = site(10).await;
    site.annotate(MtuPaused::KEY, Some("true")).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    until_updating(&site, "no further node is taken: the change of MTU is paused").await;
    site.annotate(MtuPaused::KEY, None).await;
    settled_at(&site, PODS.1).await;
}
