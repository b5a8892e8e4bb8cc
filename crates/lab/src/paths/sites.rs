//! What there is to measure between.

use std::net::{IpAddr, SocketAddr};

use crate::meter::{Endpoint, Place};

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its network.
    pub place: Place,
    /// Its addresses on the underlay, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Where its pods' addresses come from, for drawings.
    pub pod_ranges: Vec<String>,
}

/// A pod on a network of its own.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Namespace and name.
    pub name: String,
    /// The node it runs on.
    pub node: String,
    /// Its network.
    pub place: Place,
    /// Its addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
}

/// A Service with one backend, whose port for both protocols is [`super::PORT`].
#[derive(Clone, Debug)]
pub struct Service {
    /// Namespace and name.
    pub name: String,
    /// Its addresses.
    pub cluster_ips: Vec<IpAddr>,
    /// Its port on every node for UDP.
    pub node_port_udp: Option<u16>,
    /// Its port on every node for TCP.
    pub node_port_tcp: Option<u16>,
    /// The name of the pod behind it.
    pub backend: String,
}

/// The world.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Its network.
    pub place: Place,
    /// Its addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// Nodes, in order: each is measured to the next, the last to the first.
    pub nodes: Vec<Node>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// Services.
    pub services: Vec<Service>,
    /// The world, where there is one.
    pub outside: Option<Outside>,
}

/// The address of a family.
pub(super) fn of_family(addresses: &[IpAddr], v6: bool) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| address.is_ipv6() == v6)
}

impl Sites {
    /// The pods of a node.
    pub fn pods_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| pod.node == node)
    }

    /// The first pods of two nodes, where both have some.
    pub(super) fn first_pods<'a>(&'a self, node: &'a Node, other: &'a Node) -> Option<(&'a Pod, &'a Pod)> {
        Some((self.pods_on(&node.name).next()?, self.pods_on(&other.name).next()?))
    }

    /// A pod by its name.
    pub fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// The Service whose backend is a pod.
    pub(super) fn service_of(&self, pod: &Pod) -> Option<&Service> {
        self.services.iter().find(|service| service.backend == pod.name)
    }
}

/// An end of a flow: who it is, where the meter answers, and on which address.
#[derive(Clone, Debug)]
pub(super) struct End<'a> {
    pub(super) name: String,
    pub(super) place: &'a Place,
    pub(super) addresses: &'a [IpAddr],
}

impl End<'_> {
    pub(super) fn endpoint(&self, v6: bool) -> Option<Endpoint> {
        let address = of_family(self.addresses, v6)?;
        Some(Endpoint { place: self.place.clone(), at: SocketAddr::new(address, super::PORT) })
    }
}

impl Node {
    pub(super) fn end(&self) -> End<'_> {
        End { name: self.name.clone(), place: &self.place, addresses: &self.addresses }
    }
}

impl Pod {
    pub(super) fn end(&self) -> End<'_> {
        End { name: self.name.clone(), place: &self.place, addresses: &self.addresses }
    }
}

impl Outside {
    pub(super) fn end(&self) -> End<'_> {
        End { name: "outside".to_owned(), place: &self.place, addresses: &self.addresses }
    }
}
