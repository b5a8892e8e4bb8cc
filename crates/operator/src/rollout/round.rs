//! One pass: read, decide, act, report.

use std::time::Duration;

use kube::Api;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_translate::served::{Served, as_it_runs, served};
use tracing::debug;

use super::Rollout;
use super::watch::Snapshot;
use crate::capability::{Contribution, Pass};
use crate::network_status;
use crate::round::{RoundError, read};

/// Soon: something was written, and the next decision needs what the API then holds.
const SOON: Duration = Duration::from_millis(20);

impl Rollout {
    /// Makes one pass; returns when to make the next, if it must be soon.
    pub(super) async fn round(&mut self, watched: Snapshot) -> Result<Option<Duration>, RoundError> {
        let api = Api::<OperatorNetwork>::all(self.context.client.clone());
        let network = read("the operator's Network", api.get_opt(SINGLETON)).await?;
        let Some(network) = network else {
            debug!("there is no network to run");
            return Ok(None);
        };
        let api = Api::<ConfigNetwork>::all(self.context.client.clone());
        let config = read("the cluster's Network", api.get_opt(SINGLETON)).await?;
        let network = as_it_runs(network, config.as_ref());
        let served = served(&network.spec);
        if served == Served::ByOthers {
            return Ok(None);
        }
        let mut snapshot = self.look(watched).await?;
        if served == Served::NotNow {
            return self.pause_unmanaged(snapshot).await;
        }
        if served == Served::ByUs {
            self.metrics.count_pass();
        }
        let Some(added) = self.contributions(&network, config.as_ref(), served, &snapshot).await? else {
            return Ok(Some(SOON));
        };
        network_status::write_conditions(&self.context.writer, &network, &added.conditions).await?;
        if served == Served::BySdn {
            self.events.send_new(added.problems).await;
            return self.pause_unmanaged(snapshot).await;
        }
        if added.stops {
            // Nodes that are on their way are still drained and uncordoned.
            let drained = self.drain(&snapshot).await?;
            snapshot.problems.extend(added.problems);
            self.events.send_new(snapshot.problems).await;
            return Ok(drained);
        }
        if let Some(configs) = &added.configs
            && (self.make_pools(&snapshot).await? || self.write_configs(&snapshot, configs).await?)
        {
            return Ok(Some(SOON));
        }
        snapshot.problems.extend(added.problems);
        snapshot.held = snapshot.held.or(added.hold);
        self.render(&mut snapshot).await?;
        let chosen = self.choose(&mut snapshot).await?;
        let drained = self.drain(&snapshot).await;
        // Also if a drain failed: the status of the pools is what an administrator looks at then.
        self.report(&mut snapshot).await?;
        let drained = drained?;
        self.sweep(&snapshot).await?;
        self.metrics.rollout.drains(&self.drains.blocking());
        self.events.send_new(snapshot.problems).await;
        Ok([chosen, drained].into_iter().flatten().min())
    }

    /// Asks every capability for its part of this pass; `None` if one wrote something that the next decision needs.
    async fn contributions(
        &self,
        network: &OperatorNetwork,
        config: Option<&ConfigNetwork>,
        served: Served,
        snapshot: &super::ClusterSnapshot,
    ) -> Result<Option<Contribution>, RoundError> {
        let mut all = Contribution::default();
        for contribute in &self.contributors {
            let context = &self.context;
            let one = contribute(Pass { context, network, config, served, snapshot }).await?;
            for event in &one.events {
                self.events.send(event).await;
            }
            if one.wrote {
                return Ok(None);
            }
            if let Some(configs) = one.configs {
                all.configs.get_or_insert_default().extend(configs);
            }
            all.hold = all.hold.or(one.hold);
            all.conditions.extend(one.conditions);
            all.problems.extend(one.problems);
            all.stops |= one.stops;
        }
        Ok(Some(all))
    }
}
