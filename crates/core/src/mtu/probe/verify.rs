//! Whether what is configured is what really gets through.

use std::collections::BTreeMap;
use std::fmt;

use super::judge::{Lost, Trouble, trouble, untried};
use super::{Layer, Report, Runs, Way};
use crate::mtu::Mtu;
use crate::mtu::record::Record;
use crate::name::NodeName;

/// What is known of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// Which object it is.
    pub uid: String,
    /// What it runs.
    pub runs: Option<Runs>,
    /// What it found out.
    pub report: Option<Report>,
}

/// One kind of way from a node to all others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// From which node.
    pub node: NodeName,
    /// How.
    pub way: Way,
    /// The size every node is to hold: the cluster's, while nothing changes.
    pub configured: Mtu,
    /// The largest packet the node sends.
    pub uses: Mtu,
    /// The largest that gets through to every other node.
    pub passes: Mtu,
}

/// What is not as it should be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    /// A node does not say what it runs.
    Silent(NodeName),
    /// A node has not tried all others.
    Untried(NodeName),
    /// A node sends packets of another size than is configured.
    Uses {
        /// Which.
        node: NodeName,
        /// How.
        way: Way,
        /// What it sends.
        uses: Mtu,
        /// What is configured.
        configured: Mtu,
    },
    /// What a node sends does not arrive.
    Lost(Trouble),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Silent(node) => write!(f, "node {node} has not reported what it runs"),
            Wrong::Untried(node) => {
                write!(f, "node {node} has not tried yet what gets through to the others")
            }
            Wrong::Uses { node, way, uses, configured } => {
                write!(f, "node {node} sends packets of {uses} ({way}), and {configured} is configured")
            }
            Wrong::Lost(trouble) => write!(f, "packets are lost {trouble}"),
        }
    }
}

/// What is measured, beside what is configured; and what of it is wrong.
pub fn verify(record: &Record, nodes: &BTreeMap<NodeName, Known>) -> (Vec<Row>, Vec<Wrong>) {
    let (pods, hosts) = record.anchor();
    let uids = nodes.iter().map(|(name, known)| (name.clone(), known.uid.clone())).collect();
    let reports: BTreeMap<_, _> =
        nodes.iter().filter_map(|(name, known)| Some((name.clone(), known.report.clone()?))).collect();
    let (mut rows, mut wrongs) = (Vec::new(), Vec::new());
    for (node, known) in nodes {
        let Some(runs) = known.runs else {
            wrongs.push(Wrong::Silent(node.clone()));
            continue;
        };
        let all = known.report.as_ref().and_then(|report| report.all.as_ref());
        for (way, passes) in all.iter().flat_map(|all| &all.widths) {
            let uses = runs.on(way.layer).sends();
            let configured = match way.layer {
                Layer::Pods => pods,
                // Hosts are their own while nothing changes.
                Layer::Hosts => hosts.unwrap_or(uses),
            };
            rows.push(Row { node: node.clone(), way: *way, configured, uses, passes: *passes });
            // During a change a node may send less than every node holds.
            let settled = record.change.is_none();
            if uses > configured || (settled && uses != configured) {
                wrongs.push(Wrong::Uses { node: node.clone(), way: *way, uses, configured });
            }
        }
        let bad = known.report.iter().flat_map(|report| trouble(node, report, &uids));
        let hurts = |trouble: &Trouble| match trouble.lost {
            Lost::Above(size) => size < runs.on(trouble.way.layer).sends(),
            Lost::Some { .. } => true,
        };
        wrongs.extend(bad.filter(hurts).map(Wrong::Lost));
    }
    let epoch = |name: &NodeName| nodes.get(name)?.runs.map(|runs| runs.epoch);
    let spoke = |name: &NodeName| nodes[name].runs.is_some();
    wrongs.extend(untried(epoch, &uids, &reports).into_iter().filter(spoke).map(Wrong::Untried));
    (rows, wrongs)
}

#[cfg(test)]
mod tests {
    use super::super::{All, Narrow, Roll};
    use super::*;
    use crate::mtu::Envelope;
    use crate::mtu::fixtures::{mtu, name};

    fn way() -> Way {
        Way::named("pods-ipv4").unwrap()
    }

    fn cluster(pods: u32, passes: u32) -> BTreeMap<NodeName, Known> {
        let roll = Roll::of([(&name("a"), "a"), (&name("b"), "b")]);
        let known = |node: &str| {
            let runs =
                Runs { epoch: 3, hosts: Envelope::settled(mtu(1500)), pods: Envelope::settled(mtu(pods)) };
            let all = All { roll, widths: [(way(), mtu(passes))].into() };
            let report = Report { epoch: 3, all: Some(all), ..Report::default() };
            (name(node), Known { uid: node.into(), runs: Some(runs), report: Some(report) })
        };
        ["a", "b"].map(known).into()
    }

    fn said(nodes: &BTreeMap<NodeName, Known>) -> Vec<String> {
        let (_, wrongs) = verify(&Record::settled(mtu(1400)), nodes);
        wrongs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_configured_used_and_measured_agree_in_a_healthy_cluster() {
        let (rows, wrongs) = verify(&Record::settled(mtu(1400)), &cluster(1400, 1400));
        assert_eq!(wrongs, []);
        let sizes = (mtu(1400), mtu(1400), mtu(1400));
        assert!(rows.len() == 2 && rows.iter().all(|row| (row.configured, row.uses, row.passes) == sizes));
    }

    #[test]
    fn a_node_that_uses_something_else_is_named() {
        assert_eq!(
            said(&cluster(1300, 1300))[0],
            "node a sends packets of 1300 (pods, IPv4), and 1400 is configured"
        );
    }

    #[test]
    fn a_way_that_loses_what_is_sent_is_named_and_one_that_loses_only_more_is_not() {
        let mut nodes = cluster(1400, 1350);
        let narrow = |passes| Narrow { to: name("b"), way: way(), tried: mtu(8900), passes: mtu(passes) };
        let report = |nodes: &mut BTreeMap<NodeName, Known>, passes| {
            nodes.get_mut(&name("a")).unwrap().report.as_mut().unwrap().narrow = vec![narrow(passes)];
        };
        report(&mut nodes, 1350);
        assert_eq!(said(&nodes), ["packets are lost from a to b (pods, IPv4: all above 1350)"]);
        report(&mut nodes, 1400);
        assert_eq!(said(&nodes), [""; 0]);
    }

    #[test]
    fn nodes_that_say_nothing_or_have_not_tried_are_named() {
        let mut nodes = cluster(1400, 1400);
        nodes.get_mut(&name("a")).unwrap().report = None;
        nodes.get_mut(&name("b")).unwrap().runs = None;
        assert_eq!(
            said(&nodes),
            [
                "node b has not reported what it runs",
                "node a has not tried yet what gets through to the others"
            ]
        );
    }
}
