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
mod keep;
mod types;

use free::FreeSpace;
pub use types::{
    Allocation, Applicant, Assignment, Claim, Exhausted, Finding, NodeId, Resource, Running, Unusable,
};

/// Gives every node an id and a subnet of each family.
///
/// A node keeps what it runs with: its pods live there, whatever somebody wrote into its annotations since. Where it
/// does not say what it runs with it keeps what it validly claims. Of two with the same right the older keeps it, and
/// the younger is given something else and reported. What nodes that are gone had is free, because only the nodes that
/// are there count.
///
/// # Guarantees
///
/// Whatever comes in, no two nodes of the answer share an id or an address, every subnet is one its range is divided
/// into, a node that runs with what no other runs with keeps it, and a node that claims exactly what it was given keeps
/// it, however many nodes come and go.
///
/// Pure and independent of the order of `nodes`: the same nodes get the same answer.
pub fn allocate(networks: &Networks, nodes: &[Applicant]) -> Allocation {
    let mut nodes: Vec<&Applicant> = nodes.iter().collect();
    nodes.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let mut seen = BTreeSet::new();
    nodes.retain(|node| seen.insert(&node.name));
    let mut work = Work::new(networks);
    // The surer first: where annotation and report agree, then where only the report is left, and only then what
    // annotations alone say. In another order an edit of one node's annotation would take another's ground away.
    for agreed in [true, false] {
        for node in &nodes {
            work.keep_running(node, agreed);
        }
    }
    for node in &nodes {
        work.claim(node);
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

impl Kept {
    fn subnet(&self, family: Family) -> Option<IpNet> {
        match family {
            Family::V4 => self.v4.map(IpNet::V4),
            Family::V6 => self.v6.map(IpNet::V6),
        }
    }
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

    fn kept(&self, node: &Applicant) -> Kept {
        self.kept.get(&node.name).copied().unwrap_or_default()
    }

    fn grant(&mut self, node: &Applicant) {
        match self.complete(self.kept(node)) {
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
