//! How far pools are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::{Api, Resource, ResourceExt};
use netferry_api::rollout::MachineConfigPool;
use netferry_api::rollout::conditions::RolloutEvent;
use netferry_core::rollout::progress::progress;
use netferry_core::rollout::status::{Hindered, status};
use netferry_translate::pool as pools;
use serde_json::json;
use tracing::info;

use super::Rollout;
use super::world::World;
use crate::report::{self, Told};
use crate::round::RoundError;

impl Rollout {
    /// Writes the status of each pool, if it says something else than it does.
    pub(super) async fn report(&mut self, world: &mut World) -> Result<(), RoundError> {
        let blocking = self.drains.blocking();
        for seen in &world.pools {
            let members = world.of_pool(&seen.pool.name);
            let hindered = Hindered {
                render: seen.refused.as_deref(),
                blocking: Some(&blocking),
                choice: Some(&seen.choice),
            };
            let now = status(&seen.pool, &members, hindered);
            let all = world.members(&seen.pool.name).map(|node| {
                let machine = &node.machine;
                progress(&seen.pool, &machine.node, machine.asked.as_ref(), machine.fulfilled.as_ref())
            });
            self.metrics.pool(&seen.pool.name, &now, all);
            let printed = pools::printed_status(&seen.object, &now, &Time(jiff::Timestamp::now()));
            if seen.object.status.as_ref() == Some(&printed) {
                continue;
            }
            let (name, target) = (seen.object.name_any(), seen.pool.target.clone().unwrap_or_default());
            // The version is not asked for: it is ours alone to write, and taking nodes has just changed it.
            let patch = json!({ "status": printed });
            let api = Api::<MachineConfigPool>::all(self.client.clone());
            let params = report::written_by_us();
            let patch = Patch::Merge(&patch);
            let written = self.leadership.act(api.patch_status(&name, &params, &patch)).await;
            written.map_err(RoundError::writing(format!("the status of MachineConfigPool {name}")))?;
            if now.completed {
                info!(pool = name, target, "every node of the pool is done");
                let (about, reason) = (seen.object.object_ref(&()), RolloutEvent::Completed.as_str());
                let note = format!("every node of pool {name} runs {target}");
                self.events.send(&Told::news(about, "Report", reason, note)).await;
            }
        }
        self.metrics.forget_pools(world.pools.iter().map(|seen| seen.pool.name.as_str()));
        Ok(())
    }
}
