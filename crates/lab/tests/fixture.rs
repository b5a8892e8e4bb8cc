//! The pods and Services of meters, against the embedded API server.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use netferry_apiserver::{ApiServer, Settings};
use netferry_lab::paths::fixture::{self, FixtureError, NAMESPACE};
use serde_json::json;

fn client() -> Client {
    let server = ApiServer::open(Settings::default()).unwrap();
    Client::new(server.router(), "default")
}

/// Says of every pod what a kubelet would, once.
async fn start_pods(client: &Client) -> usize {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let all = pods.list(&ListParams::default()).await.unwrap().items;
    for (at, pod) in all.iter().enumerate() {
        let (v4, v6) = (format!("10.244.0.{at}"), format!("fd00:10:244::{at}"));
        let status = json!({"status": {
            "phase": "Running",
            "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let patch = Patch::Merge(&status);
        pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }
    all.len()
}

#[tokio::test]
async fn a_fixture_stands_when_all_its_pods_do_and_stands_still_when_it_is_raised_again() {
    let client = client();
    let nodes = ["node-1".to_owned(), "node-2".to_owned()];
    let kubelet = async {
        while start_pods(&client).await < 4 {
            tokio::task::yield_now().await;
        }
    };
    let mut told = Vec::new();
    let raising =
        fixture::raise(&client, &nodes, Duration::from_secs(60), |missing| told.push(missing.to_vec()));
    let (raised, ()) = tokio::join!(raising, kubelet);
    let raised = raised.unwrap();
    let on: Vec<(&str, &str)> =
        raised.pods.iter().map(|pod| (pod.name.as_str(), pod.node.as_str())).collect();
    let expected = [
        ("one-node-1", "node-1"),
        ("two-node-1", "node-1"),
        ("one-node-2", "node-2"),
        ("two-node-2", "node-2"),
    ];
    assert_eq!(on, expected);
    assert!(raised.pods.iter().all(|pod| pod.addresses.len() == 2));
    assert_eq!(raised.services.len(), 2);
    for service in &raised.services {
        assert_eq!(service.cluster_ips.len(), 2, "{service:?}");
        assert_eq!(service.node_ports.keys().collect::<Vec<_>>(), ["TCP", "UDP"], "{service:?}");
        assert_eq!(service.backend, service.name.replace("at-", "one-"));
    }

    let again = fixture::raise(&client, &nodes, Duration::from_secs(60), |_| {}).await.unwrap();
    assert_eq!(again, raised);
}

#[tokio::test]
async fn pods_that_do_not_start_are_named() {
    let client = client();
    let nodes = ["node-1".to_owned()];
    let error = fixture::raise(&client, &nodes, Duration::ZERO, |_| {}).await.unwrap_err();
    assert!(matches!(&error, FixtureError::NotReady { missing, .. } if missing.len() == 2), "{error}");
    assert!(error.to_string().contains("pod one-node-1 (Pending)"), "{error}");
}

#[tokio::test]
async fn a_fixture_is_lowered_with_everything_in_it_and_twice_if_need_be() {
    let client = client();
    let nodes = ["node-1".to_owned()];
    fixture::raise(&client, &nodes, Duration::ZERO, |_| {}).await.unwrap_err();
    fixture::lower(&client).await.unwrap();
    fixture::lower(&client).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let left = namespaces.get_opt(NAMESPACE).await.unwrap();
    assert!(left.is_none_or(|left| left.metadata.deletion_timestamp.is_some()));
}

#[tokio::test]
async fn pods_of_a_fixture_that_is_being_lowered_are_not_taken_for_those_of_the_next() {
    let client = client();
    let nodes = ["node-1".to_owned()];
    fixture::raise(&client, &nodes, Duration::ZERO, |_| {}).await.unwrap_err();
    start_pods(&client).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let held_by = async |finalizers: &[&str]| {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        pods.patch("one-node-1", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    };
    held_by(&["netferry.dev/somebody"]).await;
    fixture::lower(&client).await.unwrap();
    let error = fixture::raise(&client, &nodes, Duration::ZERO, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("namespace netferry-meter (still being removed)"), "{error}");
    held_by(&[]).await;
    let error = fixture::raise(&client, &nodes, Duration::from_secs(1), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("pod one-node-1 (Pending)"), "{error}");
}
