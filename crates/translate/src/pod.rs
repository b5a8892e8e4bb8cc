//! Pods.

use k8s_openapi::api::core::v1 as k8s;
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::overlay::annotations::PodNetworks;
use netferry_core::name::{NodeName, NotANodeName, ObjectName};
use netferry_core::net::Addresses;
use netferry_core::overlay::cluster::{NamedPort, Pod};
use netferry_core::port::Port;

use crate::labels::labels;
use crate::{object_name, protocol};

/// By which a mirror says which static pod it shows.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Why a pod cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum PodRefusal {
    /// It is bound to something that is no node.
    #[error(transparent)]
    Node(#[from] NotANodeName),
    /// Its annotation cannot be read.
    #[error("an annotation cannot be read")]
    Mangled(#[from] AnnotationError),
    /// Two addresses of one family.
    #[error("annotation {key} has more than one address of a family", key = PodNetworks::KEY)]
    Addresses,
}

/// A pod of the overlay; `None` while it has no node or no addresses, once it has ended, and when it lives in its
/// host's own network: none of those has a port, and no rule speaks of their addresses.
pub fn pod(pod: &k8s::Pod) -> Result<Option<Pod>, PodRefusal> {
    let Some((name, node)) = bound(pod)? else { return Ok(None) };
    let none = Default::default();
    let annotations = pod.metadata.annotations.as_ref().unwrap_or(&none);
    let Some(networks) = PodNetworks::read(annotations)? else { return Ok(None) };
    let Some(network) = networks.default_network() else { return Ok(None) };
    if network.addresses().is_empty() {
        return Ok(None);
    }
    let addresses = Addresses::from_addresses(network.addresses().iter().map(|net| net.addr()));
    let addresses = addresses.ok_or(PodRefusal::Addresses)?;
    Ok(Some(with_addresses(pod, name, node, addresses)))
}

/// A pod of the overlay with addresses it is about to be given; `None` for a pod that gets none: see [`pod`].
pub fn pod_with(pod: &k8s::Pod, addresses: Addresses) -> Result<Option<Pod>, PodRefusal> {
    Ok(bound(pod)?.map(|(name, node)| with_addresses(pod, name, node, addresses)))
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

fn bound(pod: &k8s::Pod) -> Result<Option<(ObjectName, NodeName)>, PodRefusal> {
    let Some(spec) = &pod.spec else { return Ok(None) };
    match &spec.node_name {
        Some(node) if !has_ended(pod) && spec.host_network != Some(true) => {
            Ok(Some((object_name(&pod.metadata), NodeName::new(node.clone())?)))
        }
        Some(_) | None => Ok(None),
    }
}

fn with_addresses(pod: &k8s::Pod, name: ObjectName, node: NodeName, addresses: Addresses) -> Pod {
    Pod {
        name,
        uid: runtime_uid(pod).to_owned(),
        node,
        labels: labels(pod.metadata.labels.as_ref()),
        addresses,
        host_network: false,
        ports: named_ports(pod).into(),
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
