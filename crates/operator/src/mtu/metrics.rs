//! A change of MTU, measured.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use netferry_core::mtu::check::Refusal;
use netferry_core::mtu::plan::{Decision, NodeFacts};
use netferry_core::mtu::record::{Change, Record};
use netferry_core::mtu::status::Phase;
use netferry_core::name::NodeName;
use netferry_core::size::Envelope;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::metrics::{Series, Shared};

/// What the MTU's part of the pass measures.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    inner: Shared<Inner>,
    clock: fn() -> Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    state: Option<State>,
    /// How often each reason refused what was asked, counted when it begins to.
    refusals: BTreeMap<&'static str, u64>,
    /// What is refused now, so that a refusal is counted once for as long as it lasts.
    refused: Vec<String>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    epoch: u64,
    published: u32,
    since: Option<Timestamp>,
    runs: BTreeMap<&'static str, usize>,
}

const PHASES: [Phase; 7] = [
    Phase::Idle,
    Phase::One,
    Phase::AwaitingFinish,
    Phase::Held,
    Phase::Two,
    Phase::Returning,
    Phase::AwaitingRemoval,
];

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Metrics {
        Metrics::register_with(registry, Timestamp::now)
    }

    fn register_with(registry: &mut Registry, clock: fn() -> Timestamp) -> Metrics {
        let metrics = Metrics { inner: Arc::new(Mutex::default()), clock };
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the cluster; refusals stay counted.
    pub(crate) fn forget(&self) {
        self.inner().state = None;
    }

    pub(crate) fn refused(&self, refusals: &[Refusal]) {
        let mut inner = self.inner();
        let now: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        if inner.refused != now {
            for refusal in refusals {
                *inner.refusals.entry(refusal.reason()).or_default() += 1;
            }
            inner.refused = now;
        }
    }

    /// Takes down a decision. The record has been as it is since `since`.
    pub(crate) fn decided(
        &self,
        record: &Record,
        decision: &Decision,
        nodes: &BTreeMap<NodeName, NodeFacts>,
        since: Option<Timestamp>,
        now: Timestamp,
    ) {
        self.refused(&decision.refusals);
        let mut inner = self.inner();
        // A phase that nodes end by arriving ends without a new record.
        let since = match &inner.state {
            Some(before) if before.phase == decision.phase => since.max(before.since),
            Some(_) => since.map(|_| now),
            None => since,
        };
        let mut runs = BTreeMap::from([("old", 0), ("both", 0), ("new", 0), ("other", 0), ("unknown", 0)]);
        for node in nodes.values() {
            let network = node.observed.and_then(|observed| observed.network);
            *runs.entry(place(record.change.as_ref(), record, network)).or_default() += 1;
        }
        let published = record.published().bytes();
        inner.state = Some(State { phase: decision.phase, epoch: record.epoch, published, since, runs });
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let inner = self.inner();
        let mut out = Series(&mut encoder);
        if let Some(state) = &inner.state {
            let phase =
                |phase: Phase| ([("phase", phase.name().to_owned())], u64::from(phase == state.phase));
            let help = "1 for the phase a change of MTU is in";
            out.gauge("netferry_mtu_phase", help, PHASES.map(phase))?;
            let help = "Which rendering of the cluster's sizes nodes are assigned";
            out.gauge("netferry_mtu_epoch", help, [([], state.epoch)])?;
            let help = "The pods' MTU that is published";
            out.gauge("netferry_mtu_published_bytes", help, [([], u64::from(state.published))])?;
            let runs = |(runs, count): (&&str, &usize)| ([("runs", (*runs).to_owned())], *count as u64);
            let help = "Nodes by what their pods are observed to run at";
            out.gauge("netferry_mtu_nodes", help, state.runs.iter().map(runs))?;
            let seconds = |since: Timestamp| (self.clock)().as_second().saturating_sub(since.as_second());
            let lasted = state.since.map(|since| ([], u64::try_from(seconds(since)).unwrap_or(0)));
            let help = "How long a change has been in its phase; where the operator is new, how long it has been at most";
            out.gauge("netferry_mtu_phase_seconds", help, lasted)?;
        }
        let refusal = |(reason, count): (&&str, &u64)| ([("reason", (*reason).to_owned())], *count);
        let help = "Changes of MTU that were refused, by reason";
        out.counter("netferry_mtu_refusals", help, inner.refusals.iter().map(refusal))
    }
}

fn place(change: Option<&Change>, record: &Record, network: Option<Envelope>) -> &'static str {
    let (from, to) = match change {
        Some(change) => (change.network.from, change.network.to),
        None => (record.mtu, record.mtu),
    };
    match network {
        None => "unknown",
        Some(runs) if runs == Envelope::settled(to) => "new",
        Some(runs) if runs == Envelope::settled(from) => "old",
        Some(runs) if runs == Envelope::spanning(from, to) => "both",
        Some(_) => "other",
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
