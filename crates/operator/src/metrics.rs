//! What is counted and measured, in the text form that scrapers read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use netferry_core::mtu::check::Refusal;
use netferry_core::mtu::plan::{Decision, NodeFacts};
use netferry_core::mtu::record::{Change, Record};
use netferry_core::mtu::status::Phase;
use netferry_core::name::NodeName;
use netferry_core::rollout::progress::Progress;
use netferry_core::rollout::status::PoolStatus;
use netferry_core::size::Envelope;

/// What the operator measures. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    leading: bool,
    rounds: u64,
    failed: u64,
    mtu: Option<Mtu>,
    /// How often each reason refused what was asked, counted when it begins to.
    refusals: BTreeMap<&'static str, u64>,
    /// What is refused now, so that asking again every few seconds is not counted as asking again.
    refused: Vec<String>,
    pools: BTreeMap<String, Pool>,
    blocked: BTreeMap<NodeName, String>,
}

#[derive(Debug)]
struct Mtu {
    phase: Phase,
    epoch: u64,
    published: u32,
    since: Option<Timestamp>,
    runs: BTreeMap<&'static str, usize>,
}

#[derive(Debug, Default)]
struct Pool {
    counts: [(&'static str, usize); 5],
    progress: BTreeMap<String, usize>,
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
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that this process leads, until the guard is dropped.
    pub(crate) fn while_leading(&self) -> impl Drop + use<> {
        self.leading(true);
        Leading(self.clone())
    }

    pub(crate) fn leading(&self, leading: bool) {
        let mut inner = self.inner();
        inner.leading = leading;
        if !leading {
            // Whoever leads now knows better.
            (inner.mtu, inner.pools, inner.blocked) = Default::default();
        }
    }

    pub(crate) fn round(&self) {
        self.inner().rounds += 1;
    }

    pub(crate) fn failed(&self) {
        self.inner().failed += 1;
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

    /// `since`, the record has been as it is.
    pub(crate) fn mtu(
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
        let since = match &inner.mtu {
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
        inner.mtu = Some(Mtu { phase: decision.phase, epoch: record.epoch, published, since, runs });
    }

    pub(crate) fn pool(&self, name: &str, status: &PoolStatus, nodes: impl Iterator<Item = Progress>) {
        let mut progress = BTreeMap::new();
        for one in nodes {
            *progress.entry(one.to_string()).or_default() += 1;
        }
        let counts = [
            ("total", status.machines),
            ("updated", status.updated),
            ("ready", status.ready),
            ("unavailable", status.unavailable),
            ("degraded", status.degraded),
        ];
        self.inner().pools.insert(name.to_owned(), Pool { counts, progress });
    }

    pub(crate) fn forget_pools<'a>(&self, kept: impl Iterator<Item = &'a str>) {
        let kept: Vec<&str> = kept.collect();
        self.inner().pools.retain(|name, _| kept.contains(&name.as_str()));
    }

    pub(crate) fn drains(&self, blocking: &BTreeMap<NodeName, String>) {
        self.inner().blocked.clone_from(blocking);
    }

    /// Everything, at this moment.
    pub fn text(&self, now: Timestamp) -> String {
        let inner = self.inner();
        let mut page = Page::default();
        page.head("netferry_operator_leading", "gauge", "Whether this process acts; others wait.");
        page.line("netferry_operator_leading", &[], u64::from(inner.leading));
        page.head("netferry_operator_passes_total", "counter", "Passes over the cluster.");
        page.line("netferry_operator_passes_total", &[], inner.rounds);
        page.head(
            "netferry_operator_failed_passes_total",
            "counter",
            "Passes that failed and are made again.",
        );
        page.line("netferry_operator_failed_passes_total", &[], inner.failed);
        if let Some(mtu) = &inner.mtu {
            page.head("netferry_mtu_phase", "gauge", "1 for the phase a change of MTU is in.");
            for phase in PHASES {
                page.line("netferry_mtu_phase", &[("phase", phase.name())], u64::from(phase == mtu.phase));
            }
            page.head(
                "netferry_mtu_epoch",
                "counter",
                "Which rendering of the cluster's sizes nodes are told.",
            );
            page.line("netferry_mtu_epoch", &[], mtu.epoch);
            page.head("netferry_mtu_published_bytes", "gauge", "The pods' MTU that is published.");
            page.line("netferry_mtu_published_bytes", &[], u64::from(mtu.published));
            page.head("netferry_mtu_nodes", "gauge", "Nodes by what their pods are observed to run at.");
            for (runs, count) in &mtu.runs {
                page.line("netferry_mtu_nodes", &[("runs", runs)], *count as u64);
            }
            if let Some(since) = mtu.since {
                let seconds = now.as_second().saturating_sub(since.as_second());
                page.head(
                    "netferry_mtu_phase_seconds",
                    "gauge",
                    "How long a change has been in its phase; where the operator is new, how long it has been at most.",
                );
                page.line("netferry_mtu_phase_seconds", &[], u64::try_from(seconds).unwrap_or(0));
            }
        }
        page.head("netferry_mtu_refusals_total", "counter", "Changes of MTU that were refused, by reason.");
        for (reason, count) in &inner.refusals {
            page.line("netferry_mtu_refusals_total", &[("reason", reason)], *count);
        }
        page.head("netferry_pool_machines", "gauge", "Nodes of a pool, counted as its status counts them.");
        for (name, pool) in &inner.pools {
            for (count, number) in pool.counts {
                page.line("netferry_pool_machines", &[("pool", name), ("count", count)], number as u64);
            }
        }
        page.head("netferry_pool_progress", "gauge", "Nodes of a pool by where they are on their way.");
        for (name, pool) in &inner.pools {
            for (progress, number) in &pool.progress {
                page.line(
                    "netferry_pool_progress",
                    &[("pool", name), ("progress", progress)],
                    *number as u64,
                );
            }
        }
        page.head("netferry_drain_blocked", "gauge", "1 for a node whose pods cannot be moved away now.");
        for node in inner.blocked.keys() {
            page.line("netferry_drain_blocked", &[("node", node.as_str())], 1);
        }
        page.0
    }
}

struct Leading(Metrics);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.leading(false);
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

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", quoted(value))).collect();
        let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{braces} {value}");
    }
}

#[cfg(test)]
mod tests;
