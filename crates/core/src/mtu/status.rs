//! How a change is told to people.

use std::fmt;

use super::check::Refusal;
use super::plan::{Facts, Missing, Rollout};
use super::probe::judge::Trouble;
use super::record::{Change, Record, Stage};
use crate::size::Mtu;

/// Where a change is, in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// There is none.
    Idle,
    /// Nodes learn to carry the larger size while sending the smaller.
    One,
    /// Every node does; the second edit is awaited.
    AwaitingFinish,
    /// The second edit was made before every node was seen in phase one; it waits for them.
    Held,
    /// Nodes settle at the new size.
    Two,
    /// Nodes settle at the old size.
    Returning,
    /// Every node settled, and `spec.migration` still asks.
    AwaitingRemoval,
}

impl Phase {
    /// The phase of a record; `arrived`, every node is where it is told to be.
    pub fn of(record: &Record, arrived: bool) -> Phase {
        match (record.change.map(|change| change.stage), arrived) {
            (None, _) => Phase::Idle,
            (Some(Stage::Spreading { finish: false }), false) => Phase::One,
            (Some(Stage::Spreading { finish: false }), true) => Phase::AwaitingFinish,
            (Some(Stage::Spreading { finish: true }), _) => Phase::Held,
            (Some(Stage::Settling), _) => Phase::Two,
            (Some(Stage::Returning), false) => Phase::Returning,
            (Some(Stage::Returning), true) => Phase::AwaitingRemoval,
        }
    }

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "Idle",
            Phase::One => "PhaseOne",
            Phase::AwaitingFinish => "AwaitingFinish",
            Phase::Held => "Held",
            Phase::Two => "PhaseTwo",
            Phase::Returning => "Returning",
            Phase::AwaitingRemoval => "AwaitingRemoval",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which condition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConditionKind {
    /// A change is under way.
    InProgress,
    /// It does not go on by itself, and the message says what it waits for.
    Held,
    /// What is asked is refused.
    Refused,
}

/// One condition, without the times that only its writer knows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Condition {
    /// Which.
    pub kind: ConditionKind,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
}

/// What is worth telling once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// A change began, or aims elsewhere.
    Started(Change),
    /// The second edit was accepted; it takes effect when every node was seen in phase one.
    FinishAsked,
    /// The second edit was taken back.
    FinishTakenBack,
    /// Every node was seen in phase one; phase two began.
    PhaseTwo,
    /// Cancelled in phase one.
    Cancelled,
    /// Turned around in phase two.
    Reversed,
    /// Every node settled at this size.
    Ended(Mtu),
}

impl Event {
    /// The event in one word.
    pub fn reason(self) -> &'static str {
        match self {
            Event::Started(_) => "MTUChangeStarted",
            Event::FinishAsked => "MTUChangeFinishAsked",
            Event::FinishTakenBack => "MTUChangeFinishTakenBack",
            Event::PhaseTwo => "MTUChangePhaseTwo",
            Event::Cancelled => "MTUChangeCancelled",
            Event::Reversed => "MTUChangeReversed",
            Event::Ended(_) => "MTUChangeEnded",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Started(Change { network, host, .. }) => write!(
                f,
                "the MTU of pods changes from {} to {}, that of hosts from {} to {}",
                network.from, network.to, host.from, host.to
            ),
            Event::FinishAsked => f.write_str("phase two begins when every node was seen in phase one"),
            Event::FinishTakenBack => f.write_str("phase two is no longer asked for"),
            Event::PhaseTwo => f.write_str("every node was seen in phase one; phase two begins"),
            Event::Cancelled => f.write_str("cancelled; every node goes back to the old MTU"),
            Event::Reversed => f.write_str("turned around; every node goes back through phase one"),
            Event::Ended(mtu) => write!(f, "every node is settled; the MTU of pods is {mtu}"),
        }
    }
}

/// What happened between two records.
pub fn events(old: &Record, new: &Record) -> Vec<Event> {
    let ends = |change: &Change| (change.network, change.host);
    let event = match (old.change, new.change) {
        (None, None) => None,
        (None, Some(started)) => Some(Event::Started(started)),
        (Some(_), None) => Some(Event::Ended(new.mtu)),
        (Some(was), Some(is)) => match (was.stage, is.stage) {
            (Stage::Spreading { .. } | Stage::Returning, Stage::Spreading { .. })
                if ends(&was) != ends(&is) =>
            {
                Some(Event::Started(is))
            }
            (Stage::Spreading { finish: false }, Stage::Spreading { finish: true }) => {
                Some(Event::FinishAsked)
            }
            (Stage::Spreading { finish: true }, Stage::Spreading { finish: false }) => {
                Some(Event::FinishTakenBack)
            }
            (Stage::Spreading { .. }, Stage::Settling) => Some(Event::PhaseTwo),
            (Stage::Spreading { .. }, Stage::Returning) => Some(Event::Cancelled),
            (Stage::Settling, Stage::Spreading { .. }) => Some(Event::Reversed),
            (Stage::Returning, Stage::Spreading { .. }) => Some(Event::Started(is)),
            (Stage::Spreading { .. }, Stage::Spreading { .. })
            | (Stage::Settling, Stage::Settling | Stage::Returning)
            | (Stage::Returning, Stage::Returning | Stage::Settling) => None,
        },
    };
    event.into_iter().collect()
}

pub(super) fn conditions(
    record: &Record,
    phase: Phase,
    rollout: &Rollout,
    refusals: &[Refusal],
    missing: &[Missing],
    facts: &Facts,
) -> Vec<Condition> {
    let total = facts.nodes.len();
    let there = total - missing.len();
    let message = match record.change {
        None => format!("no change is under way; the MTU of pods is {}", record.mtu),
        Some(change) => {
            let told = record.rendering();
            format!("{}: {there} of {total} nodes run pods at {}", summary(&change), told.network)
        }
    };
    let under_way = record.change.is_some();
    let in_progress = Condition {
        kind: ConditionKind::InProgress,
        holds: under_way,
        reason: phase.name(),
        message: message + &waiting_for(missing, under_way) + &turned_by(record, facts),
    };
    let alone = facts.finishes_alone(refusals);
    vec![in_progress, held(record, phase, rollout, missing, facts, alone), refused(refusals)]
}

/// Whether what is asked is refused, and why.
pub fn refused(refusals: &[Refusal]) -> Condition {
    let kind = ConditionKind::Refused;
    match refusals.first() {
        None => Condition {
            kind,
            holds: false,
            reason: "AsExpected",
            message: "what is asked of the MTU is accepted".into(),
        },
        Some(first) => Condition {
            kind,
            holds: true,
            reason: first.reason(),
            message: refusals.iter().map(Refusal::to_string).collect::<Vec<_>>().join("; "),
        },
    }
}

fn summary(change: &Change) -> String {
    let (from, to) = (change.network.from, change.network.to);
    match change.stage {
        Stage::Spreading { .. } => format!("phase one of {from} to {to}"),
        Stage::Settling => format!("phase two of {from} to {to}"),
        Stage::Returning => format!("back to {from}"),
    }
}

fn waiting_for(missing: &[Missing], under_way: bool) -> String {
    if !under_way || missing.is_empty() {
        return String::new();
    }
    // A condition is read by people; the rest is in the nodes' own status.
    const MOST: usize = 10;
    let named: Vec<String> = missing.iter().take(MOST).map(Missing::to_string).collect();
    let more = missing.len().saturating_sub(MOST);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; waiting for {}{rest}", named.join(", "))
}

/// What a change on its way back was turned around by, for as long as nodes say so.
fn turned_by(record: &Record, facts: &Facts) -> String {
    let back = record.change.is_some_and(|change| change.back || change.stage == Stage::Returning);
    match facts.probes.failed.as_slice() {
        [] => String::new(),
        failed if back => format!("; {}", lost(failed)),
        _ => String::new(),
    }
}

/// `alone`, the second edit is made without asking.
fn held(
    record: &Record,
    phase: Phase,
    rollout: &Rollout,
    missing: &[Missing],
    facts: &Facts,
    alone: bool,
) -> Condition {
    let no = |message: &str| (false, "AsExpected", message.to_owned());
    let untried = &facts.probes.untried;
    let (holds, reason, message) = match (rollout, phase) {
        (Rollout::Paused, _) => {
            (true, "Paused", "paused: no further node is taken until it is resumed".into())
        }
        (Rollout::Losing(troubles), _) => {
            (true, "PacketsLost", format!("{}; no further node is taken", lost(troubles)))
        }
        (Rollout::Go, Phase::Idle) if facts.mode.paused => {
            no("no change is under way; one that begins takes no node until it is resumed")
        }
        (Rollout::Go, Phase::Idle) => no("no change is under way"),
        (Rollout::Go, Phase::Held) if !missing.is_empty() => {
            let which = waiting_for(missing, true);
            (
                true,
                "NodesMissing",
                format!("phase two was asked for before every node was seen in phase one{which}"),
            )
        }
        (Rollout::Go, Phase::Held | Phase::AwaitingFinish) if !untried.is_empty() => {
            let names: Vec<String> = untried.iter().map(ToString::to_string).collect();
            (true, "NotProbed", format!("the new size was not tried yet on {}", names.join(", ")))
        }
        (Rollout::Go, Phase::AwaitingFinish) if !alone => {
            let to = record.published();
            (
                true,
                "AwaitingFinish",
                format!(
                    "every node is ready for phase two; remove spec.migration and set mtu to {to}, \
                     or turn back with network.to equal to network.from"
                ),
            )
        }
        (Rollout::Go, Phase::AwaitingRemoval) if !alone => {
            let at = record.published();
            (true, "AwaitingRemoval", format!("every node is back at {at}; remove spec.migration"))
        }
        (
            Rollout::Go,
            Phase::One
            | Phase::AwaitingFinish
            | Phase::Held
            | Phase::Two
            | Phase::Returning
            | Phase::AwaitingRemoval,
        ) => no("goes on by itself"),
    };
    Condition { kind: ConditionKind::Held, holds, reason, message }
}

/// Ways on which packets are lost, in a sentence.
pub fn lost(troubles: &[Trouble]) -> String {
    const MOST: usize = 10;
    let named: Vec<String> = troubles.iter().take(MOST).map(ToString::to_string).collect();
    let more = troubles.len().saturating_sub(MOST);
    let rest = if more > 0 { format!(" and on {more} more ways") } else { String::new() };
    format!("packets are lost {}{rest}", named.join(", "))
}
