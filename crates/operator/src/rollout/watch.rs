//! What the rollout follows: nodes and MachineConfigs, and which changes are a reason for a pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use netferry_api::rollout::MachineConfig;
use netferry_translate::machine::{Machine, understood};

use crate::cluster::{Change, Changes, ProjectedStore};

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

/// A node with what was read from this very version of it.
#[derive(Clone)]
struct Read {
    object: Arc<Node>,
    traits: Arc<Traits>,
}

impl PartialEq for Read {
    /// Kubelets write to their nodes all the time; only a change of the traits is a reason for a pass.
    fn eq(&self, other: &Read) -> bool {
        self.traits == other.traits
    }
}

/// A MachineConfig. Any change of one is a reason for a pass.
#[derive(Clone)]
struct Config(Arc<MachineConfig>);

impl PartialEq for Config {
    fn eq(&self, other: &Config) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Nodes and MachineConfigs, each by name.
pub(super) struct Snapshot {
    pub(super) nodes: Vec<(Arc<Node>, Arc<Traits>)>,
    pub(super) configs: BTreeMap<String, Arc<MachineConfig>>,
}

/// What the rollout follows.
///
/// Decisions may be made on what was true a while ago: whatever is written is written for the version it was decided
/// for, and `core`'s model tries every kind of late news.
pub(super) struct Watches {
    changes: Changes,
    nodes: ProjectedStore<Read>,
    configs: ProjectedStore<Config>,
    /// The annotations of nodes that capabilities depend on.
    keys: Vec<&'static str>,
}

impl Watches {
    pub(super) fn new(changes: Changes, keys: Vec<&'static str>) -> Watches {
        Watches { changes, nodes: ProjectedStore::new(), configs: ProjectedStore::new(), keys }
    }

    /// Returns true once everything was seen: before that, what is missing may only not have arrived yet.
    pub(super) fn complete(&self) -> bool {
        self.nodes.is_complete() && self.configs.is_complete()
    }

    /// What is known now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let node = |read: &Read| (Arc::clone(&read.object), Arc::clone(&read.traits));
        let config = |(name, config): (&String, &Config)| (name.clone(), Arc::clone(&config.0));
        Snapshot {
            nodes: self.nodes.known().values().map(node).collect(),
            configs: self.configs.known().iter().map(config).collect(),
        }
    }

    /// Waits for a change that may change a decision.
    pub(super) async fn changed(&mut self) {
        while let Some(change) = self.changes.recv().await {
            let worth = match change {
                Change::Node(event) => {
                    let keys = &self.keys;
                    self.nodes.note(event, |node| Read {
                        object: Arc::clone(node),
                        traits: Arc::new(Traits::of(node, keys)),
                    })
                }
                Change::Config(event) => self.configs.note(event, |config| Config(Arc::clone(config))),
                Change::Pool | Change::OperatorNetwork(_) => true,
                Change::ConfigNetwork => false,
            };
            if worth && self.complete() {
                return;
            }
        }
        // The watches have ended with the leadership.
        std::future::pending().await
    }
}
