//! Nodes that go down, or restart by themselves, in the middle of a change.

use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_core::mtu::record::Stage;

use crate::support::chance::Chance;
use crate::support::machine::mtu;
use crate::support::pass;
use crate::support::site::{HOSTS, PODS, Site};

/// One of the workers, the last to be taken.
const LAST: &str = "n003";

async fn changing(seed: u64) -> (Site, crate::support::Operator) {
    let mut site = Site::new(1, Chance::new(seed)).await;
    let operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    (site, operator)
}

/// Waits until the change is in such a stage and a node that is not the last one runs what is told in it.
async fn begun(site: &Site, stage: impl Fn(Stage) -> bool, sends: u32) {
    site.until("the stage has begun", async |site| {
        let change = site.record().await?.change?;
        stage(change.stage).then_some(())?;
        site.fleet.truth.with(|seen| {
            let there = |(name, (pods, _)): (&String, &(netferry_core::size::Envelope, _))| {
                name != LAST && pods.carries() == mtu(PODS.1) && pods.sends() == mtu(sends)
            };
            seen.serving.iter().any(there).then_some(())
        })
    })
    .await;
}

/// The last node goes down and stays down: nobody else of its pool is taken, no phase begins, and it is named. Then it
/// comes back.
async fn goes_down_and_comes_back(site: &Site) {
    site.fleet.truth.with(|seen| seen.dark.insert(LAST.to_owned()));
    site.fleet.cut_power(LAST);
    // Whoever is on the way arrives.
    pass(300).await;
    let before = (site.record().await, site.fleet.truth.with(|seen| (seen.reboots, seen.serving.clone())));
    pass(3600).await;
    let after = (site.record().await, site.fleet.truth.with(|seen| (seen.reboots, seen.serving.clone())));
    assert_eq!(before, after, "nobody moves while one is down that may not be missed");
    let (_, message) = site.cluster.until_condition(MtuConditionType::InProgress.as_str(), "True").await;
    assert!(message.contains(LAST), "{message}");
    site.fleet.lawful();
    site.fleet.truth.with(|seen| seen.dark.remove(LAST));
}

async fn arrives(site: &Site) {
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_down_in_phase_one_is_waited_for_named_and_arrives_with_the_others() {
    let (site, _operator) = changing(31).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    begun(&site, |stage| matches!(stage, Stage::Spreading { .. }), PODS.0).await;
    goes_down_and_comes_back(&site).await;
    arrives(&site).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_down_in_phase_two_is_waited_for_named_and_arrives_with_the_others() {
    let (site, _operator) = changing(32).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    begun(&site, |stage| stage == Stage::Settling, PODS.1).await;
    goes_down_and_comes_back(&site).await;
    arrives(&site).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_down_before_the_change_is_waited_for_named_and_arrives_with_the_others() {
    let (site, _operator) = changing(33).await;
    site.fleet.truth.with(|seen| seen.dark.insert(LAST.to_owned()));
    site.fleet.cut_power(LAST);
    pass(60).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("the change is applied", async |site| site.record().await?.change).await;
    goes_down_and_comes_back(&site).await;
    arrives(&site).await;
}

#[tokio::test(start_paused = true)]
async fn three_more_restarts_inside_phase_one_change_nothing_that_a_node_runs() {
    let (site, _operator) = changing(34).await;
    // Phase two waits for the second edit.
    site.annotate(MtuUnattended::KEY, None).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.held("AwaitingFinish").await;
    let serving = || site.fleet.truth.with(|seen| seen.serving.clone());
    let (phase_one, applied) = (serving(), site.record().await);
    assert!(
        phase_one
            .values()
            .all(|(pods, host)| pods.pin() == Some(mtu(PODS.0)) && host.pin() == Some(mtu(HOSTS.0)))
    );
    for _ in 0..3 {
        for name in ["n000", LAST] {
            site.fleet.cut_power(name);
        }
        let restarts = site.fleet.truth.with(|seen| seen.reboots) + 2;
        site.until("they are back", async |site| {
            let back = site.fleet.truth.with(|seen| seen.reboots >= restarts && seen.serving.len() == 4);
            back.then_some(())
        })
        .await;
        assert_eq!(serving(), phase_one, "every boot of a phase runs the same");
    }
    assert_eq!(site.record().await, applied);
    site.finish(PODS.1).await;
    arrives(&site).await;
}
