//! What a node's own daemon does to get from one configuration to the next.

use std::time::Duration;

use super::drain::Request;
use super::effect::Effect;
use super::epochs::{Epochs, Regression};
use super::layout::Drift;
use super::pool::NodeState;

/// What the daemon last said on its node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Said {
    /// The configuration it runs.
    pub current: Option<String>,
    /// What it is doing.
    pub state: Option<NodeState>,
    /// What is wrong; empty if nothing is.
    pub reason: String,
}

/// A configuration by its name and age.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The newest rendering of each capability in it.
    pub epochs: Epochs,
}

/// Everything a decision is made from.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// What the node is told to run, read again before every decision: what was withdrawn must not be tried further.
    pub desired: Option<&'a Named>,
    /// What its disk holds. The disk is right where it and the API differ: an API may have been restored from a
    /// copy, a disk holds what will be booted.
    pub disk: Option<&'a Named>,
    /// What it takes until the configuration on the disk is in force.
    pub due: Effect,
    /// What it would take for the assigned one.
    pub needed: Effect,
    /// Managed paths that are not as they should be.
    pub drift: &'a [Drift],
    /// Somebody said to go on in spite of that.
    pub forced: bool,
    /// What was said last.
    pub said: &'a Said,
    /// What was asked of the drain controller last.
    pub asked: Option<&'a Request>,
    /// What it fulfilled last.
    pub fulfilled: Option<&'a Request>,
    /// The drain controller cordoned the node.
    pub cordoned: bool,
    /// The cluster is this node: there is nowhere to drain to.
    pub alone: bool,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Say this on the node.
    Say(Said),
    /// Ask the drain controller.
    Ask(Request),
    /// Wait for the drain controller.
    AwaitDrain,
    /// Write what is told to the disk, by [`super::journal`]; if it fails put back what was there, say so, and try
    /// again after [`backoff`].
    Take,
    /// Let the capabilities apply their files of the configuration on the disk to the running node; if that fails, report
    /// it and try again after [`backoff`].
    Apply,
    /// Restart the host.
    Restart,
    /// Nothing, until something changes.
    Rest,
}

/// Time after which a failed attempt is repeated, the first being number 0.
pub fn backoff(attempt: u32) -> Duration {
    Duration::from_secs(1 << attempt.min(6)).min(Duration::from_secs(60))
}

/// Decides what the daemon does next.
///
/// # Guarantees
///
/// The host restarts only after the drain controller said that it is drained for the configuration on its disk, unless
/// the node is alone. It is not drained for what can be applied while it runs. The node reports `Done` only when its disk
/// holds the assigned configuration, that is in force, and it takes pods again. It never takes an older rendering of a capability than the one on its disk.
///
/// Pure, from what is true now: a daemon that died, and a host that lost power, go on from wherever they were.
pub fn decide(facts: &Facts) -> Step {
    let current = facts.said.current.clone();
    let say = |state, reason: String| {
        let said = Said { current: current.clone(), state: Some(state), reason };
        if *facts.said == said { None } else { Some(Step::Say(said)) }
    };
    if !facts.drift.is_empty() && !facts.forced {
        let found: Vec<String> = facts.drift.iter().map(Drift::to_string).collect();
        return say(NodeState::Degraded, found.join("; ")).unwrap_or(Step::Rest);
    }
    let Some(desired) = facts.desired else { return Step::Rest };
    let drained = |config: &str| facts.alone || facts.fulfilled == Some(&Request::Drain(config.to_owned()));
    let ask = |request: Request| {
        if facts.asked == Some(&request) { Step::AwaitDrain } else { Step::Ask(request) }
    };
    match facts.disk {
        Some(disk) if disk.name == desired.name => {
            match facts.due {
                Effect::Nothing => {}
                Effect::Apply => return say(NodeState::Working, String::new()).unwrap_or(Step::Apply),
                Effect::Restart => {
                    return match say(NodeState::Working, String::new()) {
                        Some(step) => step,
                        None if drained(&disk.name) => Step::Restart,
                        None => ask(Request::Drain(disk.name.clone())),
                    };
                }
            }
            let back = Request::Uncordon(disk.name.clone());
            // A node that never asked to be drained has nothing to ask for now; one whose request somebody removed has.
            if (facts.asked.is_some() || facts.cordoned) && facts.fulfilled != Some(&back) {
                return ask(back);
            }
            let done = Said {
                current: Some(disk.name.clone()),
                state: Some(NodeState::Done),
                reason: String::new(),
            };
            if *facts.said == done { Step::Rest } else { Step::Say(done) }
        }
        Some(disk) if let Some(found) = desired.epochs.regression(&disk.epochs) => {
            let Regression { source, older, newer } = found;
            let reason = format!(
                "{} is older ({source} epoch {older}) than what this node has taken, {} ({source} epoch {newer}); it is not \
                 taken",
                desired.name, disk.name
            );
            say(NodeState::Degraded, reason).unwrap_or(Step::Rest)
        }
        Some(_) | None => match say(NodeState::Working, String::new()) {
            Some(step) => step,
            None if facts.needed < Effect::Restart || drained(&desired.name) => Step::Take,
            None => ask(Request::Drain(desired.name.clone())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::NodeState::{Degraded, Done, Working};
    use super::*;

    fn named(name: &str, epoch: u64) -> Named {
        Named { name: name.into(), epochs: Epochs::of("mtu", epoch) }
    }

    /// A node with its daemon, its disk and a drain controller that answers when told to.
    struct Node {
        desired: Named,
        disk: Named,
        booted: Named,
        /// What whatever is not in force needs.
        effect: Effect,
        applied: Option<Named>,
        said: Said,
        asked: Option<Request>,
        fulfilled: Option<Request>,
        drift: Vec<Drift>,
        cordoned: bool,
        alone: bool,
    }

    impl Node {
        fn new() -> Node {
            let said = Said { current: Some("old".into()), state: Some(Done), reason: String::new() };
            Node {
                desired: named("old", 0),
                disk: named("old", 0),
                booted: named("old", 0),
                effect: Effect::Restart,
                applied: None,
                said,
                asked: None,
                fulfilled: None,
                drift: vec![],
                cordoned: false,
                alone: false,
            }
        }

        fn needs(&self, config: &Named) -> Effect {
            let in_force = *config == self.booted || self.applied.as_ref() == Some(config);
            if in_force { Effect::Nothing } else { self.effect }
        }

        fn step(&self) -> Step {
            decide(&Facts {
                desired: Some(&self.desired),
                disk: Some(&self.disk),
                due: self.needs(&self.disk),
                needed: self.needs(&self.desired),
                drift: &self.drift,
                forced: false,
                said: &self.said,
                asked: self.asked.as_ref(),
                fulfilled: self.fulfilled.as_ref(),
                cordoned: self.cordoned,
                alone: self.alone,
            })
        }

        /// Does what is decided until it waits for somebody else, and tells what it did.
        fn run(&mut self) -> Vec<String> {
            let mut did = Vec::new();
            loop {
                let step = self.step();
                did.push(match &step {
                    Step::Say(said) => format!("say {:?}", said.state.unwrap()),
                    Step::Ask(Request::Drain(config)) => format!("ask drain {config}"),
                    Step::Ask(Request::Uncordon(config)) => format!("ask uncordon {config}"),
                    Step::AwaitDrain => "wait".into(),
                    Step::Take => format!("take {}", self.desired.name),
                    Step::Apply => "apply".into(),
                    Step::Restart => "restart".into(),
                    Step::Rest => "rest".into(),
                });
                match step {
                    Step::Say(said) => self.said = said,
                    Step::Ask(request) => self.asked = Some(request),
                    Step::Take => self.disk = self.desired.clone(),
                    Step::Apply => self.applied = Some(self.disk.clone()),
                    Step::Restart => self.booted = self.disk.clone(),
                    Step::AwaitDrain | Step::Rest => return did,
                }
                assert!(did.len() < 20, "{did:?}");
            }
        }

        fn answer(&mut self) {
            self.fulfilled = self.asked.clone();
            self.cordoned = matches!(self.asked, Some(Request::Drain(_)));
        }
    }

    #[test]
    fn a_node_is_drained_takes_the_configuration_restarts_and_comes_back() {
        let mut node = Node { desired: named("new", 1), ..Node::new() };
        assert_eq!(node.run(), ["say Working", "ask drain new", "wait"]);
        node.answer();
        assert_eq!(node.run(), ["take new", "restart", "ask uncordon new", "wait"]);
        assert_eq!(
            node.said.current.as_deref(),
            Some("old"),
            "it does not say so before it takes pods again"
        );
        node.answer();
        assert_eq!(node.run(), ["say Done", "rest"]);
        assert_eq!(node.said.current.as_deref(), Some("new"));
    }

    #[test]
    fn power_loss_after_taking_a_configuration_is_as_good_as_a_restart() {
        let mut node = Node { desired: named("new", 1), ..Node::new() };
        node.run();
        node.answer();
        node.disk = node.desired.clone();
        node.booted = node.disk.clone();
        assert_eq!(node.run(), ["ask uncordon new", "wait"]);
    }

    #[test]
    fn a_node_whose_request_somebody_removed_is_let_back_in_before_it_is_done() {
        let mut node = Node { desired: named("new", 1), ..Node::new() };
        node.run();
        node.answer();
        node.disk = node.desired.clone();
        node.booted = node.disk.clone();
        node.asked = None;
        assert_eq!(node.run(), ["ask uncordon new", "wait"]);
        node.answer();
        assert_eq!(node.run(), ["say Done", "rest"]);
    }

    #[test]
    fn what_makes_no_difference_to_a_running_node_drains_and_restarts_nothing() {
        let mut node = Node { desired: named("new", 1), effect: Effect::Nothing, ..Node::new() };
        assert_eq!(node.run(), ["say Working", "take new", "say Done", "rest"]);
    }

    #[test]
    fn what_can_be_applied_to_a_running_node_drains_and_restarts_nothing_and_is_in_force_before_done() {
        let mut node = Node { desired: named("new", 1), effect: Effect::Apply, ..Node::new() };
        assert_eq!(node.run(), ["say Working", "take new", "apply", "say Done", "rest"]);
        // It is tried until it succeeds, also by a daemon that finds it taken and not applied.
        node.applied = None;
        assert_eq!(node.run(), ["say Working", "apply", "say Done", "rest"]);
    }

    #[test]
    fn a_configuration_withdrawn_while_draining_is_not_taken() {
        let mut node = Node { desired: named("new", 1), ..Node::new() };
        node.run();
        node.desired = named("old", 0);
        assert_eq!(node.run(), ["ask uncordon old", "wait"]);
        node.answer();
        assert_eq!(node.run(), ["say Done", "rest"]);
    }

    #[test]
    fn a_newer_configuration_while_draining_is_drained_for_anew() {
        let mut node = Node { desired: named("new", 1), ..Node::new() };
        node.run();
        node.answer();
        node.desired = named("newer", 2);
        assert_eq!(node.run(), ["ask drain newer", "wait"]);
        node.answer();
        assert_eq!(node.run(), ["take newer", "restart", "ask uncordon newer", "wait"]);
    }

    #[test]
    fn an_older_configuration_is_refused_with_both_names() {
        let mut node = Node { disk: named("new", 2), booted: named("new", 2), ..Node::new() };
        node.desired = named("old", 1);
        assert_eq!(node.run(), ["say Degraded", "rest"]);
        assert_eq!(
            node.said.reason,
            "old is older (mtu epoch 1) than what this node has taken, new (mtu epoch 2); it is not taken"
        );
        assert_eq!(node.said.state, Some(Degraded));
        node.desired = named("newer", 3);
        assert_eq!(node.run()[0], "say Working");
    }

    #[test]
    fn a_configuration_that_is_newer_in_one_capability_and_older_in_another_is_refused() {
        let both = |name: &str, egressip: u64, mtu: u64| {
            let epochs = [("egressip".to_owned(), egressip), ("mtu".to_owned(), mtu)];
            Named { name: name.into(), epochs: epochs.into_iter().collect() }
        };
        let mut node = Node { disk: both("new", 1, 5), booted: both("new", 1, 5), ..Node::new() };
        node.desired = both("mixed", 9, 4);
        assert_eq!(node.run(), ["say Degraded", "rest"]);
        assert!(node.said.reason.starts_with("mixed is older (mtu epoch 4)"), "{}", node.said.reason);
        // What carries nothing of a capability withdraws it.
        node.desired = named("withdrawn", 5);
        assert_eq!(node.run()[0], "say Working");
    }

    #[test]
    fn drift_stops_everything_until_it_is_gone() {
        let mut node = Node { desired: named("new", 1), ..Node::new() };
        node.drift = vec![Drift::Missing("/etc/a".into())];
        assert_eq!(node.run(), ["say Degraded", "rest"]);
        assert_eq!(node.said.reason, "/etc/a is missing");
        node.drift.clear();
        assert_eq!(node.run(), ["say Working", "ask drain new", "wait"]);
    }

    #[test]
    fn a_node_that_is_alone_restarts_without_being_drained() {
        let mut node = Node { desired: named("new", 1), alone: true, ..Node::new() };
        assert_eq!(node.run(), ["say Working", "take new", "restart", "say Done", "rest"]);
    }

    #[test]
    fn an_api_restored_from_a_copy_does_not_make_a_node_go_back() {
        // The disk holds the new one; the API, restored, says the node runs and should run the old one.
        let mut node = Node { disk: named("new", 2), booted: named("new", 2), ..Node::new() };
        assert_eq!(node.run(), ["say Degraded", "rest"]);
        assert_eq!(node.said.state, Some(Degraded));
        assert_ne!(node.said.state, Some(Working));
    }

    #[test]
    fn failed_attempts_are_repeated_ever_more_slowly_up_to_a_minute() {
        let seconds: Vec<u64> = (0..9).map(|attempt| backoff(attempt).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }
}
