//! Sets of pods a rule speaks of.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::label::{LabelSelector, Labels};
use crate::net::Family;
use crate::overlay::cluster::{Cluster, Peer, Pod};
use crate::overlay::names::ObjectId;
use crate::overlay::rows::{AddressSet, Rows};
use crate::overlay::zone::Zone;

/// The namespaces of a [`PeerSet`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Namespaces {
    Only(String),
    With(LabelSelector),
}

/// A set of pods that rules refer to. Rules of different policies that mean the same pods share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PeerSet {
    namespaces: Namespaces,
    pods: LabelSelector,
}

impl PeerSet {
    /// The set a peer of a policy in `namespace` means; `None` when the peer is a block of addresses.
    pub fn of(peer: &Peer, namespace: &str) -> Option<PeerSet> {
        match peer {
            Peer::Block { .. } => None,
            Peer::Pods { namespaces, pods } => Some(PeerSet {
                namespaces: match namespaces {
                    None => Namespaces::Only(namespace.to_owned()),
                    Some(selector) => Namespaces::With(selector.clone()),
                },
                pods: pods.clone().unwrap_or_default(),
            }),
        }
    }

    /// Whether a pod, whose namespace has these labels, is in the set.
    pub fn contains(&self, pod: &Pod, namespace_labels: &Labels) -> bool {
        !pod.host_network
            && self.covers(&pod.name.namespace, namespace_labels)
            && self.pods.matches(&pod.labels)
    }

    fn covers(&self, namespace: &str, labels: &Labels) -> bool {
        match &self.namespaces {
            Namespaces::Only(only) => only == namespace,
            Namespaces::With(selector) => selector.matches(labels),
        }
    }

    /// Whether the set stands for the hosts themselves as well.
    fn covers_hosts(&self, cluster: &Cluster) -> bool {
        let Some(namespace) = &cluster.host_namespace else { return false };
        let labels = cluster.namespaces.get(namespace);
        labels.is_some_and(|labels| self.covers(namespace, labels)) && self.pods == LabelSelector::all()
    }

    /// The addresses of the set.
    pub fn addresses(&self, cluster: &Cluster) -> BTreeSet<IpAddr> {
        let namespaces = cluster.namespaces.iter().filter(|(name, labels)| self.covers(name, labels));
        let pods = namespaces
            .flat_map(|(name, labels)| cluster.pods_in(name).filter(move |pod| self.contains(pod, labels)));
        let mut addresses: BTreeSet<IpAddr> = pods.flat_map(|pod| pod.addresses.iter()).collect();
        if self.covers_hosts(cluster) {
            for node in cluster.nodes.values() {
                addresses.extend(node.assignment.management().iter());
                addresses.extend(node.assignment.join().iter());
            }
        }
        addresses
    }

    fn id(&self, family: Family) -> ObjectId {
        let name = match &self.namespaces {
            Namespaces::Only(namespace) => format!("{namespace}/"),
            Namespaces::With(selector) => format!("[{}]", selector.text()),
        };
        ObjectId::new("PodSelector", name).and("pods", self.pods.text()).and("family", family.ovn())
    }

    /// The name of its address set of one family.
    pub fn name(&self, family: Family) -> String {
        self.id(family).hashed()
    }
}

impl Zone<'_> {
    /// The address sets of a peer set, one per family, empty ones too: a rule that refers to an empty set admits
    /// nobody, and a set that is missing would break the rule.
    pub fn rows_of_peer_set(&self, set: &PeerSet, cluster: &Cluster) -> Rows {
        let all = set.addresses(cluster);
        self.networks.families().iter().fold(Rows::default(), |rows, family| {
            let of_family = all.iter().filter(|ip| Family::of(**ip) == *family);
            rows.with(AddressSet {
                name: set.name(*family),
                addresses: of_family.map(|ip| IpNet::from(*ip)).collect(),
                external_ids: set.id(*family).external_ids(),
            })
        })
    }
}
