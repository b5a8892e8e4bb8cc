//! Pools: nodes that share a configuration, and nodes as a rollout sees them.

use std::collections::BTreeSet;

use crate::label::{LabelSelector, Labels};
use crate::name::NodeName;

/// The pool of control-plane nodes.
pub const CONTROL_PLANE: &str = "master";
/// The label of control-plane nodes, and what it was called before.
pub const CONTROL_PLANE_LABELS: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// The pool of all others that no pool of their own claims.
pub const WORKER: &str = "worker";

/// A pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Which nodes are in it; nothing, none.
    pub nodes: Option<LabelSelector>,
    /// Which configurations are merged for it; nothing, none.
    pub configs: Option<LabelSelector>,
    /// No further node is taken.
    pub paused: bool,
    /// Most nodes that may be unavailable.
    pub max_unavailable: MaxUnavailable,
    /// The rendered configuration it should be on.
    pub target: Option<String>,
    /// The last one that every node finished.
    pub finished: Option<String>,
    /// Nodes that were taken and are not known to be back. Stored with the pool before a node is told anything, on
    /// the condition that nobody stored something else meanwhile: two operators, or one that reads old news of nodes,
    /// cannot take one node too many.
    pub taken: BTreeSet<Identity>,
}

/// A node by its name and by which object of that name it is: one that was removed and came back is another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Its name.
    pub name: NodeName,
    /// The identity of its object.
    pub uid: String,
}

/// Most nodes that may be unavailable at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MaxUnavailable {
    /// So many.
    Number(u32),
    /// So many of a hundred, rounded down.
    Percent(u32),
}

impl Default for MaxUnavailable {
    fn default() -> MaxUnavailable {
        MaxUnavailable::Number(1)
    }
}

/// Neither a number nor a percentage.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("maxUnavailable {0:?} is neither a number nor a percentage such as \"10%\"")]
pub struct NotALimit(pub String);

impl MaxUnavailable {
    /// Reads a percentage, as a pool writes it in text.
    ///
    /// # Errors
    /// If it is none: digits and a percent sign, nothing between.
    pub fn percent(text: &str) -> Result<MaxUnavailable, NotALimit> {
        let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        number.map(MaxUnavailable::Percent).ok_or_else(|| NotALimit(text.to_owned()))
    }

    /// How many of `nodes`. Never none: a pool that may lose no node at all could never move.
    pub fn of(self, nodes: usize) -> usize {
        let limit = match self {
            MaxUnavailable::Number(number) => usize::try_from(number).unwrap_or(usize::MAX),
            MaxUnavailable::Percent(percent) => {
                usize::try_from(nodes as u128 * u128::from(percent) / 100).unwrap_or(usize::MAX)
            }
        };
        limit.max(1)
    }
}

impl Pool {
    /// How many of its nodes may be unavailable at once. Control-plane nodes go one at a time whatever is asked: two
    /// of three gone is a cluster that cannot decide anything.
    pub fn limit(&self, nodes: usize) -> usize {
        if self.name == CONTROL_PLANE { 1 } else { self.max_unavailable.of(nodes) }
    }

    /// Whether its selector would take every node there is. Such a pool takes none, and that is worth an event.
    pub fn selects_all(&self) -> bool {
        self.nodes.as_ref().is_some_and(|selector| *selector == LabelSelector::all())
    }

    /// Whether a configuration with these labels is merged for it. An empty selector selects nothing here, unlike
    /// elsewhere: it is one nobody filled in.
    pub fn takes(&self, labels: &Labels) -> bool {
        let filled_in = self.configs.as_ref().filter(|selector| **selector != LabelSelector::all());
        filled_in.is_some_and(|selector| selector.matches(labels))
    }

    fn wants(&self, labels: &Labels) -> bool {
        !self.selects_all() && self.nodes.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// Which pool a node is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Membership<'a> {
    /// In none.
    None,
    /// In this one.
    In(&'a Pool),
    /// In the control plane's, though a pool of its own claims it too; worth an alert.
    ControlPlaneDespite {
        /// The control plane's.
        pool: &'a Pool,
        /// The other.
        also: &'a str,
    },
    /// Claimed by several, and so left alone.
    Several(Vec<&'a str>),
}

impl<'a> Membership<'a> {
    /// The pool, where there is one.
    pub fn pool(&self) -> Option<&'a Pool> {
        match self {
            Membership::In(pool) | Membership::ControlPlaneDespite { pool, .. } => Some(pool),
            Membership::None | Membership::Several(_) => None,
        }
    }
}

/// Whether nodes with these labels are told configurations, and waited for, at all. Those that run another system are not.
fn takes_part(labels: &Labels) -> bool {
    labels.get("kubernetes.io/os") != Some("windows")
}

/// Labels by which a node of the control plane is known by either name.
fn by_either_name(labels: &Labels) -> Labels {
    let value = CONTROL_PLANE_LABELS.iter().find_map(|label| labels.get(label));
    let both = value.into_iter().flat_map(|value| CONTROL_PLANE_LABELS.map(|label| (label, value)));
    both.chain(labels.iter()).collect()
}

/// Finds the pool of a node with these labels.
///
/// A node of the control plane goes to its pool whichever of its labels the node has and the pool selects: they mean the
/// same, and a node that nobody claims stops every change.
pub fn membership<'a>(pools: &'a [Pool], labels: &Labels) -> Membership<'a> {
    if !takes_part(labels) {
        return Membership::None;
    }
    let either = by_either_name(labels);
    let wants = |pool: &Pool| pool.wants(if pool.name == CONTROL_PLANE { &either } else { labels });
    let wanting: Vec<&Pool> = pools.iter().filter(|pool| wants(pool)).collect();
    let named = |name: &str| wanting.iter().find(|pool| pool.name == name).copied();
    let own: Vec<&Pool> =
        wanting.iter().filter(|pool| pool.name != CONTROL_PLANE && pool.name != WORKER).copied().collect();
    match (named(CONTROL_PLANE), own.as_slice(), named(WORKER)) {
        (Some(pool), [], _) => Membership::In(pool),
        (Some(pool), [also, ..], _) => Membership::ControlPlaneDespite { pool, also: &also.name },
        (None, [pool], _) => Membership::In(pool),
        (None, [], Some(worker)) => Membership::In(worker),
        (None, [], None) => Membership::None,
        (None, several, _) => Membership::Several(several.iter().map(|pool| pool.name.as_str()).collect()),
    }
}

/// True, false, or nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

/// What a node says it is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeState {
    /// It runs what it should.
    Done,
    /// It is on its way.
    Working,
    /// It is restarting.
    Rebooting,
    /// It failed and tries again.
    Degraded,
    /// It cannot get there.
    Unreconcilable,
}

/// A node as a rollout sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// The identity of its object.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// When it was made, in any unit that grows.
    pub created: u64,
    /// Its condition `Ready`, if it has one.
    pub ready: Option<Truth>,
    /// Its condition `DiskPressure`, if it has one.
    pub disk_pressure: Option<Truth>,
    /// Its condition `NetworkUnavailable`, if it has one.
    pub network_unavailable: Option<Truth>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The configuration it runs.
    pub current: Option<String>,
    /// The one it is told to run.
    pub desired: Option<String>,
    /// What it says it is doing.
    pub state: Option<NodeState>,
    /// What it says is wrong.
    pub reason: String,
    /// Whether it says that it serves no pods before it has taken its configuration: it is new, or was away while the
    /// cluster moved on.
    pub waits: bool,
}

impl Node {
    /// Which it is.
    pub fn identity(&self) -> Identity {
        Identity { name: self.name.clone(), uid: self.uid.clone() }
    }

    /// Whether it is told configurations, and waited for, at all.
    pub fn takes_part(&self) -> bool {
        takes_part(&self.labels)
    }

    /// Whether it said that it waits, was told a configuration since, and has not done it: it may be about to be drained
    /// or restarted, and nobody makes room for its absence.
    pub fn is_told_waiting(&self) -> bool {
        self.waits && self.desired.is_some() && !self.is_done()
    }

    /// Whether what is on it runs and answers, also while no further pods are put there.
    pub fn is_up(&self) -> bool {
        self.ready.is_none_or(|ready| ready == Truth::True)
    }

    /// Whether pods can be put on it.
    pub fn is_ready(&self) -> bool {
        let fine = |condition: Option<Truth>, when: Truth| condition.is_none_or(|is| is == when);
        self.is_up()
            && fine(self.disk_pressure, Truth::False)
            && fine(self.network_unavailable, Truth::False)
            && !self.unschedulable
    }

    /// Whether it has done what it was told.
    pub fn is_done(&self) -> bool {
        self.current.is_some() && self.current == self.desired && self.state == Some(NodeState::Done)
    }

    /// Whether it tries and fails to do what it was told.
    pub fn is_failing(&self) -> bool {
        self.current != self.desired && self.is_degraded()
    }

    /// Whether it says that something is wrong.
    pub fn is_degraded(&self) -> bool {
        matches!(self.state, Some(NodeState::Degraded | NodeState::Unreconcilable))
    }

    /// Whether it is away, or about to be: from the moment it was told something new, whatever the reason. A node that
    /// was never told anything is not on its way anywhere.
    pub fn is_unavailable(&self) -> bool {
        !self.is_ready() || (self.desired.is_some() && !self.is_done() && !self.is_failing())
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(in crate::rollout) fn name(node: &str) -> NodeName {
        NodeName::new(node).unwrap()
    }

    pub(in crate::rollout) fn identity(node: &str) -> Identity {
        Identity { name: name(node), uid: format!("uid-{node}") }
    }

    /// A ready node that runs `current` and is told `desired`.
    pub(in crate::rollout) fn node(node: &str, current: &str, desired: &str, state: NodeState) -> Node {
        Node {
            name: name(node),
            uid: format!("uid-{node}"),
            labels: Labels::default(),
            created: 0,
            ready: Some(Truth::True),
            disk_pressure: None,
            network_unavailable: None,
            unschedulable: false,
            current: Some(current.into()),
            desired: Some(desired.into()),
            state: Some(state),
            reason: String::new(),
            waits: false,
        }
    }

    pub(in crate::rollout) fn pool(name: &str, target: &str) -> Pool {
        Pool {
            name: name.into(),
            nodes: Some(LabelSelector::equals(format!("role/{name}"), "")),
            configs: None,
            paused: false,
            max_unavailable: MaxUnavailable::default(),
            target: Some(target.into()),
            finished: None,
            taken: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{node, pool};
    use super::*;
    use crate::label::Requirement;

    #[test]
    fn a_node_is_in_the_pool_people_expect() {
        let pools = [pool("master", "r"), pool("worker", "r"), pool("infra", "r"), pool("edge", "r")];
        let labels =
            |roles: &[&str]| Labels::from_iter(roles.iter().map(|role| (format!("role/{role}"), "")));
        for (roles, expected) in [
            (&["master"][..], Some("master")),
            (&["worker"], Some("worker")),
            (&["master", "worker"], Some("master")),
            (&["infra", "worker"], Some("infra")),
            (&["infra"], Some("infra")),
            (&["infra", "master"], Some("master")),
            (&["infra", "edge"], None),
            (&["infra", "edge", "worker"], None),
            (&[], None),
        ] {
            let found = membership(&pools, &labels(roles));
            assert_eq!(found.pool().map(|pool| pool.name.as_str()), expected, "{roles:?}");
        }
        assert!(matches!(
            membership(&pools, &labels(&["infra", "master"])),
            Membership::ControlPlaneDespite { also: "infra", .. }
        ));
        assert_eq!(
            membership(&pools, &labels(&["infra", "edge"])),
            Membership::Several(vec!["infra", "edge"])
        );
        let windows = Labels::from_iter([("role/worker", ""), ("kubernetes.io/os", "windows")]);
        assert_eq!(membership(&pools, &windows), Membership::None);
    }

    #[test]
    fn the_control_plane_is_known_by_either_of_its_labels() {
        let [now, before] = CONTROL_PLANE_LABELS;
        let selects = |name, requirement| Pool {
            nodes: Some(LabelSelector::from_iter([requirement])),
            ..pool(name, "r")
        };
        let others = || selects(WORKER, Requirement::Missing(now.into()));
        for selected in [now, before] {
            let pools = [selects(CONTROL_PLANE, Requirement::Exists(selected.into())), others()];
            for labelled in [now, before] {
                let found = membership(&pools, &Labels::from_iter([(labelled, "")]));
                let found = found.pool().map(|pool| pool.name.as_str());
                assert_eq!(found, Some(CONTROL_PLANE), "{labelled} for {selected}");
            }
            let found = membership(&pools, &Labels::default());
            assert_eq!(found.pool().map(|pool| pool.name.as_str()), Some(WORKER));
        }
    }

    #[test]
    fn a_pool_that_selects_everything_or_nothing_has_no_nodes() {
        let all = Pool { nodes: Some(LabelSelector::all()), ..pool("infra", "r") };
        let none = Pool { nodes: None, ..pool("infra", "r") };
        assert!(all.selects_all() && !none.selects_all());
        assert_eq!(membership(&[all, none], &Labels::default()), Membership::None);
    }

    #[test]
    fn a_pool_takes_the_configurations_it_selects_and_none_before_somebody_said_which() {
        let labels = Labels::from_iter([("role", "worker")]);
        let with = |configs| Pool { configs, ..pool("worker", "r") };
        for (configs, takes) in [
            (None, false),
            (Some(LabelSelector::all()), false),
            (Some(LabelSelector::equals("role", "infra")), false),
            (Some(LabelSelector::equals("role", "worker")), true),
        ] {
            assert_eq!(with(configs.clone()).takes(&labels), takes, "{configs:?}");
        }
    }

    #[test]
    fn a_node_that_waits_and_is_told_has_to_do_it_first() {
        use NodeState::{Done, Working};
        let waiting = |current, desired, state| Node { waits: true, ..node("a", current, desired, state) };
        assert!(waiting("a", "b", Done).is_told_waiting());
        assert!(waiting("b", "b", Working).is_told_waiting());
        assert!(!waiting("b", "b", Done).is_told_waiting(), "it has done it");
        assert!(!Node { desired: None, ..waiting("a", "b", Done) }.is_told_waiting(), "it was told nothing");
        assert!(!node("a", "a", "b", Working).is_told_waiting(), "it does not wait");
    }

    #[test]
    fn a_limit_is_a_number_or_a_percentage_rounded_down_and_never_none() {
        for (limit, nodes, allowed) in [
            (MaxUnavailable::default(), 4, 1),
            (MaxUnavailable::Number(2), 4, 2),
            (MaxUnavailable::Number(0), 4, 1),
            (MaxUnavailable::percent("50%").unwrap(), 4, 2),
            (MaxUnavailable::percent("60%").unwrap(), 4, 2),
            (MaxUnavailable::percent("10%").unwrap(), 4, 1),
            (MaxUnavailable::percent("0%").unwrap(), 4, 1),
            (MaxUnavailable::percent("100%").unwrap(), 4, 4),
        ] {
            assert_eq!(limit.of(nodes), allowed, "{limit:?}");
        }
        for wrong in ["60", "50 percent", "40 %", "%", "-1%", "+1%", ""] {
            assert!(MaxUnavailable::percent(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn control_plane_nodes_go_one_at_a_time_whatever_is_asked() {
        let pool = Pool { max_unavailable: MaxUnavailable::Percent(100), ..pool("master", "r") };
        assert_eq!(pool.limit(5), 1);
    }

    #[test]
    fn a_node_is_ready_when_nothing_speaks_against_it() {
        use Truth::{False, True, Unknown};
        type Row = (Option<Truth>, Option<Truth>, Option<Truth>, bool, bool);
        let rows: &[Row] = &[
            (Some(True), None, None, false, true),
            (None, None, None, false, true),
            (Some(False), None, None, false, false),
            (Some(Unknown), None, None, false, false),
            (Some(True), Some(False), Some(False), false, true),
            (Some(True), Some(True), None, false, false),
            (Some(True), Some(Unknown), None, false, false),
            (Some(True), None, Some(True), false, false),
            (Some(True), None, Some(Unknown), false, false),
            (Some(True), None, None, true, false),
        ];
        for (ready, disk_pressure, network_unavailable, unschedulable, is) in rows {
            let node = Node {
                ready: *ready,
                disk_pressure: *disk_pressure,
                network_unavailable: *network_unavailable,
                unschedulable: *unschedulable,
                ..node("a", "r", "r", NodeState::Done)
            };
            assert_eq!(node.is_ready(), *is, "{node:?}");
        }
    }

    #[test]
    fn a_node_is_unavailable_from_the_moment_it_is_told_something_new() {
        use NodeState::{Degraded, Done, Rebooting, Unreconcilable, Working};
        for (current, desired, state, unavailable) in [
            ("a", "a", Done, false),
            ("a", "b", Done, true),
            ("a", "b", Working, true),
            ("a", "b", Rebooting, true),
            ("a", "b", Degraded, false),
            ("a", "b", Unreconcilable, false),
            ("a", "a", Degraded, true),
            ("a", "a", Working, true),
        ] {
            let node = node("a", current, desired, state);
            assert_eq!(node.is_unavailable(), unavailable, "{current} {desired} {state:?}");
            assert!(Node { ready: Some(Truth::False), ..node }.is_unavailable());
        }
        let new = Node { current: None, desired: None, state: None, ..node("a", "", "", Done) };
        assert!(!new.is_unavailable(), "a new node would hold up its own first configuration");
    }
}
