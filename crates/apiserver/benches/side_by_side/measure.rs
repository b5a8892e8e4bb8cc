//! What is measured, the same for both.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

/// How many creates are under way at once.
const AT_ONCE: usize = 32;

/// A Pod as a Deployment's usually is: two containers, probes, an environment, volumes.
fn pod(nth: usize) -> Pod {
    let container = |name: &str, port: u16| {
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:1.27.4"),
            "ports": [{"name": "http", "containerPort": port}],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LOG_LEVEL", "value": "info"},
                {"name": "UPSTREAM", "value": "http://inventory.shop.svc:8080"},
            ],
            "resources": {
                "requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"},
            },
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/shop"}, {"name": "cache", "mountPath": "/cache"}],
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("shop-frontend-7c9d8f5b64-{nth:05}"),
            "labels": {"app": "shop", "component": "frontend", "pod-template-hash": "7c9d8f5b64"},
            "annotations": {"shop.example.com/checksum": "3f786850e387550fdab836ed7e6dc881de23001b"},
        },
        "spec": {
            "nodeName": format!("worker-{}", nth % 50),
            "containers": [container("frontend", 8080), container("sidecar", 9090)],
            "volumes": [
                {"name": "config", "configMap": {"name": "shop"}}, {"name": "cache", "emptyDir": {}},
            ],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "shop", "effect": "NoSchedule"}],
        },
    });
    serde_json::from_value(pod).expect("a Pod")
}

/// Creates that many Pods; gives how many a second.
pub(crate) async fn creates(client: &Client, many: usize) -> anyhow::Result<f64> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let began = Instant::now();
    stream::iter(0..many)
        .map(|nth| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), &pod(nth)).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("creating Pods")?;
    Ok(many as f64 / began.elapsed().as_secs_f64())
}

/// Lists all Pods so many times, as text: how long the server takes, not how long we parse. Gives each time.
pub(crate) async fn lists(client: &Client, times: usize) -> anyhow::Result<Vec<Duration>> {
    let mut took = Vec::new();
    for _ in 0..times {
        let request = http::Request::get("/api/v1/pods").body(Vec::new())?;
        let began = Instant::now();
        let text = client.request_text(request).await.context("listing Pods")?;
        took.push(began.elapsed());
        anyhow::ensure!(text.len() > 1_000_000, "{} bytes are not all Pods", text.len());
    }
    Ok(took)
}

/// From sending a create to hearing of it on a watch, so many times.
pub(crate) async fn watch(client: &Client, times: usize) -> anyhow::Result<Vec<Duration>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    let from = api.list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
    let mut events = api.watch(&WatchParams::default(), &from).await?.boxed();
    let mut took = Vec::new();
    for nth in 0..times {
        let name = format!("heard-{nth}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let map: ConfigMap = serde_json::from_value(map)?;
        let post = PostParams::default();
        let began = Instant::now();
        let heard = async {
            loop {
                match events.try_next().await?.context("the watch ended")? {
                    WatchEvent::Added(map) if map.name_any() == name => return anyhow::Ok(began.elapsed()),
                    WatchEvent::Added(_)
                    | WatchEvent::Modified(_)
                    | WatchEvent::Deleted(_)
                    | WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => anyhow::bail!("{status:?}"),
                }
            }
        };
        let (created, heard) = tokio::join!(api.create(&post, &map), heard);
        created.context("creating a ConfigMap")?;
        took.push(heard?);
    }
    Ok(took)
}
