//! Pods of other nodes, as far as their addresses are not accepted.
//!
//! Each node may report addresses of its own subnets only. Otherwise one node, or a tenant that can write a pod's status,
//! could have every policy of the cluster admit another node's pods, or the nodes themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::name::{NodeName, ObjectName};
use crate::net::Subnets;
use crate::overlay::cluster::{Pod, PodObject};
use crate::overlay::pod_addresses::{self, NotOurs};

/// Addresses of a pod that its node cannot have given it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "status.podIPs of pod {pod} on node {node} is {reported:?}: {why}; no policy admits it by these addresses"
)]
pub struct Refused {
    /// The pod.
    pub pod: ObjectName,
    /// The node it runs on.
    pub node: NodeName,
    /// The addresses.
    pub reported: Vec<IpAddr>,
    /// Why the pod cannot have them.
    pub why: NotOurs,
}

/// The pods whose addresses are not accepted: their node is not known yet, or they are refused.
#[derive(Debug, Default)]
pub(super) struct DistantPods {
    pods: BTreeMap<ObjectName, (PodObject, Option<NotOurs>)>,
    by_node: BTreeMap<NodeName, BTreeSet<ObjectName>>,
}

impl DistantPods {
    /// Returns the pod with its addresses if a pod of a node with these subnets may have them. Keeps it otherwise, until
    /// its node changes.
    pub(super) fn place(&mut self, pod: PodObject, subnets: Option<Subnets>) -> Option<Pod> {
        if pod.reported.is_empty() {
            return None;
        }
        let checked = subnets.map(|subnets| pod_addresses::keep(&subnets, pod.reported.iter().copied()));
        let why = match checked {
            // Only its own node distinguishes pods of one name by their UIDs, and a cluster has many pods.
            Some(Ok(addresses)) => {
                return Some(Pod { uid: String::new(), ..pod.attached_with(addresses) });
            }
            Some(Err(why)) => Some(why),
            None => None,
        };
        self.by_node.entry(pod.node.clone()).or_default().insert(pod.name.clone());
        self.pods.insert(pod.name.clone(), (pod, why));
        None
    }

    /// Takes out the pods of a node.
    pub(super) fn take(&mut self, node: &NodeName) -> Vec<PodObject> {
        let names = self.by_node.remove(node).unwrap_or_default();
        names.iter().filter_map(|name| self.pods.remove(name)).map(|(pod, _)| pod).collect()
    }

    /// Forgets a pod.
    pub(super) fn forget(&mut self, name: &ObjectName) {
        let Some((pod, _)) = self.pods.remove(name) else { return };
        if let Some(names) = self.by_node.get_mut(&pod.node) {
            names.remove(name);
            if names.is_empty() {
                self.by_node.remove(&pod.node);
            }
        }
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.pods.keys()
    }

    /// Those that are refused, and why.
    pub(super) fn refused(&self) -> impl Iterator<Item = (ObjectName, Refused)> + '_ {
        self.pods.iter().filter_map(|(name, (pod, why))| {
            let (pod, node, reported) = (name.clone(), pod.node.clone(), pod.reported.clone());
            Some((name.clone(), Refused { pod, node, reported, why: why.clone()? }))
        })
    }
}

/// The object of a pod whose addresses were accepted, to check them again.
pub(super) fn object(pod: Pod) -> PodObject {
    let Pod { name, uid, node, labels, addresses, host_network: _, ports } = pod;
    PodObject { name, uid, node, labels, ports, reported: addresses.iter().collect() }
}
