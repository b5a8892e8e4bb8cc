//! From NetworkPolicies to access control.
//!
//! A pod that a policy selects in one direction joins its namespace's group of isolated ports, where everything of
//! that direction is dropped; each policy lifts the drop for what its rules allow, from a group of the ports it
//! selects. A zone has groups for its own pods only, but its address sets hold pods of the whole cluster.

use std::collections::BTreeSet;

use crate::overlay::cluster::{Cluster, Pod, Policy, Rule};
use crate::overlay::names::{self, ObjectId};
use crate::overlay::rows::{Acl, AclAction, AclDirection, AclOn, PortGroup, Rows};
use crate::overlay::zone::{ALLOW_PRIORITY, Zone, options_for};

mod clauses;
mod peers;
#[cfg(test)]
mod tests;
mod verdict;

pub use peers::PeerSet;
pub use verdict::{End, Flow, verdict};

/// Below whatever a policy allows.
const DROP_PRIORITY: u16 = 1000;

/// Which way a policy looks at a pod.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// What reaches the pod.
    Ingress,
    /// What the pod reaches.
    Egress,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Ingress, Direction::Egress];

    /// As Kubernetes writes it.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Ingress => "Ingress",
            Direction::Egress => "Egress",
        }
    }

    /// How OVN calls it, seen from the switch.
    pub fn acl(self) -> AclDirection {
        match self {
            Direction::Ingress => AclDirection::ToPort,
            Direction::Egress => AclDirection::FromPort,
        }
    }

    /// The field that holds the pod's own port.
    fn own_port(self) -> &'static str {
        match self {
            Direction::Ingress => "outport",
            Direction::Egress => "inport",
        }
    }

    /// The field that holds the other side's address.
    fn peer_field(self) -> &'static str {
        match self {
            Direction::Ingress => "src",
            Direction::Egress => "dst",
        }
    }

    /// What a policy says of this direction.
    pub fn rules(self, policy: &Policy) -> Option<&[Rule]> {
        match self {
            Direction::Ingress => policy.ingress.as_deref(),
            Direction::Egress => policy.egress.as_deref(),
        }
    }
}

/// What one policy needs in a zone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyRows {
    /// Its own rows.
    pub rows: Rows,
    /// The address sets its rows refer to, which other policies may share: see [`Zone::rows_of_peer_set`].
    pub peers: BTreeSet<PeerSet>,
    /// Whether its rows depend on pods of other namespaces, because a name of a port means a number that each of them
    /// decides. Without it only pods of its own namespace and node change them.
    pub follows_all_pods: bool,
}

impl Policy {
    /// Whether the policy applies to a pod.
    pub fn selects(&self, pod: &Pod) -> bool {
        !pod.host_network && pod.name.namespace == self.name.namespace && self.pods.matches(&pod.labels)
    }
}

impl Zone<'_> {
    /// The rows of one policy; nothing while it selects no pod of this node.
    pub fn rows_of_policy(&self, policy: &Policy, cluster: &Cluster) -> PolicyRows {
        let selected: Vec<&Pod> = cluster
            .pods_in(&policy.name.namespace)
            .filter(|pod| self.has_port(pod) && policy.selects(pod))
            .collect();
        if selected.is_empty() {
            return PolicyRows::default();
        }
        clauses::rows(self, policy, cluster, &selected)
    }

    /// What isolates the pods of a namespace: per direction, a group of this node's pods that some policy selects,
    /// and the drop on it.
    pub fn rows_of_namespace(&self, namespace: &str, cluster: &Cluster) -> Rows {
        let mut rows = Rows::default();
        for direction in Direction::BOTH {
            let isolates = |pod: &Pod| {
                cluster.policies_in(namespace).any(|p| direction.rules(p).is_some() && p.selects(pod))
            };
            let pods = cluster.pods_in(namespace).filter(|pod| self.has_port(pod) && isolates(pod));
            let ports: BTreeSet<String> = pods.map(|pod| names::pod_port(&pod.name)).collect();
            if !ports.is_empty() {
                isolate(namespace, direction, ports, &mut rows);
            }
        }
        rows
    }

    /// Everything all policies need.
    pub fn rows_of_policies(&self, cluster: &Cluster) -> Rows {
        let (mut rows, mut peers) = (Rows::default(), BTreeSet::new());
        let namespaces: BTreeSet<&str> = cluster.policies.keys().map(|name| &*name.namespace).collect();
        let mut add = |part| rows.join(part).expect("identities of policies differ where the policies do");
        for policy in cluster.policies.values() {
            let of_policy = self.rows_of_policy(policy, cluster);
            add(of_policy.rows);
            peers.extend(of_policy.peers);
        }
        for set in &peers {
            add(self.rows_of_peer_set(set, cluster));
        }
        for namespace in namespaces {
            add(self.rows_of_namespace(namespace, cluster));
        }
        rows
    }
}

fn isolate(namespace: &str, direction: Direction, ports: BTreeSet<String>, rows: &mut Rows) {
    let id = ObjectId::new("NetpolNamespace", namespace).and("direction", direction.word());
    let group = id.hashed();
    let own = format!("{} == @{group}", direction.own_port());
    rows.put(PortGroup { name: group.clone(), ports, external_ids: id.external_ids() });
    let entries = [
        ("defaultDeny", DROP_PRIORITY, own.clone(), AclAction::Drop),
        ("arpAllow", ALLOW_PRIORITY, format!("{own} && (arp || nd)"), AclAction::Allow),
    ];
    for (kind, priority, matches, action) in entries {
        let id = id.clone().and("type", kind);
        rows.put(Acl {
            id: id.text(),
            name: acl_name(&["NP", namespace, direction.word()]),
            on: AclOn::PortGroup(group.clone()),
            direction: direction.acl(),
            priority,
            matches,
            action,
            options: options_for(direction.acl()),
            external_ids: id.external_ids(),
        });
    }
}

/// A name for people, cut to what the table takes.
fn acl_name(parts: &[&str]) -> String {
    parts.join(":").chars().take(63).collect()
}
