//! The entries of one policy.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::{Direction, PeerSet, PolicyRows, acl_name};
use crate::label::Labels;
use crate::net::Family;
use crate::overlay::cluster::{Cluster, Peer, Pod, Policy, PolicyPort, PortSet, Rule};
use crate::overlay::names::{self, ObjectId};
use crate::overlay::rows::{Acl, AclAction, AclOn, AddressSet, PortGroup};
use crate::overlay::zone::{ALLOW_PRIORITY, Zone, options_for};
use crate::port::{Port, Protocol};

pub(super) fn rows(zone: &Zone<'_>, policy: &Policy, cluster: &Cluster, selected: &[&Pod]) -> PolicyRows {
    let id = policy_id(policy);
    let mut writer =
        Writer { zone, policy, cluster, selected, group: id.hashed(), out: PolicyRows::default() };
    for direction in Direction::BOTH {
        for (index, rule) in direction.rules(policy).unwrap_or(&[]).iter().enumerate() {
            writer.rule(direction, index, rule);
        }
    }
    // A policy that allows nothing needs no group: the drop of its namespace is all of it.
    let group = &writer.group;
    let uses = |acl: &Acl| acl.on == AclOn::PortGroup(group.clone());
    if writer.out.rows.acls.values().any(uses) {
        let name = writer.group.clone();
        let ports = selected.iter().map(|pod| names::pod_port(&pod.name)).collect();
        writer.out.rows.put(PortGroup { name, ports, external_ids: id.external_ids() });
    }
    // A rule whose every port is a name nobody uses has peers but no entry.
    let PolicyRows { rows, peers, .. } = &mut writer.out;
    peers.retain(|set| {
        let name = format!("${}", set.name(zone.networks.families()[0]));
        rows.acls.values().any(|acl| acl.matches.contains(&name))
    });
    writer.out
}

fn policy_id(policy: &Policy) -> ObjectId {
    ObjectId::new("NetworkPolicy", format!("{}:{}", policy.name.namespace, policy.name.name))
}

struct Writer<'a> {
    zone: &'a Zone<'a>,
    policy: &'a Policy,
    cluster: &'a Cluster,
    selected: &'a [&'a Pod],
    group: String,
    out: PolicyRows,
}

/// Where one entry belongs: which rule, and which part of it.
struct Place {
    direction: Direction,
    index: usize,
    part: String,
}

impl Writer<'_> {
    fn rule(&mut self, direction: Direction, index: usize, rule: &Rule) {
        let peers = self.peer_clauses(direction, rule);
        let (named, numbered): (Vec<_>, Vec<_>) =
            rule.ports.iter().partition(|port| matches!(port.ports, PortSet::Named(_)));
        let ports = if rule.ports.is_empty() { vec![String::new()] } else { port_clauses(&numbered) };
        for (p, peer) in peers.iter().enumerate() {
            for (q, port) in ports.iter().enumerate() {
                let place = Place { direction, index, part: format!("{p}-{q}") };
                let group = self.group.clone();
                self.allow(&place, &[peer, port], &group);
            }
        }
        for port in named {
            let PortSet::Named(name) = &port.ports else { continue };
            match direction {
                Direction::Ingress => self.named_ingress(index, port.protocol, name, &peers),
                Direction::Egress => self.named_egress(index, port.protocol, name, rule),
            }
        }
    }

    fn allow(&mut self, place: &Place, clauses: &[&str], group: &str) {
        let Place { direction, index, part } = place;
        let mut all: Vec<&str> = clauses.iter().copied().filter(|clause| !clause.is_empty()).collect();
        let own = format!("{} == @{group}", direction.own_port());
        all.push(&own);
        let id = policy_id(self.policy)
            .and("direction", direction.word())
            .and("rule", index.to_string())
            .and("part", part.clone());
        let name = &self.policy.name;
        self.out.rows.put(Acl {
            id: id.text(),
            name: acl_name(&["NP", &name.namespace, &name.name, direction.word(), &index.to_string()]),
            on: AclOn::PortGroup(group.to_owned()),
            direction: direction.acl(),
            priority: ALLOW_PRIORITY,
            matches: all.join(" && "),
            action: if self.policy.stateless { AclAction::AllowStateless } else { AclAction::AllowRelated },
            options: options_for(direction.acl()),
            external_ids: id.external_ids(),
        });
    }

    /// One clause for all selectors together and one for each block; no clause means that nobody is meant.
    fn peer_clauses(&mut self, direction: Direction, rule: &Rule) -> Vec<String> {
        let families = self.zone.networks.families();
        if rule.peers.is_empty() {
            return vec![either(families.iter().map(|family| family.ovn().to_owned()))];
        }
        let field = direction.peer_field();
        let sets: BTreeSet<PeerSet> =
            rule.peers.iter().filter_map(|peer| PeerSet::of(peer, &self.policy.name.namespace)).collect();
        let mut clauses = Vec::new();
        if !sets.is_empty() {
            let of_family = |family: &Family| {
                let names: BTreeSet<String> =
                    sets.iter().map(|set| format!("${}", set.name(*family))).collect();
                format!("{}.{field} == {{{}}}", family.ovn(), Vec::from_iter(names).join(", "))
            };
            clauses.push(either(families.iter().map(of_family)));
        }
        for peer in &rule.peers {
            if let Peer::Block { net, except } = peer
                && families.contains(&Family::of_net(*net))
            {
                clauses.push(block(*net, except, field));
            }
        }
        self.out.peers.extend(sets);
        clauses
    }

    /// Each selected pod decides what the name means, so pods that agree share a group.
    fn named_ingress(&mut self, index: usize, protocol: Protocol, name: &str, peers: &[String]) {
        let mut by_number: BTreeMap<Port, BTreeSet<String>> = BTreeMap::new();
        for pod in self.selected {
            for number in numbers(pod, protocol, name) {
                by_number.entry(number).or_default().insert(names::pod_port(&pod.name));
            }
        }
        for (number, ports) in by_number {
            let key = format!("{}-{name}-{number}", protocol.lower());
            let id = policy_id(self.policy).and("named-port", key.clone());
            let group = id.hashed();
            for (p, peer) in peers.iter().enumerate() {
                let place = Place { direction: Direction::Ingress, index, part: format!("{p}-{key}") };
                self.allow(&place, &[peer, &one_port(protocol, number)], &group);
            }
            if !peers.is_empty() {
                self.out.rows.put(PortGroup { name: group, ports, external_ids: id.external_ids() });
            }
        }
    }

    /// Each pod the rule may mean decides what the name means, so the pods that agree are a set.
    fn named_egress(&mut self, index: usize, protocol: Protocol, name: &str, rule: &Rule) {
        self.out.follows_all_pods = true;
        let none = Labels::default();
        let mut by_number: BTreeMap<Port, BTreeSet<IpNet>> = BTreeMap::new();
        for pod in self.cluster.pods.values().filter(|pod| !pod.host_network) {
            let labels = self.cluster.namespaces.get(&*pod.name.namespace).unwrap_or(&none);
            let numbers = numbers(pod, protocol, name);
            for ip in pod.addresses.iter().filter(|_| !numbers.is_empty()) {
                let meant = |peer: &Peer| match peer {
                    Peer::Block { net, except } => {
                        net.contains(&ip) && !except.iter().any(|e| e.contains(&ip))
                    }
                    Peer::Pods { .. } => PeerSet::of(peer, &self.policy.name.namespace)
                        .is_some_and(|set| set.contains(pod, labels)),
                };
                if rule.peers.is_empty() || rule.peers.iter().any(meant) {
                    for number in &numbers {
                        by_number.entry(*number).or_default().insert(IpNet::from(ip));
                    }
                }
            }
        }
        for (number, addresses) in by_number {
            for family in self.zone.networks.families() {
                let of_family: BTreeSet<IpNet> =
                    addresses.iter().copied().filter(|net| Family::of_net(*net) == *family).collect();
                if of_family.is_empty() {
                    continue;
                }
                let key = format!("{}-{name}-{number}-{}", protocol.lower(), family.ovn());
                let id = policy_id(self.policy).and("rule", index.to_string()).and("named-port", key.clone());
                let set = id.hashed();
                let to = format!("{}.dst == {{${set}}}", family.ovn());
                let external_ids = id.external_ids();
                self.out.rows.put(AddressSet { name: set, addresses: of_family, external_ids });
                let place = Place { direction: Direction::Egress, index, part: key };
                let group = self.group.clone();
                self.allow(&place, &[&to, &one_port(protocol, number)], &group);
            }
        }
    }
}

fn numbers(pod: &Pod, protocol: Protocol, name: &str) -> BTreeSet<Port> {
    let named = pod.ports.iter().filter(|port| port.name == name && port.protocol == protocol);
    named.map(|port| port.port).collect()
}

fn block(net: IpNet, except: &[IpNet], field: &str) -> String {
    let family = Family::of_net(net);
    let inside = format!("{}.{field} == {}", family.ovn(), net.trunc());
    let except: BTreeSet<String> = except
        .iter()
        .filter(|except| Family::of_net(**except) == family)
        .map(|except| except.trunc().to_string())
        .collect();
    if except.is_empty() {
        inside
    } else {
        format!("{inside} && {}.{field} != {{{}}}", family.ovn(), Vec::from_iter(except).join(", "))
    }
}

/// One clause per protocol.
fn port_clauses(ports: &[&PolicyPort]) -> Vec<String> {
    let mut by_protocol: BTreeMap<Protocol, BTreeSet<&PortSet>> = BTreeMap::new();
    for port in ports {
        by_protocol.entry(port.protocol).or_default().insert(&port.ports);
    }
    let clause = |(protocol, sets): (Protocol, BTreeSet<&PortSet>)| {
        if sets.contains(&PortSet::Any) {
            return protocol.lower().to_owned();
        }
        let one = |set: &&PortSet| match set {
            PortSet::Any | PortSet::Named(_) => None,
            PortSet::Range(first, last) if first == last => {
                Some(format!("{}.dst == {first}", protocol.lower()))
            }
            PortSet::Range(first, last) => Some(format!("{first} <= {}.dst <= {last}", protocol.lower())),
        };
        format!("{} && {}", protocol.lower(), either(sets.iter().filter_map(one)))
    };
    by_protocol.into_iter().map(clause).collect()
}

fn one_port(protocol: Protocol, port: Port) -> String {
    format!("{0} && {0}.dst == {port}", protocol.lower())
}

/// Alternatives in brackets, as the language of matches demands beside `&&`.
fn either(alternatives: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = alternatives.collect();
    if let [only] = &all[..] { only.clone() } else { format!("({})", all.join(" || ")) }
}
