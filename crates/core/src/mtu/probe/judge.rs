//! What the reports of all nodes mean for a change.

use std::collections::BTreeMap;
use std::fmt;

use super::super::record::{Change, Record, Stage};
use crate::name::NodeName;
use crate::probe::{Layer, Report, Roll, Way};
use crate::size::Mtu;

/// What is held against a change.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Probes {
    /// Nodes that have not tried the new size with every other node yet.
    pub untried: Vec<NodeName>,
    /// Ways that the new size does not get through.
    pub failed: Vec<Trouble>,
    /// Ways on which more is lost than is allowed.
    pub losing: Vec<Trouble>,
}

/// One direction between two nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pair {
    /// From.
    pub from: NodeName,
    /// To.
    pub to: NodeName,
}

/// A way on which packets are lost.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Trouble {
    /// Between which nodes.
    pub pair: Pair,
    /// How.
    pub way: Way,
    /// What is lost.
    pub lost: Lost,
}

/// What is lost on a way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lost {
    /// Everything above this size.
    Above(Mtu),
    /// Some of it.
    Some {
        /// So many.
        lost: u32,
        /// Of so many.
        of: u32,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble { pair: Pair { from, to }, way, lost } = self;
        match lost {
            Lost::Above(size) => write!(f, "from {from} to {to} ({way}: all above {size})"),
            Lost::Some { lost, of } => write!(f, "from {from} to {to} ({way}: {lost} of {of})"),
        }
    }
}

/// What the nodes' reports mean while `record` stands; `nodes` are all there are, with the identities of their objects.
///
/// A way is wide enough if what the change leads to gets through, even if more does not: that may be the reason for the
/// change.
pub fn judge(
    record: &Record,
    nodes: &BTreeMap<NodeName, String>,
    reports: &BTreeMap<NodeName, Report>,
) -> Probes {
    let Some(Change { network, host, stage, .. }) = record.change else { return Probes::default() };
    let needed = |way: Way| match way.layer {
        Layer::Hosts => host.to,
        Layer::Pods => network.to,
    };
    let troubles = reports.iter().flat_map(|(from, report)| trouble(from, report, nodes));
    let (failed, losing) = troubles
        .filter(|trouble| match trouble.lost {
            Lost::Above(size) => size < needed(trouble.way),
            Lost::Some { .. } => true,
        })
        .partition(|trouble| matches!(trouble.lost, Lost::Above(_)));
    let untried = match stage {
        Stage::Spreading { .. } => untried(|_| Some(record.epoch), nodes, reports),
        Stage::Settling | Stage::Returning => Vec::new(),
    };
    Probes { untried, failed, losing }
}

/// All that a node's report holds against ways to nodes that are there.
pub fn trouble<'a>(
    from: &'a NodeName,
    report: &'a Report,
    nodes: &'a BTreeMap<NodeName, String>,
) -> impl Iterator<Item = Trouble> + 'a {
    let pair = move |to: &NodeName| Pair { from: from.clone(), to: to.clone() };
    let narrow = report.narrow.iter().map(move |narrow| Trouble {
        pair: pair(&narrow.to),
        way: narrow.way,
        lost: Lost::Above(narrow.passes),
    });
    let losses = report.losses.iter().map(move |loss| Trouble {
        pair: pair(&loss.to),
        way: loss.way,
        lost: Lost::Some { lost: loss.lost, of: loss.of },
    });
    narrow.chain(losses).filter(|trouble| nodes.contains_key(&trouble.pair.to))
}

/// The nodes that have not tried every way to every other node, all of them at the rendering `epoch` says of each.
pub fn untried(
    epoch: impl Fn(&NodeName) -> Option<u64>,
    nodes: &BTreeMap<NodeName, String>,
    reports: &BTreeMap<NodeName, Report>,
) -> Vec<NodeName> {
    // A node alone has nobody to try.
    if nodes.len() < 2 {
        return Vec::new();
    }
    let roll = Roll::of(nodes.iter().map(|(name, uid)| (name, uid.as_str())));
    let tried = |name: &&NodeName| {
        let report = reports.get(*name).filter(|report| Some(report.epoch) == epoch(name));
        report.and_then(|report| report.all.as_ref()).is_some_and(|all| all.roll == roll)
    };
    nodes.keys().filter(|name| !tried(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{mtu, name};
    use crate::mtu::record::Ends;
    use crate::probe::{All, Loss, Narrow};

    fn way(word: &str) -> Way {
        Way::named(word).unwrap()
    }

    fn nodes() -> BTreeMap<NodeName, String> {
        ["a", "b", "c"].map(|node| (name(node), format!("uid-{node}"))).into()
    }

    fn record(from: (u32, u32), to: (u32, u32), stage: Stage) -> Record {
        let ends = |from, to| Ends { from: mtu(from), to: mtu(to) };
        let change = Change { network: ends(from.0, to.0), host: ends(from.1, to.1), stage, back: false };
        Record { epoch: 7, change: Some(change), ..Record::settled(mtu(from.0)) }
    }

    fn up() -> Record {
        record((1400, 1500), (8900, 9000), Stage::Spreading { finish: false })
    }

    fn narrow(way_: &str, passes: u32) -> Report {
        let narrow = Narrow { to: name("b"), way: way(way_), tried: mtu(9000), passes: mtu(passes) };
        Report { narrow: vec![narrow], ..Report::default() }
    }

    fn failed(record: &Record, report: Report) -> Vec<String> {
        let probes = judge(record, &nodes(), &[(name("a"), report)].into());
        probes.failed.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_node_must_have_tried_all_that_there_are_at_this_very_rendering() {
        let all = Roll::of(nodes().iter().map(|(name, uid)| (name, uid.as_str())));
        let report = |epoch, roll: Option<Roll>| {
            let all = roll.map(|roll| All { roll, widths: BTreeMap::new() });
            Report { epoch, all, ..Report::default() }
        };
        let reports = |b: Report| {
            [(name("a"), report(7, Some(all))), (name("b"), b), (name("c"), report(7, Some(all)))].into()
        };
        let untried = |b| judge(&up(), &nodes(), &reports(b)).untried;
        assert_eq!(untried(report(7, Some(all))), []);
        for stale in [report(6, Some(all)), report(7, None), report(7, Some(Roll(1)))] {
            assert_eq!(untried(stale), [name("b")]);
        }
        let none = judge(&up(), &nodes(), &BTreeMap::new());
        assert_eq!(none.untried, [name("a"), name("b"), name("c")]);
        let settling = Record { change: up().change.map(|c| Change { stage: Stage::Settling, ..c }), ..up() };
        assert_eq!(judge(&settling, &nodes(), &BTreeMap::new()), Probes::default());
    }

    #[test]
    fn a_node_alone_has_nobody_to_try() {
        let alone = [(name("a"), "1".to_owned())].into();
        assert_eq!(judge(&up(), &alone, &BTreeMap::new()), Probes::default());
    }

    #[test]
    fn a_way_that_is_too_narrow_for_what_the_change_leads_to_fails_it() {
        assert_eq!(failed(&up(), narrow("hosts-ipv4", 1500)), ["from a to b (hosts, IPv4: all above 1500)"]);
        assert_eq!(failed(&up(), narrow("pods-ipv6", 8899)), ["from a to b (pods, IPv6: all above 8899)"]);
        assert_eq!(failed(&up(), narrow("pods-ipv4", 8900)), [""; 0]);
    }

    #[test]
    fn a_way_that_is_too_narrow_for_the_old_size_is_the_reason_to_go_down_and_not_against_it() {
        let down = record((8900, 9000), (1400, 1500), Stage::Spreading { finish: false });
        assert_eq!(failed(&down, narrow("hosts-ipv4", 1500)), [""; 0]);
        assert_eq!(failed(&down, narrow("hosts-ipv4", 1499)), ["from a to b (hosts, IPv4: all above 1499)"]);
    }

    #[test]
    fn a_way_to_a_node_that_is_gone_is_nobodys() {
        let mut left = nodes();
        left.remove(&name("b"));
        let reports = [(name("a"), narrow("hosts-ipv4", 1500))].into();
        assert_eq!(judge(&up(), &left, &reports).failed, []);
    }

    #[test]
    fn losses_are_told_with_their_share() {
        let losses = vec![Loss { to: name("c"), way: way("pods-ipv4"), lost: 4, of: 20 }];
        let reports = [(name("a"), Report { losses, ..Report::default() })].into();
        let probes = judge(&up(), &nodes(), &reports);
        assert_eq!(probes.losing[0].to_string(), "from a to c (pods, IPv4: 4 of 20)");
        assert_eq!(judge(&Record::settled(mtu(1400)), &nodes(), &reports), Probes::default());
    }
}
