//! Which node gets which id, subnets and addresses.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::name::NodeName;
use crate::net::{Family, Stack, Subnets};
use crate::overlay::networks::{ClusterRange, Networks};
use crate::overlay::topology::Mode;

pub mod change;
pub mod check;
mod free;
mod types;

use free::FreeSpace;
pub use types::{
    Allocation, Applicant, Assignment, Claim, Exhausted, Finding, NodeId, Resource, Running, Unusable,
};

/// Gives every node an id and a subnet of each family.
///
/// A node keeps what it validly claims; of two that claim the same the older keeps it and the younger is given
/// something else and reported. A claim that cannot be used falls back to what the node reports to be running with.
/// What nodes that are gone had is free, because only the nodes that are there count.
///
/// # Guarantees
///
/// Whatever comes in, no two nodes of the answer share an id or an address, every subnet lies inside a range, and a
/// node that claims exactly what it was given keeps it, however many nodes come and go.
///
/// Pure and independent of the order of `nodes`: the same nodes get the same answer.
pub fn allocate(networks: &Networks, nodes: &[Applicant]) -> Allocation {
    let mut nodes: Vec<&Applicant> = nodes.iter().collect();
    nodes.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let mut seen = BTreeSet::new();
    nodes.retain(|node| seen.insert(&node.name));
    let mut work = Work::new(networks);
    for node in &nodes {
        work.claim(node);
    }
    // Only after every claim: what one node claims, another's report must not take away.
    for node in &nodes {
        work.fall_back(node);
    }
    for node in &nodes {
        work.grant(node);
    }
    Allocation { nodes: work.granted, findings: work.findings }
}

/// [`allocate`] in a network of this mode: where it is for one machine, only one is given a place, and every other is
/// found to have none.
///
/// # Guarantees
///
/// A machine that has its place keeps it, whoever else comes. When it is gone, the next may have it.
pub fn allocate_in(mode: Mode, networks: &Networks, nodes: &[Applicant]) -> Allocation {
    match mode {
        Mode::MultiNode => allocate(networks, nodes),
        Mode::SingleNode => {
            let lives_here = |node: &Applicant| node.running.is_some() || node.subnets != Claim::Absent;
            let first = nodes.iter().min_by_key(|node| (!lives_here(node), node.created, &node.name));
            let Some(first) = first else { return Allocation::default() };
            let mut allocation = allocate(networks, std::slice::from_ref(first));
            let others: BTreeSet<&NodeName> =
                nodes.iter().map(|node| &node.name).filter(|name| **name != first.name).collect();
            allocation.findings.extend(others.into_iter().map(|node| Finding::Exhausted {
                node: node.clone(),
                what: Exhausted::Machine { by: first.name.clone() },
            }));
            allocation
        }
    }
}

#[derive(Default, Clone, Copy)]
struct Kept {
    id: Option<NodeId>,
    v4: Option<ipnet::Ipv4Net>,
    v6: Option<ipnet::Ipv6Net>,
}

struct Work<'a> {
    networks: &'a Networks,
    ids: BTreeMap<NodeId, NodeName>,
    last_id: u16,
    next_id: u16,
    space: FreeSpace,
    kept: BTreeMap<NodeName, Kept>,
    granted: BTreeMap<NodeName, Assignment>,
    findings: Vec<Finding>,
}

impl<'a> Work<'a> {
    fn new(networks: &'a Networks) -> Work<'a> {
        Work {
            networks,
            ids: BTreeMap::new(),
            last_id: last_id(networks),
            next_id: NodeId::FIRST,
            space: FreeSpace::new(networks.cluster()),
            kept: BTreeMap::new(),
            granted: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    fn unusable(&mut self, node: &Applicant, what: Resource, why: Unusable) {
        self.findings.push(Finding::Unusable { node: node.name.clone(), what, why });
    }

    fn claim(&mut self, node: &Applicant) {
        match &node.id {
            Claim::Absent => {}
            Claim::Mangled(text) => self.unusable(node, Resource::Id, Unusable::Mangled(text.clone())),
            Claim::Says(id) => match NodeId::new(*id).filter(|id| id.number() <= self.last_id) {
                None => self.unusable(node, Resource::Id, Unusable::NoSuchId(*id)),
                Some(id) => self.keep_id(node, id, true),
            },
        }
        match &node.subnets {
            Claim::Absent => {}
            Claim::Mangled(text) => self.unusable(node, Resource::Subnets, Unusable::Mangled(text.clone())),
            Claim::Says(nets) => self.claim_subnets(node, nets),
        }
    }

    fn claim_subnets(&mut self, node: &Applicant, nets: &[IpNet]) {
        for family in [Family::V4, Family::V6] {
            let mut of_family = nets.iter().copied().filter(|net| Family::of_net(*net) == family);
            match (of_family.next(), of_family.next()) {
                (None, _) => {}
                (Some(net), None) => self.keep_subnet(node, net, true),
                (Some(a), Some(b)) => {
                    self.unusable(node, Resource::Subnet(family), Unusable::TwoOfAFamily(a, b));
                }
            }
        }
    }

    fn keep_id(&mut self, node: &Applicant, id: NodeId, report: bool) {
        if let Some(by) = self.ids.get(&id) {
            if report {
                let (node, by) = (node.name.clone(), by.clone());
                self.findings.push(Finding::Taken { node, what: Resource::Id, by });
            }
            return;
        }
        self.ids.insert(id, node.name.clone());
        self.kept.entry(node.name.clone()).or_default().id = Some(id);
    }

    fn keep_subnet(&mut self, node: &Applicant, net: IpNet, report: bool) {
        let family = Family::of_net(net);
        let usable = net.trunc() == net && net.prefix_len() <= family.bits() - 2;
        if !usable || !self.networks.cluster_of(family).any(|range| range.net().contains(&net)) {
            if report {
                self.unusable(node, Resource::Subnet(family), Unusable::OutsideRanges(net));
            }
            return;
        }
        if let Some(by) = self.space.owner(net) {
            if report {
                let (node, by) = (node.name.clone(), by.clone());
                self.findings.push(Finding::Taken { node, what: Resource::Subnet(family), by });
            }
            return;
        }
        self.space.take(net, &node.name);
        let kept = self.kept.entry(node.name.clone()).or_default();
        match net {
            IpNet::V4(net) => kept.v4 = Some(net),
            IpNet::V6(net) => kept.v6 = Some(net),
        }
    }

    fn fall_back(&mut self, node: &Applicant) {
        let Some(running) = node.running else { return };
        let kept = self.kept.get(&node.name).copied().unwrap_or_default();
        if kept.id.is_none() && running.id.number() <= self.last_id {
            self.keep_id(node, running.id, false);
        }
        if let (None, Some(net)) = (kept.v4, running.subnets.v4()) {
            self.keep_subnet(node, IpNet::V4(net), false);
        }
        if let (None, Some(net)) = (kept.v6, running.subnets.v6()) {
            self.keep_subnet(node, IpNet::V6(net), false);
        }
    }

    fn grant(&mut self, node: &Applicant) {
        let kept = self.kept.get(&node.name).copied().unwrap_or_default();
        match self.complete(kept) {
            Err(what) => self.findings.push(Finding::Exhausted { node: node.name.clone(), what }),
            Ok((id, subnets)) => {
                self.ids.insert(id, node.name.clone());
                for net in subnets.iter() {
                    self.space.take(net, &node.name);
                }
                let assignment = Assignment::new(self.networks, id, subnets)
                    .expect("a free id has a place in the networks, a free subnet is of its family");
                self.granted.insert(node.name.clone(), assignment);
            }
        }
    }

    /// Decides the rest without taking it, so that a node which cannot get everything takes nothing.
    fn complete(&mut self, kept: Kept) -> Result<(NodeId, Subnets), Exhausted> {
        let id = match kept.id {
            Some(id) => id,
            None => self.free_id()?,
        };
        let (mut v4, mut v6) = (None, None);
        for family in self.networks.families() {
            match family {
                Family::V4 => {
                    v4 = Some(kept.v4.map(IpNet::V4).map_or_else(|| self.free_subnet(*family), Ok)?)
                }
                Family::V6 => {
                    v6 = Some(kept.v6.map(IpNet::V6).map_or_else(|| self.free_subnet(*family), Ok)?)
                }
            }
        }
        let v4 = v4.and_then(|net| if let IpNet::V4(net) = net { Some(net) } else { None });
        let v6 = v6.and_then(|net| if let IpNet::V6(net) = net { Some(net) } else { None });
        Ok((id, Stack::from_parts(v4, v6).expect("a cluster speaks a family")))
    }

    fn free_id(&mut self) -> Result<NodeId, Exhausted> {
        while self.next_id <= self.last_id {
            if let Some(id) = NodeId::new(u64::from(self.next_id)).filter(|id| !self.ids.contains_key(id)) {
                return Ok(id);
            }
            self.next_id += 1;
        }
        Err(Exhausted::Ids { capacity: u32::from(self.last_id.saturating_sub(NodeId::FIRST - 1)) })
    }

    fn free_subnet(&mut self, family: Family) -> Result<IpNet, Exhausted> {
        self.space.first_free(family).ok_or_else(|| {
            let ranges: Vec<ClusterRange> = self.networks.cluster_of(family).collect();
            let capacity = ranges.iter().map(ClusterRange::capacity).fold(0, u128::saturating_add);
            Exhausted::Subnets { family, ranges, capacity }
        })
    }
}

/// The last id with an address in both internal networks; the broadcast address of an IPv4 network is nobody's.
fn last_id(networks: &Networks) -> u16 {
    let room = |net: IpNet| {
        let bits = u32::from(Family::of_net(net).bits() - net.prefix_len());
        1_u32.checked_shl(bits).map_or(u32::MAX, |size| size.saturating_sub(2))
    };
    let nets = networks.join().iter().chain(networks.transit().iter());
    let room = nets.map(room).min().unwrap_or(0);
    u16::try_from(room).unwrap_or(u16::MAX).min(NodeId::LAST)
}

#[cfg(test)]
mod tests;
