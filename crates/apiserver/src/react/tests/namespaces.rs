//! Namespaces that are being deleted, and the service accounts of those that are not.

use std::time::Duration;

use serde_json::{Value, json};

use super::Cluster;
use crate::Settings;

const PLACE: &str = "/api/v1/namespaces/place";

async fn made(cluster: &Cluster) {
    cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "place"}})).await;
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> &'a Value {
    let all = namespace["status"]["conditions"].as_array().expect("conditions");
    all.iter().find(|condition| condition["type"] == kind).expect("the condition")
}

#[tokio::test]
async fn a_namespace_goes_with_everything_in_it() {
    let cluster = Cluster::new();
    made(&cluster).await;
    let things = [
        ("/api/v1/namespaces/place/configmaps", json!({"metadata": {"name": "c"}})),
        ("/api/v1/namespaces/place/secrets", json!({"metadata": {"name": "s"}})),
        (
            "/apis/apps/v1/namespaces/place/deployments",
            json!({"metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            }}),
        ),
    ];
    for (path, object) in &things {
        cluster.create(path, object.clone()).await;
    }
    cluster.delete(PLACE, "").await;
    assert!(!cluster.there(PLACE).await);
    // A namespace of the same name begins empty.
    made(&cluster).await;
    for (path, _) in &things {
        let (_, list) = cluster.ask("GET", path, None).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(0), "{path}");
    }
}

#[tokio::test]
async fn a_namespace_waits_for_finalizers_and_says_whose() {
    let cluster = Cluster::new();
    made(&cluster).await;
    let maps = format!("{PLACE}/configmaps");
    for name in ["one", "two"] {
        let held = json!({"metadata": {"name": name, "finalizers": ["example.com/hold"]}});
        cluster.create(&maps, held).await;
    }
    cluster.create(&maps, json!({"metadata": {"name": "free"}})).await;
    cluster.delete(PLACE, "").await;
    assert!(!cluster.there(&format!("{maps}/free")).await);
    let namespace = cluster.get(PLACE).await.expect("it waits");
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let content = condition(&namespace, "NamespaceContentRemaining");
    assert_eq!((&content["status"], &content["reason"]), (&json!("True"), &json!("SomeResourcesRemain")));
    assert_eq!(content["message"], "Some resources are remaining: configmaps. has 2 resource instances");
    let held = condition(&namespace, "NamespaceFinalizersRemaining");
    assert_eq!(
        held["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances"
    );

    // Nothing new comes in meanwhile.
    let (code, refused) = cluster.ask("POST", &maps, Some(&json!({"metadata": {"name": "new"}}))).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));

    cluster.merge(&format!("{maps}/one"), json!({"metadata": {"finalizers": null}})).await;
    let namespace = cluster.get(PLACE).await.expect("one is left");
    let content = condition(&namespace, "NamespaceContentRemaining");
    assert_eq!(content["message"], "Some resources are remaining: configmaps. has 1 resource instances");
    cluster.merge(&format!("{maps}/two"), json!({"metadata": {"finalizers": null}})).await;
    assert!(!cluster.there(PLACE).await);
}

#[tokio::test]
async fn a_namespace_waits_for_the_finalizers_of_its_spec_that_are_not_the_servers() {
    let cluster = Cluster::new();
    made(&cluster).await;
    let mut namespace = cluster.get(PLACE).await.expect("the namespace");
    namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/hold"]);
    let (code, _) = cluster.ask("PUT", &format!("{PLACE}/finalize"), Some(&namespace)).await;
    assert_eq!(code, 200);
    cluster.delete(PLACE, "").await;
    let mut namespace = cluster.get(PLACE).await.expect("it waits");
    assert_eq!(namespace["spec"]["finalizers"], json!(["example.com/hold"]));
    namespace["spec"]["finalizers"] = json!([]);
    let (code, _) = cluster.ask("PUT", &format!("{PLACE}/finalize"), Some(&namespace)).await;
    assert_eq!(code, 200);
    assert!(!cluster.there(PLACE).await);
}

#[tokio::test]
async fn pods_that_take_their_time_hold_their_namespace() {
    let cluster = Cluster::new();
    made(&cluster).await;
    let pods = format!("{PLACE}/pods");
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
    }});
    cluster.create(&pods, pod).await;
    cluster.delete(PLACE, "").await;
    assert!(cluster.there(PLACE).await, "its pod has thirty seconds");
    let options = json!({"gracePeriodSeconds": 0});
    let (code, _) = cluster.ask("DELETE", &format!("{pods}/p"), Some(&options)).await;
    assert_eq!(code, 200, "the kubelet says that it has stopped");
    assert!(!cluster.there(PLACE).await);
}

#[tokio::test]
async fn every_namespace_has_its_default_service_account_and_gets_it_back() {
    let cluster = Cluster::new();
    made(&cluster).await;
    for namespace in ["default", "kube-system", "place"] {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        let first = cluster.get(&path).await.expect("it is there");
        cluster.delete(&path, "").await;
        let second = cluster.get(&path).await.expect("it is back");
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"], "{namespace}");
    }
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    cluster.create(&format!("{PLACE}/configmaps"), held).await;
    cluster.delete(PLACE, "").await;
    assert!(!cluster.there(&format!("{PLACE}/serviceaccounts/default")).await, "not in one that is going");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_lingers_keeps_its_content_until_its_time_has_come() {
    let lingers = Duration::from_secs(5);
    let cluster = Cluster::with(Settings { namespace_lingers: lingers, ..Settings::default() });
    made(&cluster).await;
    let map = format!("{PLACE}/configmaps/c");
    cluster.create(&format!("{PLACE}/configmaps"), json!({"metadata": {"name": "c"}})).await;
    cluster.delete(PLACE, "").await;
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(cluster.there(&map).await);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(!cluster.there(&map).await);
    assert!(!cluster.there(PLACE).await);
}
