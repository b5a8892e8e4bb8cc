//! Where a change goes next.

use std::collections::BTreeMap;

use super::check::{self, Asked, Cluster, Fleet, Hosts, Refusal, Wanted};
use super::equipment::Equipped;
use super::probe::judge::{Probes, Trouble};
use super::record::{Change, Record, Rendering, Stage};
use super::status::{Condition, Event, Phase};
use crate::name::NodeName;
use crate::size::{Envelope, Mtu};

/// What is known of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeFacts {
    /// The epoch of the configuration the node says it is done with; nothing while it is on its way to another, or
    /// when the one it was last told is not the one its pool is told now.
    ///
    /// What a node runs is not enough to know: its disk may already hold what it will boot into next.
    pub done: Option<u64>,
    /// What it reports to run.
    pub observed: Option<Observed>,
    /// Whether no pool claims it, or several do: nobody tells it anything.
    pub unclaimed: bool,
}

/// What a node reports to run, read from its kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Observed {
    /// The rendering it runs by.
    pub epoch: u64,
    /// Of pods; nothing on a node that serves none yet.
    pub network: Option<Envelope>,
    /// Of the uplink: what it carries, and the most that any of its routes lets out.
    pub host: Envelope,
}

/// What to do when probes say that something is lost. Where nothing is said, a change the underlay cannot carry is turned
/// around, because there is nothing to wait for; other losses stop it until somebody decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OnLoss {
    /// Stop taking further nodes and say so.
    Pause,
    /// Turn around.
    Reverse,
}

/// How far a change goes by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mode {
    /// The second edit, too, is made without asking.
    pub unattended: bool,
    /// See [`OnLoss`].
    pub on_loss: Option<OnLoss>,
    /// No further node is taken and no phase begun until this is taken back.
    pub paused: bool,
}

impl Mode {
    /// Whether it says something that is meant for one change. What is paused stays paused until somebody resumes it.
    fn is_of_one_change(self) -> bool {
        self.unattended || self.on_loss.is_some()
    }
}

/// Everything a decision is made from, beside the record.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The plugin and the families.
    pub cluster: Cluster,
    /// What the operator's `Network` says now.
    pub asked: Asked,
    /// See [`Mode`].
    pub mode: Mode,
    /// Every node of the cluster, also those that are away. Read after the record.
    pub nodes: &'a BTreeMap<NodeName, NodeFacts>,
    /// See [`Equipped`].
    pub equipped: &'a Equipped,
    /// See [`Probes`].
    pub probes: &'a Probes,
}

impl Facts<'_> {
    /// Whether the second edit is made without asking. What is asked and refused is people's to mend: nothing is written
    /// over it.
    pub(super) fn finishes_alone(&self, refusals: &[Refusal]) -> bool {
        self.mode.unattended && refusals.is_empty()
    }
}

/// An edit of the operator's `Network` that is made for the administrator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SpecEdit {
    /// `mtu` becomes this and `migration.mtu` goes: the second step.
    Finish(Mtu),
    /// `migration.mtu` becomes this.
    Migrate {
        /// `network.from`
        from: Mtu,
        /// `network.to`
        to: Mtu,
        /// `machine.from`, where hosts do not say it with one voice; else nothing stands there.
        machine_from: Option<Mtu>,
        /// `machine.to`
        machine_to: Mtu,
    },
}

/// Whether further nodes may be taken.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rollout {
    /// They may.
    Go,
    /// Somebody said no.
    Paused,
    /// Probes say that something is lost.
    Losing(Vec<Trouble>),
}

/// What is decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// What to store, if it differs, on the condition that nobody stored something else meanwhile. Everything else
    /// is done only after that succeeded.
    pub record: Record,
    /// What to edit.
    pub edit: Option<SpecEdit>,
    /// Whether to take away what the administrator said of how far this change goes by itself ([`Mode`]), if the
    /// `Network` still is as it was read. The change ends only after that.
    pub forget: bool,
    /// Whether further nodes may be taken.
    pub rollout: Rollout,
    /// Why what is asked is not done; what was under way goes on.
    pub refusals: Vec<Refusal>,
    /// Nodes that are not where they are told to be, and why.
    pub missing: Vec<Missing>,
    /// In one word.
    pub phase: Phase,
    /// For people.
    pub conditions: Vec<Condition>,
    /// What is worth telling once.
    pub events: Vec<Event>,
}

/// A node that is not where it is told to be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
#[error("{node} ({why})")]
pub struct Missing {
    /// Which.
    pub node: NodeName,
    /// Why.
    pub why: Why,
}

/// Why a node is not where it is told to be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Why {
    /// No pool claims it, or several do, so nobody tells it.
    #[error("is in no pool")]
    NoPool,
    /// It has not said what it runs.
    #[error("has not reported what it runs")]
    Silent,
    /// It is on its way, or has not begun.
    #[error("has not taken its configuration")]
    NotDone,
    /// It says it is done, but what it reports is older.
    #[error("reports an older configuration")]
    Behind,
    /// It serves no pods yet.
    #[error("serves no pods yet")]
    NoPods,
    /// Its pods run at something else.
    #[error("runs pods at {0}")]
    Pods(Envelope),
    /// Its uplink runs at something else.
    #[error("runs its uplink at {0}")]
    Host(Envelope),
}

/// Decides where a change goes next: from what is asked, what is applied and what nodes report.
///
/// The heart of it is one size that every node holds: the old one until every node is known to hold both, the new one
/// from then on. A node is known to hold what it was told when it is done with that very rendering, by its disk and by
/// its own report; a node that is away, silent or on its way is waited for.
///
/// # Guarantees
///
/// Whatever edits come in whatever order, and whatever nodes do: if all nodes hold the record's anchor
/// ([`Record::anchor`]) before a decision, nothing that is rendered after it takes a node off it. A refused edit
/// changes nothing. A record that differs is always one step from the last.
///
/// Pure: the same facts give the same decision, so a restarted operator picks up where the last one died.
pub fn decide(record: &Record, facts: &Facts) -> Decision {
    let hosts = hosts(facts.nodes);
    let fleet = Fleet { hosts: &hosts, equipped: facts.equipped };
    let (wanted, refusals) = match check::read(&facts.cluster, record, fleet, &facts.asked) {
        Ok(wanted) => (wanted, Vec::new()),
        // Phase two was asked for by an edit that was accepted. A change that was taken back ends by one that is yet to come.
        Err(refusals) => {
            let returning = record.change.is_some_and(|change| change.stage == Stage::Returning);
            (Wanted { change: record.change, may_end: !returning }, refusals)
        }
    };
    let rendering = record.rendering();
    let missing = missing(&rendering, facts.nodes);
    // An API that answers with no nodes is not a cluster in which every node arrived.
    let arrived = missing.is_empty() && !facts.nodes.is_empty();
    let edited = record.with(wanted.change);
    let (next, edit) = if edited != *record || facts.mode.paused {
        (edited, None)
    } else {
        advance(record, facts, arrived, wanted.may_end, &refusals)
    };
    // Said of this change, it must not be taken for said of the next. While the change is there whoever leads next knows
    // whose it was; once another one is asked for, nobody does.
    let ends = record.change.is_some() && next.change.is_none();
    let forget = ends && facts.asked.migration.is_none() && facts.mode.is_of_one_change();
    let next = if forget { *record } else { next };
    let rollout = rollout(record, facts);
    let phase = Phase::of(&next, arrived && next == *record);
    let conditions = super::status::conditions(&next, phase, &rollout, &refusals, &missing, facts);
    let events = super::status::events(record, &next);
    Decision { record: next, edit, forget, rollout, refusals, missing, phase, conditions, events }
}

fn advance(
    record: &Record,
    facts: &Facts,
    arrived: bool,
    may_end: bool,
    refusals: &[Refusal],
) -> (Record, Option<SpecEdit>) {
    let finish_alone = facts.finishes_alone(refusals);
    let stay = (*record, None);
    let Some(change) = record.change else { return stay };
    let Change { network, stage, back, .. } = change;
    // On the way back there is nothing better to do than to arrive.
    let (failed, losing) = (!facts.probes.failed.is_empty(), !facts.probes.losing.is_empty());
    let trouble = !back && (failed || losing);
    let turn = match facts.mode.on_loss {
        None => failed,
        Some(OnLoss::Pause) => false,
        Some(OnLoss::Reverse) => true,
    };
    if trouble && turn {
        // Also over what is asked and refused: nobody may be there to mend it.
        return match undo(&change) {
            Some(edit) => (*record, Some(edit)),
            None => finished(record, arrived, may_end, finish_alone),
        };
    }
    match stage {
        Stage::Spreading { .. } if !arrived || trouble || !facts.probes.untried.is_empty() => stay,
        Stage::Spreading { finish: true } => {
            (record.with(Some(Change { stage: Stage::Settling, ..change })), None)
        }
        Stage::Spreading { finish: false } => (*record, finish_alone.then_some(SpecEdit::Finish(network.to))),
        Stage::Settling | Stage::Returning => finished(record, arrived, may_end, finish_alone),
    }
}

/// The edit that takes a change back: a cancellation in phase one, the opposite change in phase two. Nothing for one that
/// is cancelled already.
pub fn undo(change: &Change) -> Option<SpecEdit> {
    let Change { network, host, stage, .. } = change;
    let from = match stage {
        Stage::Spreading { .. } => network.from,
        Stage::Settling => network.to,
        Stage::Returning => return None,
    };
    // What the hosts come from is known by now; what somebody said of it is not repeated.
    Some(SpecEdit::Migrate { from, to: network.from, machine_from: None, machine_to: host.from })
}

fn finished(record: &Record, arrived: bool, may_end: bool, finish_alone: bool) -> (Record, Option<SpecEdit>) {
    match (arrived, may_end) {
        (true, true) => (record.ended(), None),
        (true, false) if finish_alone => (*record, Some(SpecEdit::Finish(record.ended().mtu))),
        (true | false, _) => (*record, None),
    }
}

fn rollout(record: &Record, facts: &Facts) -> Rollout {
    // Other configurations roll out as ever while there is nothing of ours to hold.
    let Some(Change { stage, back, .. }) = record.change else { return Rollout::Go };
    let back = back || stage == Stage::Returning;
    let mut lost: Vec<Trouble> = facts.probes.losing.iter().chain(&facts.probes.failed).cloned().collect();
    lost.sort();
    lost.dedup();
    if facts.mode.paused {
        Rollout::Paused
    } else if !back && !lost.is_empty() {
        Rollout::Losing(lost)
    } else {
        Rollout::Go
    }
}

/// What the hosts' uplinks run at.
pub fn hosts(nodes: &BTreeMap<NodeName, NodeFacts>) -> Hosts {
    let carries = |node: &NodeFacts| node.observed.map(|observed| observed.host.carries());
    nodes.iter().map(|(name, node)| (name.clone(), carries(node))).collect()
}

/// The nodes that are not where they are told to be.
pub fn missing(told: &Rendering, nodes: &BTreeMap<NodeName, NodeFacts>) -> Vec<Missing> {
    let why = |node: &NodeFacts| {
        if node.unclaimed {
            return Some(Why::NoPool);
        }
        let Some(observed) = node.observed else { return Some(Why::Silent) };
        if node.done != Some(told.epoch) {
            return Some(Why::NotDone);
        }
        if observed.epoch != told.epoch {
            return Some(Why::Behind);
        }
        match observed.network {
            None => return Some(Why::NoPods),
            Some(runs) if runs != told.network => return Some(Why::Pods(runs)),
            Some(_) => {}
        }
        // A route of somebody's own may let out less than we ask; never may one let out more.
        let runs = |wanted: Envelope| {
            observed.host.carries() == wanted.carries() && observed.host.sends() <= wanted.sends()
        };
        let fits = told.host.run().is_none_or(runs);
        (!fits).then_some(Why::Host(observed.host))
    };
    let found = nodes.iter().filter_map(|(name, node)| Some(Missing { node: name.clone(), why: why(node)? }));
    found.collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
