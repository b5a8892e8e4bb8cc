//! Which rendered configurations nobody needs any more.

use std::collections::BTreeSet;

use super::pool::{Node, Pool};

/// Finds those of `rendered`, all by name, that nobody uses, once every node is where its pool should be.
///
/// `nodes` are all there are, each with its pool if it is in one; `held` says that nobody may be told anything now.
///
/// # Guarantees
///
/// As long as any node is on its way, any pool is paused or anything is held, nothing is unused: a node that is turned
/// around goes back to a configuration that no pool names.
pub fn unused<'a>(
    pools: &[&Pool],
    nodes: &[(&Node, Option<&Pool>)],
    held: bool,
    rendered: impl Iterator<Item = &'a str>,
) -> Vec<&'a str> {
    let there = |(node, pool): &(&Node, Option<&Pool>)| {
        pool.is_none_or(|pool| node.is_done() && node.desired == pool.target)
    };
    let settled = pools.iter().all(|pool| !pool.paused) && nodes.iter().all(there);
    if held || pools.is_empty() || !settled {
        return Vec::new();
    }
    let of_pools = pools.iter().flat_map(|pool| [&pool.target, &pool.finished]);
    let of_nodes = nodes.iter().flat_map(|(node, _)| [&node.current, &node.desired]);
    let used: BTreeSet<&str> = of_pools.chain(of_nodes).flatten().map(String::as_str).collect();
    rendered.filter(|name| !used.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pool::NodeState::{Done, Working};
    use super::super::pool::testing::{node, pool};
    use super::*;

    const RENDERED: [&str; 4] = ["older", "old", "new", "mine"];

    fn unused_of(pool: &Pool, nodes: &[(&Node, Option<&Pool>)], held: bool) -> Vec<&'static str> {
        unused(&[pool], nodes, held, RENDERED.into_iter())
    }

    #[test]
    fn what_neither_a_pool_nor_a_node_names_is_unused_once_all_are_there() {
        let pool = Pool { finished: Some("old".into()), ..pool("worker", "new") };
        let (there, alone) = (node("a", "new", "new", Done), node("b", "mine", "mine", Done));
        let nodes = [(&there, Some(&pool)), (&alone, None)];
        assert_eq!(unused_of(&pool, &nodes, false), ["older"]);
        assert_eq!(unused_of(&pool, &nodes[..1], false), ["older", "mine"]);
    }

    #[test]
    fn nothing_is_unused_while_anybody_is_on_the_way_or_nobody_may_be_told() {
        let target = pool("worker", "new");
        let there = node("a", "new", "new", Done);
        assert_eq!(unused_of(&target, &[(&there, Some(&target))], true), [""; 0], "it is held");
        let paused = Pool { paused: true, ..target.clone() };
        assert_eq!(unused_of(&paused, &[(&there, Some(&paused))], false), [""; 0], "the pool is paused");
        for late in [node("b", "old", "new", Working), node("b", "old", "old", Done)] {
            let nodes = [(&there, Some(&target)), (&late, Some(&target))];
            assert_eq!(unused_of(&target, &nodes, false), [""; 0], "{late:?}");
        }
        assert_eq!(unused(&[], &[], false, RENDERED.into_iter()), [""; 0], "the pools were not seen");
    }
}
