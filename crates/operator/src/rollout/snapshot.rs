//! What a pass reads: nodes, pools, configurations, and what of them cannot be understood.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node as ApiNode, ObjectReference};
use kube::api::ListParams;
use kube::{Api, Resource};
use netferry_api::rollout::annotations::ROLE_LABEL;
use netferry_api::rollout::conditions::RolloutEvent;
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::label::Labels;
use netferry_core::name::NodeName;
use netferry_core::rollout::choose::{Choice, Hold};
use netferry_core::rollout::pool::{Membership, Node, Pool, WORKER, membership};
use netferry_translate::machine::Machine;
use netferry_translate::pool as pools;

use super::Rollout;
use super::watch::{Snapshot, Traits};
use crate::report::EventNote;
use crate::round::{RoundError, read};

/// A node that was read.
pub(crate) struct SeenNode {
    /// The object.
    pub(crate) object: Arc<ApiNode>,
    /// What it says.
    pub(crate) machine: Arc<Machine>,
    /// Its pool, by name; nothing for a node in none, or in several.
    pub(crate) pool: Option<String>,
}

impl SeenNode {
    /// Which node it is, for Events.
    pub(crate) fn reference(&self) -> ObjectReference {
        self.object.object_ref(&())
    }
}

/// A pool that was read.
pub(crate) struct SeenPool {
    /// The object.
    pub(crate) object: MachineConfigPool,
    /// What it says.
    pub(crate) pool: Pool,
    /// Why its configurations cannot be merged, if they cannot.
    pub(crate) refused: Option<String>,
    /// What was decided about its nodes.
    pub(crate) choice: Choice,
}

/// What was read in a pass.
#[derive(Default)]
pub(crate) struct ClusterSnapshot {
    pub(crate) nodes: Vec<SeenNode>,
    pub(crate) pools: Vec<SeenPool>,
    pub(crate) configs: BTreeMap<String, Arc<MachineConfig>>,
    /// What is wrong. Each gets one Event for as long as it lasts.
    pub(crate) problems: Vec<EventNote>,
    /// Why no node may be taken, if none may.
    pub(crate) held: Option<Hold>,
}

impl ClusterSnapshot {
    /// The nodes of a pool.
    pub(crate) fn of_pool<'a>(&'a self, pool: &'a str) -> Vec<&'a Node> {
        self.members(pool).map(|seen| &seen.machine.node).collect()
    }

    pub(crate) fn members<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a SeenNode> {
        self.nodes.iter().filter(move |seen| seen.pool.as_deref() == Some(pool))
    }

    /// Whether the cluster is one node.
    pub(crate) fn is_one_node(&self) -> bool {
        self.participants().count() == 1
    }

    /// Nodes that are assigned configurations and waited for.
    pub(crate) fn participants(&self) -> impl Iterator<Item = &SeenNode> {
        self.nodes.iter().filter(|seen| seen.machine.node.takes_part())
    }

    /// Nodes that take part and that no pool selects.
    pub(crate) fn unclaimed(&self) -> impl Iterator<Item = &SeenNode> {
        let pools = self.only_pools();
        self.participants()
            .filter(move |seen| membership(&pools, &seen.machine.node.labels) == Membership::None)
    }

    /// The roles whose MachineConfigs pools take, and the pools that take neither role.
    pub(crate) fn roles(&self) -> (BTreeSet<String>, impl Iterator<Item = &SeenPool>) {
        let roles = self.pools.iter().filter_map(|seen| role(&seen.pool)).collect();
        (roles, self.pools.iter().filter(|seen| role(&seen.pool).is_none()))
    }

    pub(crate) fn only_pools(&self) -> Vec<Pool> {
        self.pools.iter().map(|seen| seen.pool.clone()).collect()
    }

    fn add_pool(&mut self, object: MachineConfigPool) {
        let about = object.object_ref(&());
        match pools::pool(&object) {
            Ok(pool) => {
                if pool.selects_all() {
                    let note =
                        format!("MachineConfigPool {} selects every node, and so gets none", pool.name);
                    let reason = RolloutEvent::SelectingAll.as_str();
                    self.problems.push(EventNote::warning(about, "SelectNodes", reason, note));
                }
                self.pools.push(SeenPool { object, pool, refused: None, choice: Choice::default() });
            }
            // Its nodes may be another pool's too, which would take them elsewhere meanwhile.
            Err(wrong) => {
                self.held = Some(Hold::Telling(wrong.to_string()));
                self.problems.push(EventNote::warning(about, "ReadPool", "PoolUnusable", wrong.to_string()));
            }
        }
    }

    fn add_node(&mut self, object: Arc<ApiNode>, traits: Arc<Traits>, pools: &[Pool]) {
        let about = || object.object_ref(&());
        let unusable =
            |note: &String| EventNote::warning(about(), "ReadNode", "NodeAnnotationUnusable", note);
        self.problems.extend(traits.wrong.iter().map(unusable));
        let Some(machine) = traits.machine.clone() else { return };
        let found = membership(pools, &machine.node.labels);
        let warning = membership_warning(&machine.node.name, &found);
        self.problems
            .extend(warning.map(|note| EventNote::warning(about(), "SelectNodes", "PoolsOverlap", note)));
        let pool = found.pool().map(|pool| pool.name.clone());
        self.nodes.push(SeenNode { object, machine, pool });
    }
}

impl Rollout {
    /// Reads nodes, pools and configurations.
    pub(super) async fn look(&self, watched: Snapshot) -> Result<ClusterSnapshot, RoundError> {
        let api = Api::<MachineConfigPool>::all(self.context.client.clone());
        let listed = read("the pools", api.list(&ListParams::default())).await?;
        let mut snapshot = ClusterSnapshot { configs: watched.configs, ..ClusterSnapshot::default() };
        for object in listed.items {
            snapshot.add_pool(object);
        }
        let pools = snapshot.only_pools();
        for (object, traits) in watched.nodes {
            snapshot.add_node(object, traits, &pools);
        }
        Ok(snapshot)
    }
}

/// The role whose MachineConfigs a pool takes.
fn role(pool: &Pool) -> Option<String> {
    let takes = |role: &str| pool.takes(&Labels::from_iter([(ROLE_LABEL, role)]));
    [WORKER, &pool.name].into_iter().find(|role| takes(role)).map(str::to_owned)
}

fn membership_warning(node: &NodeName, found: &Membership<'_>) -> Option<String> {
    match found {
        Membership::None | Membership::In(_) => None,
        Membership::ControlPlaneDespite { also, .. } => {
            Some(format!("node {node} is in the control plane's pool, though {also} selects it too"))
        }
        Membership::Several(pools) => {
            Some(format!("node {node} is selected by several pools ({}) and is left alone", pools.join(", ")))
        }
    }
}
