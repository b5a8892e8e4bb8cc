//! Pods.

use std::net::IpAddr;

use k8s_openapi::api::core::v1 as k8s;
use netferry_core::name::{NodeName, NotANodeName, ObjectName};
use netferry_core::net::Addresses;
use netferry_core::overlay::cluster::{NamedPort, Pod, PodObject};
use netferry_core::port::Port;

use crate::labels::labels;
use crate::{object_name, protocol};

/// By which a mirror says which static pod it shows.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Reads a pod of the overlay; `None` until it has a node, once it has ended, and if it uses its host's own network.
/// Such a pod has no port, and no rule applies to its addresses.
///
/// Its addresses are those of `status.podIPs`, which only kubelets may write. The annotation `k8s.ovn.org/pod-networks`
/// is for other readers: everyone who may edit the pod may change it.
pub fn pod(pod: &k8s::Pod) -> Result<Option<PodObject>, NotANodeName> {
    Ok(bound(pod)?.map(|(name, node)| PodObject {
        name,
        uid: runtime_uid(pod).to_owned(),
        node,
        labels: labels(pod.metadata.labels.as_ref()),
        ports: named_ports(pod).into(),
        reported: reported(pod),
    }))
}

/// A pod of the overlay with the addresses it is being attached with; `None` for a pod without a port: see [`pod`].
pub fn pod_with(object: &k8s::Pod, addresses: Addresses) -> Result<Option<Pod>, NotANodeName> {
    Ok(pod(object)?.map(|object| object.attached_with(addresses)))
}

/// The addresses a pod's kubelet reports. A value that is no address is left out.
pub fn reported(pod: &k8s::Pod) -> Vec<IpAddr> {
    let listed = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
    listed.filter_map(|one| one.ip.parse().ok()).collect()
}

/// The UID a pod's runtime knows it by. Of a static pod the API has only a mirror: that has a UID of its own, and may be
/// deleted and made anew while the pod goes on.
pub fn runtime_uid(pod: &k8s::Pod) -> &str {
    let mirrored = pod.metadata.annotations.as_ref().and_then(|all| all.get(MIRROR));
    mirrored.or(pod.metadata.uid.as_ref()).map_or("", String::as_str)
}

/// Whether all of its containers have ended for good. Its addresses are free then.
pub fn has_ended(pod: &k8s::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn bound(pod: &k8s::Pod) -> Result<Option<(ObjectName, NodeName)>, NotANodeName> {
    let Some(spec) = &pod.spec else { return Ok(None) };
    match &spec.node_name {
        Some(node) if !has_ended(pod) && spec.host_network != Some(true) => {
            Ok(Some((object_name(&pod.metadata), NodeName::new(node.clone())?)))
        }
        Some(_) | None => Ok(None),
    }
}

/// The ports with a name. One that is none is as if it had not been named: no rule can mean it.
fn named_ports(pod: &k8s::Pod) -> Vec<NamedPort> {
    let spec = pod.spec.as_ref();
    // Sidecars are init containers that stay.
    let stays = |c: &&k8s::Container| c.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten().filter(stays);
    let containers = spec.into_iter().flat_map(|spec| &spec.containers).chain(sidecars);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let named = ports.filter_map(|port| {
        Some(NamedPort {
            name: port.name.clone().filter(|name| !name.is_empty())?,
            protocol: protocol(port.protocol.as_deref())?,
            port: Port::new(port.container_port.into()).ok()?,
        })
    });
    named.collect()
}
