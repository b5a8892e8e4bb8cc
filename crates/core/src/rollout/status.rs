//! How far a pool is.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::choose::{Choice, NotNow};
use super::pool::{Node, Pool, Truth};
use crate::name::NodeName;

/// The counters and conditions of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolStatus {
    /// Nodes of the pool.
    pub machines: usize,
    /// Those that run the pool's target.
    pub updated: usize,
    /// Those of them that are ready.
    pub ready: usize,
    /// Those that are away.
    pub unavailable: usize,
    /// Those that say that something is wrong.
    pub degraded: usize,
    /// The last configuration every node finished.
    pub finished: Option<String>,
    /// Whether that happened just now.
    pub completed: bool,
    /// The conditions, always all of them.
    pub conditions: Vec<Condition>,
}

/// One condition of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// Which.
    pub kind: ConditionKind,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// Why, in a sentence; may be empty.
    pub message: String,
}

/// Conditions of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConditionKind {
    /// Every node runs the target and is ready.
    Updated,
    /// Nodes are on their way.
    Updating,
    /// A node failed.
    NodeDegraded,
    /// The configuration could not be merged.
    RenderDegraded,
    /// Either.
    Degraded,
}

/// What is in a pool's way that its nodes do not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hindered<'a> {
    /// Why its configurations cannot be merged, if they cannot.
    pub render: Option<&'a str>,
    /// What nodes wait for that are being drained.
    pub blocking: Option<&'a BTreeMap<NodeName, String>>,
    /// Which of its nodes are not told to move, and who is away.
    pub choice: Option<&'a Choice>,
}

/// The status of a pool with these nodes.
pub fn status<N: Borrow<Node>>(pool: &Pool, nodes: &[N], hindered: Hindered<'_>) -> PoolStatus {
    let Hindered { render, blocking, choice } = hindered;
    let nodes: Vec<&Node> = nodes.iter().map(Borrow::borrow).collect();
    let target = pool.target.clone().unwrap_or_default();
    let updated: Vec<&Node> = nodes
        .iter()
        .copied()
        .filter(|n| n.is_done() && n.desired.is_some() && n.desired == pool.target)
        .collect();
    let ready = updated.iter().filter(|node| node.is_ready()).count();
    let unavailable = nodes.iter().filter(|node| node.is_unavailable()).count();
    let failed: Vec<&Node> = nodes.iter().copied().filter(|node| node.is_degraded()).collect();
    let all =
        pool.target.is_some() && updated.len() == nodes.len() && ready == nodes.len() && unavailable == 0;
    let completed = all && pool.finished != pool.target;
    let condition = |kind, holds, reason: &str, message: String| Condition {
        kind,
        holds,
        reason: reason.to_owned(),
        message,
    };
    let stuck = nodes.iter().filter_map(|node| {
        let waits = blocking?.get(&node.name)?;
        Some(format!("node {} is being drained and waits: {waits}", node.name))
    });
    let stuck = choice.and_then(|choice| not_taken(pool, &nodes, choice)).into_iter().chain(stuck);
    let mut updating = match (all, pool.paused) {
        (true, _) => condition(ConditionKind::Updating, false, "", String::new()),
        (false, true) => condition(
            ConditionKind::Updating,
            false,
            "Paused",
            format!("Pool is paused; will not update to {target}"),
        ),
        (false, false) => {
            condition(ConditionKind::Updating, true, "", format!("All nodes are updating to {target}"))
        }
    };
    if let stuck @ [_, ..] = stuck.collect::<Vec<_>>().as_slice() {
        updating.message = format!("{}; {}", updating.message, stuck.join("; "));
    }
    let said: Vec<String> =
        failed.iter().map(|node| format!("Node {} is reporting: {:?}", node.name, node.reason)).collect();
    let count = format!("{} nodes are reporting degraded status on sync", failed.len());
    let nodes_message = said.join(", ");
    let degraded = !failed.is_empty() || render.is_some();
    let conditions = vec![
        match all {
            true => {
                condition(ConditionKind::Updated, true, "", format!("All nodes are updated with {target}"))
            }
            false => condition(ConditionKind::Updated, false, "", String::new()),
        },
        updating,
        match failed.is_empty() {
            true => condition(ConditionKind::NodeDegraded, false, "", String::new()),
            false => condition(ConditionKind::NodeDegraded, true, &count, nodes_message),
        },
        match render {
            None => condition(ConditionKind::RenderDegraded, false, "", String::new()),
            Some(why) => condition(
                ConditionKind::RenderDegraded,
                true,
                "",
                format!("Failed to render configuration for pool {}: {why}", pool.name),
            ),
        },
        condition(ConditionKind::Degraded, degraded, "", String::new()),
    ];
    PoolStatus {
        machines: nodes.len(),
        updated: updated.len(),
        ready,
        unavailable,
        degraded: failed.len(),
        finished: if all { pool.target.clone() } else { pool.finished.clone() },
        completed,
        conditions,
    }
}

/// Why nodes that must move are not told to: whatever is rolled out says to wait, or others are away.
fn not_taken(pool: &Pool, nodes: &[&Node], choice: &Choice) -> Option<String> {
    // A condition is read by people; the rest is in the nodes' own status.
    const MOST: usize = 10;
    let held = choice.left.values().find_map(|why| match why {
        NotNow::Held(why) => Some(format!("no further node is taken: {why}")),
        NotNow::Paused | NotNow::NotReady | NotNow::Busy | NotNow::Last => None,
    });
    if held.is_some() || choice.left.is_empty() || pool.paused {
        return held;
    }
    let away: Vec<String> = nodes
        .iter()
        .filter(|node| choice.away.contains(&node.name))
        .map(|node| format!("{} ({})", node.name, absence(pool, node)))
        .collect();
    let more = away.len().saturating_sub(MOST);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!away.is_empty()).then(|| format!("waiting for {}{rest}", away[..away.len() - more].join(", ")))
}

/// Why a node is away.
fn absence(pool: &Pool, node: &Node) -> &'static str {
    let not = |condition: Option<Truth>, fine: Truth| condition.is_some_and(|is| is != fine);
    match node {
        _ if node.is_degraded() => "failed",
        _ if node.desired == pool.target && !node.is_done() => "on its way",
        _ if not(node.ready, Truth::True) => "not ready",
        _ if not(node.disk_pressure, Truth::False) => "disk pressure",
        _ if not(node.network_unavailable, Truth::False) => "network unavailable",
        _ if node.unschedulable => "cordoned",
        _ => "on its way",
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose::{Hold, choose};
    use super::super::pool::NodeState::{Degraded, Done, Working};
    use super::super::pool::testing::{node, pool};
    use super::*;

    fn holding(status: &PoolStatus) -> Vec<ConditionKind> {
        status.conditions.iter().filter(|c| c.holds).map(|c| c.kind).collect()
    }

    #[test]
    fn counters_and_conditions_follow_the_nodes() {
        use ConditionKind::{NodeDegraded, Updated, Updating};
        let old = |n: &str| node(n, "old", "old", Done);
        let new = |n: &str| node(n, "new", "new", Done);
        let unready = |n: &str| Node { ready: Some(Truth::False), ..new(n) };
        #[rustfmt::skip]
        let rows: Vec<(Vec<Node>, [usize; 5], Vec<ConditionKind>)> = vec![
            (vec![old("a"), old("b"), old("c")], [3, 0, 0, 0, 0], vec![Updating]),
            (vec![new("a"), old("b"), old("c")], [3, 1, 1, 0, 0], vec![Updating]),
            (vec![new("a"), node("b", "old", "new", Working), old("c")], [3, 1, 1, 1, 0], vec![Updating]),
            (vec![new("a"), new("b"), new("c")], [3, 3, 3, 0, 0], vec![Updated]),
            (vec![new("a"), new("b"), unready("c")], [3, 3, 2, 1, 0], vec![Updating]),
            (vec![new("a"), node("b", "old", "new", Degraded)], [2, 1, 1, 0, 1], vec![Updating, NodeDegraded, ConditionKind::Degraded]),
            (vec![], [0, 0, 0, 0, 0], vec![Updated]),
        ];
        for (nodes, counts, conditions) in rows {
            let status = status(&pool("worker", "new"), &nodes, Hindered::default());
            let counted =
                [status.machines, status.updated, status.ready, status.unavailable, status.degraded];
            assert_eq!(counted, counts, "{nodes:?}");
            assert_eq!(holding(&status), conditions, "{nodes:?}");
        }
    }

    #[test]
    fn the_finished_configuration_moves_when_every_node_has() {
        let behind = Pool { finished: Some("old".into()), ..pool("worker", "new") };
        let half = [node("a", "new", "new", Done), node("b", "old", "old", Done)];
        let status_of = |pool: &Pool, nodes: &[Node]| {
            let PoolStatus { finished, completed, .. } = status(pool, nodes, Hindered::default());
            (finished.unwrap(), completed)
        };
        assert_eq!(status_of(&behind, &half), ("old".into(), false));
        assert_eq!(status_of(&behind, &half[..1]), ("new".into(), true));
        let there = Pool { finished: Some("new".into()), ..behind };
        assert_eq!(status_of(&there, &half[..1]), ("new".into(), false), "it is told once");
    }

    #[test]
    fn a_paused_pool_is_not_updating_and_says_what_it_will_not_do() {
        let paused = Pool { paused: true, ..pool("worker", "new") };
        let status = status(&paused, &[node("a", "old", "old", Done)], Hindered::default());
        assert_eq!(holding(&status), []);
        assert_eq!(status.conditions[1].message, "Pool is paused; will not update to new");
    }

    #[test]
    fn what_failed_is_said_in_the_nodes_own_words() {
        let failing = |n: &str, why: &str| Node { reason: why.into(), ..node(n, "old", "new", Degraded) };
        let nodes = [failing("a", "disk full"), failing("b", "drift")];
        let why = "MachineConfig x: fips is not supported; remove it";
        let status =
            status(&pool("worker", "new"), &nodes, Hindered { render: Some(why), ..Hindered::default() });
        assert_eq!(
            status.conditions[2].message,
            "Node a is reporting: \"disk full\", Node b is reporting: \"drift\""
        );
        assert_eq!(
            status.conditions[3].message,
            "Failed to render configuration for pool worker: MachineConfig x: fips is not supported; remove it"
        );
        assert!(status.conditions[4].holds);
    }

    #[test]
    fn what_a_drain_of_the_pool_waits_for_is_said_where_people_look() {
        let nodes = [node("a", "old", "new", Working), node("b", "old", "old", Done)];
        let waits = |name: &str| (node(name, "", "", Done).name, format!("pod shop/{name} is ending"));
        let blocking = BTreeMap::from([waits("a"), waits("elsewhere")]);
        let status = status(
            &pool("worker", "new"),
            &nodes,
            Hindered { blocking: Some(&blocking), ..Hindered::default() },
        );
        assert_eq!(
            status.conditions[1].message,
            "All nodes are updating to new; node a is being drained and waits: pod shop/a is ending"
        );
    }

    #[test]
    fn whoever_the_others_wait_for_is_named_and_why() {
        let old = |n: &str| node(n, "old", "old", Done);
        let unready = |n: &str| Node { ready: Some(Truth::Unknown), ..old(n) };
        let cordoned = |n: &str| Node { unschedulable: true, ..old(n) };
        let full = |n: &str| Node { disk_pressure: Some(Truth::True), ..old(n) };
        let lost = |n: &str| Node { network_unavailable: Some(Truth::True), ..old(n) };
        let moving = |n: &str| node(n, "old", "new", Working);
        #[rustfmt::skip]
        let rows: Vec<(Vec<Node>, Option<&str>, &str)> = vec![
            (vec![old("a"), unready("b")], None, "; waiting for b (not ready)"),
            (vec![old("a"), cordoned("b")], None, "; waiting for b (cordoned)"),
            (vec![old("a"), full("b")], None, "; waiting for b (disk pressure)"),
            (vec![old("a"), lost("b")], None, "; waiting for b (network unavailable)"),
            (vec![old("a"), moving("b"), cordoned("c")], None, "; waiting for b (on its way), c (cordoned)"),
            (vec![old("a"), node("b", "old", "new", Degraded)], None, "; waiting for b (failed)"),
            (vec![moving("b")], None, ""),
            (vec![old("a"), unready("b")], Some("packets are lost"), "; no further node is taken: packets are lost"),
            ((10..22).map(|n| unready(&format!("n{n}"))).collect(), None,
             "; waiting for n10 (not ready), n11 (not ready), n12 (not ready), n13 (not ready), n14 (not ready), \
              n15 (not ready), n16 (not ready), n17 (not ready), n18 (not ready), n19 (not ready) and 2 more"),
        ];
        let pool = pool("worker", "new");
        for (nodes, held, said) in rows {
            let held = held.map(|why| Hold::Taking(why.to_owned()));
            let choice = choose(&pool, &nodes, None, held.as_ref());
            let status = status(&pool, &nodes, Hindered { choice: Some(&choice), ..Hindered::default() });
            assert_eq!(status.conditions[1].message, format!("All nodes are updating to new{said}"));
        }
    }
}
