//! What follows from a change, seen as a client sees it: through the API, in process.

mod budgets;
mod definitions;
mod garbage;
mod namespaces;
mod restart;
mod start;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{ApiServer, Settings};

/// A server, and somebody to ask it.
pub(super) struct Cluster {
    pub(super) server: ApiServer,
}

impl Cluster {
    pub(super) fn new() -> Cluster {
        Cluster::with(Settings { seed: Some(1), ..Settings::default() })
    }

    pub(super) fn with(settings: Settings) -> Cluster {
        Cluster { server: ApiServer::open(settings).expect("a server opens") }
    }

    /// Asks; gives the code and the answer.
    pub(super) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())))
            .expect("a request");
        let Ok(answer) = self.server.router().oneshot(request).await;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
    }

    /// Creates an object, which must succeed; gives it.
    pub(super) async fn create(&self, path: &str, object: Value) -> Value {
        let (code, answer) = self.ask("POST", path, Some(&object)).await;
        assert_eq!(code, 201, "{path}: {answer:#}");
        answer
    }

    /// An object, when it is there.
    pub(super) async fn get(&self, path: &str) -> Option<Value> {
        match self.ask("GET", path, None).await {
            (200, object) => Some(object),
            (404, _) => None,
            (code, answer) => panic!("{path}: {code} {answer:#}"),
        }
    }

    pub(super) async fn there(&self, path: &str) -> bool {
        self.get(path).await.is_some()
    }

    /// Merges a change into an object, which must succeed.
    pub(super) async fn merge(&self, path: &str, patch: Value) -> Value {
        let (code, answer) = self.ask("PATCH", path, Some(&patch)).await;
        assert_eq!(code, 200, "{path}: {answer:#}");
        answer
    }

    /// Deletes an object, which must succeed. `how` is a propagation policy, or empty.
    pub(super) async fn delete(&self, path: &str, how: &str) -> Value {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": how});
        let (code, answer) = self.ask("DELETE", path, (!how.is_empty()).then_some(&options)).await;
        assert!(code == 200 || code == 202, "{path}: {code} {answer:#}");
        answer
    }

    /// Creates a ConfigMap in the default namespace, owned by these.
    pub(super) async fn map(&self, name: &str, owners: &[Value]) -> Value {
        self.create(MAPS, json!({"metadata": {"name": name, "ownerReferences": owners}})).await
    }

    /// Which of these ConfigMaps of the default namespace are there.
    pub(super) async fn maps(&self, names: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for name in names {
            if self.there(&map(name)).await {
                found.push((*name).to_owned());
            }
        }
        found
    }
}

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The path of a ConfigMap in the default namespace.
pub(super) fn map(name: &str) -> String {
    format!("{MAPS}/{name}")
}

/// A reference to an owner.
pub(super) fn owner(object: &Value, blocks: bool) -> Value {
    let (api_version, kind) = match object["kind"].as_str() {
        Some(kind) => (object["apiVersion"].clone(), kind),
        None => panic!("{object:#} says no kind"),
    };
    json!({
        "apiVersion": api_version, "kind": kind, "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": blocks,
    })
}

/// A reference to somebody who is not there.
pub(super) fn nobody() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-0000-0000-000000000000"})
}

pub(super) fn owner_names(object: &Value) -> Vec<String> {
    let names = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    names.map(|owner| owner["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A Pod of the default namespace, with these labels, on a node, without grace, ready or not.
pub(super) async fn pod(cluster: &Cluster, name: &str, labels: Value, owners: &[Value], ready: bool) {
    let pods = "/api/v1/namespaces/default/pods";
    let object = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
        "spec": {
            "nodeName": "n", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}],
        },
    });
    cluster.create(pods, object).await;
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}});
    cluster.merge(&format!("{pods}/{name}/status"), patch).await;
}
