//! What really gets through, beside what is configured and what nodes send.

use k8s_openapi::api::core::v1::ConfigMap;
use netferry_core::mtu::record::Record;
use netferry_core::size::Mtu;
use netferry_translate::mtu::{APPLIED, RECORD, printed_record};
use serde_json::{Value, json};

use super::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn what_really_gets_through_is_compared_with_what_is_configured() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let answer = cluster.run(&["verify", "--reported"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert_eq!(
        answer.out,
        "\
NODE  WAY         CONFIGURED   USES  PASSES
a     hosts-ipv4        1500   1500    1500
a     pods-ipv4         1400   1400    1400
b     hosts-ipv4        1500   1500    1500
b     pods-ipv4         1400   1400    1400
"
    );
    cluster.probed(&[("b", "a", "pods-ipv4", 1300)]).await;
    let answer = cluster.run(&["verify", "--reported", "-o", "json"]);
    assert_eq!(answer.code, 1, "{}", answer.err);
    let said = "packets are lost from b to a (pods, IPv4: all above 1300)";
    assert!(answer.err.contains(said), "{}", answer.err);
    let verdict: Value = serde_json::from_str(&answer.out).expect("JSON");
    assert_eq!((&verdict["mtu"], &verdict["problems"]), (&json!(1400), &json!([said])));
    assert_eq!(verdict["ways"][3]["way"], "pods-ipv4");
    cluster.join("c").await;
    let answer = cluster.run(&["verify", "--reported"]);
    assert!(
        answer.out.contains("node c has not tried yet what gets through to the others"),
        "{}",
        answer.out
    );
}

/// Hosts ended at 9000, and since then a lease has taken one of them to 1500. Both try each other with 1500, the most that
/// both carry, and that gets through.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_shrank_is_found_although_all_that_is_tried_gets_through() {
    let cluster = Cluster::new(&["a", "b"]).await;
    let mtu = |bytes| Mtu::new(bytes).expect("a size");
    let record = Record { hosts: Some(mtu(9000)), ..Record::settled(mtu(1400)) };
    let map = json!({ "metadata": { "name": APPLIED }, "data": { RECORD: printed_record(&record) } });
    cluster.make::<ConfigMap>(Some("netferry"), map).await;
    cluster.runs_at("a", 9000).await;
    let answer = cluster.run(&["verify", "--reported", "-o", "json"]);
    assert_eq!(answer.code, 1, "{}", answer.out);
    let verdict: Value = serde_json::from_str(&answer.out).expect("JSON");
    let lost = "packets are lost from a to b (hosts: a sends 9000, b carries 1500)";
    let shrank = "node b sends packets of 1500 (hosts, IPv4), and 9000 is configured";
    assert_eq!(verdict["problems"], json!([lost, shrank]));
    let of_b = json!({ "node": "b", "way": "hosts-ipv4", "configured": 9000, "uses": 1500, "passes": 1500 });
    assert_eq!(verdict["ways"][2], of_b);
    assert!(answer.err.contains(&format!("{lost}; and 1 more")), "{}", answer.err);
}
