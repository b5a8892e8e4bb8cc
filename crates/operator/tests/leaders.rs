//! One leader at a time, whatever happens to the others.

mod support;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use netferry_apiserver::faults::{Calls, Fault};
use netferry_apiserver::status::ApiError;
use serde_json::json;
use tokio::time::Instant;

use support::{Cluster, pass};

fn holder(lease: &Option<Lease>) -> String {
    let spec = lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    holder.split('_').next().unwrap_or_default().to_owned()
}

fn transitions(lease: &Option<Lease>) -> i32 {
    lease.as_ref().and_then(|lease| lease.spec.clone()?.lease_transitions).unwrap_or(-1)
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_dies_another_follows_after_the_lease_and_not_before() {
    let cluster = Cluster::usual().await;
    let first = cluster.operator("first");
    cluster.join("a").await;
    cluster.until_placed(1).await;
    let _second = cluster.operator("second");
    pass(30).await;
    assert_eq!(holder(&cluster.lease().await), "first");
    first.kill();
    let died = Instant::now();
    cluster.join("b").await;
    cluster.until_placed(2).await;
    let waited = died.elapsed();
    // The last renewal is up to two seconds old when the leader dies.
    assert!(waited >= Duration::from_secs(13) && waited <= Duration::from_secs(20), "{waited:?}");
    let lease = cluster.lease().await;
    assert_eq!((holder(&lease).as_str(), transitions(&lease)), ("second", 1));
    assert_eq!(cluster.historian.terms(), [0, 1]);
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_asked_to_stop_lets_go_and_the_next_leads_at_once() {
    let cluster = Cluster::usual().await;
    let first = cluster.operator("first");
    cluster.join("a").await;
    cluster.until_placed(1).await;
    let _second = cluster.operator("second");
    pass(5).await;
    first.stop().await;
    assert_eq!(holder(&cluster.lease().await), "");
    let stopped = Instant::now();
    cluster.join("b").await;
    cluster.until_placed(2).await;
    assert!(stopped.elapsed() <= Duration::from_secs(4), "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_from_the_api_stops_before_another_begins() {
    let cluster = Cluster::usual().await;
    let (first, _second) = (cluster.operator("first"), cluster.operator("second"));
    cluster.join("a").await;
    cluster.until_placed(1).await;
    let (leader, other) =
        if holder(&cluster.lease().await) == "first" { (&first, "second") } else { (&_second, "first") };
    leader.line.hold(|_, _| true);
    cluster.until("the other leads", async || (holder(&cluster.lease().await) == other).then_some(())).await;
    cluster.join("b").await;
    cluster.until_placed(2).await;
    // What the cut-off leader had on its way arrives now, and it may speak again.
    leader.line.let_go();
    pass(120).await;
    cluster.join("c").await;
    cluster.until_placed(3).await;
    assert_eq!(holder(&cluster.lease().await), other);
    assert_eq!(cluster.historian.terms(), [0, 1]);
    cluster.historian.testify();
}

/// The worst that can happen: a leader decided, sent its writes, was stopped with the writes still on their way, another
/// took over and is in the middle of its own writes when the old ones arrive.
#[tokio::test(start_paused = true)]
async fn writes_of_a_stopped_leader_that_arrive_among_those_of_the_next_never_make_an_overlap() {
    let cluster = Cluster::usual().await;
    for name in ["n1", "n2", "n3"] {
        cluster.join(name).await;
    }
    let first = cluster.operator("first");
    first.line.hold(|method, _| method == "PATCH");
    // It gives n1, n2 and n3 the first three subnets; nothing arrives. The first thing it writes is the status.
    first.line.until_held(1).await;
    first.line.hold(|method, path| method == "PATCH" && path.contains("/nodes/"));
    first.line.until_held(3).await;
    first.line.hold(|_, _| true);
    // Without n1 the next leader gives n2 the first subnet and n3 the second, which the stopped one gave n2.
    cluster.remove("n1").await;
    let second = cluster.operator("second");
    second.line.hold(|method, path| method == "PATCH" && path.contains("/nodes/n2"));
    second.line.until_held(1).await;
    pass(1).await;
    first.line.let_go();
    first.line.until_none_is_held().await;
    pass(1).await;
    second.line.let_go();
    cluster.until_placed(2).await;
    pass(120).await;
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_gone_for_a_minute_is_got_over() {
    let cluster = Cluster::usual().await;
    let operator = cluster.operator("first");
    cluster.join("a").await;
    let before = cluster.until_placed(1).await;
    operator.line.hold(|_, _| true);
    cluster.join("b").await;
    pass(60).await;
    assert_eq!(cluster.places().await, before);
    operator.line.let_go();
    let after = cluster.until_placed(2).await;
    assert_eq!(after["a"], before["a"]);
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn a_lease_deleted_by_hand_leaves_every_subnet_where_it_was() {
    let cluster = Cluster::usual().await;
    for n in 0..3 {
        let operator = cluster.operator("x");
        cluster.join(&format!("n{n}")).await;
        cluster.until_placed(n + 1).await;
        operator.stop().await;
    }
    let before = cluster.places().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "netferry");
    leases.delete("netferry-operator", &DeleteParams::default()).await.unwrap();
    let _operator = cluster.operator("x");
    cluster.join("later").await;
    let after = cluster.until_placed(4).await;
    assert!(before.iter().all(|(node, place)| after.get(node) == Some(place)), "{before:?} {after:?}");
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn a_lease_deleted_under_a_leader_leaves_one_leader() {
    let cluster = Cluster::usual().await;
    let _operators = [cluster.operator("a"), cluster.operator("b"), cluster.operator("c")];
    cluster.join("n0").await;
    cluster.until_placed(1).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "netferry");
    for n in 1..5 {
        leases.delete("netferry-operator", &DeleteParams::default()).await.unwrap();
        cluster.join(&format!("n{n}")).await;
        pass(40).await;
    }
    cluster.until_placed(5).await;
    cluster.historian.testify();
}

/// Another process may lead before this one knows that it no longer does: somebody deleted the lease.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_deleted_gives_no_subnet_once_another_holds_a_new_one() {
    let cluster = Cluster::usual().await;
    let first = cluster.operator("first");
    cluster.join("a").await;
    cluster.until_placed(1).await;
    first.line.hold(|method, path| method == "PUT" && path.contains("/leases/"));
    first.line.until_held(1).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "netferry");
    leases.delete("netferry-operator", &DeleteParams::default()).await.unwrap();
    let second = cluster.operator("second");
    second.line.hold(|method, path| method == "PATCH" && path.contains("/nodes/"));
    cluster
        .until("the second leads", async || (holder(&cluster.lease().await) == "second").then_some(()))
        .await;
    cluster.join("b").await;
    second.line.until_held(1).await;
    pass(1).await;
    assert!(!cluster.places().await.contains_key("b"), "only the first could have written");
    second.line.let_go();
    cluster.until_placed(2).await;
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_is_lost_does_not_end_a_leadership() {
    let cluster = Cluster::usual().await;
    let _operators = [cluster.operator("a"), cluster.operator("b")];
    cluster.join("n0").await;
    cluster.until_placed(1).await;
    let before = transitions(&cluster.lease().await);
    for _ in 0..10 {
        let calls = Calls { verb: "update".into(), resource: "leases".into(), times: 1, ..Calls::default() };
        cluster.server.faults().arm(calls, Fault::LoseAnswer(ApiError::internal("connection reset")));
        pass(7).await;
    }
    assert_eq!(transitions(&cluster.lease().await), before);
}

/// A node may write its own Node. Whatever it claims of leaders there, the others get their subnets.
#[tokio::test(start_paused = true)]
async fn a_leader_mark_forged_by_a_node_keeps_no_other_node_without_a_subnet() {
    let forged =
        ["2147483646", "2147483647", "4294967295", "1", "1-00000000-0000-4000-8000-000000000000", ""];
    for value in forged {
        let cluster = Cluster::usual().await;
        let first = cluster.operator("first");
        let second = cluster.operator("second");
        cluster.join("hostile").await;
        cluster.until_placed(1).await;
        for key in ["netferry.dev/leader-term", "netferry.dev/leadership"] {
            cluster.scribble("hostile", key, json!(value)).await;
        }
        cluster.join("b").await;
        cluster.until_placed(2).await;
        first.stop().await;
        second.stop().await;
        let _restarted = [cluster.operator("first"), cluster.operator("second")];
        cluster.join("c").await;
        cluster.until_placed(3).await;
        cluster.historian.testify();
    }
}

/// A new leader marks nodes before it decides. A node that changes its own Node all the time must not delay that.
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_its_node_all_the_time_keeps_no_other_node_without_a_subnet() {
    let cluster = Cluster::usual().await;
    cluster.join("chatty").await;
    cluster.join("quiet").await;
    let every =
        Calls { verb: "patch".into(), resource: "nodes".into(), name: "chatty".into(), ..Calls::default() };
    cluster.server.faults().arm(every, Fault::Conflict);
    let _operator = cluster.operator("first");
    cluster.until("the quiet node has its subnet", async || cluster.places().await.remove("quiet")).await;
    assert!(!cluster.places().await.contains_key("chatty"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_edited_to_the_last_number_is_taken_over_all_the_same() {
    let cluster = Cluster::usual().await;
    let first = cluster.operator("first");
    cluster.join("a").await;
    cluster.until_placed(1).await;
    first.stop().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "netferry");
    let edit = Patch::Merge(json!({"spec": {"leaseTransitions": i32::MAX}}));
    leases.patch("netferry-operator", &PatchParams::default(), &edit).await.unwrap();
    let _operator = cluster.operator("next");
    cluster.join("b").await;
    cluster.until_placed(2).await;
    assert_eq!(transitions(&cluster.lease().await), 0, "it begins again");
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn two_processes_given_one_name_are_two_candidates() {
    let cluster = Cluster::usual().await;
    let (first, second) = (cluster.operator("same"), cluster.operator("same"));
    cluster.join("a").await;
    cluster.until_placed(1).await;
    pass(60).await;
    assert_eq!(transitions(&cluster.lease().await), 0, "neither took it from the other");
    drop((first, second));
}
