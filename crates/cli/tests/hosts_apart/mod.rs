//! Hosts that run at different sizes: where they come from is said by whoever asks for a change.

use kube::api::Api;
use serde_json::json;

use super::{Cluster, UP, annotate, with};

const FROM: [&str; 2] = ["--host-from", "1500"];

/// Two nodes, the second of whose hosts was taken to the new size by somebody.
async fn apart() -> Cluster {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    cluster.runs_at("b", 9000).await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn where_hosts_come_from_that_differ_is_said_by_an_option_and_goes_into_the_request() {
    let cluster = apart().await;
    let before = cluster.asked().await;
    let shown = cluster.run(&with("plan", &UP, &FROM));
    assert_eq!(shown.code, 0, "{}{}", shown.out, shown.err);
    for part in [
        "pods 1400 to 8900, hosts 1500 to 9000: 4 restarts",
        "a  restarts  pods 1400 -> 8900 (routes 1400), host 1500 -> 9000 (routes 1500)",
        "b  restarts  pods 1400 -> 8900 (routes 1400), host 9000 -> 9000 (routes 1500)",
    ] {
        assert!(shown.out.contains(part), "{part:?} is not in\n{}", shown.out);
    }
    assert_eq!(cluster.asked().await, before);
    let asked = cluster.run(&with("apply", &UP, &FROM));
    assert_eq!(asked.code, 0, "{}", asked.err);
    let mtu = &cluster.asked().await["spec"]["migration"]["mtu"];
    assert_eq!(mtu["machine"], json!({ "from": 1500, "to": 9000 }));
    let status = cluster.until_phase("PhaseOne").await;
    assert_eq!(status["change"]["machine"], json!({ "from": 1500, "to": 9000 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_hosts_come_from_is_asked_for_where_they_differ_and_checked_where_it_is_said() {
    let cluster = apart().await;
    let before = cluster.asked().await;
    #[rustfmt::skip]
    let rows: [(&[&str], &str); 4] = [
        (&[], "hosts run at different MTUs (a at 1500, b at 9000); say which is the old one in spec.migration.mtu.machine.from (--host-from)"),
        (&["--host-from", "9"], "spec.migration.mtu.machine.from is 9, not between 576 and 65536"),
        (&["--host-from", "4000"], "hosts run at neither 4000 nor 9000: a at 1500"),
        (&["--host-from", "9000"], "hosts run at neither 9000 nor 9000: a at 1500"),
    ];
    for (more, said) in rows {
        for command in ["plan", "apply"] {
            let answer = cluster.run(&with(command, &UP, more));
            assert_eq!(answer.code, 3, "{more:?}: {}{}", answer.out, answer.err);
            assert!(answer.err.contains(said), "{more:?}: {}", answer.err);
        }
    }
    assert_eq!(cluster.asked().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_hosts_come_from_may_be_said_for_a_node_that_is_silent_which_still_has_to_speak() {
    let cluster = apart().await;
    let nodes = Api::all(cluster.client.clone());
    annotate(&nodes, "b", json!({ "netferry.dev/mtu-observed": null })).await;
    let unsaid = cluster.run(&with("plan", &UP, &[]));
    assert_eq!(unsaid.code, 3, "{}{}", unsaid.out, unsaid.err);
    let said = "(not reported by b); wait, or say it in spec.migration.mtu.machine.from (--host-from)";
    assert!(unsaid.err.contains(said), "{}", unsaid.err);
    let shown = cluster.run(&with("plan", &UP, &FROM));
    assert_eq!(shown.code, 3, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("hosts 1500 to 9000") && shown.out.contains("mend Silent/b"), "{}", shown.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_plan_that_says_where_hosts_come_from_is_applied_by_who_says_so_too() {
    let cluster = apart().await;
    let kept = cluster.json(&with("plan", &UP, &[&FROM[..], &["-o", "json"]].concat()));
    assert_eq!(kept["machine"], json!({ "from": 1500, "to": 9000 }));
    std::fs::write(cluster.dir.path().join("plan.json"), kept.to_string()).expect("a file");
    let by_plan = ["--plan", "plan.json"];
    let unsaid = cluster.run(&with("apply", &UP, &by_plan));
    assert_eq!(unsaid.code, 3, "{}{}", unsaid.out, unsaid.err);
    assert!(unsaid.err.contains("(--host-from)"), "{}", unsaid.err);
    let applied = cluster.run(&with("apply", &UP, &[&by_plan[..], &FROM].concat()));
    assert_eq!(applied.code, 0, "{}", applied.err);
}
