//! A cluster without machines: an API server, controllers, and stand-ins for kubelets that say what theirs would.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use netferry_apiserver::{ApiServer, Settings};
use netferry_lab::controllers::{self, Patience};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long anything may take: virtual time with the embedded server, a busy machine with the real one.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Crew {
    pub(crate) client: Client,
    pub(crate) server: Option<ApiServer>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Crew {
    /// The embedded server with our controllers.
    pub(crate) async fn embedded() -> Crew {
        let server = ApiServer::open(Settings::default()).expect("a server in memory opens");
        let client = Client::new(server.router(), "default");
        let controllers = tokio::spawn(controllers::run(client.clone(), Patience::default()));
        let mut crew = Crew { client, server: Some(server), tasks: vec![controllers] };
        crew.begin().await;
        crew
    }

    /// Any server that has controllers of its own.
    pub(crate) async fn with(client: Client) -> Crew {
        let mut crew = Crew { client, server: None, tasks: Vec::new() };
        crew.begin().await;
        crew
    }

    async fn begin(&mut self) {
        let namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).expect("a namespace");
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &namespace).await.expect("a namespace");
        self.tasks.push(tokio::spawn(kubelets(self.client.clone())));
    }

    /// A node whose kubelet renews its lease until the handle is dropped.
    pub(crate) async fn node(&self, name: &str) -> Alive {
        self.node_with(name, json!({})).await
    }

    pub(crate) async fn node_with(&self, name: &str, spec: Value) -> Alive {
        let node =
            json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec});
        let node: Node = serde_json::from_value(node).expect("a node");
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.create(&PostParams::default(), &node).await.expect("a node");
        self.revive(name).await
    }

    /// A kubelet that begins to speak for its node.
    pub(crate) async fn revive(&self, name: &str) -> Alive {
        let (client, name) = (self.client.clone(), name.to_owned());
        post_ready(&client, &name).await.expect("a status");
        Alive(tokio::spawn(async move {
            loop {
                // A real server's answer may be slow; a lease that is late by one round harms nobody.
                let _ = renew(&client, &name).await;
                // Where virtual minutes pass within a second of the clock that statuses are stamped by, one may look
                // like the one before, and be taken for no sign of life. A kubelet says it again.
                let _ = insist(&client, &name).await;
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        }))
    }

    pub(crate) async fn apply<K>(&self, object: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug
            + serde::Serialize,
    {
        let mut object = object;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let api: Api<K> = Api::namespaced(self.client.clone(), "shop");
        let apply = PatchParams::apply("somebody").force();
        api.patch(&name, &apply, &Patch::Apply(&object)).await.expect("an apply");
    }

    pub(crate) async fn deploy(&self, name: &str, replicas: u32, image: &str, more: Value) {
        let mut spec = json!({
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}],
                    "terminationGracePeriodSeconds": 0},
            },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.apply::<Deployment>(json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    pub(crate) async fn serve(&self, name: &str, more: Value) {
        let mut spec =
            json!({"selector": {"app": name}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}]});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.apply::<Service>(json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    pub(crate) fn of<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "shop")
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn pods(&self, app: &str) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("app={app}"));
        let list = self.of::<Pod>().list(&params).await.expect("a list");
        list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    /// How many ready pods of an app each node has.
    pub(crate) async fn spread(&self, app: &str) -> BTreeMap<String, usize> {
        let mut spread = BTreeMap::new();
        for pod in self.pods(app).await.iter().filter(|pod| is_ready(pod)) {
            *spread.entry(pod.spec.clone().unwrap_or_default().node_name.unwrap_or_default()).or_default() +=
                1;
        }
        spread
    }

    /// What the slices of a Service say, without what is drawn by lot: family, ports, and per pod its conditions.
    pub(crate) async fn endpoints(&self, service: &str) -> Vec<String> {
        let params = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let list = self.of::<EndpointSlice>().list(&params).await.expect("a list");
        let mut said = Vec::new();
        for slice in list.items {
            let ports: Vec<String> = slice
                .ports
                .iter()
                .flatten()
                .map(|port| {
                    let name = port.name.clone().unwrap_or_default();
                    format!("{name}/{}/{}", port.protocol.clone().unwrap_or_default(), port.port.unwrap_or(0))
                })
                .collect();
            for one in slice.endpoints {
                let conditions = one.conditions.unwrap_or_default();
                said.push(format!(
                    "{} {} ready={:?} serving={:?} terminating={:?} on {} for {}",
                    slice.address_type,
                    ports.join(","),
                    conditions.ready.unwrap_or(true),
                    conditions.serving.unwrap_or(true),
                    conditions.terminating.unwrap_or(false),
                    one.node_name.unwrap_or_default(),
                    one.target_ref.map(|target| target.kind.unwrap_or_default()).unwrap_or_default(),
                ));
            }
        }
        said.sort();
        said
    }

    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        match timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(_) => panic!("never happened: {what}; {}", self.told().await),
        }
    }

    /// Waits until an app has so many ready pods, and no others.
    pub(crate) async fn until_ready(&self, app: &str, pods: usize) {
        self.until(&format!("{app} has {pods} ready pods"), async || {
            let all = self.pods(app).await;
            (all.len() == pods && all.iter().all(is_ready)).then_some(())
        })
        .await;
    }

    async fn told(&self) -> String {
        let pods =
            self.of::<Pod>().list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let line = |pod: &Pod| {
            let node = pod.spec.clone().unwrap_or_default().node_name.unwrap_or_default();
            let status = pod.status.clone().unwrap_or_default();
            let said = status.conditions.unwrap_or_default().into_iter().filter_map(|one| one.message).next();
            format!("{} on {node:?} ready={} {}", pod.name_any(), is_ready(pod), said.unwrap_or_default())
        };
        pods.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn deployment(&self, name: &str) -> Deployment {
        self.of::<Deployment>().get(name).await.expect("the deployment")
    }

    pub(crate) async fn daemon_set(&self, name: &str) -> DaemonSet {
        self.of::<DaemonSet>().get(name).await.expect("the daemon set")
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.of::<Pod>().delete(name, &DeleteParams::default()).await.expect("a deletion");
    }
}

/// A kubelet that is alive until this is dropped.
pub(crate) struct Alive(JoinHandle<()>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.clone().unwrap_or_default().conditions.unwrap_or_default();
    conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Says again that a node is ready, where the API says something else.
async fn insist(client: &Client, name: &str) -> Result<(), kube::Error> {
    let node = Api::<Node>::all(client.clone()).get_status(name).await?;
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    if conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True") {
        return Ok(());
    }
    post_ready(client, name).await
}

async fn post_ready(client: &Client, name: &str) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let status = json!({"status": {
        "capacity": {"pods": "110", "cpu": "8", "memory": "16Gi"},
        "allocatable": {"pods": "110", "cpu": "8", "memory": "16Gi"},
        "addresses": [{"type": "InternalIP", "address": "172.30.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine",
            "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.map(drop)
}

async fn renew(client: &Client, name: &str) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
    });
    leases.patch(name, &PatchParams::apply("kubelet").force(), &Patch::Apply(&lease)).await.map(drop)
}

/// Says of every pod that is bound what a kubelet would: that it runs, at an address of its own, and is ready. A pod
/// that is to go, goes.
async fn kubelets(client: Client) {
    let events = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff();
    let mut events = events.applied_objects().boxed();
    let mut last = 4_u32;
    while let Some(event) = events.next().await {
        let Ok(pod) = event else { continue };
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let bound = pod.spec.clone().unwrap_or_default().node_name.is_some();
        if bound && pod.metadata.deletion_timestamp.is_some() {
            // A finalizer of a test's own keeps a pod that must be seen ending.
            let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            let _ = api.delete(&pod.name_any(), &params).await;
            continue;
        }
        let started = pod.status.clone().unwrap_or_default().pod_ip.is_some();
        if !bound || started || pod.annotations().contains_key("never-ready") {
            continue;
        }
        last += 1;
        let address = format!("10.244.{}.{}", last / 200, last % 200 + 5);
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now()});
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now()});
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [scheduled, ready],
        }});
        let _ = api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await;
    }
}
