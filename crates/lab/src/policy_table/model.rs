//! The table as policies mean it, computed and not observed.

use netferry_core::name::{NodeName, ObjectName};
use netferry_core::net::{Addresses, Family};
use netferry_core::overlay::cluster::Cluster;
use netferry_core::overlay::policy::{End, Flow, verdict};
use netferry_core::port::{Port, Protocol as CoreProtocol};
use serde_json::json;

use super::cell::{Cell, PodId};
use super::scenario::{Expanded, Step, World, pod_manifest};
use crate::programs::probe::Protocol;

/// A cluster of the nine pods under these policies, in the words of `core`.
pub fn cluster(world: &World, step: &Step, policies: &[Expanded]) -> Result<Cluster, String> {
    let mut cluster = Cluster::default();
    for short in ['x', 'y', 'z'] {
        let labels = world.namespace_labels(short, step);
        let labels = netferry_translate::labels::labels(Some(&labels));
        cluster.namespaces.insert(world.namespace(short), labels);
    }
    let node = NodeName::new("node").map_err(|error| error.to_string())?;
    for id in PodId::all() {
        let mut manifest = pod_manifest(id, world, node.as_str());
        manifest["metadata"]["labels"] = json!(world.pod_labels(id, step));
        let pod = serde_json::from_value(manifest).map_err(|error| error.to_string())?;
        let addresses = world.addresses.get(&id).cloned().unwrap_or_default();
        let addresses =
            Addresses::from_addresses(addresses).ok_or_else(|| format!("{id} has no addresses"))?;
        let pod = netferry_translate::pod::pod_with(&pod, addresses).map_err(|error| error.to_string())?;
        let pod = pod.ok_or_else(|| format!("{id} is no pod of the overlay"))?;
        cluster.pods.insert(pod.name.clone(), pod);
    }
    for expanded in policies {
        let (policy, left_out) =
            netferry_translate::policy::policy(&expanded.policy).map_err(|error| error.to_string())?;
        if let Some(left_out) = left_out.first() {
            return Err(format!("{:?} cannot be read whole: {left_out}", policy.name));
        }
        cluster.policies.insert(policy.name.clone(), policy);
    }
    Ok(cluster)
}

/// Whether a cell is open.
pub fn open(cluster: &Cluster, world: &World, cell: &Cell) -> bool {
    let end = |pod: PodId| End::Pod(ObjectName::new(world.namespace(pod.namespace), pod.name.to_string()));
    let flow = Flow {
        from: end(cell.from),
        to: end(cell.to),
        family: if cell.v6 { Family::V6 } else { Family::V4 },
        protocol: match cell.protocol {
            Protocol::Tcp => CoreProtocol::Tcp,
            Protocol::Udp => CoreProtocol::Udp,
        },
        port: Port::new(cell.port.into()).expect("the table's ports are not 0"),
    };
    verdict(cluster, &flow)
}
