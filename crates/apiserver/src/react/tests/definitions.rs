//! Custom resource definitions that go, with and without objects.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Cluster, map, owner};

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(super) fn definition() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

fn widget(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "finalizers": finalizers},
    })
}

#[tokio::test]
async fn a_definition_takes_its_objects_along_and_is_no_longer_served() {
    let cluster = Cluster::new();
    cluster.create(DEFINITIONS, definition()).await;
    let made = cluster.create(WIDGETS, widget("w", &[])).await;
    cluster.map("of-widget", &[owner(&made, false)]).await;
    cluster.delete(&format!("{DEFINITIONS}/widgets.example.com"), "").await;
    assert!(!cluster.there(&format!("{DEFINITIONS}/widgets.example.com")).await);
    assert_eq!(cluster.ask("GET", WIDGETS, None).await.0, 404);
    // What the objects owned went with them: their kind was still known then.
    assert!(!cluster.there(&map("of-widget")).await);
    // The same definition again begins empty.
    cluster.create(DEFINITIONS, definition()).await;
    let (code, list) = cluster.ask("GET", WIDGETS, None).await;
    assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(0)));
}

#[tokio::test]
async fn a_definition_waits_for_objects_that_are_held() {
    let cluster = Cluster::new();
    cluster.create(DEFINITIONS, definition()).await;
    cluster.create(WIDGETS, widget("held", &["example.com/hold"])).await;
    cluster.create(WIDGETS, widget("free", &[])).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    cluster.delete(&path, "").await;
    let waiting = cluster.get(&path).await.expect("it waits");
    let terminating =
        waiting["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Terminating");
    assert_eq!(terminating.expect("a condition")["status"], "True", "{waiting:#}");
    assert!(!cluster.there(&format!("{WIDGETS}/free")).await);
    let (code, _) = cluster.ask("POST", WIDGETS, Some(&widget("new", &[]))).await;
    assert_eq!(code, 403, "nothing new comes in meanwhile");
    cluster.merge(&format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert!(!cluster.there(&path).await);
}

#[tokio::test]
async fn whoever_watches_a_kind_that_goes_hears_of_every_deletion_and_then_the_end() {
    let cluster = Cluster::new();
    cluster.create(DEFINITIONS, definition()).await;
    for nth in 0..40 {
        cluster.create(WIDGETS, widget(&format!("w{nth:02}"), &[])).await;
    }
    let request = Request::get(format!("{WIDGETS}?watch=true")).body(Body::empty()).expect("a request");
    let Ok(answer) = cluster.server.router().oneshot(request).await;
    cluster.delete(&format!("{DEFINITIONS}/widgets.example.com"), "").await;
    // The whole body: the watch ends by itself.
    let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
    let events: Vec<Value> = bytes
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).expect("JSON"))
        .collect();
    let deleted = events.iter().filter(|event| event["type"] == "DELETED");
    let names: Vec<&str> = deleted.filter_map(|event| event["object"]["metadata"]["name"].as_str()).collect();
    let expected: Vec<String> = (0..40).map(|nth| format!("w{nth:02}")).collect();
    assert_eq!(names, expected);
}
