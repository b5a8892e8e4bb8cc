//! A change as it is shown before it begins.

use std::collections::BTreeMap;
use std::time::Duration;

use super::plan::Observed;
use super::record::{Change, Record, Stage};
use crate::name::NodeName;
use crate::size::Envelope;

/// A change, node by node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outline {
    /// The epoch it was made at. A record that has moved on since makes it stale.
    pub epoch: u64,
    /// What is changed.
    pub change: Change,
    /// The phases, in order.
    pub phases: Vec<PhaseOutline>,
    /// How long it takes, if every restart takes as long as was said.
    pub estimate: Duration,
}

/// One phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PhaseOutline {
    /// Its stage.
    pub stage: Stage,
    /// What happens to which node.
    pub nodes: BTreeMap<NodeName, NodeOutline>,
}

/// What a phase does to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeOutline {
    /// What it ran before, and what it runs after.
    pub pods: (Envelope, Envelope),
    /// The same of its host.
    pub host: (Envelope, Envelope),
    /// Whether it restarts.
    pub restarts: bool,
}

impl Outline {
    /// How many restarts there are.
    pub fn restarts(&self) -> usize {
        self.phases.iter().flat_map(|phase| phase.nodes.values()).filter(|node| node.restarts).count()
    }
}

/// How many nodes of a pool may be away at once, for the estimate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Its nodes.
    pub nodes: Vec<NodeName>,
    /// How many at once.
    pub at_once: usize,
}

/// Outlines a change that would begin now. Nodes that have not reported what they run are taken to be at the old sizes.
///
/// Pools go beside each other, so the slowest counts.
pub fn outline(
    record: &Record,
    change: Change,
    nodes: &BTreeMap<NodeName, Option<Observed>>,
    pools: &[Pace],
    restart: Duration,
) -> Outline {
    let mut runs: BTreeMap<&NodeName, (Envelope, Envelope)> = nodes
        .iter()
        .map(|(name, observed)| {
            let pods = observed.and_then(|observed| observed.network);
            let host = observed.map(|observed| observed.host);
            let old = (Envelope::settled(change.network.from), Envelope::settled(change.host.from));
            (name, (pods.unwrap_or(old.0), host.unwrap_or(old.1)))
        })
        .collect();
    let stages = [Stage::Spreading { finish: false }, Stage::Settling];
    let phases = stages.map(|stage| {
        let told = record.with(Some(Change { stage, ..change })).rendering();
        let nodes = runs.iter_mut().map(|(name, now)| {
            let (pods, host) = *now;
            let after = told.host.run().unwrap_or(host);
            *now = (told.network, after);
            // Also where the host's own configuration must be written, which is done at boot.
            let restarts = pods != told.network || host != after;
            ((*name).clone(), NodeOutline { pods: (pods, told.network), host: (host, after), restarts })
        });
        PhaseOutline { stage, nodes: nodes.collect() }
    });
    let of_phase =
        |phase: &PhaseOutline| rounds(pools, |name| phase.nodes.get(name).is_some_and(|node| node.restarts));
    let estimate = times(restart, phases.iter().map(of_phase).sum());
    Outline { epoch: record.epoch, change, phases: phases.into(), estimate }
}

/// How many rounds of restarts it takes until these have restarted. Pools go beside each other, so the slowest counts.
pub fn rounds(pools: &[Pace], restarts: impl Fn(&NodeName) -> bool) -> usize {
    let of = |pool: &Pace| {
        let restarting = pool.nodes.iter().filter(|name| restarts(name));
        restarting.count().div_ceil(pool.at_once.max(1))
    };
    pools.iter().map(of).max().unwrap_or(0)
}

/// How much longer a change that is under way takes, if every round of restarts takes as long as is said; `there` says
/// which nodes are where they are told to be.
pub fn left(
    change: &Change,
    there: impl Fn(&NodeName) -> bool,
    pools: &[Pace],
    restart: Duration,
) -> Duration {
    let next = match change.stage {
        Stage::Spreading { .. } => rounds(pools, |_| true),
        Stage::Settling | Stage::Returning => 0,
    };
    times(restart, rounds(pools, |name| !there(name)) + next)
}

fn times(restart: Duration, rounds: usize) -> Duration {
    restart.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
}

/// Why an outline that was kept is no longer what would happen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Stale {
    /// The record moved on.
    #[error("the cluster's MTU was changed since the plan was made (epoch {then}, now {now})")]
    Epoch {
        /// When it was made.
        then: u64,
        /// Now.
        now: u64,
    },
    /// It is about another change.
    #[error("the plan is about another change")]
    Change,
    /// A node is new, or gone.
    #[error("node {0} is in only one of plan and cluster")]
    Node(NodeName),
    /// A node runs something else by now.
    #[error("node {node} runs pods at {now}, and ran {then} when the plan was made")]
    Runs {
        /// Which.
        node: NodeName,
        /// What it ran.
        then: Envelope,
        /// What it runs.
        now: Envelope,
    },
    /// A node's host does.
    #[error("the host of node {node} runs at {now}, and ran at {then} when the plan was made")]
    HostRuns {
        /// Which.
        node: NodeName,
        /// What it ran.
        then: Envelope,
        /// What it runs.
        now: Envelope,
    },
}

/// What differs between an outline that was kept and one of now; a plan is carried out only if nothing does. How long it
/// would take does not count.
pub fn stale(kept: &Outline, now: &Outline) -> Vec<Stale> {
    let mut found = Vec::new();
    if kept.epoch != now.epoch {
        found.push(Stale::Epoch { then: kept.epoch, now: now.epoch });
    }
    if (kept.change.network, kept.change.host) != (now.change.network, now.change.host) {
        found.push(Stale::Change);
    }
    let first =
        |outline: &Outline| outline.phases.first().map(|phase| phase.nodes.clone()).unwrap_or_default();
    let (kept, now) = (first(kept), first(now));
    let names: std::collections::BTreeSet<&NodeName> = kept.keys().chain(now.keys()).collect();
    for node in names {
        let (Some(was), Some(is)) = (kept.get(node), now.get(node)) else {
            found.push(Stale::Node(node.clone()));
            continue;
        };
        if was.pods.0 != is.pods.0 {
            found.push(Stale::Runs { node: node.clone(), then: was.pods.0, now: is.pods.0 });
        }
        if was.host.0 != is.host.0 {
            found.push(Stale::HostRuns { node: node.clone(), then: was.host.0, now: is.host.0 });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::record::Ends;
    use super::*;
    use crate::fixtures::mtu;

    fn change(network: (u32, u32), host: (u32, u32)) -> Change {
        let ends = |(from, to)| Ends { from: mtu(from), to: mtu(to) };
        let stage = Stage::Spreading { finish: false };
        Change { network: ends(network), host: ends(host), stage, back: false }
    }

    fn nodes(sizes: &[(&str, u32)]) -> BTreeMap<NodeName, Option<Observed>> {
        let observed = |host: u32| Observed {
            epoch: 0,
            network: Some(Envelope::settled(mtu(1400))),
            host: Envelope::settled(mtu(host)),
        };
        sizes.iter().map(|(name, host)| (NodeName::new(*name).unwrap(), Some(observed(*host)))).collect()
    }

    fn outline_of(change: Change, nodes: &BTreeMap<NodeName, Option<Observed>>) -> Outline {
        let pools = [Pace { nodes: nodes.keys().cloned().collect(), at_once: 2 }];
        outline(&Record::settled(mtu(1400)), change, nodes, &pools, Duration::from_secs(60))
    }

    #[test]
    fn a_change_is_shown_phase_by_phase_and_node_by_node() {
        let outline =
            outline_of(change((1400, 8900), (1500, 9000)), &nodes(&[("a", 1500), ("b", 1500), ("c", 1500)]));
        let shown: Vec<String> = outline
            .phases
            .iter()
            .map(|phase| {
                let node = phase.nodes.values().next().unwrap();
                format!("{} -> {}, {} -> {}", node.pods.0, node.pods.1, node.host.0, node.host.1)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "1400 -> 8900 (routes 1400), 1500 -> 9000 (routes 1500)",
                "8900 (routes 1400) -> 8900, 9000 (routes 1500) -> 9000"
            ]
        );
        assert_eq!(outline.restarts(), 6);
        assert_eq!(outline.estimate, Duration::from_secs(240), "two rounds in each of two phases");
    }

    #[test]
    fn what_is_left_are_the_nodes_that_are_not_there_and_the_phase_to_come() {
        let pools = [Pace {
            nodes: nodes(&[("a", 1500), ("b", 1500), ("c", 1500)]).into_keys().collect(),
            at_once: 2,
        }];
        let of = |stage, there: &[&str]| {
            let change = Change { stage, ..change((1400, 8900), (1500, 9000)) };
            let there = |name: &NodeName| there.contains(&name.as_str());
            left(&change, there, &pools, Duration::from_secs(60)).as_secs()
        };
        assert_eq!(of(Stage::Spreading { finish: false }, &[]), 240);
        assert_eq!(of(Stage::Spreading { finish: false }, &["a"]), 180);
        assert_eq!(of(Stage::Spreading { finish: true }, &["a", "b", "c"]), 120);
        assert_eq!(of(Stage::Settling, &[]), 120);
        assert_eq!(of(Stage::Returning, &["a", "b", "c"]), 0);
    }

    #[test]
    fn a_plan_whose_cluster_has_moved_says_what_moved() {
        let up = change((1400, 8900), (1500, 9000));
        let kept = outline_of(up, &nodes(&[("a", 1500), ("b", 1500)]));
        assert_eq!(stale(&kept, &kept), []);
        let said = |now: &Outline| stale(&kept, now).iter().map(Stale::to_string).collect::<Vec<_>>();
        assert_eq!(
            said(&outline_of(up, &nodes(&[("a", 9000), ("c", 1500)]))),
            [
                "the host of node a runs at 9000, and ran at 1500 when the plan was made",
                "node b is in only one of plan and cluster",
                "node c is in only one of plan and cluster"
            ]
        );
        let later = Outline { epoch: 2, ..kept.clone() };
        assert_eq!(said(&later), ["the cluster's MTU was changed since the plan was made (epoch 0, now 2)"]);
        let other = outline_of(change((1400, 4000), (1500, 9000)), &nodes(&[("a", 1500), ("b", 1500)]));
        assert_eq!(said(&other), ["the plan is about another change"]);
    }
}
