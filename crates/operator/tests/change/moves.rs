//! A change from its beginning to its end: nodes that join, and what is written for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

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

/// Pods of ours that restarted at the beginning or the end of a change would do so on all nodes at once.
#[tokio::test(start_paused = true)]
async fn entering_and_leaving_a_change_writes_to_nothing_that_pods_are_made_of() {
    let mut site = Site::new(1, Chance::new(12)).await;
    let operator = site.cluster.operator("one");
    let written = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&written);
    operator.line.hold(move |method, path| {
        if !["GET", "WATCH"].contains(&method) {
            // The kind, behind the group, the version and the namespace.
            let mut parts =
                path.trim_start_matches('/').split('/').skip_while(|part| !part.starts_with('v')).skip(1);
            let kind = match parts.next() {
                Some("namespaces") => parts.nth(1),
                kind => kind,
            };
            seen.lock().expect("nobody panicked").insert(kind.unwrap_or_default().to_owned());
        }
        false
    });
    site.populate(2, 1).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
    let written = written.lock().expect("nobody panicked").clone();
    let own = ["configmaps", "events", "leases", "machineconfigpools", "machineconfigs", "networks", "nodes"];
    assert_eq!(written, own.map(str::to_owned).into());
}
