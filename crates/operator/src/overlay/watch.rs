//! What is worth a look: changes of the API that may change a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{
    GatewayRouterLrpIfAddrs, HostCidrs, NetworkIds, NodeId, NodeSubnets, OverlayRunning,
    TransitSwitchPortIfAddr,
};
use netferry_api::overlay::conditions::OperatorConditionType as Kind;
use netferry_api::overlay::{ConfigNetwork, OperatorCondition, OperatorNetwork, SINGLETON};
use netferry_translate::applicant::lacks_address;
use tokio::time::Instant;
use tracing::warn;

use crate::follow::ProjectedStore;
use netferry_core::error::chain;

/// What of a node a decision depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Traits {
    annotations: Vec<Option<String>>,
    lacks_address: bool,
}

/// What the overlay's controller says of it.
const CONDITIONS: [Kind; 4] = [Kind::Degraded, Kind::Available, Kind::Progressing, Kind::Upgradeable];

const KEYS: [&str; 7] = [
    HostCidrs::KEY,
    NodeSubnets::KEY,
    NodeId::KEY,
    NetworkIds::KEY,
    TransitSwitchPortIfAddr::KEY,
    GatewayRouterLrpIfAddrs::KEY,
    OverlayRunning::KEY,
];

impl Traits {
    fn of(node: &Node) -> Traits {
        let annotations = node.annotations();
        Traits {
            annotations: KEYS.iter().map(|key| annotations.get(*key).cloned()).collect(),
            lacks_address: lacks_address(node),
        }
    }
}

/// What of the operator's `Network` a decision depends on, and what was said of it: its status tells every step of a
/// change of MTU too, and each look is at all nodes.
#[derive(Clone, PartialEq, Debug)]
struct Wanted {
    uid: Option<String>,
    generation: Option<i64>,
    annotations: BTreeMap<String, String>,
    conditions: Vec<OperatorCondition>,
}

impl Wanted {
    fn of(network: &OperatorNetwork) -> Wanted {
        let said = network.status.iter().flat_map(|status| &status.conditions);
        let of_the_overlay =
            |one: &&OperatorCondition| CONDITIONS.iter().any(|kind| kind.as_str() == one.type_);
        Wanted {
            uid: network.uid(),
            generation: network.metadata.generation,
            annotations: network.annotations().clone(),
            conditions: said.filter(of_the_overlay).cloned().collect(),
        }
    }
}

enum Change {
    Node(Box<watcher::Event<Node>>),
    Wanted(Box<watcher::Event<OperatorNetwork>>),
    Published,
    Failed(watcher::Error),
}

/// How long a node may be without an address before that is worth a word: kubelets register first and say their
/// addresses a moment later.
const UNADDRESSED: Duration = Duration::from_secs(10);

/// The watches of one leadership.
pub(crate) struct Watches {
    streams: SelectAll<BoxStream<'static, Change>>,
    nodes: ProjectedStore<Traits>,
    wanted: ProjectedStore<Wanted>,
    /// Nodes without an address, and since when that is known.
    unaddressed: BTreeMap<String, Instant>,
}

impl Watches {
    pub(crate) fn new(client: &Client) -> Watches {
        let the_one = watcher::Config::default().fields(&format!("metadata.name={SINGLETON}"));
        let nodes = watcher(Api::<Node>::all(client.clone()), watcher::Config::default())
            .default_backoff()
            .map(|event| event.map_or_else(Change::Failed, |event| Change::Node(Box::new(event))));
        let wanted = watcher(Api::<OperatorNetwork>::all(client.clone()), the_one.clone())
            .default_backoff()
            .map(|event| event.map_or_else(Change::Failed, |event| Change::Wanted(Box::new(event))));
        let published = watcher(Api::<ConfigNetwork>::all(client.clone()), the_one)
            .default_backoff()
            .map(|event| event.map_or_else(Change::Failed, |_| Change::Published));
        let streams = select_all([nodes.boxed(), wanted.boxed(), published.boxed()]);
        let (nodes, wanted) = (ProjectedStore::new(), ProjectedStore::new());
        Watches { streams, nodes, wanted, unaddressed: BTreeMap::new() }
    }

    /// Waits for a change that may change a decision.
    pub(crate) async fn changed(&mut self) {
        while let Some(change) = self.streams.next().await {
            match change {
                Change::Published => return,
                Change::Wanted(event) => {
                    if self.wanted.note(*event, Wanted::of) {
                        return;
                    }
                }
                Change::Node(event) => {
                    if self.nodes.note(*event, Traits::of) {
                        return;
                    }
                }
                // The watch is tried again by itself, later and later.
                Change::Failed(error) => warn!(error = %chain(&error), "a watch failed"),
            }
        }
        // The streams never end; if they did, only the periodic look would be left.
        std::future::pending().await
    }

    /// Nodes that have been without an address of their own for a while, and how long until the next one has been.
    pub(crate) fn without_address(&mut self, now: Instant) -> (BTreeSet<String>, Option<Duration>) {
        let nodes = self.nodes.known();
        let lacks = |name: &String| nodes.get(name).is_some_and(|traits| traits.lacks_address);
        self.unaddressed.retain(|name, _| lacks(name));
        for (name, _) in nodes.iter().filter(|(_, traits)| traits.lacks_address) {
            self.unaddressed.entry(name.clone()).or_insert(now);
        }
        let (over, coming): (Vec<_>, Vec<_>) =
            self.unaddressed.iter().partition(|(_, since)| now >= **since + UNADDRESSED);
        let next = coming.iter().map(|(_, since)| **since + UNADDRESSED - now).min();
        (over.into_iter().map(|(name, _)| name.clone()).collect(), next)
    }
}
