//! What is done where the network is not ours to change: nodes that were away are let back in, and whoever asks for another
//! MTU is answered.

use std::time::Duration;

use kube::{Api, Resource, ResourceExt};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_core::mtu::check::{Fleet, unserved};
use netferry_core::mtu::plan::hosts;
use netferry_core::mtu::record::Record;
use netferry_core::mtu::status::refused;
use netferry_core::overlay::topology::Mode;
use netferry_core::rollout::drain::Request;
use netferry_translate::mtu as translate;

use super::watch::News;
use super::world::{Seen, World};
use super::{OVERTAKEN, Rollout};
use crate::mtu::{self, Applied};
use crate::report::Told;
use crate::round::{RoundError, read};

impl Rollout {
    /// Somebody said that we let it be: no node is taken and nothing decided, but none stays away because of us.
    pub(super) async fn let_be(&mut self, news: News) -> Result<Option<Duration>, RoundError> {
        let world = self.look(news).await?;
        self.let_back_in(world).await
    }

    /// The older plugin: what is asked of its MTU is checked like ours, and refused.
    pub(super) async fn answer(
        &mut self,
        network: &OperatorNetwork,
        news: News,
    ) -> Result<Option<Duration>, RoundError> {
        let Some(cluster) = translate::cluster(&network.spec, Mode::default()) else { return Ok(None) };
        let record = match mtu::applied(&self.client, &self.namespace).await? {
            Applied::Is { record, .. } => Some(record),
            Applied::Nothing | Applied::Unreadable(_) => {
                let api = Api::<ConfigNetwork>::all(self.client.clone());
                let config = read("the cluster's Network", api.get_opt(SINGLETON)).await?;
                mtu::published(config.as_ref()).map(Record::settled)
            }
        };
        let world = self.look(news).await?;
        let asked = translate::asked(&network.spec);
        let (hosts, equipped) = (hosts(&world.facts()), world.equipped());
        let fleet = Fleet { hosts: &hosts, equipped: &equipped };
        let refusals = unserved(&cluster, record.as_ref(), fleet, &asked);
        self.metrics.refused(&refusals);
        let mut said = network.status.iter().flat_map(|status| &status.conditions);
        if !refusals.is_empty() || said.any(|one| one.type_ == MtuConditionType::Refused.as_str()) {
            self.conditions(network, &[mtu::wanted(&refused(&refusals))]).await?;
        }
        let told = refusals.iter().map(|refusal| {
            Told::warning(network.object_ref(&()), "ChangeMTU", refusal.reason(), refusal.to_string())
        });
        self.events.send_new(told).await;
        self.let_back_in(world).await
    }

    async fn let_back_in(&mut self, mut world: World) -> Result<Option<Duration>, RoundError> {
        let mut again = None;
        let mut failed = None;
        for seen in world.nodes.iter().filter(|seen| waits_in_vain(seen)) {
            match self.uncordon(seen, seen.object.resource_version()).await {
                Ok(_) => {}
                Err(overtaken) if overtaken.is_overtaken() => again = Some(OVERTAKEN),
                // The others still get theirs.
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        world.nodes.retain(|seen| matches!(seen.machine.asked, Some(Request::Uncordon(_))));
        let next = self.drain(&world).await?;
        self.metrics.drains(&self.drains.blocking());
        failed.map_or(Ok([again, next].into_iter().flatten().min()), Err)
    }
}

/// Whether we cordoned a node for a drain that nobody goes on with. One that may be restarting on a drain that was fulfilled
/// is not let back in: pods would be put on a node that is going down. It asks for it when it is up again.
fn waits_in_vain(seen: &Seen) -> bool {
    let machine = &seen.machine;
    let Some(asked @ Request::Drain(_)) = &machine.asked else { return false };
    let desired = machine.node.desired.clone().map(Request::Drain);
    let restarts = machine.alone
        || machine.fulfilled.as_ref().is_some_and(|done| done == asked || Some(done) == desired.as_ref());
    machine.node.unschedulable && machine.cordoned_by_us && !restarts
}
