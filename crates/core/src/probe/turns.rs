//! Whose turn it is to be tried.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::name::NodeName;

/// How fast nodes are tried.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The pause before a node that is known is tried again.
    pub pause: Duration,
    /// The least time between two nodes that are known; those that are not do not wait for it.
    pub apart: Duration,
    /// How many are tried at a time. It bounds what a node sends, however large the cluster.
    pub at_once: usize,
}

/// Who was tried when.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// When each node was, the last time.
    last: BTreeMap<NodeName, Duration>,
    /// When any node that is known was. Those that are not do not count: some that never answer would keep all others
    /// from being tried.
    last_known: Option<Duration>,
}

impl Turns {
    /// The nodes whose turn it is now, those that waited longest first, out of those that can be tried; each with whether
    /// enough is known of the ways to it.
    pub fn take<'a>(
        &mut self,
        nodes: impl Iterator<Item = (&'a NodeName, bool)>,
        rate: Rate,
        now: Duration,
    ) -> Vec<NodeName> {
        let since = |last: &Duration| now.saturating_sub(*last);
        let apart = self.last_known.as_ref().is_none_or(|last| since(last) >= rate.apart);
        let rested = |name| apart && self.last.get(name).is_none_or(|last| since(last) >= rate.pause);
        let mut due: Vec<(&NodeName, bool)> = nodes.filter(|(name, known)| !known || rested(*name)).collect();
        due.sort_by_key(|(name, _)| self.last.get(*name));
        due.truncate(rate.at_once);
        if due.iter().any(|(_, known)| *known) {
            self.last_known = Some(now);
        }
        let due: Vec<NodeName> = due.into_iter().map(|(name, _)| name.clone()).collect();
        self.last.extend(due.iter().map(|name| (name.clone(), now)));
        due
    }

    /// Forgets nodes that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&NodeName) -> bool) {
        self.last.retain(|name, _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { pause: Duration::from_secs(10), apart: Duration::from_secs(1), at_once: 1 };

    /// Tries `nodes` for some seconds, four times in each, and tells how often each of them was.
    fn tried(nodes: &[(&str, bool)], rate: Rate, seconds: u64) -> BTreeMap<String, usize> {
        let nodes: Vec<(NodeName, bool)> =
            nodes.iter().map(|(name, known)| (name.parse().expect("a name"), *known)).collect();
        let (mut turns, mut count) = (Turns::default(), BTreeMap::new());
        for tick in 0..seconds * 4 {
            let now = Duration::from_millis(250 * tick);
            for name in turns.take(nodes.iter().map(|(name, known)| (name, *known)), rate, now) {
                *count.entry(name.to_string()).or_default() += 1;
            }
        }
        count
    }

    #[test]
    fn what_a_node_sends_at_rest_does_not_grow_with_the_cluster() {
        let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
        let many: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), true)).collect();
        let count = tried(&many, RATE, 400);
        assert_eq!(count.len(), 200, "all have their turn");
        assert!(count.values().all(|times| *times == 2), "{count:?}");
        // Few are not tried more often than is of use.
        assert_eq!(tried(&many[..2], RATE, 40).into_values().collect::<Vec<_>>(), [4, 4]);
    }

    #[test]
    fn nodes_that_nothing_is_known_of_do_not_wait_for_those_that_are() {
        let mixed = [("known", true), ("new", false)];
        let count = tried(&mixed, RATE, 10);
        assert!(count["new"] >= 30, "{count:?}");
        assert_eq!(count["known"], 1, "{count:?}");
        // However many never answer, those that do have their turns.
        let silent = [("known", true), ("a", false), ("b", false), ("c", false), ("d", false)];
        assert_eq!(tried(&silent, RATE, 100)["known"], 10);
        let moving = Rate { pause: Duration::from_secs(1), apart: Duration::ZERO, at_once: 4 };
        let known = ["a", "b", "c", "d", "e", "f"].map(|name| (name, true));
        assert!(tried(&known, moving, 10).values().all(|times| *times == 10));
    }
}
