//! The table with real packets.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::cell::{Cell, PodId, cells};
use super::scenario::{Scenario, ScenarioError, Step, World};
use crate::meter::Place;
use crate::programs::probe::{self, Probe};

/// How long a question may stay unanswered before it counts as denied. A cell that should be open and is not is asked
/// again, so this bounds the time of a table and not what is true.
pub(super) const DENIED_AFTER: Duration = Duration::from_millis(800);

/// What went wrong while a scenario ran.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The API said no.
    #[error("{attempt}")]
    Api {
        /// What was tried.
        attempt: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The scenario itself.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A namespace of a pod.
    #[error("probing from {pod}")]
    Enter {
        /// Which pod.
        pod: PodId,
        /// Why not.
        #[source]
        source: Box<netferry_kernel::Error>,
    },
    /// The table is not what it should be.
    #[error("{title:?}, step {step}: {} of {cells} cells are wrong after {} s:\n{table}\n{}", .wrong.len(), .within.as_secs(), list(.wrong))]
    Wrong {
        /// Which scenario.
        title: String,
        /// Which of its steps, from 1.
        step: usize,
        /// The cells, and whether each was open.
        wrong: Vec<(Cell, bool)>,
        /// Of how many.
        cells: usize,
        /// How long it was waited for.
        within: Duration,
        /// The table, drawn.
        table: String,
    },
}

/// The nine pods of a cluster, ready to ask each other.
pub struct Table {
    /// To say policies and labels with.
    pub client: Client,
    /// Names and addresses.
    pub world: World,
    /// Where each pod asks from.
    pub places: BTreeMap<PodId, Place>,
    /// The node each pod runs on.
    pub nodes: BTreeMap<PodId, String>,
}

fn api(attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> LiveError {
    let attempt = attempt.into();
    |source| LiveError::Api { attempt, source: Box::new(source) }
}

impl Table {
    /// Runs a scenario: each step's policies and labels, then the table until it is as the step says.
    pub async fn run(&self, scenario: &Scenario, patience: Duration) -> Result<(), LiveError> {
        for (at, step) in scenario.steps.iter().enumerate() {
            self.apply(scenario, step).await?;
            self.compare(&scenario.title, at + 1, step, patience).await?;
        }
        Ok(())
    }

    /// Makes policies and labels those of a step, and removes all others.
    async fn apply(&self, scenario: &Scenario, step: &Step) -> Result<(), LiveError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let manager = PatchParams::apply("policy-table").force();
        for short in ['x', 'y', 'z'] {
            let name = self.world.namespace(short);
            let labels = self.world.namespace_labels(short, step);
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
            });
            let done = namespaces.patch(&name, &manager, &Patch::Apply(&namespace)).await;
            done.map_err(api(format!("labelling namespace {name}")))?;
        }
        for id in PodId::all() {
            let namespace = self.world.namespace(id.namespace);
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
            // Labels are applied by a manager of their own, so that those of the step before go with it.
            let labels = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": id.name.to_string(), "labels": self.world.pod_labels(id, step)},
            });
            let labeller = PatchParams::apply("policy-table-labels").force();
            let done = pods.patch(&id.name.to_string(), &labeller, &Patch::Apply(&labels)).await;
            done.map_err(api(format!("labelling pod {namespace}/{}", id.name)))?;
        }
        let wanted = step.policies(&scenario.title, &self.world)?;
        for short in ['x', 'y', 'z'] {
            let namespace = self.world.namespace(short);
            let policies: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), &namespace);
            let there = policies
                .list(&ListParams::default())
                .await
                .map_err(api(format!("listing the policies of {namespace}")))?;
            let here = |policy: &NetworkPolicy| policy.namespace().as_deref() == Some(namespace.as_str());
            for old in there.items {
                let name = old.name_any();
                let kept = wanted.iter().any(|new| here(&new.policy) && new.policy.name_any() == name);
                if !kept {
                    let done = policies.delete(&name, &DeleteParams::default()).await;
                    done.map_err(api(format!("removing policy {namespace}/{name}")))?;
                }
            }
            for new in wanted.iter().filter(|new| here(&new.policy)) {
                let name = new.policy.name_any();
                let done = policies.patch(&name, &manager, &Patch::Apply(&new.manifest)).await;
                done.map_err(api(format!("applying policy {namespace}/{name}")))?;
            }
        }
        Ok(())
    }

    /// Asks every cell until the table is right, or the patience ends.
    async fn compare(
        &self,
        title: &str,
        number: usize,
        step: &Step,
        patience: Duration,
    ) -> Result<(), LiveError> {
        let end = Instant::now() + patience;
        let families: Vec<bool> = self.world.ranges.iter().map(|net| net.network().is_ipv6()).collect();
        let cells = cells(&families);
        loop {
            let seen = self.ask(&cells)?;
            let wrong: Vec<(Cell, bool)> =
                seen.iter().filter(|(cell, open)| step.open(cell) != *open).copied().collect();
            if wrong.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(LiveError::Wrong {
                    title: title.to_owned(),
                    step: number,
                    cells: cells.len(),
                    within: patience,
                    table: draw(&seen, step),
                    wrong,
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asks all cells at once, and tells which are open. Whoever answers must be who was asked.
    pub fn ask(&self, cells: &[Cell]) -> Result<Vec<(Cell, bool)>, LiveError> {
        let by_pod = |pod: PodId| cells.iter().copied().filter(move |cell| cell.from == pod);
        let ask = |pod: PodId, place: &Place| -> Result<Vec<(Cell, bool)>, LiveError> {
            let asked: Vec<Cell> = by_pod(pod).filter(|cell| self.address(cell).is_some()).collect();
            let probes: Vec<Probe> = asked
                .iter()
                .filter_map(|cell| {
                    let mut probe = Probe::new(cell.protocol, self.address(cell)?);
                    probe.timeout_ms = u64::try_from(DENIED_AFTER.as_millis()).unwrap_or(u64::MAX);
                    Some(probe)
                })
                .collect();
            let outcomes = place
                .namespace
                .run(|| probe::all(&probes, 512))
                .map_err(|source| LiveError::Enter { pod, source: Box::new(source) })?;
            let open = asked.into_iter().zip(outcomes).map(|(cell, outcome)| {
                let answered = outcome.answer.is_some_and(|answer| answer.name == cell.to.to_string());
                (cell, answered)
            });
            Ok(open.collect())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.places.iter().map(|(pod, place)| scope.spawn(move || ask(*pod, place))).collect();
            let mut seen = Vec::new();
            for thread in threads {
                seen.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(seen)
        })
    }

    fn address(&self, cell: &Cell) -> Option<SocketAddr> {
        let addresses = self.world.addresses.get(&cell.to)?;
        let address = addresses.iter().find(|address| address.is_ipv6() == cell.v6)?;
        Some(SocketAddr::new(*address, cell.port))
    }
}

/// The wrong cells, each by name; of very many the first.
fn list(wrong: &[(Cell, bool)]) -> String {
    const ENOUGH: usize = 40;
    let mut text = String::new();
    for (cell, open) in wrong.iter().take(ENOUGH) {
        let _ = writeln!(text, "  {cell} is {}", if *open { "open" } else { "closed" });
    }
    if wrong.len() > ENOUGH {
        let _ = writeln!(text, "  and {} more", wrong.len() - ENOUGH);
    }
    text
}

/// Rows ask, columns are asked: `.` as it should be, `+` open and should not, `-` closed and should not.
fn draw(seen: &[(Cell, bool)], step: &Step) -> String {
    let mut text = String::from("      ");
    for to in PodId::all() {
        let _ = write!(text, " {to} ");
    }
    for from in PodId::all() {
        let _ = write!(text, "\n  {from} ");
        for to in PodId::all() {
            let here = || seen.iter().filter(|(cell, _)| cell.from == from && cell.to == to);
            let too_open = here().filter(|(cell, open)| *open && !step.open(cell)).count();
            let closed = here().filter(|(cell, open)| !*open && step.open(cell)).count();
            let mark = match (too_open, closed) {
                (0, 0) => "  .  ".to_owned(),
                (open, 0) => format!(" {open}+  "),
                (0, closed) => format!(" {closed}-  "),
                (open, closed) => format!("{open}+{closed}-"),
            };
            text.push_str(&mark);
        }
    }
    text
}
