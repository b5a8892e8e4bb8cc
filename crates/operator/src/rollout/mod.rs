//! Moving nodes to a configuration, a few at a time. Capabilities contribute MachineConfigs, holds and conditions
//! ([`crate::capability`]); none of them is known here by name.
//!
//! One pass, in the order in which `core`'s model makes its steps: each capability makes at most one step; its
//! MachineConfigs are written; those of each pool are merged and assigned to the pool ([`render`]); nodes are taken, which is
//! a write to their pool, and only then assigned the target ([`nodes`]); what nodes ask for is done ([`drain`]); progress is
//! reported ([`status`]). Where the network is not the operator's, nodes are only uncordoned ([`unmanaged`]).
//!
//! Every write names the version it was decided for. A pass that was overtaken is made again; one that failed is too,
//! later and later. Nothing is remembered that decides: who leads next goes on from what the API holds.

mod drain;
mod metrics;
mod nodes;
mod render;
mod round;
mod snapshot;
mod status;
mod unmanaged;
mod watch;

use std::time::Duration;

use netferry_core::error::chain;
use netferry_core::name::NodeName;
use tracing::{debug, warn};

use crate::capability::{Capability, Context, Contribute};
use crate::cluster::Changes;
use crate::metrics::Metrics as OperatorMetrics;
use crate::pace::ReconcileTimer;
use crate::report::Events;
use drain::Drains;
pub(crate) use metrics::Metrics;
pub(crate) use snapshot::{ClusterSnapshot, SeenNode, SeenPool};
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
pub(crate) async fn control(
    context: Context,
    changes: Changes,
    settings: Settings,
    capabilities: &[Capability],
    metrics: OperatorMetrics,
) {
    let keys = capabilities.iter().flat_map(|one| one.node_annotations.iter().copied()).collect();
    let mut watches = Watches::new(changes, keys);
    let mut rollout = Rollout {
        events: Events::new(&context.client, &context.leadership),
        context,
        node: settings.node,
        contributors: capabilities.iter().filter_map(|one| one.contribute.clone()).collect(),
        metrics,
        drains: Drains::default(),
    };
    let mut pace = ReconcileTimer::new(ANYWAY, ANYWAY);
    loop {
        tokio::select! {
            // In this order: changes that never end must not keep a pass from being made.
            biased;
            () = pace.due() => {
                if !watches.complete() {
                    pace.after(ANYWAY);
                    continue;
                }
                match rollout.round(watches.snapshot()).await {
                    Ok(again) => pace.made(again),
                    Err(overtaken) if overtaken.is_overtaken() => {
                        debug!(error = %chain(&overtaken), "overtaken; looking again");
                        pace.after(OVERTAKEN);
                    }
                    Err(failed) => {
                        warn!(error = %chain(&failed), "a pass failed; trying again");
                        rollout.metrics.count_failed_pass();
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
    context: Context,
    events: Events,
    node: Option<NodeName>,
    contributors: Vec<Contribute>,
    metrics: OperatorMetrics,
    drains: Drains,
}
