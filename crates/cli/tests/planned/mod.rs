//! What a plan is worth: whether it would be refused, and whether one that was kept still holds.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use netferry_api::overlay::OperatorNetwork;
use serde_json::{Value, json};

use super::{Cluster, Narrow, UP, with};

const BY_PLAN: [&str; 2] = ["--plan", "plan.json"];

/// Makes a plan and keeps it.
fn keep_plan(cluster: &Cluster, more: &[&str]) {
    let plan = cluster.run(&with("plan", &UP, &[more, &["-o", "json"]].concat()));
    std::fs::write(cluster.dir.path().join("plan.json"), plan.out).expect("a file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_the_cluster_has_drifted_from_is_refused() {
    let cluster = Cluster::new(&["a"]).await;
    cluster.operate().await;
    keep_plan(&cluster, &[]);
    cluster.join("b").await;
    cluster.probed(&[]).await;
    let answer = cluster.run(&with("apply", &UP, &BY_PLAN));
    assert_eq!(answer.code, 3, "{}", answer.err);
    assert!(answer.err.contains("node b is in only one of plan and cluster"), "{}", answer.err);
    let nodes = Api::<Node>::all(cluster.client.clone());
    nodes.delete("b", &Default::default()).await.expect("a deletion");
    let answer = cluster.run(&with("apply", &UP, &BY_PLAN));
    assert_eq!(answer.code, 0, "{}", answer.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_wire_did_not_carry_when_a_plan_was_made_speaks_against_it_until_it_was_tried_again() {
    const NARROW: &[Narrow] = &[("a", "b", "hosts-ipv4", 1500)];
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let agents = cluster.play_agents(&[], NARROW);
    keep_plan(&cluster, &["--probe-underlay"]);
    let before = cluster.asked().await;
    let answer = cluster.run(&with("apply", &UP, &[&BY_PLAN[..], &["--accept", "Underlay/a/b"]].concat()));
    assert_eq!(answer.code, 3, "{}{}", answer.out, answer.err);
    let said = "packets of 9000 do not get through from a to b (hosts, IPv4: all above 1500), found when the plan was \
                made (Underlay/a/b)";
    assert!(answer.err.contains(said), "{}", answer.err);
    assert!(answer.err.contains("--probe-underlay tries it again"), "{}", answer.err);
    assert_eq!(cluster.asked().await, before);
    agents.abort();
    cluster.play_agents(&[], &[]);
    let mended = cluster.run(&with("apply", &UP, &[&BY_PLAN[..], &["--probe-underlay"]].concat()));
    assert_eq!(mended.code, 0, "{}", mended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_kept_plan_found_may_be_accepted_by_its_name() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    cluster.play_agents(&["b"], &[]);
    keep_plan(&cluster, &["--probe-underlay"]);
    let answer = cluster.run(&with("apply", &UP, &BY_PLAN));
    assert_eq!(answer.code, 3, "{}{}", answer.out, answer.err);
    assert!(answer.err.contains("(NoTrial/b)"), "{}", answer.err);
    let accepted = cluster.run(&with("apply", &UP, &[&BY_PLAN[..], &["--accept", "NoTrial/b"]].concat()));
    assert_eq!(accepted.code, 0, "{}", accepted.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_would_be_refused_is_shown_and_says_so_by_its_exit_code() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    assert_eq!(cluster.run(&with("plan", &UP, &[])).code, 0);
    cluster.ready("b", "False").await;
    let shown = cluster.run(&with("plan", &UP, &[]));
    assert_eq!(shown.code, 3, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("phase two") && shown.out.contains("accept with NotReady/b"), "{}", shown.out);
    assert_eq!(shown.err, "error: it would be refused: NotReady/b\n");
    let kept = cluster.run(&with("plan", &UP, &["-o", "json"]));
    assert_eq!(kept.code, 3, "{}", kept.err);
    let kept: Value = serde_json::from_str(&kept.out).expect("JSON");
    assert_eq!(kept["findings"][0]["name"], "NotReady/b");
    let accepted = cluster.run(&with("plan", &UP, &["--accept", "NotReady/b"]));
    assert_eq!(accepted.code, 0, "{}", accepted.err);
    assert!(accepted.out.contains("accepted: NotReady/b"), "{}", accepted.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_change_is_asked_for_of_a_network_that_nobody_would_change() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let networks = Api::<OperatorNetwork>::all(cluster.client.clone());
    let plugin = |name: &str| json!({ "managementState": "Managed", "defaultNetwork": { "type": name } });
    #[rustfmt::skip]
    let rows = [
        (json!({ "managementState": "Unmanaged" }), "spec.managementState is Unmanaged", "set it to Managed first"),
        (json!({ "managementState": "Removed" }), "spec.managementState is Removed", "set it to Managed first"),
        (plugin("OpenShiftSDN"), "spec.defaultNetwork.type is OpenShiftSDN", "once the cluster has moved to OVNKubernetes"),
        (plugin("Calico"), "spec.defaultNetwork.type is Calico", "by its own means"),
    ];
    for (spec, field, way_out) in rows {
        let edit = Patch::Merge(json!({ "spec": spec }));
        networks.patch("cluster", &PatchParams::default(), &edit).await.expect("an edit");
        let before = cluster.asked().await;
        for command in ["plan", "apply"] {
            let answer = cluster.run(&with(command, &UP, &[]));
            assert_eq!(answer.code, 3, "{field}: {}{}", answer.out, answer.err);
            let said = format!("error: Network.operator.openshift.io/cluster: {field}");
            assert!(answer.err.starts_with(&said) && answer.err.contains(way_out), "{}", answer.err);
        }
        assert_eq!(cluster.asked().await, before);
    }
}
