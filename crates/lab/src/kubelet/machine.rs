//! The Node object, its conditions and its Lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Context, cni};
use crate::children::Children;
use crate::node::Report;
use crate::protocol::Stage;

/// As a kubelet does it: others take a node for gone after four missed ones.
const RENEW_EVERY: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
/// How soon it is seen that the network is there. Looking costs a short process of each plugin.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// How soon it is seen that it is gone.
const LOOK_AGAIN_EVERY: Duration = Duration::from_secs(10);
/// How often what has not changed is said again, in case somebody changed it over there.
const REPEAT_EVERY: Duration = Duration::from_secs(60);
/// Long: on a busy machine, giving up and asking again only makes it busier.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const MANAGER: &str = "netferry-lab-kubelet";

/// Registers the node, and says how it is whenever that changes.
pub(super) async fn report(context: Arc<Context>) {
    let nodes: Api<Node> = Api::all(context.client.clone());
    let name = context.spec.name.as_str();
    let mut said: Option<(Health, Instant)> = None;
    loop {
        let health = Health::look(&context.children).await;
        context
            .network
            .send_if_modified(|ready| std::mem::replace(ready, health.is_ready()) != health.is_ready());
        let same = said.as_ref().is_some_and(|(before, at)| *before == health && at.elapsed() < REPEAT_EVERY);
        if !same {
            let since = match &said {
                Some((before, _)) if *before == health => None,
                Some(_) | None => Some(Timestamp::now()),
            };
            match tell(&nodes, name, &context, &health, since).await {
                Ok(()) => {
                    let stage = if health.is_ready() { Stage::Ready } else { Stage::NotReady };
                    context.reporter.say(&Report::Stage(stage));
                    if let Some(why) = health.why_not() {
                        context.reporter.say(&Report::Note(Some(why.to_owned())));
                    }
                    said = Some((health, Instant::now()));
                }
                Err(error) => {
                    context.reporter.say(&Report::Note(Some(format!("talking to the API: {error}"))));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        let settled = said.as_ref().is_some_and(|(health, _)| health.is_ready());
        let pause = if settled { LOOK_AGAIN_EVERY } else { LOOK_EVERY };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.look.notified() => {}
        }
    }
}

/// How the machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Health {
    /// Why there is no network, if there is none.
    network: Option<String>,
}

impl Health {
    async fn look(children: &Children) -> Health {
        Health { network: cni::trouble(children).await.map(|why| format!("NetworkReady=false: {why}")) }
    }

    fn is_ready(&self) -> bool {
        self.network.is_none()
    }

    fn why_not(&self) -> Option<&str> {
        self.network.as_deref()
    }

    fn conditions(&self, since: Option<Timestamp>) -> Value {
        let now = Timestamp::now();
        let one = |kind: &str, status: bool, reason: &str, message: &str| {
            let mut condition = json!({
                "type": kind,
                "status": if status { "True" } else { "False" },
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
            });
            if let Some(since) = since {
                condition["lastTransitionTime"] = json!(since);
            }
            condition
        };
        json!([
            one("MemoryPressure", false, "KubeletHasSufficientMemory", "enough memory"),
            one("DiskPressure", false, "KubeletHasNoDiskPressure", "enough disk"),
            one("PIDPressure", false, "KubeletHasSufficientPID", "enough process ids"),
            match self.why_not() {
                None => one("Ready", true, "KubeletReady", "pods can start"),
                Some(why) => one("Ready", false, "KubeletNotReady", why),
            },
        ])
    }
}

async fn tell(
    nodes: &Api<Node>,
    name: &str,
    context: &Context,
    health: &Health,
    since: Option<Timestamp>,
) -> Result<(), String> {
    let talk = async {
        if since.is_some() {
            let metadata = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels(context)},
            });
            nodes.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&metadata)).await?;
        }
        let status = json!({"status": status(context, health, since)});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await
    };
    match tokio::time::timeout(ANSWER_WITHIN, talk).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer".into()),
    }
}

fn labels(context: &Context) -> BTreeMap<String, String> {
    let spec = &context.spec;
    let mut labels = spec.labels.clone();
    let mut put = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    put("kubernetes.io/hostname", spec.name.as_str());
    put("kubernetes.io/os", "linux");
    put("kubernetes.io/arch", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" });
    put(spec.role.label(), "");
    // Pools select their machines by this one.
    put(&format!("node-role.kubernetes.io/{}", spec.pool), "");
    labels
}

fn status(context: &Context, health: &Health, since: Option<Timestamp>) -> Value {
    let spec = &context.spec;
    let mut addresses: Vec<Value> = spec
        .interfaces
        .iter()
        .take(1)
        .flat_map(|interface| &interface.addresses)
        .map(|address| json!({"type": "InternalIP", "address": address.addr()}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": spec.name}));
    // Merged by their type, two addresses of one type would become one twice.
    addresses.push(json!({"$patch": "replace"}));
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "250", "ephemeral-storage": "16Gi"});
    json!({
        "addresses": addresses,
        "capacity": room,
        "allocatable": room,
        "conditions": health.conditions(since),
        "nodeInfo": {
            "kubeletVersion": "v1.34.0",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "containerRuntimeVersion": "netferry-lab://1",
            "osImage": "netferry lab",
            "kernelVersion": read("/proc/sys/kernel/osrelease"),
            "bootID": context.boot,
            "machineID": format!("{:032x}", spec.number),
            "systemUUID": format!("{:032x}", spec.number),
        },
    })
}

pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Says every few seconds that the node is alive.
pub(super) async fn renew_lease(context: Arc<Context>) {
    let leases: Api<Lease> = Api::namespaced(context.client.clone(), "kube-node-lease");
    let name = context.spec.name.as_str();
    loop {
        let talk = renew(&leases, name);
        let pause = match tokio::time::timeout(ANSWER_WITHIN, talk).await {
            Ok(Ok(())) => RENEW_EVERY,
            Ok(Err(error)) => {
                tracing::warn!(%error, "renewing the lease");
                Duration::from_secs(1)
            }
            Err(_) => Duration::from_secs(1),
        };
        tokio::time::sleep(pause).await;
    }
}

async fn renew(leases: &Api<Lease>, name: &str) -> Result<(), kube::Error> {
    // With exactly six decimals: the type is a MicroTime.
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let patch =
        json!({"spec": {"renewTime": now, "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS}});
    match leases.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let mut whole = patch;
            whole["metadata"] = json!({"name": name, "namespace": "kube-node-lease"});
            let lease = serde_json::from_value(whole).map_err(kube::Error::SerdeError)?;
            leases.create(&PostParams::default(), &lease).await.map(drop)
        }
        other => other.map(drop),
    }
}
