//! What a pass reads: nodes, pools, configurations, and what of them cannot be understood.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node as ApiNode, ObjectReference};
use kube::api::ListParams;
use kube::{Api, Resource};
use netferry_api::rollout::conditions::RolloutEvent;
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::mtu::SOURCE;
use netferry_core::mtu::equipment::Equipped;
use netferry_core::mtu::plan::NodeFacts;
use netferry_core::mtu::probe::judge::{Probes, judge};
use netferry_core::mtu::record::Record;
use netferry_core::name::NodeName;
use netferry_core::rollout::choose::{Choice, Hold};
use netferry_core::rollout::pool::{Membership, Node, Pool, membership};
use netferry_core::size::Envelope;
use netferry_translate::machine::Machine;
use netferry_translate::{machine_config, mtu as translate, pool as pools};

use super::Rollout;
use super::watch::{News, Traits};
use crate::report::Told;
use crate::round::{RoundError, read};

/// A node that was read.
pub(super) struct Seen {
    /// The object.
    pub(super) object: Arc<ApiNode>,
    /// What it says.
    pub(super) machine: Arc<Machine>,
    /// What of it a decision depends on.
    pub(super) traits: Arc<Traits>,
    /// Its pool, by name; nothing for a node in none, or in several.
    pub(super) pool: Option<String>,
}

impl Seen {
    /// Which node it is, for Events.
    pub(super) fn reference(&self) -> ObjectReference {
        self.object.object_ref(&())
    }
}

/// A pool that was read.
pub(super) struct SeenPool {
    /// The object.
    pub(super) object: MachineConfigPool,
    /// What it says.
    pub(super) pool: Pool,
    /// Why its configurations cannot be merged, if they cannot.
    pub(super) refused: Option<String>,
    /// What was decided about its nodes.
    pub(super) choice: Choice,
}

/// What was read in a pass.
#[derive(Default)]
pub(super) struct World {
    pub(super) nodes: Vec<Seen>,
    pub(super) pools: Vec<SeenPool>,
    pub(super) configs: BTreeMap<String, Arc<MachineConfig>>,
    /// What cannot be understood, and what is worth saying.
    pub(super) told: Vec<Told>,
    /// Why no node may be taken, if none may.
    pub(super) held: Option<Hold>,
}

impl World {
    /// The nodes of a pool.
    pub(super) fn of_pool<'a>(&'a self, pool: &'a str) -> Vec<&'a Node> {
        self.members(pool).map(|seen| &seen.machine.node).collect()
    }

    pub(super) fn members<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Seen> {
        self.nodes.iter().filter(move |seen| seen.pool.as_deref() == Some(pool))
    }

    /// Whether the cluster is one node.
    pub(super) fn is_one_node(&self) -> bool {
        self.nodes.iter().filter(|seen| seen.machine.node.takes_part()).count() == 1
    }

    /// What nodes say that their pods run at.
    pub(super) fn pods(&self) -> impl Iterator<Item = Envelope> {
        let nodes = self.nodes.iter().filter(|seen| seen.machine.node.takes_part());
        nodes.filter_map(|seen| seen.traits.observed?.network)
    }

    /// What is known of nodes, for the MTU.
    pub(super) fn facts(&self) -> BTreeMap<NodeName, NodeFacts> {
        let targets: BTreeMap<&str, Option<&String>> =
            self.pools.iter().map(|seen| (seen.pool.name.as_str(), seen.pool.target.as_ref())).collect();
        let epoch =
            |name: &String| machine_config::epochs(&self.configs.get(name)?.metadata).ok()?.get(SOURCE);
        let pools = self.only_pools();
        let of = |seen: &Seen| {
            let node = &seen.machine.node;
            let target = seen.pool.as_deref().and_then(|pool| targets.get(pool).copied().flatten());
            let facts = translate::facts(&seen.machine, seen.traits.observed, target, epoch);
            let unclaimed = seen.pool.is_none() && pools::unclaimed(&pools, &node.labels);
            (node.name.clone(), NodeFacts { unclaimed, ..facts })
        };
        self.nodes.iter().filter(|seen| seen.machine.node.takes_part()).map(of).collect()
    }

    /// What hosts are able to do.
    pub(super) fn equipped(&self) -> Equipped {
        let nodes = self.nodes.iter().filter(|seen| seen.machine.node.takes_part());
        nodes.map(|seen| (seen.machine.node.name.clone(), seen.traits.equipment.clone())).collect()
    }

    fn only_pools(&self) -> Vec<Pool> {
        self.pools.iter().map(|seen| seen.pool.clone()).collect()
    }

    /// Says which nodes no pool selects: nobody tells them anything, and a change waits for them.
    pub(super) fn tell_of_unclaimed(&mut self) {
        let pools = self.only_pools();
        let nodes = self.nodes.iter().filter(|seen| seen.machine.node.takes_part());
        let unclaimed =
            nodes.filter(|seen| membership(&pools, &seen.machine.node.labels) == Membership::None);
        let told = unclaimed.map(|seen| {
            let name = &seen.machine.node.name;
            let note = format!(
                "no MachineConfigPool selects node {name}: it is not told the cluster's MTU, and the change waits for it; \
                 give it a label that one selects"
            );
            Told::warning(seen.reference(), "SelectNodes", "NoPool", note)
        });
        self.told.extend(told.collect::<Vec<_>>());
    }

    /// What nodes found out about the ways between them, and what it means for a change.
    pub(super) fn probes(&self, record: &Record) -> Probes {
        if record.change.is_none() {
            return Probes::default();
        }
        let all = || self.nodes.iter().filter(|seen| seen.machine.node.takes_part());
        let nodes = all().map(|seen| (seen.machine.node.name.clone(), seen.machine.node.uid.clone()));
        let reports =
            all().filter_map(|seen| Some((seen.machine.node.name.clone(), seen.traits.report.clone()?)));
        judge(record, &nodes.collect(), &reports.collect())
    }

    fn add_pool(&mut self, object: MachineConfigPool) {
        let about = object.object_ref(&());
        match pools::pool(&object) {
            Ok(pool) => {
                if pool.selects_all() {
                    let note =
                        format!("MachineConfigPool {} selects every node, and so gets none", pool.name);
                    let reason = RolloutEvent::SelectingAll.as_str();
                    self.told.push(Told::warning(about, "SelectNodes", reason, note));
                }
                self.pools.push(SeenPool { object, pool, refused: None, choice: Choice::default() });
            }
            // Its nodes may be another pool's too, which would take them elsewhere meanwhile.
            Err(wrong) => {
                self.held = Some(Hold::Telling(wrong.to_string()));
                self.told.push(Told::warning(about, "ReadPool", "PoolUnusable", wrong.to_string()));
            }
        }
    }

    fn add_node(&mut self, object: Arc<ApiNode>, traits: Arc<Traits>, pools: &[Pool]) {
        let about = || object.object_ref(&());
        let unusable = |note: &String| Told::warning(about(), "ReadNode", "NodeAnnotationUnusable", note);
        self.told.extend(traits.wrong.iter().map(unusable));
        let Some(machine) = traits.machine.clone() else { return };
        let found = membership(pools, &machine.node.labels);
        let odd = odd(&machine.node.name, &found);
        self.told.extend(odd.map(|note| Told::warning(about(), "SelectNodes", "PoolsOverlap", note)));
        let pool = found.pool().map(|pool| pool.name.clone());
        self.nodes.push(Seen { object, machine, traits, pool });
    }
}

impl Rollout {
    /// Reads nodes, pools and configurations.
    pub(super) async fn look(&self, news: News) -> Result<World, RoundError> {
        let api = Api::<MachineConfigPool>::all(self.client.clone());
        let listed = read("the pools", api.list(&ListParams::default())).await?;
        let mut world = World { configs: news.configs, ..World::default() };
        for object in listed.items {
            world.add_pool(object);
        }
        let pools = world.only_pools();
        for (object, traits) in news.nodes {
            world.add_node(object, traits, &pools);
        }
        Ok(world)
    }
}

fn odd(node: &NodeName, found: &Membership<'_>) -> Option<String> {
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
