//! What the controller sees of the API: nodes and configurations as they come in, and what is worth a look.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use netferry_api::overlay::{OperatorNetwork, SINGLETON};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::error::chain;
use netferry_core::mtu::equipment::Equipment;
use netferry_core::mtu::plan::Observed;
use netferry_core::probe::Report;
use netferry_translate::machine::{Machine, understood};
use netferry_translate::{mtu as translate, probe};
use tracing::warn;

use crate::follow::Followed;
use crate::mtu;

/// What of a node a decision depends on, read once for every version of it that says something else.
#[derive(PartialEq, Eq)]
pub(super) struct Traits {
    /// What it says; nothing of a node without a name.
    pub(super) machine: Option<Arc<Machine>>,
    /// What it says that cannot be understood.
    pub(super) wrong: Vec<String>,
    /// What it reports to run.
    pub(super) observed: Option<Observed>,
    /// What its host is able to do, as far as it said so.
    pub(super) equipment: Equipment,
    /// What it found out about the ways to others.
    pub(super) report: Option<Report>,
    /// Whether it has a place in the network.
    pub(super) runs: bool,
}

impl Traits {
    fn of(node: &Node) -> Traits {
        let (machine, wrong) = understood(node);
        let mut wrong = Vec::from_iter(wrong);
        let annotations = node.metadata.annotations.as_ref();
        let mut noted = |problem: &dyn Display| wrong.push(format!("node {}: {problem}", node.name_any()));
        let observed = translate::observed(annotations).unwrap_or_else(|problem| {
            noted(&problem);
            None
        });
        let report = probe::report(annotations).unwrap_or_else(|problem| {
            noted(&problem);
            None
        });
        let equipment = translate::equipment(annotations);
        Traits { machine: machine.map(Arc::new), wrong, observed, equipment, report, runs: mtu::runs(node) }
    }
}

enum Change {
    Node(Box<watcher::Event<Node>>),
    Config { whole: bool },
    Other,
    Failed(watcher::Error),
}

/// Nodes and configurations, each by name.
pub(super) struct News {
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
    followed: Followed<Arc<Traits>>,
    /// Whether configurations were seen whole once.
    configs_seen: bool,
}

impl Watches {
    pub(super) fn new(client: &Client) -> Watches {
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
        Watches { streams, nodes, configs, followed: Followed::new(), configs_seen: false }
    }

    /// Whether everything was seen once: before that, what is missing may only not have been said yet.
    pub(super) fn complete(&self) -> bool {
        self.followed.is_complete() && self.configs_seen
    }

    /// What is known now.
    pub(super) fn news(&self) -> News {
        let known = self.followed.known();
        let read = |node: Arc<Node>| {
            let traits = known.get(node.metadata.name.as_ref()?)?.clone();
            Some((node, traits))
        };
        let mut nodes: Vec<_> = self.nodes.state().into_iter().filter_map(read).collect();
        nodes.sort_by(|(one, _), (other, _)| one.metadata.name.cmp(&other.metadata.name));
        let configs = self.configs.state().into_iter().map(|config| (config.name_any(), config)).collect();
        News { nodes, configs }
    }

    /// Waits for a change that may change a decision.
    pub(super) async fn changed(&mut self) {
        while let Some(change) = self.streams.next().await {
            let worth = match change {
                Change::Node(event) => self.followed.note(*event, |node| Arc::new(Traits::of(node))),
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
