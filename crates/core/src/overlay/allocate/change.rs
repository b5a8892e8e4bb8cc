//! Whether a running cluster can be given other ranges.

use std::fmt;

use ipnet::IpNet;

use super::{Applicant, Claim};
use crate::name::NodeName;
use crate::net::Subnets;
use crate::overlay::networks::Networks;

/// Something a change of ranges would take from a running cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Uproots {
    /// A node's pods live in a subnet that lies in no range any longer.
    Node {
        /// The node.
        node: NodeName,
        /// Its subnet.
        subnet: IpNet,
    },
    /// Services live in a range that would be another.
    Services {
        /// What it is.
        from: IpNet,
    },
}

impl fmt::Display for Uproots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uproots::Node { node, subnet } => write!(f, "pods of node {node} live in {subnet}"),
            Uproots::Services { from } => write!(f, "Services live in {from}"),
        }
    }
}

/// What would be taken from whom if a cluster that runs with one set of ranges were given another.
///
/// Ranges may be added and widened, and a second family may come; what a node's pods live in must stay inside. While
/// no node has a subnet anything may change.
pub fn uproots(deployed: &Networks, wanted: &Networks, nodes: &[Applicant]) -> Vec<Uproots> {
    let inside = |networks: &Networks, net: IpNet| networks.cluster().iter().any(|r| r.net().contains(&net));
    let mut found = Vec::new();
    let mut anybody = false;
    for node in nodes {
        let claimed: &[IpNet] = if let Claim::Says(nets) = &node.subnets { nets } else { &[] };
        let reported = node.running.iter().flat_map(|running| running.subnets.iter());
        let mut held: Vec<IpNet> = claimed.iter().copied().chain(reported).collect();
        // A claim outside the ranges that are deployed was written by hand; nobody lives there.
        held.retain(|net| inside(deployed, *net));
        held.sort_unstable();
        held.dedup();
        anybody |= !held.is_empty();
        let lost = held.into_iter().filter(|net| !inside(wanted, *net));
        found.extend(lost.map(|subnet| Uproots::Node { node: node.name.clone(), subnet }));
    }
    let kept = |net: &IpNet| Subnets::iter(&wanted.service()).any(|other| other == *net);
    if anybody {
        let lost = deployed.service().iter().filter(|net| !kept(net));
        found.extend(lost.map(|from| Uproots::Services { from }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::networks::{ClusterRange, Internal};

    fn networks(cluster: &[&str], service: &[&str]) -> Networks {
        let net = |text: &&str| text.parse::<IpNet>().unwrap();
        let prefix = |net: IpNet| if net.addr().is_ipv4() { 24 } else { 64 };
        let range = |net: IpNet| ClusterRange::new(net, prefix(net)).unwrap();
        let ranges = cluster.iter().map(net).map(range).collect();
        Networks::new(ranges, service.iter().map(net).collect(), Internal::default()).unwrap()
    }

    fn node(subnets: Claim<Vec<IpNet>>) -> Applicant {
        Applicant { name: "a".parse().unwrap(), created: 0, id: Claim::Absent, subnets, running: None }
    }

    fn living_in(net: &str) -> Vec<Applicant> {
        vec![node(Claim::Says(vec![net.parse().unwrap()]))]
    }

    fn said(deployed: &Networks, wanted: &Networks, nodes: &[Applicant]) -> Vec<String> {
        uproots(deployed, wanted, nodes).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ranges_may_be_added_and_widened_and_a_family_may_come() {
        let deployed = networks(&["10.244.0.0/17"], &["10.96.0.0/16"]);
        let nodes = living_in("10.244.3.0/24");
        for wanted in [
            networks(&["10.244.0.0/16"], &["10.96.0.0/16"]),
            networks(&["10.9.0.0/16", "10.244.0.0/17"], &["10.96.0.0/16"]),
            networks(&["10.244.0.0/17", "fd01::/48"], &["10.96.0.0/16", "fd02::/112"]),
        ] {
            assert_eq!(said(&deployed, &wanted, &nodes), [""; 0]);
        }
    }

    #[test]
    fn a_range_somebody_lives_in_cannot_go() {
        let deployed = networks(&["10.244.0.0/16"], &["10.96.0.0/16"]);
        let wanted = networks(&["10.245.0.0/16"], &["10.97.0.0/16"]);
        assert_eq!(
            said(&deployed, &wanted, &living_in("10.244.3.0/24")),
            ["pods of node a live in 10.244.3.0/24", "Services live in 10.96.0.0/16"]
        );
        let narrower = networks(&["10.244.0.0/23"], &["10.96.0.0/16"]);
        assert_eq!(said(&deployed, &narrower, &living_in("10.244.3.0/24")).len(), 1);
        assert_eq!(said(&deployed, &narrower, &living_in("10.244.1.0/24")).len(), 0);
    }

    #[test]
    fn while_nobody_has_a_subnet_everything_may_change() {
        let deployed = networks(&["10.244.0.0/16"], &["10.96.0.0/16"]);
        let wanted = networks(&["10.245.0.0/16"], &["10.97.0.0/16"]);
        assert_eq!(said(&deployed, &wanted, &[node(Claim::Absent)]), [""; 0]);
        assert_eq!(said(&deployed, &wanted, &living_in("192.168.0.0/24")), [""; 0], "written by hand");
    }

    #[test]
    fn what_a_zone_runs_with_counts_where_the_annotation_is_mangled() {
        let deployed = networks(&["10.244.0.0/16"], &["10.96.0.0/16"]);
        let wanted = networks(&["10.245.0.0/16"], &["10.96.0.0/16"]);
        let running = super::super::Running {
            id: super::super::NodeId::new(2).unwrap(),
            subnets: crate::net::Stack::V4("10.244.3.0/24".parse().unwrap()),
        };
        let mangled = Applicant { running: Some(running), ..node(Claim::Mangled("{".into())) };
        assert_eq!(said(&deployed, &wanted, &[mangled]).len(), 1);
    }
}
