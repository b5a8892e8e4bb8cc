//! One round: read, decide, act, report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_core::error::chain;
use netferry_translate::served::{Served, as_it_runs, served};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::act::Wrote;
use super::decide::{Decision, NodeWrite, World, decide};
use super::{Overlay, log_round};
use crate::mtu::{self, Applied};
use crate::round::{RoundError, read};

/// How long a node that cannot be marked is waited for: longer than a request is on its way.
const FENCING: Duration = Duration::from_secs(60);

impl Overlay {
    /// One round. Says when to look again, if it must be soon.
    pub(super) async fn round(
        &mut self,
        without_address: &BTreeSet<String>,
    ) -> Result<Option<Duration>, RoundError> {
        let api = Api::<OperatorNetwork>::all(self.context.client.clone());
        // A server that does not know the kind yet answers as if the object were not there.
        let network = read("the operator's Network", api.get_opt(SINGLETON)).await?;
        let Some(network) = network else {
            debug!("there is no network to run");
            return Ok(None);
        };
        let api = Api::<ConfigNetwork>::all(self.context.client.clone());
        let config = read("the cluster's Network", api.get_opt(SINGLETON)).await?;
        if served(&as_it_runs(network.clone(), config.as_ref()).spec) != Served::ByUs {
            debug!("the network is not ours to run");
            return Ok(None);
        }
        let under_way = match mtu::applied(&self.context).await? {
            Applied::Is { record, .. } => record.change.is_some(),
            // Nodes may be in the middle of one that nobody can read.
            Applied::Unreadable(_) => true,
            Applied::Nothing => false,
        };
        let look = |nodes: &[ObjectMeta]| {
            let annotations = network.metadata.annotations.as_ref();
            let (spec, config) = (&network.spec, config.as_ref());
            decide(&World { spec, annotations, config, under_way, nodes, without_address })
        };

        let mut nodes = self.nodes().await?;
        if !self.fenced {
            nodes = self.fence(nodes, &look).await?;
        }
        self.still_latest().await?;
        let decision = look(&nodes);

        // What nodes read first comes first: a node with a place but no ranges would wait, not err.
        if let Some(published) = decision.published.as_ref().filter(|published| !published.already) {
            self.publish(&network, config.as_ref(), published).await?;
        }
        let wrote = self.write(&decision.writes).await;
        let now = Instant::now();
        let shown = self.shown(&decision.problems, now);
        self.tell(&network, &nodes, &decision.problems).await;
        let pending = decision.writes.len() - wrote.written;
        self.conditions(&network, &shown, decision.published.is_some(), pending).await?;
        log_round(wrote.written, decision.problems.len());
        let wrote = wrote.whole()?;
        Ok(self.again(&wrote, now))
    }

    fn again(&self, wrote: &Wrote, now: Instant) -> Option<Duration> {
        // Somebody else wrote to a node in between; what they wrote has been seen by the watch or will be.
        let conflicts = (wrote.conflicts > 0).then_some(Duration::from_millis(100));
        conflicts.or_else(|| self.forgets_in(now))
    }

    /// Writes this leadership's mark into every node that is about to be written to, before anything is decided.
    ///
    /// A predecessor that was stopped in the middle of a round may still have writes on their way, each for the version of
    /// the node it saw. Any change of the version makes them conflict from here on; what arrived before is seen by the
    /// list that follows. Otherwise a late write could give one node the subnet that another was given meanwhile.
    ///
    /// A node that is gone, or that changed since the list, needs no mark: its version is another already. So no node can
    /// delay the others by changing its own Node all the time. A node that cannot be written to for longer than any
    /// request is on its way is left out, or it would delay every other. Nodes that need nothing were complete in the
    /// predecessor's eyes too, or have changed since.
    async fn fence(
        &mut self,
        nodes: Vec<ObjectMeta>,
        look: &impl Fn(&[ObjectMeta]) -> Decision,
    ) -> Result<Vec<ObjectMeta>, RoundError> {
        let writes = look(&nodes).writes.into_iter();
        let open: Vec<NodeWrite> = writes
            .filter(|write| !self.marked.contains(&write.name))
            .map(|write| NodeWrite { annotations: BTreeMap::new(), ..write })
            .collect();
        if open.is_empty() {
            self.fenced = true;
            return Ok(nodes);
        }
        let wrote = self.write(&open).await;
        let failed = |write: &&NodeWrite| wrote.failed.iter().any(|(name, _)| *name == write.name);
        self.marked.extend(open.iter().filter(|write| !failed(write)).map(|write| write.name.clone()));
        if wrote.failed.is_empty() || self.began.elapsed() > FENCING {
            for (name, error) in &wrote.failed {
                warn!(node = name, error = %chain(error), "the node cannot be marked; going on without it");
            }
            self.fenced = true;
            return self.nodes().await;
        }
        wrote.whole()?;
        self.nodes().await
    }

    /// Returns an error if the lease names another process. To be called after nodes were read and before anything is
    /// decided from them: a later leader can only have written after that.
    async fn still_latest(&self) -> Result<(), RoundError> {
        match read("the lease", self.context.leadership.holds_lease()).await? {
            true => Ok(()),
            false => Err(RoundError::Deposed),
        }
    }

    async fn nodes(&self) -> Result<Vec<ObjectMeta>, RoundError> {
        let api = Api::<Node>::all(self.context.client.clone());
        // Without a resource version: what the store has now, not what some cache had.
        let list = read("the nodes", api.list_metadata(&ListParams::default())).await?;
        Ok(list.items.into_iter().map(|node| node.metadata).collect())
    }
}
