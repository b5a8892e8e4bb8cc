//! Which nodes of a pool are told to move next.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use super::pool::{CONTROL_PLANE, Identity, Node, Pool};
use crate::name::NodeName;

/// What is decided about a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    /// What to store as the pool's [`Pool::taken`] first, if it differs.
    pub taken: BTreeSet<Identity>,
    /// Then, the nodes to be told the pool's target.
    pub tell: Vec<NodeName>,
    /// Nodes to be told the pool's target on the condition that they still say that they wait for it: no room is made
    /// for their absence, because they serve no pods.
    pub tell_waiting: Vec<NodeName>,
    /// Why others that must move are not told.
    pub left: BTreeMap<NodeName, NotNow>,
    /// The nodes that are away or about to be, whatever the reason.
    pub away: BTreeSet<NodeName>,
}

/// Why whatever is rolled out waits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hold {
    /// No node is taken from what it serves. One that serves nothing may take its configuration: it waits for that alone.
    Taking(String),
    /// Nobody is told anything: which pool is whose is not known.
    Telling(String),
}

/// Why a node that must move is not told to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum NotNow {
    /// The pool is paused.
    #[error("its pool is paused")]
    Paused,
    /// Whatever is rolled out says to wait.
    #[error("{0}")]
    Held(String),
    /// It is away for a reason of its own.
    #[error("it is not ready")]
    NotReady,
    /// As many as may be away are; see [`Choice::away`].
    #[error("as many as may be away are")]
    Busy,
    /// Others are still to move before the node this is decided on.
    #[error("the operator runs on it, so it moves last")]
    Last,
}

/// Chooses nodes of a pool.
///
/// A zone is finished before the next, inside a zone the oldest go first. Nodes that are away count against the limit
/// whatever took them away. A node that was taken is told a newer target at once: it is away already, and what it is
/// doing is no longer wanted. So is one that waits for its configuration: it would never become ready without, and as it
/// serves no pods, what is held up for their sake is not held up by it. Of the control plane such a node may serve all the
/// same, what needs no pod network: it goes alone there.
///
/// # Guarantees
///
/// What is told is taken or serves no pods, and no node that serves is taken while as many as the pool's limit are taken or known to be
/// away for whatever reason. Of the control plane no two are told that are away because of it, waiting or not.
///
/// `nodes` are the pool's, `operator` is the node this is decided on, `held` is why whatever is rolled out waits.
pub fn choose<N: Borrow<Node>>(
    pool: &Pool,
    nodes: &[N],
    operator: Option<&NodeName>,
    held: Option<&Hold>,
) -> Choice {
    let nodes: Vec<&Node> = nodes.iter().map(Borrow::borrow).collect();
    let by_identity: BTreeMap<Identity, &Node> = nodes.iter().map(|node| (node.identity(), *node)).collect();
    let Some(target) = pool.target.as_deref() else {
        return Choice { taken: pool.taken.clone(), ..Choice::default() };
    };
    let told = |node: &Node| node.desired.as_deref() == Some(target);
    // A node that is gone takes its place along; one that is back gives it up.
    let away = |taken: &&Identity| {
        by_identity.get(*taken).is_some_and(|node| !(told(node) && node.is_done() && node.is_ready()))
    };
    let mut taken: BTreeSet<Identity> = pool.taken.iter().filter(away).cloned().collect();
    // And whether those that serve nothing go on all the same.
    let (stopped, waiting_go) = match held {
        _ if pool.paused => (Some(NotNow::Paused), false),
        Some(Hold::Telling(why)) => (Some(NotNow::Held(why.clone())), false),
        Some(Hold::Taking(why)) => (Some(NotNow::Held(why.clone())), true),
        None => (None, true),
    };
    let mut tell: Vec<NodeName> = Vec::new();
    if stopped.is_none() {
        tell.extend(taken.iter().filter(|taken| !told(by_identity[taken])).map(|taken| taken.name.clone()));
    }
    let failing = |node: &Node| told(node) && node.is_failing();
    let mut busy: BTreeSet<NodeName> = taken.iter().map(|taken| taken.name.clone()).collect();
    busy.extend(nodes.iter().filter(|n| n.is_unavailable() || failing(n)).map(|n| n.name.clone()));
    let mut left = BTreeMap::new();
    let mut candidates: Vec<&Node> = Vec::new();
    let others = nodes.iter().filter(|n| !told(n) && !taken.contains(&n.identity())).copied();
    let mut waiting: Vec<&Node> = Vec::new();
    for node in others {
        match &stopped {
            _ if node.waits && waiting_go => waiting.push(node),
            Some(why) => _ = left.insert(node.name.clone(), why.clone()),
            None if !node.is_ready() => _ = left.insert(node.name.clone(), NotNow::NotReady),
            None => candidates.push(node),
        }
    }
    if pool.name == CONTROL_PLANE {
        let (goes, stay) = alone(waiting, &busy);
        left.extend(stay.iter().map(|node| (node.name.clone(), NotNow::Busy)));
        busy.extend(goes.iter().map(|node| node.name.clone()));
        waiting = goes;
    }
    let tell_waiting = waiting.iter().map(|node| node.name.clone()).collect();
    candidates.sort_by_cached_key(|node| place(node));
    if let Some(at) = candidates.iter().position(|node| Some(&node.name) == operator)
        && (candidates.len() > 1 || !taken.is_empty())
    {
        let own = candidates.remove(at);
        left.insert(own.name.clone(), NotNow::Last);
    }
    let capacity = pool.limit(nodes.len()).saturating_sub(busy.len());
    for (at, node) in candidates.into_iter().enumerate() {
        if at < capacity {
            taken.insert(node.identity());
            tell.push(node.name.clone());
        } else {
            left.insert(node.name.clone(), NotNow::Busy);
        }
    }
    busy.extend(tell.iter().cloned());
    Choice { taken, tell, tell_waiting, left, away: busy }
}

/// Leaves the node this is decided on where it is for as long as another pool has nodes on their way, or that would go if as
/// many were not away: whoever decides moves with it, and what it has begun elsewhere would wait for the next one.
///
/// Of pools that wait for somebody (paused, held, nodes that are not ready) it is not the last: they may wait for ever.
pub fn own_last(pools: &mut [(&Pool, &mut Choice)], own: &NodeName) {
    let is_own = |identity: &&Identity| identity.name == *own;
    let moving = |choice: &Choice| {
        choice.taken.iter().any(|taken| taken.name != *own)
            || choice.left.values().any(|why| *why == NotNow::Busy)
    };
    for at in 0..pools.len() {
        let (pool, choice) = &pools[at];
        let Some(taken) = choice.taken.iter().find(is_own).cloned() else { continue };
        let others = pools.iter().enumerate().any(|(other, (_, choice))| other != at && moving(choice));
        // One that is on its way already is not called back.
        if pool.taken.contains(&taken) || !others {
            continue;
        }
        let choice = &mut pools[at].1;
        choice.taken.remove(&taken);
        choice.away.remove(own);
        choice.tell.retain(|name| name != own);
        choice.left.insert(own.clone(), NotNow::Last);
    }
}

/// Of nodes that wait the one that goes alone, as long as nobody else is away, and those that stay.
fn alone<'a>(mut waiting: Vec<&'a Node>, busy: &BTreeSet<NodeName>) -> (Vec<&'a Node>, Vec<&'a Node>) {
    // One that was told something older is on its way already.
    waiting.sort_by_cached_key(|node| (!node.is_told_waiting(), place(node)));
    // Those that wait are away together: they would keep each other from ever being told.
    let others_away = busy.iter().any(|name| waiting.iter().all(|node| node.name != *name));
    let goes = if others_away { 0 } else { waiting.len().min(1) };
    let stay = waiting.split_off(goes);
    (waiting, stay)
}

fn place(node: &Node) -> (bool, String, u64, NodeName) {
    let zone = node.labels.get("topology.kubernetes.io/zone").filter(|zone| !zone.is_empty());
    (zone.is_none(), zone.unwrap_or_default().to_owned(), node.created, node.name.clone())
}

/// Whether new pods should rather go elsewhere: the node is still to be moved, and they would be evicted again. A node whose
/// daemon never spoke is left as it is: nobody would say that it is over.
pub fn to_be_avoided(pool: &Pool, node: &Node) -> bool {
    pool.target.is_some() && node.desired != pool.target && node.current.is_some()
}

#[cfg(test)]
mod tests {
    use super::super::pool::testing::{identity, name, node, pool};
    use super::super::pool::{MaxUnavailable, NodeState, Truth};
    use super::*;
    use crate::label::Labels;

    fn done(node_name: &str) -> Node {
        node(node_name, "old", "old", NodeState::Done)
    }

    fn tell(pool: &Pool, nodes: &[Node]) -> Vec<String> {
        choose(pool, nodes, None, None).tell.iter().map(NodeName::to_string).collect()
    }

    fn with_limit(limit: u32) -> Pool {
        Pool { max_unavailable: MaxUnavailable::Number(limit), ..pool("worker", "new") }
    }

    #[test]
    fn as_many_as_may_be_away_are_told_and_no_more() {
        use NodeState::{Degraded, Done, Working};
        let moving = |n: &str| node(n, "old", "new", Working);
        let unready = |n: &str| Node { ready: Some(Truth::False), ..done(n) };
        #[rustfmt::skip]
        let rows: Vec<(&str, u32, Vec<Node>, &[&str])> = vec![
            ("one of three", 1, vec![done("a"), done("b"), done("c")], &["a"]),
            ("two of three", 2, vec![done("a"), done("b"), done("c")], &["a", "b"]),
            ("more than there are", 9, vec![done("a"), done("b")], &["a", "b"]),
            ("one under way", 1, vec![moving("a"), done("b"), done("c")], &[]),
            ("one under way of two", 2, vec![moving("a"), done("b"), done("c")], &["b"]),
            ("told but not begun", 1, vec![node("a", "old", "new", Done), done("b")], &[]),
            ("one not ready by itself", 1, vec![unready("a"), done("b")], &[]),
            ("one not ready of two", 2, vec![unready("a"), done("b"), done("c")], &["b"]),
            ("cordoned by somebody", 1, vec![Node { unschedulable: true, ..done("a") }, done("b")], &[]),
            ("one failing at this", 1, vec![node("a", "old", "new", Degraded), done("b")], &[]),
            ("one failing at this of two", 2, vec![node("a", "old", "new", Degraded), done("b"), done("c")], &["b"]),
            ("failing at something older", 1, vec![node("a", "old", "bad", Degraded), done("b")], &["a"]),
            ("all there", 1, vec![node("a", "new", "new", Done)], &[]),
            ("degraded where it should be", 1, vec![node("a", "new", "new", Degraded), done("b")], &[]),
        ];
        for (what, limit, nodes, expected) in rows {
            assert_eq!(tell(&with_limit(limit), &nodes), expected, "{what}");
        }
    }

    #[test]
    fn a_paused_pool_and_a_held_rollout_tell_nobody_and_say_why() {
        let paused = Pool { paused: true, ..with_limit(2) };
        let nodes = [done("a"), node("b", "old", "new", NodeState::Working)];
        let choice = choose(&paused, &nodes, None, None);
        assert_eq!((choice.tell, choice.left), (vec![], BTreeMap::from([(name("a"), NotNow::Paused)])));
        let choice = choose(&with_limit(2), &nodes, None, Some(&Hold::Taking("packets are lost".into())));
        assert_eq!(choice.left[&name("a")].to_string(), "packets are lost");
        assert_eq!(choice.tell, []);
    }

    #[test]
    fn a_zone_is_finished_before_the_next_the_oldest_first() {
        let at = |n: &str, zone: Option<&str>, created| Node {
            labels: zone.map(|zone| ("topology.kubernetes.io/zone", zone)).into_iter().collect::<Labels>(),
            created,
            ..done(n)
        };
        let nodes = [
            at("a", None, 0),
            at("b", Some("z2"), 1),
            at("c", Some("z1"), 9),
            at("d", Some("z1"), 3),
            at("e", None, 5),
            at("f", Some("z2"), 0),
        ];
        assert_eq!(tell(&with_limit(9), &nodes), ["d", "c", "f", "b", "a", "e"]);
    }

    #[test]
    fn the_operators_own_node_moves_when_all_others_have() {
        let own = name("a");
        let told = |pool: &Pool, nodes: &[Node]| choose(pool, nodes, Some(&own), None).tell;
        let nodes = [done("a"), done("b")];
        assert_eq!(told(&with_limit(5), &nodes), [name("b")]);
        assert_eq!(choose(&with_limit(5), &nodes, Some(&own), None).left[&own], NotNow::Last);
        let on_its_way = Pool { taken: BTreeSet::from([identity("b")]), ..with_limit(5) };
        assert_eq!(told(&on_its_way, &[done("a"), node("b", "old", "new", NodeState::Working)]), []);
        assert_eq!(told(&with_limit(5), &[done("a"), node("b", "new", "new", NodeState::Done)]), [name("a")]);
    }

    #[test]
    fn the_operators_own_node_moves_when_those_of_other_pools_have() {
        let own = name("m");
        let masters = pool(CONTROL_PLANE, "new");
        let told = |masters: &Pool, workers: &Pool, nodes: &[Node], held: Option<&Hold>| {
            let mut first = choose(masters, &[done("m")], Some(&own), None);
            let mut other = choose(workers, nodes, Some(&own), held);
            own_last(&mut [(masters, &mut first), (workers, &mut other)], &own);
            assert_eq!(first.tell.is_empty(), !first.taken.iter().any(|taken| taken.name == own));
            (first.tell, first.left.get(&own).cloned())
        };
        let (goes, stays) = ((vec![own.clone()], None), (vec![], Some(NotNow::Last)));
        let away = Node { ready: Some(Truth::False), ..done("b") };
        assert_eq!(told(&masters, &with_limit(1), &[done("a")], None), stays);
        assert_eq!(told(&masters, &with_limit(1), &[done("a"), away.clone()], None), stays, "it would go");
        assert_eq!(told(&masters, &with_limit(1), &[node("a", "new", "new", NodeState::Done)], None), goes);
        // Nobody knows when these go on.
        assert_eq!(told(&masters, &with_limit(1), &[away], None), goes);
        assert_eq!(told(&masters, &Pool { paused: true, ..with_limit(1) }, &[done("a")], None), goes);
        let held = Hold::Taking("packets are lost".into());
        assert_eq!(told(&masters, &with_limit(1), &[done("a")], Some(&held)), goes);
        let mut first = choose(
            &Pool { taken: [identity("m")].into(), ..masters.clone() },
            &[done("m")],
            Some(&own),
            None,
        );
        let mut other = choose(&with_limit(1), &[done("a")], Some(&own), None);
        let taken = Pool { taken: [identity("m")].into(), ..masters };
        own_last(&mut [(&taken, &mut first), (&with_limit(1), &mut other)], &own);
        assert_eq!(first.tell, [own], "it is on its way");
    }

    #[test]
    fn a_taken_node_counts_though_news_of_it_are_old() {
        let pool = Pool { taken: BTreeSet::from([identity("b")]), ..with_limit(1) };
        let choice = choose(&pool, &[done("a"), done("b")], None, None);
        assert_eq!(choice.tell, [name("b")], "it may never have been told");
        assert_eq!(choice.left[&name("a")].to_string(), "as many as may be away are");
        assert_eq!(choice.away, BTreeSet::from([name("b")]));
    }

    #[test]
    fn a_node_that_was_removed_and_came_back_was_not_taken() {
        let pool = Pool { taken: BTreeSet::from([identity("b")]), ..with_limit(1) };
        let again = Node { uid: "another".into(), ..done("b") };
        let choice = choose(&pool, std::slice::from_ref(&again), None, None);
        assert_eq!(choice.taken, BTreeSet::from([again.identity()]));
    }

    #[test]
    fn a_taken_node_gives_its_place_up_when_it_is_back_or_gone() {
        let pool = Pool { taken: BTreeSet::from([identity("b"), identity("gone")]), ..with_limit(1) };
        let back = node("b", "new", "new", NodeState::Done);
        assert_eq!(
            choose(&pool, &[done("a"), back.clone()], None, None).taken,
            BTreeSet::from([identity("a")])
        );
        let cordoned = Node { unschedulable: true, ..back };
        assert_eq!(choose(&pool, &[done("a"), cordoned], None, None).taken, BTreeSet::from([identity("b")]));
    }

    #[test]
    fn a_node_that_waits_for_its_configuration_is_told_though_another_is_away() {
        let waiting =
            Node { ready: Some(Truth::False), desired: None, current: None, waits: true, ..done("c") };
        let nodes = [done("a"), node("b", "old", "new", NodeState::Working), waiting.clone()];
        let choice = choose(&with_limit(1), &nodes, None, None);
        assert_eq!(
            (choice.tell, choice.tell_waiting, choice.taken),
            (vec![], vec![name("c")], BTreeSet::new())
        );
        let choice = choose(&with_limit(1), &[done("a"), waiting], None, None);
        assert_eq!(choice.tell, [], "it counts as away itself");
        assert_eq!(choice.tell_waiting, [name("c")]);
    }

    #[test]
    fn a_node_that_waits_is_told_though_the_change_is_held_but_not_in_a_paused_pool() {
        let waiting = Node { waits: true, desired: None, current: None, ..done("c") };
        let nodes = [done("a"), waiting];
        let held = choose(&with_limit(1), &nodes, None, Some(&Hold::Taking("packets are lost".into())));
        assert_eq!((held.tell, held.tell_waiting), (vec![], vec![name("c")]));
        assert_eq!(held.left, [(name("a"), NotNow::Held("packets are lost".into()))].into());
        let paused = choose(&Pool { paused: true, ..with_limit(1) }, &nodes, None, None);
        assert_eq!((paused.tell_waiting, &paused.left[&name("c")]), (vec![], &NotNow::Paused));
        let unknown = choose(&with_limit(1), &nodes, None, Some(&Hold::Telling("whose it is".into())));
        assert_eq!(unknown.tell_waiting, []);
        assert_eq!(unknown.left[&name("c")].to_string(), "whose it is");
    }

    #[test]
    fn of_the_control_plane_a_node_that_waits_restarts_only_while_no_other_is_away() {
        let pool = pool(CONTROL_PLANE, "new");
        let waiting = |node: &str| Node {
            ready: Some(Truth::False),
            desired: None,
            current: None,
            waits: true,
            ..done(node)
        };
        let told_waiting = |nodes: &[Node]| choose(&pool, nodes, None, None).tell_waiting;
        let moving = node("a", "old", "new", NodeState::Working);
        assert_eq!(told_waiting(&[moving.clone(), done("b"), waiting("c")]), []);
        assert_eq!(choose(&pool, &[moving, waiting("c")], None, None).left[&name("c")], NotNow::Busy);
        assert_eq!(told_waiting(&[done("a"), done("b"), waiting("c")]), [name("c")]);
        // Several that wait go one after the other, and nobody else beside them.
        let told = Node { desired: Some("new".into()), ..waiting("c") };
        assert_eq!(told_waiting(&[waiting("c"), waiting("d")]), [name("c")]);
        assert_eq!(told_waiting(&[told, waiting("d")]), []);
        let ready = Node { ready: Some(Truth::True), ..waiting("c") };
        let choice = choose(&pool, &[done("a"), ready], None, None);
        assert_eq!((choice.tell, choice.tell_waiting), (vec![], vec![name("c")]));
    }

    #[test]
    fn new_pods_go_rather_elsewhere_until_the_node_is_told_to_move() {
        let pool = with_limit(1);
        assert!(to_be_avoided(&pool, &done("a")));
        assert!(!to_be_avoided(&pool, &node("a", "old", "new", NodeState::Working)));
        assert!(!to_be_avoided(&Pool { target: None, ..pool.clone() }, &done("a")));
        let silent = Node { current: None, desired: None, ..done("a") };
        assert!(!to_be_avoided(&pool, &silent), "nobody would say that it is over");
    }

    #[test]
    fn a_taken_node_is_told_a_newer_target_at_once() {
        let pool =
            Pool { taken: BTreeSet::from([identity("b")]), target: Some("newer".into()), ..with_limit(1) };
        let nodes = [done("a"), Node { unschedulable: true, ..node("b", "old", "new", NodeState::Working) }];
        assert_eq!(tell(&pool, &nodes), ["b"]);
    }
}
