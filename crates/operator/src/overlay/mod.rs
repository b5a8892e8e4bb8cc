//! The cluster side of the pod network: which node gets which place, and what the network is.
//!
//! Reads the operator's `Network` and the nodes, lets `core` decide, writes the nodes' annotations and the status of
//! the cluster's `Network`, and reports what is wrong as conditions and Events.
//!
//! Every round reads the nodes anew, from the API and not from a cache: what was written a moment ago is part of the
//! next decision. Every write names the version it was decided for; what changed meanwhile is decided anew. A new
//! leader first marks every node it would write to ([`round`]), so that nothing its predecessor still had on its way
//! can arrive afterwards; and no decision is made from a list that was read after another process had taken the lease.
//!
//! When the API does not answer, a round fails and is tried again, later and later; nodes keep what they have.

mod act;
pub(crate) mod decide;
mod fixed;
mod problem;
mod round;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::capability::{Capability, Context};
use crate::cluster::Changes;
use crate::pace::{ReconcileTimer, TOGETHER};
use crate::report::Events;
use crate::round::RoundError;
use netferry_core::error::chain;
use problem::Problem;
use watch::Watches;

/// A look without a reason, in case one was missed.
const ANYWAY: Duration = Duration::from_secs(300);

/// How the controller works.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// For how long a condition still tells of something that was put right.
    pub linger: Duration,
}

impl Default for Settings {
    /// Long enough to be noticed by somebody who looks every few minutes.
    fn default() -> Settings {
        Settings { linger: Duration::from_secs(300) }
    }
}

/// The capability, as the operator lists it.
pub(crate) fn capability(settings: Settings) -> Capability {
    Capability {
        name: "overlay",
        run: Some(Box::new(move |context, changes| Box::pin(control(context, changes, settings)))),
        contribute: None,
        node_annotations: &[],
    }
}

/// Runs the controller for as long as this process leads.
pub(crate) async fn control(context: Context, changes: Changes, settings: Settings) {
    let mut watches = Watches::new(changes);
    let mut overlay = Overlay {
        events: Events::new(&context.client, &context.leadership),
        context,
        settings,
        began: Instant::now(),
        fenced: false,
        marked: BTreeSet::new(),
        repaired: BTreeMap::new(),
    };
    let mut pace = ReconcileTimer::new(Duration::ZERO, ANYWAY);
    loop {
        tokio::select! {
            // In this order: changes that never end must not keep a pass from being made.
            biased;
            () = pace.due() => {
                let (without_address, sooner) = watches.without_address(Instant::now());
                match overlay.round(&without_address).await {
                    Ok(again) => pace.made([again, sooner].into_iter().flatten().min()),
                    Err(RoundError::Deposed) => {
                        error!("the lease names another process; giving up");
                        overlay.context.leadership.give_up();
                        pace.after(ANYWAY);
                    }
                    Err(failed) => {
                        warn!(error = %chain(&failed), "a round failed; trying again");
                        pace.failed();
                    }
                }
            }
            () = watches.changed() => pace.changed(),
        }
    }
}

/// What one leadership of the controller knows.
struct Overlay {
    context: Context,
    settings: Settings,
    events: Events,
    /// When this leadership began.
    began: Instant,
    /// Whether everything a predecessor could still write to has been marked.
    fenced: bool,
    /// Nodes that a predecessor can no longer write to. Kept here and not read from the nodes, which may write their own
    /// Node.
    marked: BTreeSet<String>,
    /// Problems that were put right, and when.
    repaired: BTreeMap<Problem, Instant>,
}

impl Overlay {
    /// Problems to show: those there are, and those that were put right a short time ago.
    fn shown(&mut self, problems: &[Problem], now: Instant) -> BTreeSet<Problem> {
        for problem in problems.iter().filter(|problem| problem.repaired) {
            self.repaired.insert(problem.clone(), now);
        }
        let linger = self.settings.linger;
        self.repaired.retain(|_, since| now < *since + linger);
        problems.iter().chain(self.repaired.keys()).cloned().collect()
    }

    /// When the condition must be written again because something was put right long enough ago.
    fn forgets_in(&self, now: Instant) -> Option<Duration> {
        let first = self.repaired.values().min()?;
        Some((*first + self.settings.linger).saturating_duration_since(now) + TOGETHER)
    }
}

/// Says once what a round did.
fn log_round(written: usize, problems: usize) {
    if written > 0 || problems > 0 {
        info!(written, problems, "a round is done");
    }
}
