//! One round: read, decide, act, report.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::LeaderTerm;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_translate::served::{Served, as_it_runs, served};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::act::Wrote;
use super::decide::{Decision, World, decide};
use super::{Overlay, log_round};
use crate::mtu::{self, Applied};
use crate::round::{RoundError, read};

/// How long a node that cannot be marked is waited for: longer than a request is on its way.
const FENCING: Duration = Duration::from_secs(60);
/// Fencing numbers are the lease's, which are signed 32 bits; what lies beyond was written by hand.
const HIGHEST_TERM: u32 = i32::MAX as u32 - 1;

impl Overlay {
    /// One round. Says when to look again, if it must be soon.
    pub(super) async fn round(
        &mut self,
        without_address: &BTreeSet<String>,
    ) -> Result<Option<Duration>, RoundError> {
        let api = Api::<OperatorNetwork>::all(self.client.clone());
        // A server that does not know the kind yet answers as if the object were not there.
        let network = read("the operator's Network", api.get_opt(SINGLETON)).await?;
        let Some(network) = network else {
            debug!("there is no network to run");
            return Ok(None);
        };
        let api = Api::<ConfigNetwork>::all(self.client.clone());
        let config = read("the cluster's Network", api.get_opt(SINGLETON)).await?;
        if served(&as_it_runs(network.clone(), config.as_ref()).spec) != Served::ByUs {
            debug!("the network is not ours to run");
            return Ok(None);
        }
        let under_way = match mtu::applied(&self.client, &self.namespace).await? {
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
        self.still_latest(&nodes)?;
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

    /// Marks every node that is about to be written to with this leader's term, before anything is decided.
    ///
    /// A predecessor that was stopped in the middle of a round may still have writes on their way, each for the
    /// version of the node it saw. Marking changes the version, so that they are refused from here on; what arrived
    /// before is seen by the list that follows. Without it a late write could give one node the subnet another was
    /// given meanwhile. A node that refuses to be marked for longer than any request lives is let be, or it would keep
    /// everybody waiting. Nodes that need nothing were complete in the predecessor's eyes too, or have changed since.
    async fn fence(
        &mut self,
        mut nodes: Vec<ObjectMeta>,
        look: &impl Fn(&[ObjectMeta]) -> Decision,
    ) -> Result<Vec<ObjectMeta>, RoundError> {
        let found = nodes.iter().filter_map(term_of).max();
        if let Some(found) = found.filter(|found| *found >= self.leadership.term() && !self.risen) {
            // The lease was deleted and its numbers began again.
            info!(found, "rising above the term of an earlier leader");
            self.leadership.rise_above(found).await?;
        }
        self.risen = true;
        loop {
            self.still_latest(&nodes)?;
            let term = self.leadership.term();
            let writes = look(&nodes).writes;
            let open: Vec<_> = writes
                .into_iter()
                .filter(|write| {
                    let node = nodes.iter().find(|node| node.name.as_ref() == Some(&write.name));
                    node.and_then(term_of) != Some(term)
                })
                .collect();
            if open.is_empty() {
                self.fenced = true;
                return Ok(nodes);
            }
            let marks: Vec<_> = open
                .into_iter()
                .map(|mut write| {
                    write.annotations = [LeaderTerm::from(term).entry()].into();
                    write
                })
                .collect();
            let wrote = self.write(&marks).await;
            if wrote.failed.is_some() && self.began.elapsed() > FENCING {
                warn!("some nodes cannot be written to; going on without them");
                self.fenced = true;
                return self.nodes().await;
            }
            wrote.whole()?;
            nodes = self.nodes().await?;
        }
    }

    fn still_latest(&self, nodes: &[ObjectMeta]) -> Result<(), RoundError> {
        let term = self.leadership.term();
        match nodes.iter().filter_map(term_of).max().filter(|found| *found > term) {
            Some(found) => Err(RoundError::Deposed { found, term }),
            None => Ok(()),
        }
    }

    async fn nodes(&self) -> Result<Vec<ObjectMeta>, RoundError> {
        let api = Api::<Node>::all(self.client.clone());
        // Without a resource version: what the store has now, not what some cache had.
        let list = read("the nodes", api.list_metadata(&ListParams::default())).await?;
        Ok(list.items.into_iter().map(|node| node.metadata).collect())
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }
}

fn term_of(node: &ObjectMeta) -> Option<u32> {
    let term = LeaderTerm::read(node.annotations.as_ref()?).ok()??;
    Some(*term.get()).filter(|term| *term <= HIGHEST_TERM)
}
