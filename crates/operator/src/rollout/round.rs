//! One pass: read, decide, act, report.

use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Resource};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_core::mtu::record::Record;
use netferry_core::rollout::choose::Hold;
use netferry_translate::networks;
use netferry_translate::served::{Served, as_it_runs, served};
use tracing::{debug, info};

use super::Rollout;
use super::watch::News;
use super::world::World;
use crate::mtu::{self, Applied, First, Seen};
use crate::report::Told;
use crate::round::{RoundError, read};

/// Soon: something was written, and what follows from it is decided from what the API says then.
const SOON: Duration = Duration::from_millis(20);

impl Rollout {
    /// One pass. Says when to look again, if it must be soon.
    pub(super) async fn round(&mut self, news: News) -> Result<Option<Duration>, RoundError> {
        let api = Api::<OperatorNetwork>::all(self.client.clone());
        let network = read("the operator's Network", api.get_opt(SINGLETON)).await?;
        let Some(network) = network else {
            debug!("there is no network to run");
            return Ok(None);
        };
        let api = Api::<ConfigNetwork>::all(self.client.clone());
        let config = read("the cluster's Network", api.get_opt(SINGLETON)).await?;
        let network = as_it_runs(network, config.as_ref());
        match served(&network.spec) {
            Served::ByUs => {}
            Served::NotNow => return self.let_be(news).await,
            Served::BySdn => return self.answer(&network, news).await,
            Served::ByOthers => return Ok(None),
        }
        self.metrics.round();
        // Nodes may be old news. One that is not among them joined later than those among them said what they say, and
        // so reads a record at least as new as the one they are done with.
        let applied = mtu::applied(&self.client, &self.namespace).await?;
        let mut world = self.look(news).await?;
        let running = world.nodes.iter().any(|seen| seen.traits.runs);
        let found = match applied {
            Applied::Is { record, version, since } => Some((record, Some(version), since)),
            Applied::Unreadable(wrong) => return self.stuck(&network, world, &wrong).await,
            Applied::Nothing => {
                let written = world.configs.values().map(AsRef::as_ref);
                let asked =
                    networks::wanted_mtu(&network.spec, networks::deployed_mode(config.as_ref())).ok();
                let deployed = mtu::deployed(config.as_ref(), asked, world.pods());
                match mtu::first(deployed, running, written) {
                    First::NotYet => None,
                    First::Lost(wrong) => return self.stuck(&network, world, &wrong).await,
                    // It is written down with the first change.
                    First::Record(record) => Some((record, None, None)),
                }
            }
        };
        if let Some((record, version, since)) = found {
            if version.is_some() && !running && record.change.is_none() {
                // Nobody runs it any more, so nobody has to be taken anywhere: what is applied follows what is published.
                if let Some(mtu) = mtu::published(config.as_ref()).filter(|mtu| *mtu != record.mtu) {
                    let next = Record { epoch: record.epoch + 1, mtu, ..record };
                    self.store(&network, version.as_deref(), &next).await?;
                    return Ok(Some(SOON));
                }
            }
            let (facts, equipped) = (world.facts(), world.equipped());
            let probes = world.probes(&record);
            let seen = Seen { nodes: &facts, equipped: &equipped, probes: &probes };
            let deployed = networks::deployed_mode(config.as_ref());
            let Some(outcome) = mtu::think(&record, &network, deployed, &seen) else {
                return Ok(None);
            };
            self.metrics.mtu(&record, &outcome.decision, &facts, since, Timestamp::now());
            if outcome.decision.record != record {
                self.store(&network, version.as_deref(), &outcome.decision.record).await?;
                for event in &outcome.decision.events {
                    info!(epoch = outcome.decision.record.epoch, "{event}");
                    let about = network.object_ref(&());
                    let told = Told::news(about, "ChangeMTU", event.reason(), event.to_string());
                    self.events.send(&told).await;
                }
                return Ok(Some(SOON));
            }
            if let Some(edit) = &outcome.decision.edit {
                self.edit(&network, edit).await?;
                // By the next pass it is on its way back, and nobody would be told why.
                if let Some(told) = outcome.lost(&network) {
                    self.events.send(&told).await;
                }
                return Ok(Some(SOON));
            }
            if outcome.decision.forget {
                self.forget(&network).await?;
                return Ok(Some(SOON));
            }
            world.told.extend(outcome.told(&network));
            self.conditions(&network, &outcome.worth_a_word(&network, version.is_some())).await?;
            // A cluster whose MTU was never changed is left as it is, a refused change included.
            if version.is_some() {
                if running {
                    self.publish(config.as_ref(), &record).await?;
                }
                if self.make_pools(&world).await? || self.write_configs(&mut world, &record).await? {
                    return Ok(Some(SOON));
                }
            }
            if record.change.is_some() {
                world.tell_of_unclaimed();
            }
            if world.held.is_none() {
                world.held = outcome.held.map(Hold::Taking);
            }
        }
        self.render(&mut world).await?;
        let chosen = self.choose(&mut world).await?;
        let drained = self.drain(&world).await;
        // Also where a drain could not be looked after: how far pools are is what somebody looks at then.
        self.report(&mut world).await?;
        let drained = drained?;
        self.sweep(&world).await?;
        self.metrics.drains(&self.drains.blocking());
        self.events.send_new(world.told).await;
        Ok([chosen, drained].into_iter().flatten().min())
    }

    /// Nothing can be decided about sizes; nodes that are on their way are still let back in.
    async fn stuck(
        &mut self,
        network: &OperatorNetwork,
        mut world: World,
        wrong: &str,
    ) -> Result<Option<Duration>, RoundError> {
        self.conditions(network, &[mtu::lost(wrong)]).await?;
        let drained = self.drain(&world).await?;
        world.told.push(Told::warning(network.object_ref(&()), "ChangeMTU", "MTURecordLost", wrong));
        self.events.send_new(world.told).await;
        Ok(drained)
    }
}
