//! Moving pods off a node, and letting them come back.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::name::ObjectName;

/// What a node asks for, and for which configuration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Request {
    /// Move the pods away.
    Drain(String),
    /// Let pods come back.
    Uncordon(String),
}

/// A pod on the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pod {
    /// Its name.
    pub name: ObjectName,
    /// Who would make it again.
    pub managed: Managed,
    /// It has run to its end.
    pub finished: bool,
    /// It is on its way out.
    pub leaving: bool,
}

/// Who would make a pod again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Managed {
    /// The node itself, from a file: it cannot be moved.
    Node,
    /// A DaemonSet that would put it right back.
    DaemonSet,
    /// A controller, somewhere else.
    Controller,
    /// Nobody. It is lost when it is evicted, as on any drain that was told to go on.
    Nobody,
}

/// Whether a pod must go before the node may.
pub fn must_go(pod: &Pod) -> bool {
    match pod.managed {
        Managed::Node => false,
        Managed::DaemonSet => pod.finished,
        Managed::Controller | Managed::Nobody => true,
    }
}

/// Whether a budget can keep a pod on its node: one that must go, and has not run to its end.
pub fn may_be_kept(pod: &Pod) -> bool {
    must_go(pod) && !pod.finished
}

/// An eviction that was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// When, on the clock of [`Facts::now`].
    pub at: Duration,
    /// Why.
    pub why: Obstacle,
}

/// What keeps a pod on its node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Obstacle {
    /// Budgets that allow no further disruption, by name.
    Budgets(Vec<String>),
    /// Something else, in the server's words.
    Other(String),
    /// It was evicted and takes its time.
    Leaving,
    /// It was not tried yet.
    Untried,
}

/// A pod that is waited for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Blocking {
    /// Which.
    pub pod: ObjectName,
    /// Why.
    pub why: Obstacle,
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blocking { pod, why } = self;
        match why {
            Obstacle::Budgets(names) => {
                let (kind, verb) = match names.as_slice() {
                    [_] => ("PodDisruptionBudget", "allows"),
                    _ => ("PodDisruptionBudgets", "allow"),
                };
                write!(f, "pod {pod}: {kind} {} {verb} no disruption now", names.join(", "))
            }
            Obstacle::Other(said) => write!(f, "pod {pod}: {said}"),
            Obstacle::Leaving => write!(f, "pod {pod} is ending"),
            Obstacle::Untried => write!(f, "pod {pod} is to be evicted"),
        }
    }
}

/// Everything a decision is made from.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// What the node asks for.
    pub request: &'a Request,
    /// The last request that was fulfilled.
    pub fulfilled: Option<&'a Request>,
    /// Whether the node is cordoned.
    pub cordoned: bool,
    /// Whether that was us. Somebody else's cordon is not ours to lift.
    pub ours: bool,
    /// The pods on the node.
    pub pods: &'a [Pod],
    /// The last answer to each eviction that was refused.
    pub refused: &'a BTreeMap<ObjectName, Refused>,
    /// When draining began, on the clock of `now`.
    pub since: Duration,
    /// Now, on any clock that does not go backwards.
    pub now: Duration,
    /// The last alarm that was told of this drain.
    pub told: Option<Alarm>,
}

/// That draining takes long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Alarm {
    /// Ten minutes.
    ThresholdExceeded,
    /// An hour. It is tried further, for as long as it takes.
    Failed,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Nothing: it is done.
    Rest,
    /// Cordon the node and mark that we did, in one write.
    Cordon,
    /// Lift our cordon and its mark, in one write.
    Uncordon,
    /// Ask for the eviction of these, each with its own grace period.
    Evict(Vec<ObjectName>),
    /// Look again when a pod goes, at the latest after this.
    Wait(Duration),
    /// Write down that the request is fulfilled.
    Fulfilled,
}

/// What is decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// What to do next.
    pub step: Step,
    /// What is waited for, all of it.
    pub blocking: Vec<Blocking>,
    /// An alarm to raise now.
    pub alarm: Option<Alarm>,
}

/// Time after which an eviction that was refused is tried again.
pub fn retry_after(draining: Duration) -> Duration {
    match draining.as_secs() {
        ..90 => Duration::from_secs(5),
        90..600 => Duration::from_secs(60),
        600.. => Duration::from_secs(300),
    }
}

/// Decides how a node's request is fulfilled.
///
/// # Guarantees
///
/// A drain is called fulfilled only when the node is cordoned and nothing that must go is left on it. Evictions ask the
/// server, so budgets are kept; what refuses is named for as long as it does, and is never given up.
pub fn decide(facts: &Facts) -> Decision {
    let still = |step| Decision { step, blocking: Vec::new(), alarm: None };
    let fulfilled = facts.fulfilled == Some(facts.request);
    match facts.request {
        Request::Uncordon(_) if facts.cordoned && facts.ours => still(Step::Uncordon),
        Request::Uncordon(_) if fulfilled => still(Step::Rest),
        Request::Uncordon(_) => still(Step::Fulfilled),
        Request::Drain(_) if !facts.cordoned => still(Step::Cordon),
        Request::Drain(_) => {
            let leaving: Vec<&Pod> = facts.pods.iter().filter(|pod| must_go(pod)).collect();
            match (leaving.is_empty(), fulfilled) {
                (true, true) => still(Step::Rest),
                (true, false) => still(Step::Fulfilled),
                (false, _) => evict(facts, &leaving),
            }
        }
    }
}

fn evict(facts: &Facts, pods: &[&Pod]) -> Decision {
    let draining = facts.now.saturating_sub(facts.since);
    let pause = retry_after(draining);
    let due = |pod: &Pod| match facts.refused.get(&pod.name) {
        _ if pod.leaving => None,
        None => Some(Duration::ZERO),
        Some(refused) => Some((refused.at + pause).saturating_sub(facts.now)),
    };
    let now: Vec<ObjectName> =
        pods.iter().filter(|pod| due(pod) == Some(Duration::ZERO)).map(|pod| pod.name.clone()).collect();
    let next = pods.iter().filter_map(|pod| due(pod)).min().unwrap_or(pause);
    let step = if now.is_empty() { Step::Wait(next) } else { Step::Evict(now) };
    let blocking = pods.iter().map(|pod| {
        let why = match facts.refused.get(&pod.name) {
            _ if pod.leaving => Obstacle::Leaving,
            Some(refused) => refused.why.clone(),
            None => Obstacle::Untried,
        };
        Blocking { pod: pod.name.clone(), why }
    });
    let reached = match draining.as_secs() {
        ..600 => None,
        600..3600 => Some(Alarm::ThresholdExceeded),
        3600.. => Some(Alarm::Failed),
    };
    Decision { step, blocking: blocking.collect(), alarm: reached.filter(|_| reached > facts.told) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pod: &str) -> ObjectName {
        ObjectName::new("shop", pod)
    }

    fn pod(pod: &str) -> Pod {
        Pod { name: name(pod), managed: Managed::Controller, finished: false, leaving: false }
    }

    fn drain() -> Request {
        Request::Drain("r".into())
    }

    fn uncordon() -> Request {
        Request::Uncordon("r".into())
    }

    struct Case {
        request: Request,
        fulfilled: Option<Request>,
        cordoned: bool,
        ours: bool,
        pods: Vec<Pod>,
        refused: BTreeMap<ObjectName, Refused>,
        minutes: u64,
        told: Option<Alarm>,
    }

    impl Case {
        fn new(request: Request, pods: Vec<Pod>) -> Case {
            let refused = BTreeMap::new();
            Case {
                request,
                fulfilled: None,
                cordoned: true,
                ours: true,
                pods,
                refused,
                minutes: 0,
                told: None,
            }
        }

        fn refusing(mut self, pod: &str, why: Obstacle, at: u64) -> Case {
            self.refused.insert(name(pod), Refused { at: Duration::from_secs(at), why });
            self
        }

        fn decide(&self) -> Decision {
            decide(&Facts {
                request: &self.request,
                fulfilled: self.fulfilled.as_ref(),
                cordoned: self.cordoned,
                ours: self.ours,
                pods: &self.pods,
                refused: &self.refused,
                since: Duration::ZERO,
                now: Duration::from_secs(self.minutes * 60),
                told: self.told,
            })
        }
    }

    #[test]
    fn a_node_is_cordoned_then_emptied_then_said_to_be() {
        let mut case = Case { cordoned: false, ours: false, ..Case::new(drain(), vec![pod("a")]) };
        assert_eq!(case.decide().step, Step::Cordon);
        (case.cordoned, case.ours) = (true, true);
        assert_eq!(case.decide().step, Step::Evict(vec![name("a")]));
        case.pods[0].leaving = true;
        assert_eq!(case.decide().step, Step::Wait(Duration::from_secs(5)));
        case.pods.clear();
        assert_eq!(case.decide().step, Step::Fulfilled);
        case.fulfilled = Some(drain());
        assert_eq!(case.decide().step, Step::Rest);
    }

    #[test]
    fn a_node_that_somebody_uncordons_meanwhile_is_cordoned_again_and_not_called_drained() {
        let case = Case { cordoned: false, ..Case::new(drain(), vec![]) };
        assert_eq!(case.decide().step, Step::Cordon);
        let late = Case { cordoned: false, fulfilled: Some(drain()), ..Case::new(drain(), vec![]) };
        assert_eq!(late.decide().step, Step::Cordon);
        let came_back = Case { fulfilled: Some(drain()), ..Case::new(drain(), vec![pod("a")]) };
        assert_eq!(came_back.decide().step, Step::Evict(vec![name("a")]));
    }

    #[test]
    fn our_own_cordon_is_lifted_and_nobody_elses() {
        assert_eq!(Case::new(uncordon(), vec![]).decide().step, Step::Uncordon);
        assert_eq!(Case { ours: false, ..Case::new(uncordon(), vec![]) }.decide().step, Step::Fulfilled);
        let open = Case { cordoned: false, ours: false, ..Case::new(uncordon(), vec![pod("a")]) };
        assert_eq!(open.decide().step, Step::Fulfilled);
        assert_eq!(Case { fulfilled: Some(uncordon()), ..open }.decide().step, Step::Rest);
    }

    #[test]
    fn what_would_come_right_back_stays_and_the_rest_goes() {
        for (managed, finished, goes, kept) in [
            (Managed::Controller, false, true, true),
            (Managed::Controller, true, true, false),
            (Managed::Nobody, false, true, true),
            (Managed::DaemonSet, false, false, false),
            (Managed::DaemonSet, true, true, false),
            (Managed::Node, false, false, false),
            (Managed::Node, true, false, false),
        ] {
            let pods = vec![Pod { managed, finished, ..pod("a") }];
            assert_eq!(may_be_kept(&pods[0]), kept, "{managed:?} {finished}");
            let step = Case::new(drain(), pods).decide().step;
            assert_eq!(step == Step::Evict(vec![name("a")]), goes, "{managed:?} {finished}");
        }
    }

    #[test]
    fn what_refuses_is_named_with_its_budget_for_as_long_as_it_does() {
        let budget = Obstacle::Budgets(vec!["shop/at-least-two".into()]);
        let case =
            Case::new(drain(), vec![pod("a"), Pod { leaving: true, ..pod("b") }]).refusing("a", budget, 0);
        let Decision { step, blocking, .. } = case.decide();
        assert_eq!(step, Step::Wait(Duration::from_secs(5)));
        let said: Vec<String> = blocking.iter().map(Blocking::to_string).collect();
        assert_eq!(
            said,
            [
                "pod shop/a: PodDisruptionBudget shop/at-least-two allows no disruption now",
                "pod shop/b is ending"
            ]
        );
    }

    #[test]
    fn a_refused_eviction_is_tried_again_ever_more_slowly_and_never_given_up() {
        let refuse = |minutes, at| {
            let case = Case::new(drain(), vec![pod("a")]).refusing("a", Obstacle::Other("no".into()), at);
            Case { minutes, ..case }.decide().step
        };
        assert_eq!(refuse(1, 55), Step::Evict(vec![name("a")]));
        assert_eq!(refuse(1, 57), Step::Wait(Duration::from_secs(2)));
        assert_eq!(refuse(5, 270), Step::Wait(Duration::from_secs(30)));
        assert_eq!(refuse(5, 240), Step::Evict(vec![name("a")]));
        assert_eq!(refuse(20, 1000), Step::Wait(Duration::from_secs(100)));
        assert_eq!(refuse(60 * 24, 0), Step::Evict(vec![name("a")]));
    }

    #[test]
    fn a_long_drain_raises_each_alarm_once() {
        let alarm =
            |minutes, told| Case { minutes, told, ..Case::new(drain(), vec![pod("a")]) }.decide().alarm;
        assert_eq!(alarm(9, None), None);
        assert_eq!(alarm(10, None), Some(Alarm::ThresholdExceeded));
        assert_eq!(alarm(11, Some(Alarm::ThresholdExceeded)), None);
        assert_eq!(alarm(60, Some(Alarm::ThresholdExceeded)), Some(Alarm::Failed));
        assert_eq!(alarm(600, Some(Alarm::Failed)), None);
    }
}
