//! Whether the cluster's policies let two ends speak, from what Kubernetes says policies mean and from nothing else.
//!
//! It knows no ACLs: it is what the ACLs are judged by.

use std::net::IpAddr;

use super::Direction;
use crate::name::{NodeName, ObjectName};
use crate::net::Family;
use crate::overlay::cluster::{Cluster, Peer, Pod, Policy, PolicyPort, PortSet, Rule};
use crate::port::{Port, Protocol};

/// One side of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// A pod.
    Pod(ObjectName),
    /// The host of a node, as the overlay sees it.
    Node(NodeName),
    /// Somebody else.
    Outside(IpAddr),
}

/// A connection somebody wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Who wants it.
    pub from: End,
    /// With whom.
    pub to: End,
    /// In which family.
    pub family: Family,
    /// By which protocol.
    pub protocol: Protocol,
    /// On which port of the other's.
    pub port: Port,
}

/// Whether the policies of the cluster let a connection come about.
///
/// A connection needs the leave of both sides. A side that no policy selects gives it; one that policies select gives
/// it when a rule of any of them fits. A pod always reaches itself, and a host always reaches its own pods.
pub fn verdict(cluster: &Cluster, flow: &Flow) -> bool {
    if flow.from == flow.to {
        return true;
    }
    let own_host = match (&flow.from, pod(cluster, &flow.to)) {
        (End::Node(node), Some(to)) => to.node == *node,
        (End::Pod(_) | End::Node(_) | End::Outside(_), _) => false,
    };
    permits(cluster, flow, Direction::Egress, &flow.from, &flow.to)
        && (own_host || permits(cluster, flow, Direction::Ingress, &flow.to, &flow.from))
}

fn pod<'a>(cluster: &'a Cluster, end: &End) -> Option<&'a Pod> {
    match end {
        End::Pod(name) => cluster.pods.get(name).filter(|pod| !pod.host_network),
        End::Node(_) | End::Outside(_) => None,
    }
}

fn permits(cluster: &Cluster, flow: &Flow, direction: Direction, own: &End, other: &End) -> bool {
    let Some(subject) = pod(cluster, own) else { return true };
    let mut selected = false;
    for policy in cluster.policies_in(&subject.name.namespace) {
        let applies = policy.pods.matches(&subject.labels);
        let Some(rules) = direction.rules(policy).filter(|_| applies) else { continue };
        selected = true;
        if rules.iter().any(|rule| fits(cluster, policy, rule, flow, other)) {
            return true;
        }
    }
    !selected
}

fn fits(cluster: &Cluster, policy: &Policy, rule: &Rule, flow: &Flow, other: &End) -> bool {
    let port = rule.ports.is_empty() || rule.ports.iter().any(|port| names_port(cluster, port, flow));
    let peer =
        rule.peers.is_empty() || rule.peers.iter().any(|peer| means(cluster, policy, peer, flow, other));
    port && peer
}

fn names_port(cluster: &Cluster, port: &PolicyPort, flow: &Flow) -> bool {
    if port.protocol != flow.protocol {
        return false;
    }
    match &port.ports {
        PortSet::Any => true,
        PortSet::Range(first, last) => (*first..=*last).contains(&flow.port),
        PortSet::Named(name) => pod(cluster, &flow.to).is_some_and(|to| {
            to.ports.iter().any(|p| p.name == *name && p.protocol == flow.protocol && p.port == flow.port)
        }),
    }
}

fn means(cluster: &Cluster, policy: &Policy, peer: &Peer, flow: &Flow, other: &End) -> bool {
    match peer {
        Peer::Block { net, except } => address(cluster, other, flow.family)
            .is_some_and(|ip| net.contains(&ip) && !except.iter().any(|net| net.contains(&ip))),
        Peer::Pods { namespaces, pods } => {
            let in_namespace = |namespace: &str| match namespaces {
                None => policy.name.namespace == namespace,
                Some(selector) => cluster.namespaces.get(namespace).is_some_and(|l| selector.matches(l)),
            };
            match other {
                End::Pod(_) => pod(cluster, other).is_some_and(|other| {
                    in_namespace(&other.name.namespace)
                        && pods.as_ref().is_none_or(|selector| selector.matches(&other.labels))
                }),
                End::Node(_) => {
                    let all = pods.as_ref().is_none_or(|selector| selector.requirements().next().is_none());
                    all && cluster.host_namespace.as_deref().is_some_and(in_namespace)
                }
                End::Outside(_) => false,
            }
        }
    }
}

fn address(cluster: &Cluster, end: &End, family: Family) -> Option<IpAddr> {
    match end {
        End::Pod(name) => cluster.pods.get(name)?.addresses.get(family),
        End::Node(name) => cluster.nodes.get(name)?.assignment.management().get(family),
        End::Outside(ip) => Some(*ip).filter(|ip| Family::of(*ip) == family),
    }
}
