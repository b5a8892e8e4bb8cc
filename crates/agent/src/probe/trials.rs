//! Trials that are under way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use netferry_core::name::NodeName;
use netferry_core::probe::Way;
use netferry_core::probe::ledger::Answers;
use netferry_core::size::Mtu;
use tokio::time::Instant;

use super::line::{Lines, NotSent};

/// A trial that is under way.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) to: NodeName,
    pub(super) way: Way,
    pub(super) size: Mtu,
    address: IpAddr,
    since: Instant,
    answers: Answers,
}

/// All of them. The small question of a trial has an even number, the large one the odd number after it.
#[derive(Debug)]
pub(super) struct Trials {
    next: u64,
    open: BTreeMap<u64, Trial>,
}

impl Default for Trials {
    fn default() -> Trials {
        // Answers to who was here before are none to us.
        let next = uuid::Uuid::new_v4().as_u64_pair().0 & !1;
        Trials { next, open: BTreeMap::new() }
    }
}

impl Trials {
    /// Begins one: asks two questions, unless they cannot be asked from here at all.
    pub(super) fn begin(
        &mut self,
        lines: &Lines,
        to: &NodeName,
        way: Way,
        address: IpAddr,
        size: Mtu,
        now: Instant,
    ) {
        let number = self.next;
        self.next = self.next.wrapping_add(2);
        let small = lines.ask(way, address, number, way.floor());
        let large = lines.ask(way, address, number | 1, size);
        // What did not get out of this node says nothing of the way.
        if matches!((small, large), (Err(NotSent::Here), _) | (_, Err(NotSent::Here))) {
            return;
        }
        let answers = Answers::default();
        self.open.insert(number, Trial { to: to.clone(), way, size, address, since: now, answers });
    }

    /// An answer came.
    pub(super) fn answered(&mut self, number: u64, from: IpAddr) {
        let trial = self.open.get_mut(&(number & !1)).filter(|trial| trial.address == from);
        if let Some(trial) = trial {
            match number & 1 {
                0 => trial.answers.small = true,
                _ => trial.answers.large = true,
            }
        }
    }

    /// Whether one with this node is under way.
    pub(super) fn with(&self, node: &NodeName) -> bool {
        self.open.values().any(|trial| trial.to == *node)
    }

    /// Takes out those that are answered, and those nobody answers any more.
    pub(super) fn ended(&mut self, now: Instant, patience: Duration) -> Vec<(Trial, Answers)> {
        let over = |_: &u64, trial: &mut Trial| {
            (trial.answers.small && trial.answers.large) || now - trial.since >= patience
        };
        self.open.extract_if(.., over).map(|(_, trial)| (trial.clone(), trial.answers)).collect()
    }
}
