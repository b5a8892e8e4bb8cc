//! Edits beside a change of MTU, and of what is published, that change nothing, and what is published of a change.

use kube::api::{Api, Patch, PatchParams, PostParams};
use netferry_api::overlay::{ConfigNetwork, ConfigNetworkSpec};
use serde_json::{Value, json};

use super::refusals::Edit;
use crate::support::chance::Chance;
use crate::support::site::{HOSTS, PODS, Site};
use crate::support::{Cluster, network, pass};

/// What the cluster's `Network` says of it, as JSON.
async fn published(site: &Site) -> Value {
    json!(site.cluster.published().await.expect("it is published").status.expect("a status"))
}

/// A change in phase one, which every node has reached: the whole of what is asked.
async fn in_phase_one(site: &Site) -> Value {
    let mtu =
        json!({ "network": { "from": PODS.0, "to": PODS.1 }, "machine": { "from": HOSTS.0, "to": HOSTS.1 } });
    site.edit(json!({ "spec": { "migration": { "mtu": mtu } } })).await;
    mtu
}

#[tokio::test(start_paused = true)]
async fn a_change_in_phase_one_is_published_with_its_end_and_the_spec_stays_as_it_was_asked() {
    let mut site = Site::new(1, Chance::new(61)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    let mtu = in_phase_one(&site).await;
    let asked = json!(site.cluster.network().await.spec);
    assert_eq!(asked["defaultNetwork"]["ovnKubernetesConfig"]["mtu"], PODS.0);
    let is_published = async |when: &str| {
        let status = published(&site).await;
        assert_eq!(status["clusterNetworkMTU"], PODS.1, "{when}: {status}");
        assert_eq!(status["migration"], json!({ "mtu": mtu }), "{when}");
        assert_eq!(json!(site.cluster.network().await.spec), asked, "{when}");
    };
    site.until("a node restarts", async |site| {
        site.fleet.truth.with(|seen| (seen.reboots > 0).then_some(()))
    })
    .await;
    is_published("while nodes are on their way").await;
    site.held("AwaitingFinish").await;
    pass(600).await;
    is_published("when all of them are there").await;
}

#[tokio::test(start_paused = true)]
async fn the_plugin_s_mtu_beside_a_change_is_ignored_whatever_it_is() {
    let mut site = Site::new(1, Chance::new(62)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    in_phase_one(&site).await;
    site.held("AwaitingFinish").await;
    pass(120).await;
    for mtu in [1234, 70_000, 100, PODS.1] {
        let edited = json!({ "defaultNetwork": { "ovnKubernetesConfig": { "mtu": mtu } } });
        let told = Edit::make(&site, edited, &[]).await.changed_nothing(&site).await;
        assert_eq!(told, [], "{mtu}");
    }
}

#[tokio::test(start_paused = true)]
async fn features_alone_are_no_change_and_none_is_published() {
    let mut site = Site::new(1, Chance::new(63)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    pass(120).await;
    let edited =
        json!({ "migration": { "networkType": "", "features": { "egressIP": true, "multicast": false } } });
    let told = Edit::make(&site, edited, &[]).await.changed_nothing(&site).await;
    assert_eq!(told, []);
    assert_eq!(published(&site).await.get("migration"), None);
    assert_eq!(site.record().await, None);
}

#[tokio::test(start_paused = true)]
async fn what_another_plugin_published_of_itself_stays() {
    let cluster = Cluster::new().await;
    let spec = |migration: Option<Value>| {
        let mut spec = network(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"]);
        spec["defaultNetwork"] = json!({ "type": "Calico" });
        if let Some(migration) = migration {
            spec["migration"] = migration;
        }
        spec
    };
    cluster.ask(spec(None)).await;
    let api = Api::<ConfigNetwork>::all(cluster.client.clone());
    let named = ConfigNetworkSpec { network_type: Some("Calico".into()), ..ConfigNetworkSpec::default() };
    api.create(&PostParams::default(), &ConfigNetwork::new("cluster", named)).await.expect("a Network");
    let status = json!({ "status": {
        "networkType": "Calico", "clusterNetworkMTU": 1480, "serviceNetwork": ["172.30.0.0/16"],
        "clusterNetwork": [{ "cidr": "10.48.0.0/16", "hostPrefix": 26 }],
    } });
    let patch = Patch::Merge(&status);
    let before = api.patch_status("cluster", &PatchParams::default(), &patch).await.expect("a status");
    let _operator = cluster.operator("one");
    cluster.join("a").await;
    pass(600).await;
    let change = json!({ "network": { "from": 1480, "to": 8900 }, "machine": { "to": 9000 } });
    cluster.ask(spec(Some(json!({ "mtu": change })))).await;
    pass(600).await;
    assert_eq!(json!(cluster.published().await), json!(before), "it was written to");
    assert!(cluster.places().await.is_empty() && cluster.told().await.is_empty());
    assert_eq!(cluster.network().await.status, None);
}

/// Nobody says that the spec is wrong, or that a change is refused: what was edited by hand is what was.
async fn nothing_is_said(site: &Site) {
    let told = site.cluster.told().await;
    let wrong = told.values().filter(|(about, _, _)| about == "Network cluster");
    let wrong: Vec<_> = wrong.filter(|(_, reason, _)| !reason.starts_with("MTUChange")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_mtu_that_somebody_published_by_hand_is_written_over_and_no_newcomer_takes_it() {
    let mut site = Site::new(1, Chance::new(64)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    let again = async |site: &Site| (published(site).await["clusterNetworkMTU"] == PODS.0).then_some(());
    for (at, edited) in [PODS.1, 600, 65_536].into_iter().enumerate() {
        site.publish(json!({ "clusterNetworkMTU": edited })).await;
        site.join(&format!("late{at}"), false).await;
        site.until("what runs is published again", again).await;
        site.until("the newcomer serves", async |site| site.serve(PODS.0).ok()).await;
        nothing_is_said(&site).await;
    }
    assert_eq!(site.record().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_change_comes_from_what_runs_though_something_else_was_published_by_hand() {
    let mut site = Site::new(1, Chance::new(65)).await;
    let operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    operator.stop().await;
    site.publish(json!({ "clusterNetworkMTU": 9000 })).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let operator = site.cluster.operator("two");
    // Whoever publishes what runs is late.
    operator.line.hold(|method, path| method == "PATCH" && path.ends_with("/networks/cluster/status"));
    let change = site.until("the change is applied", async |site| site.record().await?.change).await;
    assert_eq!(change.network.from.bytes(), PODS.0);
    operator.line.let_go();
    site.held("AwaitingFinish").await;
    nothing_is_said(&site).await;
}
