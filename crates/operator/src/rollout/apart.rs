//! What is done where the network is not ours to change: nodes that were away are let back in, and whoever asks for another
//! MTU is answered.

use std::time::Duration;

use kube::{Api, Resource};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_core::mtu::check::{Fleet, unserved};
use netferry_core::mtu::plan::hosts;
use netferry_core::mtu::record::Record;
use netferry_core::mtu::status::refused;
use netferry_core::overlay::topology::Mode;
use netferry_core::rollout::drain::Request;
use netferry_translate::mtu as translate;

use super::Rollout;
use super::watch::News;
use super::world::World;
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
        world.nodes.retain(|seen| matches!(seen.machine.asked, Some(Request::Uncordon(_))));
        self.drain(&world).await
    }
}
