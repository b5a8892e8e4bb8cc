//! Moving nodes to a configuration, a few at a time; and what decides the configuration of their MTU.
//!
//! One pass, in the order in which `core`'s model makes its steps: what is applied ([`crate::mtu`]) moves by at most
//! one step; MachineConfigs are written from it; those of each pool are merged and the pool is told ([`render`]); nodes
//! are taken, which is a write to their pool, and only then told ([`nodes`]); what nodes ask for is done ([`drain`]);
//! how far everything is, is said ([`status`]).
//!
//! Every write names the version it was decided for. A pass that was overtaken is made again; one that failed is too,
//! later and later. Nothing is remembered that decides: who leads next goes on from what the API holds.

mod apart;
mod drain;
mod networks;
mod nodes;
mod render;
mod round;
mod status;
mod watch;
mod world;

use std::time::Duration;

use kube::Client;
use netferry_core::error::chain;
use netferry_core::name::NodeName;
use tracing::{debug, warn};

use crate::lead::Leadership;
use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::report::Events;
use drain::Drains;
use watch::Watches;

/// A look without a reason, in case one was missed.
const ANYWAY: Duration = Duration::from_secs(180);
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
    let mut rollout = Rollout {
        events: Events::new(&client, &leadership),
        client: client.clone(),
        leadership,
        namespace,
        node: settings.node,
        metrics,
        drains: Drains::default(),
    };
    let mut watches = Watches::new(&client);
    let mut pace = Pace::new(ANYWAY, ANYWAY);
    loop {
        tokio::select! {
            // In this order: changes that never end must not keep a pass from being made.
            biased;
            () = pace.due() => {
                if !watches.complete() {
                    pace.after(ANYWAY);
                    continue;
                }
                match rollout.round(watches.news()).await {
                    Ok(again) => pace.made(again),
                    Err(overtaken) if overtaken.is_overtaken() => {
                        debug!(error = %chain(&overtaken), "overtaken; looking again");
                        pace.after(OVERTAKEN);
                    }
                    Err(failed) => {
                        warn!(error = %chain(&failed), "a pass failed; trying again");
                        rollout.metrics.failed();
                        pace.failed();
                    }
                }
            }
            () = watches.changed() => pace.changed(),
        }
    }
}

/// What one leadership of the controller knows. Nothing here decides; it is what was told already.
struct Rollout {
    client: Client,
    leadership: Leadership,
    events: Events,
    namespace: String,
    node: Option<NodeName>,
    metrics: Metrics,
    drains: Drains,
}
