//! An operator that hears of nodes late.

use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::MachineConfig;
use netferry_api::rollout::annotations::{CurrentConfig, DesiredConfig, ROLE_LABEL, Taken};
use serde_json::json;

use crate::support::chance::Chance;
use crate::support::pass;
use crate::support::site::Site;

async fn pause(site: &Site, paused: bool) {
    let patch = Patch::Merge(json!({ "spec": { "paused": paused } }));
    site.pools().patch("worker", &PatchParams::default(), &patch).await.expect("a pool");
}

async fn target(site: &Site) -> Option<String> {
    site.pools().get("worker").await.expect("a pool").spec.configuration?.rendered.name
}

async fn told(site: &Site, node: &str) -> Option<String> {
    site.cluster.annotations(node).await.get(DesiredConfig::KEY).cloned()
}

async fn both_run(site: &Site, config: &str) -> Option<()> {
    for node in ["n001", "n002"] {
        let annotations = site.cluster.annotations(node).await;
        let says =
            [CurrentConfig::KEY, DesiredConfig::KEY].map(|key| annotations.get(key).map(String::as_str));
        if says != [Some(config); 2] {
            return None;
        }
    }
    Some(())
}

/// Its pool goes to another configuration and back before the operator hears that the node was told: it looks as if it had
/// been where the pool is all the time, and it is about to leave.
#[tokio::test(start_paused = true)]
async fn a_node_of_which_only_old_news_are_known_keeps_its_place_when_its_pool_turns_around() {
    let mut site = Site::new(1, Chance::new(71)).await;
    let first = site.cluster.operator("one");
    site.populate(3, 1).await;
    let motd = json!({ "path": "/etc/motd", "mode": 420, "overwrite": true, "contents": { "source": "data:,hello" } });
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "60-worker-motd", "labels": { ROLE_LABEL: "worker" } },
        "spec": { "config": { "ignition": { "version": "3.2.0" }, "storage": { "files": [motd] } } },
    });
    let configs = Api::<MachineConfig>::all(site.cluster.client.clone());
    let before = site.until("the pool has a target", target).await;
    site.until("all are there", async |site| both_run(site, &before).await).await;
    configs
        .create(&PostParams::default(), &serde_json::from_value(config).expect("a configuration"))
        .await
        .expect("it");
    let after =
        site.until("it has another", async |site| target(site).await.filter(|now| *now != before)).await;
    // One of two has moved, and the other has not been told.
    let moved = site
        .until("one is told", async |site| {
            for node in ["n001", "n002"] {
                if told(site, node).await.as_ref() == Some(&after) {
                    return Some(node);
                }
            }
            None
        })
        .await;
    pause(&site, true).await;
    let other = if moved == "n001" { "n002" } else { "n001" };
    site.until("it has moved", async |site| {
        let place =
            Taken::read(site.pools().get("worker").await.ok()?.annotations()).ok()?.unwrap_or_default();
        (site.cluster.annotations(moved).await.get(CurrentConfig::KEY) == Some(&after) && place.0.is_empty())
            .then_some(())
    })
    .await;
    // Until both have said all they have to say.
    pass(120).await;
    first.stop().await;

    // The next operator hears nothing of nodes after its first look at them.
    let second = site.cluster.operator("two");
    second.line.hold(|method, path| method == "WATCH" && path == "/api/v1/nodes");
    second.line.until_held(1).await;
    pause(&site, false).await;
    site.until("the other is told", async |site| told(site, other).await.filter(|now| *now == after)).await;
    configs.delete("60-worker-motd", &DeleteParams::default()).await.expect("a deletion");
    site.until("the pool is back", async |site| target(site).await.filter(|now| *now == before)).await;
    pass(120).await;
    let taken = Taken::read(site.pools().get("worker").await.expect("a pool").annotations());
    let taken = taken.expect("it can be read").unwrap_or_default().to_string();
    assert!(taken.contains(other) && !taken.contains(moved), "{taken}");
    assert_eq!(told(&site, moved).await.as_ref(), Some(&after), "it would leave beside the other");
    second.line.let_go();
    site.until("all are back", async |site| both_run(site, &before).await).await;
}
