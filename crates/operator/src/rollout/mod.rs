//! Moving nodes to a configuration, a few at a time; and what decides the configuration of their MTU.
//!
//! One pass, in the order in which `core`'s model makes its steps: what is applied ([`crate::mtu`]) moves by at most
//! one step; MachineConfigs are written from it; those of each pool are merged and the pool is told ([`render`]); nodes
//! are taken, which is a write to their pool, and only then told ([`nodes`]); what nodes ask for is done ([`drain`]);
//! how far everything is, is said ([`status`]).
//!
//! Every write names the version it was decided for. A pass that was overtaken is made again; one that failed is too,
//! later and later. Nothing is remembered that decides: who leads next goes on from what the API holds.

mod drain;
mod nodes;
mod render;
mod round;
mod status;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use netferry_core::error::chain;
use netferry_core::name::NodeName;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::lead::Leadership;
use crate::metrics::Metrics;
use crate::report::{self, Told};
use drain::Drains;
use watch::Watches;

/// Changes within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(50);
/// A look without a reason, in case one was missed.
const ANYWAY: Duration = Duration::from_secs(180);
/// After a failed pass, the first wait; each one after is twice as long.
const RETRY: Duration = Duration::from_millis(500);
/// The longest wait after a failed pass.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// After a pass that was overtaken.
const OVERTAKEN: Duration = Duration::from_millis(100);

/// How the controller works.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The node this process runs on, which moves last.
    pub node: Option<NodeName>,
}

/// Runs the controller for as long as this process leads.
pub async fn control(
    client: Client,
    leadership: Leadership,
    namespace: String,
    settings: Settings,
    metrics: Metrics,
) {
    let instance = Some(format!("term-{}", leadership.term()));
    let reporter = Reporter { controller: "netferry-operator".into(), instance };
    let mut rollout = Rollout {
        recorder: Recorder::new(client.clone(), reporter),
        client: client.clone(),
        leadership,
        namespace,
        node: settings.node,
        metrics,
        drains: Drains::default(),
        told: BTreeSet::new(),
    };
    let mut watches = Watches::new(&client);
    let mut next = Instant::now() + ANYWAY;
    let mut retry = RETRY;
    loop {
        tokio::select! {
            () = watches.changed() => next = next.min(Instant::now() + TOGETHER),
            () = sleep_until(next) => {
                if !watches.complete() {
                    next = Instant::now() + ANYWAY;
                    continue;
                }
                match rollout.round(watches.news()).await {
                    Ok(again) => {
                        retry = RETRY;
                        next = Instant::now() + again.unwrap_or(ANYWAY);
                    }
                    Err(overtaken) if overtaken.is_overtaken() => {
                        debug!(error = %chain(&overtaken), "overtaken; looking again");
                        next = Instant::now() + OVERTAKEN;
                    }
                    Err(failed) => {
                        warn!(error = %chain(&failed), "a pass failed; trying again");
                        rollout.metrics.failed();
                        next = Instant::now() + retry;
                        retry = (retry * 2).min(LONGEST_RETRY);
                    }
                }
            }
        }
    }
}

/// What one leadership of the controller knows. Nothing here decides; it is what was told already.
struct Rollout {
    client: Client,
    leadership: Leadership,
    recorder: Recorder,
    namespace: String,
    node: Option<NodeName>,
    metrics: Metrics,
    drains: Drains,
    /// What an Event was sent about and still holds: reason and note.
    told: BTreeSet<(String, String)>,
}

impl Rollout {
    /// Sends an Event.
    async fn tell(&self, told: &Told) -> bool {
        let Told { reason, note, about, warning, action } = told;
        let event = Event {
            type_: if *warning { EventType::Warning } else { EventType::Normal },
            reason: reason.clone(),
            note: Some(report::within(note, report::LONGEST_NOTE)),
            action: (*action).to_owned(),
            secondary: None,
        };
        match self.leadership.act(self.recorder.publish(&event, about)).await {
            Ok(()) => true,
            // Nothing waits for an Event.
            Err(error) => {
                warn!(error = %chain(&error), reason, "cannot send an Event");
                false
            }
        }
    }

    /// Sends an Event about each of these that is new, and forgets those that no longer hold.
    async fn tell_once(&mut self, all: Vec<Told>) {
        let current: BTreeMap<(String, String), Told> =
            all.into_iter().map(|told| ((told.reason.clone(), told.note.clone()), told)).collect();
        self.told.retain(|known| current.contains_key(known));
        for (key, told) in current {
            if !self.told.contains(&key) {
                warn!(reason = told.reason, "{}", told.note);
                if self.tell(&told).await {
                    self.told.insert(key);
                }
            }
        }
    }
}
