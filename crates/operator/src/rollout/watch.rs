//! What the controller sees of the API: nodes and configurations as they come in, and what is worth a look.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use netferry_api::overlay::{OperatorNetwork, SINGLETON};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::error::chain;
use netferry_translate::machine::{Machine, understood};
use tracing::warn;

use crate::follow::ProjectedStore;

/// What of a node a decision depends on, read once for every version of it in which that differs.
#[derive(PartialEq, Eq)]
pub(crate) struct Traits {
    /// The node; `None` if it has no name.
    pub(super) machine: Option<Arc<Machine>>,
    /// What of it cannot be understood.
    pub(super) wrong: Option<String>,
    /// The annotations that capabilities depend on.
    watched: Vec<Option<String>>,
}

impl Traits {
    fn of(node: &Node, keys: &[&'static str]) -> Traits {
        let (machine, wrong) = understood(node);
        let watched = keys.iter().map(|key| node.annotations().get(*key).cloned()).collect();
        Traits { machine: machine.map(Arc::new), wrong, watched }
    }
}

enum Change {
    Node(Box<watcher::Event<Node>>),
    Config { whole: bool },
    Other,
    Failed(watcher::Error),
}

/// Nodes and configurations, each by name.
pub(super) struct Snapshot {
    pub(super) nodes: Vec<(Arc<Node>, Arc<Traits>)>,
    pub(super) configs: BTreeMap<String, Arc<MachineConfig>>,
}

/// The watches of one leadership.
///
/// Decisions may be made on what was true a while ago: whatever is written is written for the version it was decided
/// for, and `core`'s model tries every kind of old news.
pub(super) struct Watches {
    streams: SelectAll<BoxStream<'static, Change>>,
    nodes: Store<Node>,
    configs: Store<MachineConfig>,
    followed: ProjectedStore<Arc<Traits>>,
    /// The annotations of nodes that capabilities depend on.
    keys: Vec<&'static str>,
    /// Whether configurations were seen whole once.
    configs_seen: bool,
}

impl Watches {
    pub(super) fn new(client: &Client, keys: Vec<&'static str>) -> Watches {
        let (nodes, node_writer) = store::<Node>();
        let (configs, config_writer) = store::<MachineConfig>();
        let usual = watcher::Config::default();
        let the_one = watcher::Config::default().fields(&format!("metadata.name={SINGLETON}"));
        let nodes_seen = watcher(Api::<Node>::all(client.clone()), usual.clone())
            .default_backoff()
            .reflect(node_writer)
            .map(|event| event.map_or_else(Change::Failed, |event| Change::Node(Box::new(event))));
        let configs_seen = watcher(Api::<MachineConfig>::all(client.clone()), usual.clone())
            .default_backoff()
            .reflect(config_writer)
            .map(|event| match event {
                Ok(event) => Change::Config { whole: matches!(event, watcher::Event::InitDone) },
                Err(error) => Change::Failed(error),
            });
        let pools = watcher(Api::<MachineConfigPool>::all(client.clone()), usual)
            .default_backoff()
            .map(|event| event.map_or_else(Change::Failed, |_| Change::Other));
        let wanted = watcher(Api::<OperatorNetwork>::all(client.clone()), the_one)
            .default_backoff()
            .map(|event| event.map_or_else(Change::Failed, |_| Change::Other));
        let streams = select_all([nodes_seen.boxed(), configs_seen.boxed(), pools.boxed(), wanted.boxed()]);
        Watches { streams, nodes, configs, followed: ProjectedStore::new(), keys, configs_seen: false }
    }

    /// Whether everything was seen once: before that, what is missing may only not have been said yet.
    pub(super) fn complete(&self) -> bool {
        self.followed.is_complete() && self.configs_seen
    }

    /// What is known now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let known = self.followed.known();
        let read = |node: Arc<Node>| {
            let traits = known.get(node.metadata.name.as_ref()?)?.clone();
            Some((node, traits))
        };
        let mut nodes: Vec<_> = self.nodes.state().into_iter().filter_map(read).collect();
        nodes.sort_by(|(one, _), (other, _)| one.metadata.name.cmp(&other.metadata.name));
        let configs = self.configs.state().into_iter().map(|config| (config.name_any(), config)).collect();
        Snapshot { nodes, configs }
    }

    /// Waits for a change that may change a decision.
    pub(super) async fn changed(&mut self) {
        while let Some(change) = self.streams.next().await {
            let worth = match change {
                Change::Node(event) => {
                    let keys = &self.keys;
                    self.followed.note(*event, |node| Arc::new(Traits::of(node, keys)))
                }
                Change::Config { whole } => {
                    self.configs_seen |= whole;
                    true
                }
                Change::Other => true,
                // The watch is tried again by itself, later and later.
                Change::Failed(error) => {
                    warn!(error = %chain(&error), "a watch failed");
                    false
                }
            };
            if worth && self.complete() {
                return;
            }
        }
        // The streams never end; if they did, only the periodic look would be left.
        std::future::pending().await
    }
}
