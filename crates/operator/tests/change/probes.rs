//! Nodes try whether the new size gets through between them; what they find stops a change, and turns it around.

use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::{MtuOnLoss, MtuUnattended};

use crate::support::chance::Chance;
use crate::support::machine::mtu;
use crate::support::pass;
use crate::support::site::{HOSTS, PODS, Site};

const NAMED: &str = "from n001 to n003 (hosts, IPv4: all above 1500)";
const LOSING: &str = "from n001 to n003 (pods, IPv4: 3 of 20)";

/// A cluster whose underlay does not carry the new size from one node to another.
async fn narrow(seed: u64) -> (Site, crate::support::Operator) {
    let mut site = Site::new(1, Chance::new(seed)).await;
    let operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    site.fleet.truth.with(|seen| seen.narrow = Some(("n001".into(), "n003".into(), mtu(HOSTS.0))));
    (site, operator)
}

/// The notes of the Events that say that packets are lost.
async fn told(site: &Site) -> Vec<String> {
    let events = site.cluster.events("Network", "cluster").await;
    events.into_iter().filter(|(reason, _)| reason == "PacketsLost").map(|(_, note)| note).collect()
}

#[tokio::test(start_paused = true)]
async fn an_underlay_that_cannot_carry_the_new_size_is_named_and_the_change_goes_back() {
    let (site, _operator) = narrow(21).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("a node is in phase one", async |site| {
        site.fleet.truth.with(|seen| (seen.reboots > 0).then_some(()))
    })
    .await;
    site.until("everything is back where it was", async |site| {
        let ended = site.record().await?.change.is_none();
        (ended && site.settled().await == Ok(PODS.0)).then_some(())
    })
    .await;
    let told = told(&site).await;
    assert!(told.iter().any(|note| note.contains(NAMED)), "{told:?}");
    let highest = site.fleet.truth.with(|seen| seen.reboots);
    assert!(highest <= 8, "no node but those of phase one and back restarts: {highest}");
}

#[tokio::test(start_paused = true)]
async fn told_to_pause_it_waits_names_the_pair_and_goes_on_when_the_underlay_was_mended() {
    let (site, _operator) = narrow(22).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.annotate(MtuOnLoss::KEY, Some("pause")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let message = site.held("PacketsLost").await;
    assert!(message.contains(NAMED), "{message}");
    let reboots = site.fleet.truth.with(|seen| seen.reboots);
    pass(1200).await;
    assert!(site.fleet.truth.with(|seen| seen.reboots) <= reboots + 1, "nodes are taken in spite of losses");
    assert!(told(&site).await.iter().any(|note| note.contains(NAMED)));
    site.fleet.truth.with(|seen| seen.narrow = None);
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}

#[tokio::test(start_paused = true)]
async fn phase_two_waits_for_a_node_that_has_not_tried_the_others() {
    let (site, _operator) = narrow(23).await;
    // Nobody is too narrow; but one is heard of that nobody can try.
    site.fleet.truth.with(|seen| {
        seen.narrow = None;
        seen.known.insert("ghost".into(), ("no-uid".into(), None));
    });
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let message = site.held("NotProbed").await;
    assert!(message.contains("n001") && message.contains("n003"), "{message}");
    site.fleet.truth.with(|seen| seen.known.remove("ghost"));
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}

/// A change that finishes by itself, on whose way so many of twenty trials are lost as soon as a node is in phase one.
async fn lossy(seed: u64, lost: u32, on_loss: Option<&str>) -> (Site, crate::support::Operator) {
    let mut site = Site::new(1, Chance::new(seed)).await;
    let operator = site.cluster.operator("one");
    site.populate(4, 1).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.annotate(MtuOnLoss::KEY, on_loss).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("a node is in phase one", async |site| {
        site.fleet.truth.with(|seen| (seen.reboots > 0).then_some(()))
    })
    .await;
    site.fleet.truth.with(|seen| seen.lossy = Some(("n001".into(), "n003".into(), lost)));
    (site, operator)
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_while_too_much_is_lost_says_where_and_goes_on_when_that_ends() {
    let (site, _operator) = lossy(24, 3, None).await;
    let message = site.held("PacketsLost").await;
    assert!(message.contains(LOSING), "{message}");
    let reboots = site.fleet.truth.with(|seen| seen.reboots);
    pass(1200).await;
    assert!(site.fleet.truth.with(|seen| seen.reboots) <= reboots + 1, "nodes are taken in spite of losses");
    assert!(site.record().await.is_some_and(|record| record.change.is_some_and(|change| !change.back)));
    assert!(told(&site).await.iter().any(|note| note.contains(LOSING)));
    site.fleet.truth.with(|seen| seen.lossy = None);
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}

#[tokio::test(start_paused = true)]
async fn told_to_reverse_a_change_on_which_too_much_is_lost_goes_back() {
    let (site, _operator) = lossy(25, 3, Some("reverse")).await;
    site.until("everything is back where it was", async |site| {
        let ended = site.record().await?.change.is_none();
        (ended && site.settled().await == Ok(PODS.0)).then_some(())
    })
    .await;
    let told = told(&site).await;
    assert!(told.iter().any(|note| note.contains(LOSING)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_on_which_no_more_is_lost_than_may_be_arrives_and_nothing_is_said_of_it() {
    let (site, _operator) = lossy(26, 2, Some("reverse")).await;
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
    assert_eq!(told(&site).await, [""; 0]);
}
