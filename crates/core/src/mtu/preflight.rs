//! What could go wrong with a change, found before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use super::equipment::{Card, Equipment, Unfit};
use super::plan::Observed;
use super::probe::judge::{Lost, Trouble};
use super::record::{Change, Ends};
use crate::name::{NodeName, ObjectName};
use crate::probe::Layer;
use crate::size::Mtu;

/// What is known of a node before a change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeReport {
    /// Whether it is ready.
    pub ready: bool,
    /// What it reports to run.
    pub observed: Option<Observed>,
    /// What its host is able to do.
    pub equipment: Equipment,
    /// Managed files that are not as they should be, in words.
    pub drift: Vec<String>,
    /// Whether no pool claims it, or several do.
    pub unclaimed: bool,
}

/// What is known of a pool before a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// No node of it would be taken.
    pub paused: bool,
    /// Nodes of it are on their way to something else.
    pub updating: bool,
    /// What is wrong with it, if anything is.
    pub degraded: Option<String>,
}

/// A budget that allows no disruption now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BudgetReport {
    /// Which.
    pub name: ObjectName,
    /// The pods it keeps where they are.
    pub pods: Vec<ObjectName>,
}

/// Everything that is looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Every node.
    pub nodes: BTreeMap<NodeName, NodeReport>,
    /// Every pool.
    pub pools: Vec<PoolReport>,
    /// Every budget that allows no disruption now and covers a pod on a node that will restart.
    pub budgets: Vec<BudgetReport>,
    /// Ways on which packets are lost today.
    pub troubles: Vec<Trouble>,
    /// Nodes that have not tried the ways to all others.
    pub untried: Vec<NodeName>,
}

/// Something that speaks against beginning.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Finding {
    /// A card cannot carry the larger size.
    #[error("card {card} of node {node} takes at most {most}, and {needs} is needed")]
    CardTooSmall {
        /// On which node.
        node: NodeName,
        /// Which card.
        card: String,
        /// What it takes.
        most: u32,
        /// What is needed.
        needs: Mtu,
    },
    /// A card cannot be set as low.
    #[error("card {card} of node {node} takes at least {least}, and {needs} is asked")]
    CardTooLarge {
        /// On which node.
        node: NodeName,
        /// Which card.
        card: String,
        /// What it takes.
        least: u32,
        /// What is asked.
        needs: Mtu,
    },
    /// A host whose own configuration cannot be told another size.
    #[error("the configuration of node {node}'s host cannot be told another MTU: {why}")]
    HostFixed {
        /// Which node.
        node: NodeName,
        /// Why not.
        why: String,
    },
    /// A node does not say what it runs.
    #[error("node {0} has not reported what it runs")]
    Silent(NodeName),
    /// A node runs something else than the cluster.
    #[error("node {node} runs pods at {runs}, the cluster is at {cluster}")]
    Elsewhere {
        /// Which.
        node: NodeName,
        /// What it runs.
        runs: String,
        /// What is applied.
        cluster: Mtu,
    },
    /// A node is not ready. It counts as away, and others are taken only when it is back.
    #[error("node {0} is not ready; others wait for it")]
    NotReady(NodeName),
    /// No pool claims a node, or several do.
    #[error(
        "node {0} is in no MachineConfigPool, or in several; nobody would tell it, and all would wait for it"
    )]
    NoPool(NodeName),
    /// A node's files are not as they should be.
    #[error("node {node}: {what}")]
    Drift {
        /// Which.
        node: NodeName,
        /// What.
        what: String,
    },
    /// A pool takes no node.
    #[error("pool {0} is paused; the change would stop there until it is not")]
    Paused(String),
    /// A pool is on its way to something else.
    #[error("pool {0} is updating; the change begins after it")]
    Updating(String),
    /// A pool is not healthy.
    #[error("pool {pool} is degraded: {why}")]
    Degraded {
        /// Which.
        pool: String,
        /// Why.
        why: String,
    },
    /// A budget would keep a drain from ending.
    #[error("PodDisruptionBudget {budget} allows no disruption now; nodes with {pods} could not be drained")]
    Budget {
        /// Which.
        budget: ObjectName,
        /// The pods, in words.
        pods: String,
    },
    /// Two nodes do not reach each other even now.
    #[error("packets of {size} are lost today {trouble}")]
    Unreachable {
        /// Where, and what is lost.
        trouble: Trouble,
        /// What should get through.
        size: Mtu,
        /// Whether the change itself would mend it.
        mends: bool,
    },
    /// Two nodes lose packets between them even now.
    #[error("packets are lost today {0}")]
    Lossy(Trouble),
    /// A node has not tried whether packets get through to all others.
    #[error("node {0} has not tried yet whether packets get through to all others")]
    Untried(NodeName),
    /// The wire between two nodes does not carry what the change leads to.
    #[error("packets of {size} do not get through {trouble}")]
    Underlay {
        /// Where, and what is lost.
        trouble: Trouble,
        /// What should get through.
        size: Mtu,
    },
    /// A node does not take part in a trial of what the wire carries.
    #[error("node {node} does not try larger packets: {why}")]
    NoTrial {
        /// Which.
        node: NodeName,
        /// Why, in its words.
        why: String,
    },
    /// A node has not found out in time.
    #[error("node {node} has not found out in time whether packets of {size} get through to all others")]
    Unproven {
        /// Which.
        node: NodeName,
        /// What was tried.
        size: Mtu,
    },
    /// A plan that was kept says so, and nobody has looked since.
    #[error("{}, found when the plan was made", .0.said)]
    Noted(Noted),
}

/// A finding, as a plan that was kept has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Noted {
    /// Its name.
    pub name: String,
    /// What was found, in words.
    pub said: String,
    /// Whether it may be accepted.
    pub acceptable: bool,
    /// Whether only a trial of the wire finds it.
    pub by_trial: bool,
}

impl Finding {
    /// The name it is accepted by: what, and of which object.
    pub fn name(&self) -> String {
        match self {
            Finding::CardTooSmall { node, card, .. } => format!("CardTooSmall/{node}/{card}"),
            Finding::CardTooLarge { node, card, .. } => format!("CardTooLarge/{node}/{card}"),
            Finding::HostFixed { node, .. } => format!("HostFixed/{node}"),
            Finding::Silent(node) => format!("Silent/{node}"),
            Finding::Elsewhere { node, .. } => format!("Elsewhere/{node}"),
            Finding::NotReady(node) => format!("NotReady/{node}"),
            Finding::NoPool(node) => format!("NoPool/{node}"),
            Finding::Drift { node, .. } => format!("Drift/{node}"),
            Finding::Paused(pool) => format!("Paused/{pool}"),
            Finding::Updating(pool) => format!("Updating/{pool}"),
            Finding::Degraded { pool, .. } => format!("Degraded/{pool}"),
            Finding::Budget { budget, .. } => format!("Budget/{budget}"),
            Finding::Unreachable { trouble: Trouble { pair, .. }, .. } => {
                format!("Unreachable/{}/{}", pair.from, pair.to)
            }
            Finding::Lossy(Trouble { pair, .. }) => format!("Lossy/{}/{}", pair.from, pair.to),
            Finding::Untried(node) => format!("Untried/{node}"),
            Finding::Underlay { trouble: Trouble { pair, .. }, .. } => {
                format!("Underlay/{}/{}", pair.from, pair.to)
            }
            Finding::NoTrial { node, .. } => format!("NoTrial/{node}"),
            Finding::Unproven { node, .. } => format!("Unproven/{node}"),
            Finding::Noted(noted) => noted.name.clone(),
        }
    }

    /// Whether only a trial of the wire finds it: who makes none cannot know that it is over.
    pub fn is_by_trial(&self) -> bool {
        match self {
            Finding::Underlay { .. } | Finding::NoTrial { .. } | Finding::Unproven { .. } => true,
            Finding::Noted(noted) => noted.by_trial,
            Finding::CardTooSmall { .. }
            | Finding::CardTooLarge { .. }
            | Finding::HostFixed { .. }
            | Finding::Silent(_)
            | Finding::Elsewhere { .. }
            | Finding::NotReady(_)
            | Finding::NoPool(_)
            | Finding::Drift { .. }
            | Finding::Paused(_)
            | Finding::Updating(_)
            | Finding::Degraded { .. }
            | Finding::Budget { .. }
            | Finding::Unreachable { .. }
            | Finding::Lossy(_)
            | Finding::Untried(_) => false,
        }
    }

    /// Whether somebody who knows better may go on in spite of it: what makes a change slow, not what makes it lose
    /// packets or end halfway.
    pub fn may_be_accepted(&self) -> bool {
        match self {
            Finding::NotReady(_) | Finding::Paused(_) | Finding::Updating(_) | Finding::Budget { .. } => true,
            Finding::NoPool(_) => true,
            // Nodes try each other again before phase two, and a change they find wanting goes back.
            Finding::Lossy(_)
            | Finding::Untried(_)
            | Finding::NoTrial { .. }
            | Finding::Unproven { .. } => true,
            Finding::Unreachable { mends, .. } => *mends,
            Finding::Noted(noted) => noted.acceptable,
            Finding::CardTooSmall { .. }
            | Finding::CardTooLarge { .. }
            | Finding::HostFixed { .. }
            | Finding::Silent(_)
            | Finding::Elsewhere { .. }
            | Finding::Drift { .. }
            | Finding::Degraded { .. }
            // It would only go back.
            | Finding::Underlay { .. } => false,
        }
    }
}

/// Looks for what speaks against beginning a change.
pub fn look(change: &Change, report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (node, known) in &report.nodes {
        if let Some(why) = known.equipment.fixed.against(change.host) {
            findings.push(Finding::HostFixed { node: node.clone(), why: why.to_owned() });
        }
        for card in &known.equipment.cards {
            let Err(unfit) = card.takes(change.host.span()) else { continue };
            let (node, Card { name: card, least, most }) = (node.clone(), card.clone());
            findings.push(match unfit {
                Unfit::TooSmall(needs) => Finding::CardTooSmall { node, card, most, needs },
                Unfit::TooLarge(needs) => Finding::CardTooLarge { node, card, least, needs },
            });
        }
        let cluster = change.network.from;
        match known.observed.map(|observed| observed.network) {
            None | Some(None) => findings.push(Finding::Silent(node.clone())),
            Some(Some(runs)) if !runs.holds(cluster) => {
                findings.push(Finding::Elsewhere { node: node.clone(), runs: runs.to_string(), cluster });
            }
            Some(Some(_)) => {}
        }
        if !known.ready {
            findings.push(Finding::NotReady(node.clone()));
        }
        if known.unclaimed {
            findings.push(Finding::NoPool(node.clone()));
        }
        if !known.drift.is_empty() {
            findings.push(Finding::Drift { node: node.clone(), what: known.drift.join("; ") });
        }
    }
    for PoolReport { name, paused, updating, degraded } in &report.pools {
        let pool = name.clone();
        findings
            .extend(degraded.iter().map(|why| Finding::Degraded { pool: pool.clone(), why: why.clone() }));
        if *paused {
            findings.push(Finding::Paused(pool));
        } else if *updating {
            findings.push(Finding::Updating(pool));
        }
    }
    for BudgetReport { name, pods } in &report.budgets {
        let pods = pods.iter().map(ObjectName::to_string).collect::<Vec<_>>().join(", ");
        findings.push(Finding::Budget { budget: name.clone(), pods });
    }
    findings.extend(report.troubles.iter().filter_map(|trouble| of_way(change, trouble)));
    findings.extend(report.untried.iter().cloned().map(Finding::Untried));
    findings
}

fn of_way(change: &Change, trouble: &Trouble) -> Option<Finding> {
    let Ends { from, to } = match trouble.way.layer {
        Layer::Hosts => change.host,
        Layer::Pods => change.network,
    };
    let trouble = trouble.clone();
    match trouble.lost {
        Lost::Above(passes) if passes >= from => None,
        Lost::Above(passes) => Some(Finding::Unreachable { trouble, size: from, mends: passes >= to }),
        Lost::Some { .. } => Some(Finding::Lossy(trouble)),
    }
}

/// Those of a kept plan's findings that still count, beside what was found now. What is looked for every time is found
/// again, or is over; what a trial found counts until the wire was `tried` again.
pub fn still_noted(noted: Vec<Noted>, tried: bool) -> Vec<Finding> {
    noted.into_iter().filter(|one| one.by_trial && !tried).map(Finding::Noted).collect()
}

/// What is left of findings after some were accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Those that still speak against it.
    pub against: Vec<Finding>,
    /// Those that were accepted.
    pub accepted: Vec<Finding>,
    /// Names that were accepted and are those of no finding: a slip of the pen, or something that is over.
    pub unknown: Vec<String>,
}

/// Takes the findings that may be accepted, and are by name, out of those that speak against a change.
pub fn weigh(findings: Vec<Finding>, accept: &BTreeSet<String>) -> Verdict {
    let names: BTreeSet<String> = findings.iter().map(Finding::name).collect();
    let unknown = accept.iter().filter(|name| !names.contains(*name)).cloned().collect();
    let accepted = |finding: &Finding| finding.may_be_accepted() && accept.contains(&finding.name());
    let (accepted, against) = findings.into_iter().partition(accepted);
    Verdict { against, accepted, unknown }
}

#[cfg(test)]
mod tests {
    use super::super::equipment::Fixed;
    use super::super::probe::judge::Pair;
    use super::super::record::Stage;
    use super::*;
    use crate::fixtures::{mtu, name};
    use crate::probe::Way;
    use crate::size::Envelope;

    fn change() -> Change {
        let ends = |from, to| Ends { from: mtu(from), to: mtu(to) };
        let stage = Stage::Spreading { finish: false };
        Change { network: ends(1400, 8900), host: ends(1500, 9000), stage, back: false }
    }

    fn healthy() -> NodeReport {
        let network = Some(Envelope::settled(mtu(1400)));
        let observed = Observed { epoch: 0, network, host: Envelope::settled(mtu(1500)) };
        let card = Card { name: "eth0".into(), least: 68, most: 9216 };
        NodeReport {
            ready: true,
            observed: Some(observed),
            equipment: Equipment { cards: vec![card], ..Equipment::default() },
            drift: vec![],
            unclaimed: false,
        }
    }

    fn report(node: NodeReport) -> Report {
        Report { nodes: BTreeMap::from([(name("a"), node)]), ..Report::default() }
    }

    fn pool() -> PoolReport {
        PoolReport { name: "worker".into(), paused: false, updating: false, degraded: None }
    }

    #[test]
    fn nothing_speaks_against_a_healthy_cluster() {
        let report = Report { pools: vec![pool()], ..report(healthy()) };
        assert_eq!(look(&change(), &report), []);
    }

    #[test]
    fn each_thing_that_speaks_against_it_is_named_with_its_object() {
        let card = |least, most| {
            let cards = vec![Card { name: "eth0".into(), least, most }];
            NodeReport { equipment: Equipment { cards, ..Equipment::default() }, ..healthy() }
        };
        let fixed = Fixed { change: None, growth: Some("nobody describes eth0".into()) };
        let fixed = Equipment { fixed, ..Equipment::default() };
        let budget = BudgetReport {
            name: ObjectName::new("shop", "two"),
            pods: vec![ObjectName::new("shop", "a"), ObjectName::new("shop", "b")],
        };
        let elsewhere = Observed {
            epoch: 0,
            network: Some(Envelope::settled(mtu(1300))),
            host: Envelope::settled(mtu(1500)),
        };
        let trouble = |lost| {
            let pair = Pair { from: name("a"), to: name("b") };
            Report { troubles: vec![Trouble { pair, way: Way::ALL[0].0, lost }], ..report(healthy()) }
        };
        #[rustfmt::skip]
        let rows: Vec<(Report, &str, &str, bool)> = vec![
            (report(card(68, 8999)), "CardTooSmall/a/eth0",
                "card eth0 of node a takes at most 8999, and 9000 is needed", false),
            (report(card(1501, 9216)), "CardTooLarge/a/eth0",
                "card eth0 of node a takes at least 1501, and 1500 is asked", false),
            (report(NodeReport { equipment: fixed, ..healthy() }), "HostFixed/a",
                "the configuration of node a's host cannot be told another MTU: nobody describes eth0", false),
            (report(NodeReport { observed: None, ..healthy() }), "Silent/a", "node a has not reported what it runs", false),
            (report(NodeReport { observed: Some(elsewhere), ..healthy() }), "Elsewhere/a",
                "node a runs pods at 1300, the cluster is at 1400", false),
            (report(NodeReport { unclaimed: true, ..healthy() }), "NoPool/a",
             "node a is in no MachineConfigPool, or in several; nobody would tell it, and all would wait for it", true),
            (report(NodeReport { ready: false, ..healthy() }), "NotReady/a", "node a is not ready; others wait for it", true),
            (report(NodeReport { drift: vec!["/etc/x is missing".into()], ..healthy() }), "Drift/a",
                "node a: /etc/x is missing", false),
            (Report { pools: vec![PoolReport { paused: true, updating: true, ..pool() }], ..report(healthy()) }, "Paused/worker",
                "pool worker is paused; the change would stop there until it is not", true),
            (Report { pools: vec![PoolReport { updating: true, ..pool() }], ..report(healthy()) }, "Updating/worker",
                "pool worker is updating; the change begins after it", true),
            (Report { pools: vec![PoolReport { degraded: Some("b failed".into()), ..pool() }], ..report(healthy()) }, "Degraded/worker",
                "pool worker is degraded: b failed", false),
            (Report { budgets: vec![budget], ..report(healthy()) }, "Budget/shop/two",
                "PodDisruptionBudget shop/two allows no disruption now; nodes with shop/a, shop/b could not be drained", true),
            (trouble(Lost::Above(mtu(1499))), "Unreachable/a/b",
                "packets of 1500 are lost today from a to b (hosts, IPv4: all above 1499)", false),
            (trouble(Lost::Some { lost: 2, of: 10 }), "Lossy/a/b",
                "packets are lost today from a to b (hosts, IPv4: 2 of 10)", true),
            (Report { untried: vec![name("a")], ..report(healthy()) }, "Untried/a",
                "node a has not tried yet whether packets get through to all others", true),
        ];
        for (report, name, said, acceptable) in rows {
            let found = look(&change(), &report);
            let [finding] = found.as_slice() else { panic!("{name}: {found:?}") };
            assert_eq!((finding.name().as_str(), finding.to_string().as_str()), (name, said));
            let verdict = weigh(found.clone(), &BTreeSet::from([name.to_owned()]));
            assert_eq!(verdict.against.is_empty(), acceptable, "{name}");
        }
    }

    #[test]
    fn a_way_that_is_too_narrow_today_may_be_accepted_by_whoever_mends_it_with_the_change() {
        let pair = Pair { from: name("a"), to: name("b") };
        let trouble = Trouble { pair, way: Way::ALL[0].0, lost: Lost::Above(mtu(1500)) };
        let up = change();
        let down = Change { network: up.network.swapped(), host: up.host.swapped(), ..up };
        assert_eq!(of_way(&up, &trouble), None, "today's packets get through");
        assert!(of_way(&down, &trouble).unwrap().may_be_accepted());
        let worse = Trouble { lost: Lost::Above(mtu(1400)), ..trouble };
        assert!(!of_way(&down, &worse).unwrap().may_be_accepted());
    }

    #[test]
    fn what_a_trial_found_counts_until_the_next_one_and_everything_else_is_looked_for_anew() {
        let pair = Pair { from: name("a"), to: name("b") };
        let trouble = Trouble { pair, way: Way::ALL[0].0, lost: Lost::Above(mtu(1500)) };
        let found = [
            Finding::NotReady(name("a")),
            Finding::Underlay { trouble, size: mtu(9000) },
            Finding::NoTrial { node: name("c"), why: "it is away".into() },
        ];
        let noted: Vec<Noted> = found
            .iter()
            .map(|one| Noted {
                name: one.name(),
                said: one.to_string(),
                acceptable: one.may_be_accepted(),
                by_trial: one.is_by_trial(),
            })
            .collect();
        assert_eq!(still_noted(noted.clone(), true), []);
        let left = still_noted(noted, false);
        let names: Vec<String> = left.iter().map(Finding::name).collect();
        assert_eq!(names, ["Underlay/a/b", "NoTrial/c"]);
        let verdict = weigh(left, &names.iter().cloned().collect());
        let said: Vec<String> = verdict.against.iter().map(ToString::to_string).collect();
        let underlay = "packets of 9000 do not get through from a to b (hosts, IPv4: all above 1500)";
        assert_eq!(said, [format!("{underlay}, found when the plan was made")]);
        assert_eq!(verdict.unknown, [""; 0]);
    }

    #[test]
    fn a_name_that_accepts_nothing_is_said() {
        let verdict = weigh(vec![Finding::Paused("worker".into())], &BTreeSet::from(["Paused/wrker".into()]));
        assert_eq!(verdict.unknown, ["Paused/wrker"]);
        assert_eq!(verdict.against.len(), 1);
    }
}
