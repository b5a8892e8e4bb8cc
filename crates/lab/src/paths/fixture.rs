//! Pods and Services for meters to stand on: two pods on every node, and a Service for the first of them.
//!
//! They are ordinary objects of an ordinary namespace, made by apply: a second run finds them and goes on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::PORT;

/// The namespace everything of a fixture is in.
pub const NAMESPACE: &str = "netferry-meter";
const MANAGER: &str = "netferry-meter";
const NODE: &str = "netferry.dev/meter-node";
const PART: &str = "netferry.dev/meter-part";
/// Between looks at what is not ready.
const LOOK: Duration = Duration::from_millis(200);

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum FixtureError {
    /// The API said no.
    #[error("{attempt}")]
    Api {
        /// What was tried.
        attempt: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// It takes too long.
    #[error("these are not ready after {} s: {}", .within.as_secs(), .missing.join(", "))]
    NotReady {
        /// What is missing.
        missing: Vec<String>,
        /// Within how long.
        within: Duration,
    },
}

/// A pod of a fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A Service of a fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub cluster_ips: Vec<IpAddr>,
    /// Its port on every node, by protocol (`TCP`, `UDP`).
    pub node_ports: BTreeMap<String, u16>,
    /// The name of the pod behind it.
    pub backend: String,
}

/// A fixture that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixture {
    /// Its pods, all ready.
    pub pods: Vec<Standing>,
    /// Its Services.
    pub services: Vec<Offered>,
}

fn failed(attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> FixtureError {
    let attempt = attempt.into();
    |source| FixtureError::Api { attempt, source: Box::new(source) }
}

/// Makes a fixture on these nodes and waits until all of it is ready; `progress` is told what is not.
pub async fn raise(
    client: &Client,
    nodes: &[String],
    patience: Duration,
    mut progress: impl FnMut(&[String]),
) -> Result<Fixture, FixtureError> {
    let end = Instant::now() + patience;
    let apply = PatchParams::apply(MANAGER).force();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    // One that is still being removed takes its pods along, and would those we find in it.
    loop {
        let made = namespaces.patch(NAMESPACE, &apply, &Patch::Apply(&namespace)).await;
        let made = made.map_err(failed(format!("making namespace {NAMESPACE}")))?;
        if made.metadata.deletion_timestamp.is_none() {
            break;
        }
        let missing = vec![format!("namespace {NAMESPACE} (still being removed)")];
        progress(&missing);
        if Instant::now() >= end {
            return Err(FixtureError::NotReady { missing, within: patience });
        }
        tokio::time::sleep(LOOK).await;
    }
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let owners: Api<Node> = Api::all(client.clone());
    for node in nodes {
        let owner = owners.get_opt(node).await.map_err(failed(format!("reading Node {node}")))?;
        let owner = owner.as_ref().and_then(ResourceExt::uid);
        let name = service_name(node);
        services
            .patch(&name, &apply, &Patch::Apply(&service(node)))
            .await
            .map_err(failed(format!("making Service {NAMESPACE}/{name}")))?;
        for part in ["one", "two"] {
            let name = pod_name(part, node);
            let made = insist(&pods, &name, &pod(part, node, owner.as_deref()), &apply, end).await;
            made.map_err(failed(format!("making pod {NAMESPACE}/{name}")))?;
        }
    }
    let standing = loop {
        let all = pods
            .list(&ListParams::default())
            .await
            .map_err(failed(format!("listing the pods of {NAMESPACE}")))?;
        let (ready, missing) = look(&all.items, nodes);
        if missing.is_empty() {
            break ready;
        }
        progress(&missing);
        if Instant::now() >= end {
            return Err(FixtureError::NotReady { missing, within: patience });
        }
        tokio::time::sleep(LOOK).await;
    };
    let offered = services
        .list(&ListParams::default())
        .await
        .map_err(failed(format!("listing the Services of {NAMESPACE}")))?;
    let offered = offered.items.iter().filter_map(|service| offer(service, nodes)).collect();
    Ok(Fixture { pods: standing, services: offered })
}

/// Removes a fixture. One that is not there is fine.
pub async fn lower(client: &Client) -> Result<(), FixtureError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.delete(NAMESPACE, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(failed(format!("removing namespace {NAMESPACE}"))(error)),
    }
}

/// Applies a pod until its namespace has the service account that a real API server asks for.
pub(crate) async fn insist(
    pods: &Api<Pod>,
    name: &str,
    pod: &Value,
    apply: &PatchParams,
    end: Instant,
) -> Result<Pod, kube::Error> {
    loop {
        match pods.patch(name, apply, &Patch::Apply(pod)).await {
            Err(kube::Error::Api(status)) if status.code == 403 && Instant::now() < end => {
                tokio::time::sleep(LOOK).await;
            }
            done => return done,
        }
    }
}

fn pod_name(part: &str, node: &str) -> String {
    format!("{part}-{node}")
}

fn service_name(node: &str) -> String {
    format!("at-{node}")
}

/// A pod that belongs to its node, as static pods do: no drain moves it, and it is back when the node is.
fn pod(part: &str, node: &str, owner: Option<&str>) -> Value {
    let owners: Vec<Value> = owner
        .map(|uid| json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true}))
        .into_iter()
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(part, node),
            "labels": {NODE: node, PART: part},
            "ownerReferences": owners,
        },
        "spec": {
            // Not left to a scheduler: which node a pod is on is what a path is about.
            "nodeName": node,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "pod", "image": "netferry.dev/lab-pod"}],
        },
    })
}

fn service(node: &str) -> Value {
    let port = |protocol: &str| {
        let name = protocol.to_lowercase();
        json!({"name": name, "protocol": protocol, "port": PORT, "targetPort": PORT})
    };
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": service_name(node), "labels": {NODE: node}},
        "spec": {
            "type": "NodePort",
            "ipFamilyPolicy": "PreferDualStack",
            "selector": {NODE: node, PART: "one"},
            "ports": [port("UDP"), port("TCP")],
        },
    })
}

/// Which of the wanted pods are ready, and which are not, with what is known of them.
fn look(pods: &[Pod], nodes: &[String]) -> (Vec<Standing>, Vec<String>) {
    let mut ready = Vec::new();
    let mut missing = Vec::new();
    for node in nodes {
        for part in ["one", "two"] {
            let name = pod_name(part, node);
            let found = pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(&name));
            let status = found.and_then(|pod| pod.status.as_ref());
            let is_ready = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
                conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
            });
            let addresses: Vec<IpAddr> = status
                .and_then(|status| status.pod_ips.as_ref())
                .into_iter()
                .flatten()
                .filter_map(|ip| ip.ip.parse().ok())
                .collect();
            if is_ready && !addresses.is_empty() {
                ready.push(Standing { name, node: node.clone(), addresses });
            } else {
                let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("not there");
                missing.push(format!("pod {name} ({phase})"));
            }
        }
    }
    (ready, missing)
}

fn offer(service: &Service, nodes: &[String]) -> Option<Offered> {
    let node = service.metadata.labels.as_ref()?.get(NODE).filter(|node| nodes.contains(node))?;
    let spec = service.spec.as_ref()?;
    let node_ports = spec.ports.iter().flatten().filter_map(|port| {
        let number = u16::try_from(port.node_port?).ok()?;
        Some((port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), number))
    });
    Some(Offered {
        name: service.metadata.name.clone()?,
        cluster_ips: spec.cluster_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).collect(),
        node_ports: node_ports.collect(),
        backend: pod_name("one", node),
    })
}
