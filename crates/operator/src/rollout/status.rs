//! How far pools are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};
use netferry_api::rollout::MachineConfigPool;
use netferry_api::rollout::conditions::RolloutEvent;
use netferry_core::rollout::progress::progress;
use netferry_core::rollout::status::{Hindered, status};
use netferry_translate::pool as pools;
use serde_json::json;
use tracing::info;

use super::Rollout;
use super::snapshot::ClusterSnapshot;
use crate::report::EventNote;
use crate::round::RoundError;
use crate::writer::Part;

impl Rollout {
    /// Writes the status of each pool, if it says something else than it does.
    pub(super) async fn report(&mut self, snapshot: &mut ClusterSnapshot) -> Result<(), RoundError> {
        let blocking = self.drains.blocking();
        for seen in &snapshot.pools {
            let members = snapshot.of_pool(&seen.pool.name);
            let hindered = Hindered {
                render: seen.refused.as_deref(),
                blocking: Some(&blocking),
                choice: Some(&seen.choice),
            };
            let now = status(&seen.pool, &members, hindered);
            let all = snapshot.members(&seen.pool.name).map(|node| {
                let machine = &node.machine;
                progress(&seen.pool, &machine.node, machine.asked.as_ref(), machine.fulfilled.as_ref())
            });
            self.metrics.rollout.pool(&seen.pool.name, &now, all);
            let printed = pools::printed_status(&seen.object, &now, &Time(jiff::Timestamp::now()));
            if seen.object.status.as_ref() == Some(&printed) {
                continue;
            }
            let (name, target) = (seen.object.name_any(), seen.pool.target.clone().unwrap_or_default());
            // The version is not asked for: it is ours alone to write, and taking nodes has just changed it.
            let patch = json!({ "status": printed });
            self.context.writer.patch::<MachineConfigPool>(&name, None, Part::Status, patch).await?;
            if now.completed {
                info!(pool = name, target, "every node of the pool is done");
                let (about, reason) = (seen.object.object_ref(&()), RolloutEvent::Completed.as_str());
                let note = format!("every node of pool {name} runs {target}");
                self.events.send(&EventNote::news(about, "Report", reason, note)).await;
            }
        }
        self.metrics.rollout.forget_pools(snapshot.pools.iter().map(|seen| seen.pool.name.as_str()));
        Ok(())
    }
}
