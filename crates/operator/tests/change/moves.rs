//! Nodes that join while the MTU changes.

use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_core::mtu::record::Stage;

use crate::support::chance::Chance;
use crate::support::site::{HOSTS, PODS, Site};

/// Waits until the change is in a stage, and some of its nodes have restarted for it.
async fn in_the_middle_of(site: &Site, stage: impl Fn(Stage) -> bool) {
    site.until("the stage", async |site| {
        let change = site.record().await?.change?;
        stage(change.stage).then_some(())
    })
    .await;
    let before = site.fleet.truth.with(|seen| seen.reboots);
    site.until("a node restarts", async |site| {
        site.fleet.truth.with(|seen| (seen.reboots > before).then_some(()))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_join_in_either_phase_up_and_down_arrive_with_the_others() {
    let mut site = Site::new(1, Chance::new(11)).await;
    let _operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    for (way, (pods, hosts)) in
        [(PODS, HOSTS), ((PODS.1, PODS.0), (HOSTS.1, HOSTS.0))].into_iter().enumerate()
    {
        site.annotate(MtuUnattended::KEY, Some("true")).await;
        site.ask_change(pods.0, pods.1, hosts.1).await;
        in_the_middle_of(&site, |stage| matches!(stage, Stage::Spreading { .. })).await;
        site.join(&format!("one{way}"), false).await;
        in_the_middle_of(&site, |stage| !matches!(stage, Stage::Spreading { .. })).await;
        site.join(&format!("two{way}"), false).await;
        let at = async |site: &Site| site.settled().await.ok().filter(|at| *at == pods.1);
        site.until(&format!("all is at {}", pods.1), at).await;
    }
    assert_eq!(site.fleet.names().count(), 8);
}
