//! Whether what is configured is what really gets through.

use std::collections::BTreeMap;
use std::fmt;

use super::judge::{Lost, Pair, Trouble, trouble, untried};
use crate::mtu::record::Record;
use crate::name::NodeName;
use crate::probe::{Layer, Report, Runs, Way};
use crate::size::Mtu;

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
    /// The size every node is to hold: the cluster's, while nothing changes. Hosts' is then where the last change that
    /// concerned them left them; where none did they are their own, and it is what each uses.
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
    /// A node sends larger packets than another one carries. No trial finds that: nodes try each other with no more than
    /// both ends carry.
    Apart {
        /// From whom to whom.
        pair: Pair,
        /// Between whose addresses.
        layer: Layer,
        /// What the one sends.
        sends: Mtu,
        /// What the other carries.
        carries: Mtu,
    },
    /// What a node sends does not arrive.
    Lost(Trouble),
    /// Less arrives than a node sends, and it does not name where.
    Passes {
        /// Which.
        node: NodeName,
        /// How.
        way: Way,
        /// What it sends.
        uses: Mtu,
        /// What arrives everywhere.
        passes: Mtu,
    },
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
            Wrong::Apart { pair: Pair { from, to }, layer, sends, carries } => {
                write!(
                    f,
                    "packets are lost from {from} to {to} ({layer}: {from} sends {sends}, {to} carries {carries})"
                )
            }
            Wrong::Lost(trouble) => write!(f, "packets are lost {trouble}"),
            Wrong::Passes { node, way, uses, passes } => write!(
                f,
                "node {node} sends packets of {uses} ({way}), and {passes} is the most that gets through to every other node"
            ),
        }
    }
}

impl Wrong {
    /// Whether this says already, and of whom, why no more gets through than `row` says.
    fn accounts_for(&self, row: &Row) -> bool {
        match self {
            Wrong::Apart { layer, carries, .. } => *layer == row.way.layer && *carries <= row.passes,
            Wrong::Lost(Trouble { way, lost: Lost::Above(size), .. }) => {
                *way == row.way && *size <= row.passes
            }
            Wrong::Lost(Trouble { lost: Lost::Some { .. }, .. })
            | Wrong::Silent(_)
            | Wrong::Untried(_)
            | Wrong::Uses { .. }
            | Wrong::Passes { .. } => false,
        }
    }
}

/// What is measured, beside what is configured; and what of it is wrong.
pub fn verify(record: &Record, nodes: &BTreeMap<NodeName, Known>) -> (Vec<Row>, Vec<Wrong>) {
    let uids = nodes.iter().map(|(name, known)| (name.clone(), known.uid.clone())).collect();
    let reports: BTreeMap<_, _> =
        nodes.iter().filter_map(|(name, known)| Some((name.clone(), known.report.clone()?))).collect();
    // During a change a node may send less than every node holds.
    let settled = record.change.is_none();
    let (mut rows, mut wrongs) = (Vec::new(), Vec::new());
    for (node, known) in nodes {
        let Some(runs) = known.runs else {
            wrongs.push(Wrong::Silent(node.clone()));
            continue;
        };
        let hurts = |trouble: &Trouble| match trouble.lost {
            Lost::Above(size) => size < runs.on(trouble.way.layer).sends(),
            Lost::Some { .. } => true,
        };
        let lost = known.report.iter().flat_map(|report| trouble(node, report, &uids)).filter(hurts);
        let named: Vec<Wrong> = apart(node, &runs, nodes).chain(lost.map(Wrong::Lost)).collect();
        for row in measured(record, node, &runs, known.report.as_ref()) {
            let Row { way, configured, uses, passes, .. } = row;
            if uses > configured || (settled && uses != configured) {
                wrongs.push(Wrong::Uses { node: node.clone(), way, uses, configured });
            }
            if passes < uses && !named.iter().any(|wrong| wrong.accounts_for(&row)) {
                wrongs.push(Wrong::Passes { node: node.clone(), way, uses, passes });
            }
            rows.push(row);
        }
        wrongs.extend(named);
    }
    let epoch = |name: &NodeName| nodes.get(name)?.runs.map(|runs| runs.epoch);
    let spoke = |name: &NodeName| nodes[name].runs.is_some();
    wrongs.extend(untried(epoch, &uids, &reports).into_iter().filter(spoke).map(Wrong::Untried));
    (rows, wrongs)
}

/// What a node found out, beside what is configured and what it uses.
fn measured(record: &Record, node: &NodeName, runs: &Runs, report: Option<&Report>) -> Vec<Row> {
    let (pods, hosts) = record.anchor();
    let hosts = hosts.or(record.hosts);
    let all = report.and_then(|report| report.all.as_ref());
    let row = |(way, passes): (&Way, &Mtu)| {
        let uses = runs.on(way.layer).sends();
        let configured = match way.layer {
            Layer::Pods => pods,
            Layer::Hosts => hosts.unwrap_or(uses),
        };
        Row { node: node.clone(), way: *way, configured, uses, passes: *passes }
    };
    all.iter().flat_map(|all| &all.widths).map(row).collect()
}

/// The nodes that carry less than this one sends.
fn apart(node: &NodeName, runs: &Runs, nodes: &BTreeMap<NodeName, Known>) -> impl Iterator<Item = Wrong> {
    let others = nodes.iter().filter(move |(other, _)| *other != node);
    let others = others.filter_map(|(other, known)| Some((other, known.runs?)));
    others.flat_map(move |(other, theirs)| {
        [Layer::Hosts, Layer::Pods].into_iter().filter_map(move |layer| {
            let (sends, carries) = (runs.on(layer).sends(), theirs.on(layer).carries());
            let pair = Pair { from: node.clone(), to: other.clone() };
            (sends > carries).then_some(Wrong::Apart { pair, layer, sends, carries })
        })
    })
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
