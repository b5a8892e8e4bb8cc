//! How far a pool is.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::pool::{Node, Pool};
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

/// The status of a pool with these nodes; `render` is why its configurations cannot be merged, if they cannot, and
/// `blocking` what nodes wait for that are being drained.
pub fn status<N: Borrow<Node>>(
    pool: &Pool,
    nodes: &[N],
    render: Option<&str>,
    blocking: &BTreeMap<NodeName, String>,
) -> PoolStatus {
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
        Some(format!("node {} is being drained and waits: {}", node.name, blocking.get(&node.name)?))
    });
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

#[cfg(test)]
mod tests {
    use super::super::pool::NodeState::{Degraded, Done, Working};
    use super::super::pool::Truth;
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
            let status = status(&pool("worker", "new"), &nodes, None, &BTreeMap::new());
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
            let PoolStatus { finished, completed, .. } = status(pool, nodes, None, &BTreeMap::new());
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
        let status = status(&paused, &[node("a", "old", "old", Done)], None, &BTreeMap::new());
        assert_eq!(holding(&status), []);
        assert_eq!(status.conditions[1].message, "Pool is paused; will not update to new");
    }

    #[test]
    fn what_failed_is_said_in_the_nodes_own_words() {
        let failing = |n: &str, why: &str| Node { reason: why.into(), ..node(n, "old", "new", Degraded) };
        let nodes = [failing("a", "disk full"), failing("b", "drift")];
        let why = "MachineConfig x: fips is not supported; remove it";
        let status = status(&pool("worker", "new"), &nodes, Some(why), &BTreeMap::new());
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
        let status = status(&pool("worker", "new"), &nodes, None, &blocking);
        assert_eq!(
            status.conditions[1].message,
            "All nodes are updating to new; node a is being drained and waits: pod shop/a is ending"
        );
    }
}
