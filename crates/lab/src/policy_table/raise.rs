//! The nine pods, started in a lab.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::cell::PodId;
use super::live::Table;
use super::scenario::{World, pod_manifest};
use crate::Lab;
use crate::error::{During, LabError, Result};
use crate::paths::in_lab;

const MANAGER: &str = "policy-table";
const LOOK: Duration = Duration::from_millis(200);

/// Starts the nine pods, dealt out to the ready nodes in turn so that some share one and some do not, and finds the
/// way into each.
pub async fn raise(lab: &Lab, prefix: &str, patience: Duration) -> Result<Table> {
    let end = Instant::now() + patience;
    let nodes = in_lab::ready_nodes(&lab.status()?)?;
    let client = in_lab::client(&lab.state().kubeconfig()).await?;
    let mut world = World { prefix: prefix.to_owned(), addresses: BTreeMap::new(), ranges: Vec::new() };
    let apply = PatchParams::apply(MANAGER).force();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for short in ['x', 'y', 'z'] {
        let name = world.namespace(short);
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"ns": short.to_string()}},
        });
        let done = namespaces.patch(&name, &apply, &Patch::Apply(&namespace)).await;
        done.during(format!("making namespace {name}"))?;
    }
    let dealt: BTreeMap<PodId, String> =
        PodId::all().enumerate().map(|(at, id)| (id, nodes[at % nodes.len()].clone())).collect();
    for (id, node) in &dealt {
        let namespace = world.namespace(id.namespace);
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let manifest = pod_manifest(*id, &world, node);
        loop {
            let done = pods.patch(&id.name.to_string(), &apply, &Patch::Apply(&manifest)).await;
            // A real API server asks for the namespace's service account, which is a moment behind.
            let behind = matches!(&done, Err(kube::Error::Api(status)) if status.code == 403);
            if behind && Instant::now() < end {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            done.during(format!("making pod {namespace}/{}", id.name))?;
            break;
        }
    }
    for short in ['x', 'y', 'z'] {
        let namespace = world.namespace(short);
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        loop {
            let listed = pods.list(&ListParams::default()).await;
            let all = listed.during(format!("listing the pods of {namespace}"))?;
            let ready: Vec<(PodId, Vec<IpAddr>)> =
                all.items.iter().filter_map(|pod| started(short, pod)).collect();
            if ready.len() == 3 {
                world.addresses.extend(ready);
                break;
            }
            if Instant::now() >= end {
                return Err(LabError::TimedOut {
                    waiting_for: format!("three ready pods in {namespace}, {} are", ready.len()),
                    within: patience,
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    let mut places = BTreeMap::new();
    for id in PodId::all() {
        let target = format!("{}/{}", world.namespace(id.namespace), id.name);
        places.insert(id, in_lab::place(lab, &target)?);
    }
    world.ranges = ranges(&world);
    Ok(Table { client, world, places, nodes: dealt })
}

fn started(short: char, pod: &Pod) -> Option<(PodId, Vec<IpAddr>)> {
    let id = PodId::read(&format!("{short}/{}", pod.name_any()))?;
    let status = pod.status.as_ref()?;
    let is_ready = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let addresses: Vec<IpAddr> =
        status.pod_ips.iter().flatten().filter_map(|ip| ip.ip.parse().ok()).collect();
    (is_ready && !addresses.is_empty()).then_some((id, addresses))
}

/// A range around all pods, for each family they have. The lab's clusters use these prefixes.
fn ranges(world: &World) -> Vec<IpNet> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for address in world.addresses.values().flatten() {
        let length = if address.is_ipv4() { 16 } else { 48 };
        if let Ok(net) = IpNet::new(*address, length)
            && !ranges.contains(&net.trunc())
        {
            ranges.push(net.trunc());
        }
    }
    ranges.sort();
    ranges
}
