//! Where a node is on its way, for people.

use std::fmt;

use super::drain::Request;
use super::pool::{Node, NodeState, Pool};

/// Where a node is on its way to its pool's target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Progress {
    /// It runs the target.
    Done,
    /// It was not told yet.
    Waiting,
    /// It was told, and has not begun.
    Told,
    /// Its pods are being moved away.
    Draining,
    /// It takes the configuration or restarts.
    Restarting,
    /// It is back and is let in again.
    Returning,
    /// It failed and says why.
    Failed,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Progress::Done => "done",
            Progress::Waiting => "waiting",
            Progress::Told => "told",
            Progress::Draining => "draining",
            Progress::Restarting => "restarting",
            Progress::Returning => "returning",
            Progress::Failed => "failed",
        })
    }
}

/// Where a node is, from what it and the drain controller say; `asked` and `fulfilled` are its requests.
pub fn progress(pool: &Pool, node: &Node, asked: Option<&Request>, fulfilled: Option<&Request>) -> Progress {
    if node.is_degraded() {
        return Progress::Failed;
    }
    if node.desired != pool.target {
        return Progress::Waiting;
    }
    if node.is_done() {
        return Progress::Done;
    }
    match (node.state, asked) {
        (Some(NodeState::Rebooting), _) => Progress::Restarting,
        (Some(NodeState::Working), Some(Request::Drain(_))) if asked != fulfilled => Progress::Draining,
        (Some(NodeState::Working), Some(Request::Drain(_))) => Progress::Restarting,
        (Some(NodeState::Working), Some(Request::Uncordon(_))) => Progress::Returning,
        (Some(NodeState::Working), None) => Progress::Told,
        (Some(NodeState::Done | NodeState::Degraded | NodeState::Unreconcilable) | None, _) => Progress::Told,
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::NodeState::{Degraded, Done, Rebooting, Working};
    use super::super::pool::testing::{node, pool};
    use super::*;

    #[test]
    fn a_node_is_followed_from_waiting_to_done() {
        let pool = pool("worker", "new");
        let drain = Request::Drain("new".into());
        let back = Request::Uncordon("new".into());
        let rows = [
            (node("a", "old", "old", Done), None, None, "waiting"),
            (node("a", "old", "new", Done), None, None, "told"),
            (node("a", "old", "new", Working), None, None, "told"),
            (node("a", "old", "new", Working), Some(&drain), None, "draining"),
            (node("a", "old", "new", Working), Some(&drain), Some(&drain), "restarting"),
            (node("a", "old", "new", Rebooting), Some(&drain), Some(&drain), "restarting"),
            (node("a", "old", "new", Working), Some(&back), Some(&drain), "returning"),
            (node("a", "new", "new", Done), Some(&back), Some(&back), "done"),
            (node("a", "old", "new", Degraded), Some(&drain), None, "failed"),
        ];
        for (node, asked, fulfilled, said) in rows {
            assert_eq!(progress(&pool, &node, asked, fulfilled).to_string(), said);
        }
    }
}
