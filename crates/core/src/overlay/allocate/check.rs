//! A second pair of eyes on an allocation: what is wrong with it, found without knowing how it was made.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;

use super::{Allocation, Applicant, Claim};
use crate::name::NodeName;
use crate::net::{Subnets, overlap};
use crate::overlay::networks::Networks;

/// Something that is wrong with an allocation. It must not be published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Two nodes share an id.
    SharedId(NodeName, NodeName),
    /// Two nodes share addresses.
    SharedSubnet(NodeName, NodeName),
    /// A subnet lies outside every range or is not of the size nodes have there, or the families are not the cluster's.
    Outside(NodeName),
    /// A transit or join address is not that of the id.
    Misplaced(NodeName),
    /// Somebody is given a place who did not ask.
    Stranger(NodeName),
    /// A node that nobody disputes would lose the subnet its pods live in.
    Uprooted(NodeName),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::SharedId(a, b) => write!(f, "{a} and {b} have one id"),
            Wrong::SharedSubnet(a, b) => write!(f, "{a} and {b} have addresses in common"),
            Wrong::Outside(node) => write!(f, "the subnet of {node} is none of the cluster's ranges"),
            Wrong::Misplaced(node) => write!(f, "an address of {node} does not follow from its id"),
            Wrong::Stranger(node) => write!(f, "{node} is given a place and is not there"),
            Wrong::Uprooted(node) => write!(f, "{node} would lose its subnet"),
        }
    }
}

/// Lists everything that is wrong with an allocation for these nodes.
pub fn check(networks: &Networks, nodes: &[Applicant], allocation: &Allocation) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let asked: BTreeMap<&NodeName, &Applicant> = nodes.iter().map(|node| (&node.name, node)).collect();
    let mut ids: BTreeMap<u16, &NodeName> = BTreeMap::new();
    let mut nets: Vec<(IpNet, &NodeName)> = Vec::new();
    for (name, given) in &allocation.nodes {
        if let Some(other) = ids.insert(given.id().number(), name) {
            wrong.push(Wrong::SharedId(other.clone(), name.clone()));
        }
        let inside = given.subnets().iter().all(|net| fits(networks, net));
        if given.subnets().families() != networks.families() || !inside {
            wrong.push(Wrong::Outside(name.clone()));
        }
        let nth = |nets: Subnets| nets.nth(u32::from(given.id().number()));
        if nth(networks.transit()) != Some(given.transit()) || nth(networks.join()) != Some(given.join()) {
            wrong.push(Wrong::Misplaced(name.clone()));
        }
        match asked.get(name) {
            None => wrong.push(Wrong::Stranger(name.clone())),
            Some(node) if uprooted(networks, nodes, node, given.subnets()) => {
                wrong.push(Wrong::Uprooted(name.clone()));
            }
            Some(_) => {}
        }
        nets.extend(given.subnets().iter().map(|net| (net, name)));
    }
    // prefixes nest or are apart: in order of their first address an overlap is with the one before
    nets.sort_by_key(|(net, _)| (net.network(), net.prefix_len()));
    for pair in nets.windows(2) {
        if overlap(pair[0].0, pair[1].0) {
            wrong.push(Wrong::SharedSubnet(pair[0].1.clone(), pair[1].1.clone()));
        }
    }
    wrong
}

/// Whether a node that nobody disputes was not given where it lives: the subnet it reports and no other reports, or, of
/// a family it reports none of, the one it claims and no other claims or reports.
fn uprooted(networks: &Networks, nodes: &[Applicant], node: &Applicant, given: Subnets) -> bool {
    let others = || nodes.iter().filter(|other| other.name != node.name);
    let elsewhere_reported =
        |net: IpNet| others().any(|other| reports(other).any(|theirs| overlap(theirs, net)));
    let elsewhere_claimed =
        |net: IpNet| others().any(|other| claims(other).iter().any(|theirs| overlap(*theirs, net)));
    let lost = |net: IpNet| !given.iter().any(|given| given == net);
    let same_family = |a: IpNet, b: IpNet| a.addr().is_ipv4() == b.addr().is_ipv4();

    let mut lives = reports(node).filter(|net| fits(networks, *net));
    let claimed = |net: &IpNet| {
        let alone = claims(node).iter().filter(|other| same_family(**other, *net)).count() == 1;
        let reported = reports(node).any(|lives| fits(networks, lives) && same_family(lives, *net));
        alone && fits(networks, *net) && !reported
    };
    lives.any(|net| lost(net) && !elsewhere_reported(net))
        || claims(node)
            .iter()
            .copied()
            .filter(claimed)
            .any(|net| lost(net) && !elsewhere_reported(net) && !elsewhere_claimed(net))
}

fn reports(node: &Applicant) -> impl Iterator<Item = IpNet> {
    node.running.iter().flat_map(|running| running.subnets.iter())
}

fn claims(node: &Applicant) -> &[IpNet] {
    match &node.subnets {
        Claim::Says(nets) => nets,
        Claim::Absent | Claim::Mangled(_) => &[],
    }
}

/// Whether a subnet lies in a range and has the size nodes' subnets have there.
fn fits(networks: &Networks, net: IpNet) -> bool {
    let mut around = networks.cluster().iter().filter(|range| range.net().contains(&net));
    net.trunc() == net && around.any(|range| range.host_prefix() == net.prefix_len())
}
