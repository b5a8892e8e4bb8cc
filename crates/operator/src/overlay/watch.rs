//! What is worth a look: changes of the API that may change a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{
    GatewayRouterLrpIfAddrs, HostCidrs, NetworkIds, NodeId, NodeSubnets, OverlayRunning,
    TransitSwitchPortIfAddr,
};
use netferry_api::overlay::conditions::OperatorConditionType as Kind;
use netferry_api::overlay::{OperatorCondition, OperatorNetwork};
use netferry_translate::applicant::lacks_address;
use tokio::time::Instant;

use crate::cluster::{Change, Changes, ProjectedStore};

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
struct NetworkTraits {
    uid: Option<String>,
    generation: Option<i64>,
    annotations: BTreeMap<String, String>,
    conditions: Vec<OperatorCondition>,
}

impl NetworkTraits {
    fn of(network: &OperatorNetwork) -> NetworkTraits {
        let said = network.status.iter().flat_map(|status| &status.conditions);
        let of_the_overlay =
            |one: &&OperatorCondition| CONDITIONS.iter().any(|kind| kind.as_str() == one.type_);
        NetworkTraits {
            uid: network.uid(),
            generation: network.metadata.generation,
            annotations: network.annotations().clone(),
            conditions: said.filter(of_the_overlay).cloned().collect(),
        }
    }
}

/// How long a node may be without an address before that is worth a word: kubelets register first and say their
/// addresses a moment later.
const UNADDRESSED: Duration = Duration::from_secs(10);

/// What the overlay follows.
pub(crate) struct Watches {
    changes: Changes,
    nodes: ProjectedStore<Traits>,
    networks: ProjectedStore<NetworkTraits>,
    /// Nodes without an address, and since when that is known.
    unaddressed: BTreeMap<String, Instant>,
}

impl Watches {
    pub(crate) fn new(changes: Changes) -> Watches {
        let (nodes, networks) = (ProjectedStore::new(), ProjectedStore::new());
        Watches { changes, nodes, networks, unaddressed: BTreeMap::new() }
    }

    /// Waits for a change that may change a decision.
    pub(crate) async fn changed(&mut self) {
        while let Some(change) = self.changes.recv().await {
            let worth = match change {
                Change::ConfigNetwork => true,
                Change::OperatorNetwork(event) => {
                    self.networks.note(event, |network| NetworkTraits::of(network))
                }
                Change::Node(event) => self.nodes.note(event, |node| Traits::of(node)),
                Change::Pool | Change::Config(_) => false,
            };
            if worth {
                return;
            }
        }
        // The watches have ended with the leadership.
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
