//! The cluster as the overlay sees it: plain values, translated from the API by whoever reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use ipnet::IpNet;

use crate::label::{LabelSelector, Labels};
use crate::name::{NodeName, ObjectName};
use crate::net::Addresses;
use crate::overlay::allocate::Assignment;
use crate::port::{Port, Protocol};

/// A node that has a place in the overlay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Its place.
    pub assignment: Assignment,
    /// The identity of its switch (`system-id`).
    pub chassis: String,
    /// Where its tunnels end.
    pub encap: IpAddr,
    /// Every address of the host that NodePorts answer on.
    pub host_addresses: BTreeSet<IpAddr>,
}

/// A pod that has addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pod {
    /// Which pod.
    pub name: ObjectName,
    /// The UID its runtime knows it by.
    pub uid: String,
    /// Where it runs.
    pub node: NodeName,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses.
    pub addresses: Addresses,
    /// Whether it lives in the host's own network. Such a pod has no port, and no policy selects it.
    pub host_network: bool,
    /// The ports its containers name.
    pub ports: Arc<[NamedPort]>,
}

/// A pod as its object describes it.
///
/// Its annotations are left out on purpose: everyone who may edit a pod may write them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodObject {
    /// Its name.
    pub name: ObjectName,
    /// The UID its runtime knows it by.
    pub uid: String,
    /// Where it runs.
    pub node: NodeName,
    /// Its labels.
    pub labels: Labels,
    /// The ports its containers name.
    pub ports: Arc<[NamedPort]>,
    /// The addresses its kubelet reports in `status.podIPs`. Empty until the pod is attached.
    pub reported: Vec<IpAddr>,
}

impl PodObject {
    /// The pod with the addresses it is attached with.
    pub fn attached_with(self, addresses: Addresses) -> Pod {
        let PodObject { name, uid, node, labels, ports, reported: _ } = self;
        Pod { name, uid, node, labels, addresses, host_network: false, ports }
    }
}

/// A port a container gives a name to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NamedPort {
    /// The name.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The number.
    pub port: Port,
}

/// A Service that has addresses of its own: headless ones and those that are only a name are not translated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Which Service.
    pub name: ObjectName,
    /// Its addresses inside the cluster, at most one per family.
    pub cluster_ips: Addresses,
    /// Addresses outside the range of Services that mean this Service wherever they arrive.
    pub external_ips: BTreeSet<IpAddr>,
    /// Addresses a load balancer in front of the nodes delivers, not rewritten.
    pub load_balancer_ips: BTreeSet<IpAddr>,
    /// Who may use those, in either family; everybody when it names nobody.
    pub source_ranges: BTreeSet<IpNet>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// For how many seconds a client stays with one backend.
    pub affinity: Option<u32>,
    /// Inside the cluster only backends of the client's own node are used.
    pub internal_local: bool,
    /// From outside only backends of the node that was reached are used, and they see the client's address.
    pub external_local: bool,
}

/// One port of a Service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ServicePort {
    /// Its name, which the slices' ports are matched by. Empty for the only port of a Service.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The port on the Service's own addresses.
    pub port: Port,
    /// The port on every node's addresses.
    pub node_port: Option<Port>,
}

/// One slice of a Service's endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointSlice {
    /// Its ports.
    pub ports: Vec<SlicePort>,
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// One port of a slice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlicePort {
    /// The name of the Service's port it belongs to.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The number at the backend.
    pub port: Port,
}

/// One endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Where it is, if it is on a node.
    pub node: Option<NodeName>,
    /// Whether it takes new connections.
    pub ready: bool,
    /// Whether it answers, also while it ends.
    pub serving: bool,
    /// Whether it ends.
    pub terminating: bool,
}

/// A NetworkPolicy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Which policy.
    pub name: ObjectName,
    /// The pods of its namespace it applies to.
    pub pods: LabelSelector,
    /// What may reach them; `None` when the policy does not speak of ingress.
    pub ingress: Option<Vec<Rule>>,
    /// What they may reach; `None` when the policy does not speak of egress.
    pub egress: Option<Vec<Rule>>,
    /// Whether its rules are to be enforced without tracking connections.
    pub stateless: bool,
}

/// One rule of a policy: any of the peers, on any of the ports. An empty list is everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// The other side.
    pub peers: Vec<Peer>,
    /// The destination's ports.
    pub ports: Vec<PolicyPort>,
}

/// The other side of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Pods.
    Pods {
        /// In namespaces with such labels; `None` is the policy's own namespace.
        namespaces: Option<LabelSelector>,
        /// With such labels; `None` is all of them.
        pods: Option<LabelSelector>,
    },
    /// Addresses.
    Block {
        /// These.
        net: IpNet,
        /// But not these.
        except: Vec<IpNet>,
    },
}

/// A port a rule speaks of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PolicyPort {
    /// The protocol.
    pub protocol: Protocol,
    /// Which of its ports.
    pub ports: PortSet,
}

/// Which ports of a protocol.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PortSet {
    /// All.
    Any,
    /// From the first to the last, both included.
    Range(Port, Port),
    /// Whatever the destination's containers call by this name.
    Named(String),
}

/// Everything the overlay is computed from.
///
/// Pods are those that run: one that has ended keeps its object but not its address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cluster {
    /// The nodes that have a place.
    pub nodes: BTreeMap<NodeName, Node>,
    /// The namespaces and their labels.
    pub namespaces: BTreeMap<String, Labels>,
    /// The pods.
    pub pods: BTreeMap<ObjectName, Pod>,
    /// The Services.
    pub services: BTreeMap<ObjectName, Service>,
    /// The slices of each Service.
    pub slices: BTreeMap<ObjectName, Vec<EndpointSlice>>,
    /// The policies.
    pub policies: BTreeMap<ObjectName, Policy>,
    /// The namespace that stands for the hosts' own network, where the cluster has one: selecting it selects the
    /// addresses nodes speak from.
    pub host_namespace: Option<String>,
}

impl Cluster {
    /// The pods of a namespace.
    pub fn pods_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Pod> {
        in_namespace(&self.pods, namespace)
    }

    /// The policies of a namespace.
    pub fn policies_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Policy> {
        in_namespace(&self.policies, namespace)
    }

    /// The slices of a Service.
    pub fn slices_of(&self, service: &ObjectName) -> &[EndpointSlice] {
        self.slices.get(service).map_or(&[], Vec::as_slice)
    }
}

fn in_namespace<'a, T>(
    objects: &'a BTreeMap<ObjectName, T>,
    namespace: &'a str,
) -> impl Iterator<Item = &'a T> {
    let first = ObjectName::new(namespace, "");
    let from = objects.range((Bound::Included(first), Bound::Unbounded));
    from.take_while(move |(name, _)| name.namespace == *namespace).map(|(_, object)| object)
}
