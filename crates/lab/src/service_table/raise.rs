//! The usual pods, and the ways outside addresses take to a node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Node as NodeObject, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{GatewayRouterLrpIfAddrs, NodeSubnets};
use netferry_kernel::route::{Hop, Route};
use netferry_kernel::{IfName, Kernel, Mark, Objects};
use serde_json::{Value, json};

use super::scenario::OwnPod;
use super::world::{NODES, Node, Site, Standing, Table, arrivals, of_family};
use crate::Lab;
use crate::error::{During, LabError, Result};
use crate::paths::{fixture, in_lab};

pub(super) const MANAGER: &str = "service-table";
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// What a pod on its node's own network serves: what others of the node do not.
const ON_HOST: u16 = 7080;

/// Starts the usual pods of a lab of at least three nodes, and leads outside addresses to its nodes.
pub async fn raise<'l>(lab: &'l Lab, namespace: &str, patience: Duration) -> Result<Table<'l>> {
    let client = in_lab::client(&lab.state().kubeconfig()).await?;
    let nodes = nodes(lab, &client).await?;
    let families: Vec<bool> =
        [false, true].into_iter().filter(|v6| of_family(&nodes[0].site.addresses, *v6).is_some()).collect();
    lead(lab, &nodes, &families)?;
    let at_lab = match families.as_slice() {
        [false] => crate::Families::V4,
        [true] => crate::Families::V6,
        _ => crate::Families::Dual,
    };
    let outside = Site {
        place: in_lab::place(lab, "outside")?,
        addresses: at_lab.outside().iter().map(IpNet::addr).collect(),
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let made =
        namespaces.patch(namespace, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await;
    made.during(format!("making namespace {namespace}"))?;
    let namespace = namespace.to_owned();
    let mut table = Table { lab, client, namespace, nodes, outside, families, pods: BTreeMap::new() };
    table.pods = table.start(&usual(), patience).await?;
    Ok(table)
}

/// Two backends, two on the networks of their nodes, and a client on each node.
fn usual() -> BTreeMap<String, OwnPod> {
    let pod = |node: usize, role: &str, on_host: bool| OwnPod {
        node,
        labels: BTreeMap::from([("cast".into(), role.into()), ("at".into(), node.to_string())]),
        ready: true,
        on_host,
    };
    let mut all = BTreeMap::from([
        ("one".to_owned(), pod(1, "backend", false)),
        ("two".to_owned(), pod(2, "backend", false)),
        ("daemon-1".to_owned(), pod(1, "daemon", true)),
        ("daemon-2".to_owned(), pod(2, "daemon", true)),
    ]);
    all.extend((1..=NODES).map(|node| (format!("pod-{node}"), pod(node, "client", false))));
    all
}

async fn nodes(lab: &Lab, client: &kube::Client) -> Result<Vec<Node>> {
    let status = lab.status()?;
    let ready = in_lab::ready_nodes(&status)?;
    if ready.len() < NODES {
        return Err(LabError::Refused(format!("{} nodes are ready: Services need {NODES}", ready.len())));
    }
    let objects: Api<NodeObject> = Api::all(client.clone());
    let mut nodes = Vec::new();
    for name in ready.into_iter().take(NODES) {
        let object = objects.get(&name).await.during(format!("reading node {name}"))?;
        let annotations = object.annotations();
        let said = |what: &str| LabError::failed(format!("reading {what} of node {name}"), "it has none");
        let subnets = NodeSubnets::read(annotations).during(format!("reading the subnets of {name}"))?;
        let subnets = subnets.ok_or_else(|| said("the subnets"))?;
        let join = GatewayRouterLrpIfAddrs::default_network(annotations)
            .during(format!("reading the join addresses of {name}"))?
            .ok_or_else(|| said("the join addresses"))?;
        let status = status.nodes.iter().find(|node| node.name.as_str() == name);
        let v4 = join.ipv4().map(|net| IpAddr::V4(net.addr()));
        let v6 = join.ipv6().map(|net| IpAddr::V6(net.addr()));
        nodes.push(Node {
            site: Site {
                place: in_lab::place(lab, &name)?,
                addresses: status
                    .map(|node| node.addresses.iter().map(IpNet::addr).collect())
                    .unwrap_or_default(),
            },
            // The network's own address, its router, then the host.
            management: subnets.default_network().iter().filter_map(|net| second(*net)).collect(),
            join: v4.into_iter().chain(v6).collect(),
            name,
        });
    }
    Ok(nodes)
}

fn second(net: IpNet) -> Option<IpAddr> {
    match net.network() {
        IpAddr::V4(first) => Some(IpAddr::from((u32::from(first) + 2).to_be_bytes())),
        IpAddr::V6(first) => Some(IpAddr::from((u128::from(first) + 2).to_be_bytes())),
    }
}

/// Tells the lab's router which node takes which outside addresses.
fn lead(lab: &Lab, nodes: &[Node], families: &[bool]) -> Result<()> {
    let attempt = || "leading outside addresses to nodes".to_owned();
    let kernel = Kernel::inside(lab.way("router")?.namespace()?).during(attempt())?;
    let link = IfName::new("eth0").during(attempt())?;
    let link = kernel.links().named(&link).during(attempt())?;
    let link = link.ok_or_else(|| LabError::failed(attempt(), "the router has no eth0"))?.index;
    let routes: Vec<Route> = arrivals(families)
        .into_iter()
        .filter_map(|(node, net)| {
            let via = of_family(&nodes[node].site.addresses, net.network().is_ipv6())?;
            Some(Route::new(net, vec![Hop::via(link, via)]))
        })
        .collect();
    // Not the mark of what the lab itself has put there.
    let mark = Mark { protocol: 111, ..Mark::default() };
    kernel.routes().converge(&routes, &mark).during(attempt())?;
    Ok(())
}

impl Table<'_> {
    /// Takes the usual pods and their namespace away.
    pub async fn lower(&self) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        for name in self.pods.keys() {
            // At once: told to end, they would serve on for minutes.
            let done = pods.delete(name, &DeleteParams::default().grace_period(0)).await;
            done.during(format!("removing pod {}/{name}", self.namespace))?;
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let done = namespaces.delete(&self.namespace, &DeleteParams::default()).await;
        done.during(format!("removing namespace {}", self.namespace)).map(drop)
    }

    /// Starts pods and waits until they are ready; those that never are to be are waited for until they run.
    pub(super) async fn start(
        &self,
        pods: &BTreeMap<String, OwnPod>,
        patience: Duration,
    ) -> Result<BTreeMap<String, Standing>> {
        let end = Instant::now() + patience;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let apply = PatchParams::apply(MANAGER).force();
        for (name, pod) in pods {
            let manifest = self.manifest(name, pod)?;
            let made = fixture::insist(&api, name, &manifest, &apply, end).await;
            made.during(format!("making pod {}/{name}", self.namespace))?;
        }
        let mut standing = BTreeMap::new();
        loop {
            let listed = api.list(&ListParams::default()).await;
            let listed = listed.during(format!("listing the pods of {}", self.namespace))?;
            let mut missing = Vec::new();
            for (name, pod) in
                pods.iter().filter(|(name, _)| !standing.contains_key(*name)).collect::<Vec<_>>()
            {
                let found = listed.items.iter().find(|one| one.metadata.name.as_ref() == Some(name));
                match found.and_then(|found| addresses(found, pod.ready)) {
                    Some(addresses) => {
                        let node = pod.node - 1;
                        let place = if pod.on_host {
                            self.nodes[node].site.place.clone()
                        } else {
                            in_lab::place(self.lab, &format!("{}/{name}", self.namespace))?
                        };
                        standing.insert(name.clone(), Standing { site: Site { place, addresses }, node });
                    }
                    None => missing.push(name.clone()),
                }
            }
            if missing.is_empty() {
                return Ok(standing);
            }
            if Instant::now() >= end {
                return Err(LabError::TimedOut {
                    waiting_for: format!("pods {} of {}", missing.join(", "), self.namespace),
                    within: patience,
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn manifest(&self, name: &str, pod: &OwnPod) -> Result<Value> {
        let node = pod.node.checked_sub(1).and_then(|at| self.nodes.get(at));
        let node = node.ok_or_else(|| LabError::Refused(format!("pod {name}: no node {}", pod.node)))?;
        let (first, other) = if pod.on_host { (ON_HOST, ON_HOST + 1) } else { (8080, 8081) };
        // While it ends it goes on to serve and to say so; only one that never is ready says the opposite.
        let (path, ready_after) = if pod.ready { ("/healthz", "0s") } else { ("/readyz", "1440m") };
        let port = |name: &str, number: u16, protocol: &str| json!({"name": name, "containerPort": number, "protocol": protocol});
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": pod.labels},
            "spec": {
                "nodeName": node.name,
                "hostNetwork": pod.on_host,
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 600,
                "containers": [{
                    "name": "pod",
                    "image": "netferry.dev/lab-pod",
                    "ports": [port("web", first, "TCP"), port("names", first, "UDP"), port("other", other, "TCP")],
                    "env": [
                        {"name": "POD_NAME", "value": name},
                        {"name": "LINGER", "value": "10m"},
                        {"name": "READY_AFTER", "value": ready_after},
                    ],
                    "readinessProbe": {
                        "httpGet": {"path": path, "port": first},
                        "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 60,
                    },
                }],
            },
        }))
    }
}

fn addresses(pod: &Pod, ready: bool) -> Option<Vec<IpAddr>> {
    let status = pod.status.as_ref()?;
    let is_ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let runs = status.phase.as_deref() == Some("Running");
    let all: Vec<IpAddr> = status.pod_ips.iter().flatten().filter_map(|ip| ip.ip.parse().ok()).collect();
    (if ready { is_ready } else { runs } && !all.is_empty()).then_some(all)
}
