//! Handles networks that are not the operator's to change: uncordons nodes whose drain was abandoned.

use std::time::Duration;

use kube::ResourceExt;
use netferry_core::rollout::drain::Request;

use super::snapshot::{ClusterSnapshot, SeenNode};
use super::{OVERTAKEN, Rollout};
use crate::round::RoundError;

impl Rollout {
    /// Uncordons nodes that the operator cordoned for a drain that it does not go on with. Takes no node and decides
    /// nothing.
    pub(super) async fn pause_unmanaged(
        &mut self,
        mut snapshot: ClusterSnapshot,
    ) -> Result<Option<Duration>, RoundError> {
        let mut again = None;
        let mut failed = None;
        for seen in snapshot.nodes.iter().filter(|seen| drain_abandoned(seen)) {
            match self.uncordon(seen, seen.object.resource_version()).await {
                Ok(_) => {}
                Err(overtaken) if overtaken.is_overtaken() => again = Some(OVERTAKEN),
                // The others still get theirs.
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        snapshot.nodes.retain(|seen| matches!(seen.machine.asked, Some(Request::Uncordon(_))));
        let next = self.drain(&snapshot).await?;
        self.metrics.rollout.drains(&self.drains.blocking());
        failed.map_or(Ok([again, next].into_iter().flatten().min()), Err)
    }
}

/// Returns true if the operator cordoned a node for a drain that it does not go on with. A node that may be restarting after
/// its drain stays cordoned, or pods would be put on a node that goes down. It asks to be uncordoned when it is up again.
fn drain_abandoned(seen: &SeenNode) -> bool {
    let machine = &seen.machine;
    let Some(asked @ Request::Drain(_)) = &machine.asked else { return false };
    let desired = machine.node.desired.clone().map(Request::Drain);
    let restarts = machine.alone
        || machine.fulfilled.as_ref().is_some_and(|done| done == asked || Some(done) == desired.as_ref());
    machine.node.unschedulable && machine.cordoned_by_us && !restarts
}
