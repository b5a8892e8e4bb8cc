//! What is worth a look: changes of the API that may change a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{
    GatewayRouterLrpIfAddrs, HostCidrs, LeaderTerm, NetworkIds, NodeId, NodeSubnets, OverlayRunning,
    TransitSwitchPortIfAddr,
};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_translate::applicant::lacks_address;
use tokio::time::Instant;
use tracing::warn;

use crate::follow::Followed;
use netferry_core::error::chain;

/// What of a node a decision depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Traits {
    annotations: Vec<Option<String>>,
    lacks_address: bool,
}

const KEYS: [&str; 8] = [
    HostCidrs::KEY,
    NodeSubnets::KEY,
    NodeId::KEY,
    NetworkIds::KEY,
    TransitSwitchPortIfAddr::KEY,
    GatewayRouterLrpIfAddrs::KEY,
    OverlayRunning::KEY,
    LeaderTerm::KEY,
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

enum Change {
    Node(Box<watcher::Event<Node>>),
    Network,
    Failed(watcher::Error),
}

/// How long a node may be without an address before that is worth a word: kubelets register first and say their
/// addresses a moment later.
const UNADDRESSED: Duration = Duration::from_secs(10);

/// The watches of one leadership.
pub(crate) struct Watches {
    streams: SelectAll<BoxStream<'static, Change>>,
    nodes: Followed<Traits>,
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
            .map(|event| event.map_or_else(Change::Failed, |_| Change::Network));
        let published = watcher(Api::<ConfigNetwork>::all(client.clone()), the_one)
            .default_backoff()
            .map(|event| event.map_or_else(Change::Failed, |_| Change::Network));
        let streams = select_all([nodes.boxed(), wanted.boxed(), published.boxed()]);
        Watches { streams, nodes: Followed::new(), unaddressed: BTreeMap::new() }
    }

    /// Waits for a change that may change a decision.
    pub(crate) async fn changed(&mut self) {
        while let Some(change) = self.streams.next().await {
            match change {
                Change::Network => return,
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
