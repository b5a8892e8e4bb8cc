//! One pass: read, decide, act, report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node as ApiNode, ObjectReference};
use kube::api::{ListParams, Patch};
use kube::{Api, Resource, ResourceExt};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_api::rollout::conditions::RolloutEvent;
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::mtu::plan::{NodeFacts, SpecEdit};
use netferry_core::mtu::record::Record;
use netferry_core::name::NodeName;
use netferry_core::rollout::pool::{Membership, Node, Pool, Truth, membership};
use netferry_translate::machine::{Machine, NotAMachine, machine};
use netferry_translate::{machine_config, mtu as translate, pool as pools};
use serde_json::json;
use tracing::{debug, info};

use super::Rollout;
use super::watch::News;
use crate::mtu::{self, Applied, First};
use crate::overlay::decide::ours;
use crate::overlay::round::{RoundError, read};
use crate::report::{self, Told, Wanted};

/// A node that was read.
pub(super) struct Seen {
    /// The object.
    pub(super) object: Arc<ApiNode>,
    /// What it says.
    pub(super) machine: Machine,
    /// Its pool, by name; nothing for a node in none, or in several.
    pub(super) pool: Option<String>,
}

/// A pool that was read.
pub(super) struct SeenPool {
    /// The object.
    pub(super) object: MachineConfigPool,
    /// What it says.
    pub(super) pool: Pool,
    /// Why its configurations cannot be merged, if they cannot.
    pub(super) refused: Option<String>,
}

/// What was read in a pass.
pub(super) struct World {
    pub(super) nodes: Vec<Seen>,
    pub(super) pools: Vec<SeenPool>,
    pub(super) configs: BTreeMap<String, Arc<MachineConfig>>,
    /// What cannot be understood, and what is worth saying.
    pub(super) told: Vec<Told>,
    /// Why no node may be taken, if none may.
    pub(super) held: Option<String>,
}

impl World {
    /// The nodes of a pool.
    pub(super) fn of_pool(&self, pool: &str) -> Vec<Node> {
        self.members(pool).map(|seen| seen.machine.node.clone()).collect()
    }

    pub(super) fn members<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Seen> {
        self.nodes.iter().filter(move |seen| seen.pool.as_deref() == Some(pool))
    }
}

/// Soon: something was written, and what follows from it is decided from what the API says then.
const SOON: Duration = Duration::from_millis(20);

impl Rollout {
    /// One pass. Says when to look again, if it must be soon.
    pub(super) async fn round(&mut self, news: News) -> Result<Option<Duration>, RoundError> {
        let api = Api::<OperatorNetwork>::all(self.client.clone());
        let network = read("the operator's Network", api.get_opt(SINGLETON)).await?;
        let Some(network) = network.filter(|network| ours(&network.spec)) else {
            debug!("there is no network to run");
            return Ok(None);
        };
        self.metrics.round();
        // What is applied first, nodes after: a node that is not among them joined later, and reads it later.
        let applied = mtu::applied(&self.client, &self.namespace).await?;
        let api = Api::<ConfigNetwork>::all(self.client.clone());
        let config = read("the cluster's Network", api.get_opt(SINGLETON)).await?;
        let mut world = self.look(news).await?;
        let running = world.nodes.iter().any(|seen| mtu::runs(&seen.object));
        let found = match applied {
            Applied::Is { record, version, since } => Some((record, Some(version), since)),
            Applied::Unreadable(wrong) => return self.stuck(&network, world, &wrong).await,
            Applied::Nothing => {
                let written = world.configs.values().map(AsRef::as_ref);
                match mtu::first(config.as_ref(), running, written) {
                    First::NotYet => None,
                    First::Lost(wrong) => return self.stuck(&network, world, &wrong).await,
                    // What runs is what is published; it is written down with the first change.
                    First::Record(record) => Some((record, None, None)),
                }
            }
        };
        if let Some((record, version, since)) = found {
            if version.is_some() && !running && record.change.is_none() {
                // Nobody runs it any more, so nobody has to be taken anywhere: what is applied follows what is published.
                if let Some(mtu) = mtu::published(config.as_ref()).filter(|mtu| *mtu != record.mtu) {
                    let next = Record { epoch: record.epoch + 1, mtu, change: None };
                    self.store(&network, version.as_deref(), &next).await?;
                    return Ok(Some(SOON));
                }
            }
            let facts = facts(&world);
            let Some(outcome) = mtu::think(&record, &network, &facts) else { return Ok(None) };
            self.metrics.mtu(&record, &outcome.decision, &facts, since);
            if outcome.decision.record != record {
                self.store(&network, version.as_deref(), &outcome.decision.record).await?;
                for event in &outcome.decision.events {
                    info!(epoch = outcome.decision.record.epoch, "{event}");
                    let (reason, note) = (event.reason().to_owned(), event.to_string());
                    let about = network.object_ref(&());
                    self.tell(&Told { reason, note, about, warning: false, action: "ChangeMTU" }).await;
                }
                return Ok(Some(SOON));
            }
            if let Some(edit) = &outcome.decision.edit {
                self.edit(&network, edit).await?;
                return Ok(Some(SOON));
            }
            world.told.extend(outcome.told(&network));
            if version.is_some() || outcome.worth_a_word(&network) {
                self.conditions(&network, &outcome.conditions).await?;
            }
            // A cluster whose MTU was never changed is left as it is, a refused change included.
            if version.is_some() {
                if running {
                    self.publish(config.as_ref(), &record).await?;
                }
                if self.make_pools(&world).await? || self.write_configs(&mut world, &record).await? {
                    return Ok(Some(SOON));
                }
            }
            if world.held.is_none() {
                world.held = outcome.held;
            }
        }
        self.render(&mut world).await?;
        let chosen = self.choose(&world).await?;
        let drained = self.drain(&world).await?;
        self.report(&mut world).await?;
        self.sweep(&world).await?;
        self.metrics.drains(&self.drains.blocking());
        self.tell_once(std::mem::take(&mut world.told)).await;
        Ok([chosen, drained].into_iter().flatten().min())
    }

    /// Nothing can be decided about sizes; nodes that are on their way are still let back in.
    async fn stuck(
        &mut self,
        network: &OperatorNetwork,
        mut world: World,
        wrong: &str,
    ) -> Result<Option<Duration>, RoundError> {
        self.conditions(network, &[mtu::lost(wrong)]).await?;
        let drained = self.drain(&world).await?;
        let (reason, note) = ("MTURecordLost".to_owned(), wrong.to_owned());
        let told = Told { reason, note, about: network.object_ref(&()), warning: true, action: "ChangeMTU" };
        world.told.push(told);
        self.tell_once(world.told).await;
        Ok(drained)
    }

    /// Reads nodes, pools and configurations.
    async fn look(&self, news: News) -> Result<World, RoundError> {
        let api = Api::<MachineConfigPool>::all(self.client.clone());
        let listed = read("the pools", api.list(&ListParams::default())).await?;
        let mut told = Vec::new();
        let mut held = None;
        let mut seen_pools = Vec::new();
        for object in listed.items {
            let about = object.object_ref(&());
            match pools::pool(&object) {
                Ok(pool) => {
                    if pool.selects_all() {
                        let note =
                            format!("MachineConfigPool {} selects every node, and so gets none", pool.name);
                        let reason = RolloutEvent::SelectingAll.as_str().to_owned();
                        told.push(Told { reason, note, about, warning: true, action: "SelectNodes" });
                    }
                    seen_pools.push(SeenPool { object, pool, refused: None });
                }
                // Its nodes may be another pool's too, which would take them elsewhere meanwhile.
                Err(wrong) => {
                    let (reason, note) = ("PoolUnusable".to_owned(), wrong.to_string());
                    held = Some(note.clone());
                    told.push(Told { reason, note, about, warning: true, action: "ReadPool" });
                }
            }
        }
        let only: Vec<Pool> = seen_pools.iter().map(|seen| seen.pool.clone()).collect();
        let mut nodes = Vec::new();
        for object in news.nodes {
            let (machine, wrong) = understood(&object);
            let about = object.object_ref(&());
            if let Some(note) = wrong {
                let reason = "NodeAnnotationUnusable".to_owned();
                told.push(Told { reason, note, about: about.clone(), warning: true, action: "ReadNode" });
            }
            let Some(machine) = machine else { continue };
            if let Err(wrong) = translate::observed(object.metadata.annotations.as_ref()) {
                let (reason, note) =
                    ("NodeAnnotationUnusable".to_owned(), format!("node {}: {wrong}", machine.node.name));
                told.push(Told { reason, note, about: about.clone(), warning: true, action: "ReadNode" });
            }
            let found = membership(&only, &machine.node.labels);
            if let Some(note) = odd(&machine.node.name, &found) {
                let reason = "PoolsOverlap".to_owned();
                told.push(Told { reason, note, about, warning: true, action: "SelectNodes" });
            }
            let pool = found.pool().map(|pool| pool.name.clone());
            nodes.push(Seen { object, machine, pool });
        }
        Ok(World { nodes, pools: seen_pools, configs: news.configs, told, held })
    }

    async fn store(
        &self,
        network: &OperatorNetwork,
        over: Option<&str>,
        record: &Record,
    ) -> Result<(), RoundError> {
        let Some(cluster) = translate::cluster(&network.spec) else { return Ok(()) };
        mtu::apply(&self.client, &self.leadership, &self.namespace, over, record, cluster.plugin).await
    }

    /// Makes an edit of the operator's `Network` that nobody has to make by hand.
    async fn edit(&self, network: &OperatorNetwork, edit: &SpecEdit) -> Result<(), RoundError> {
        info!(?edit, "editing the operator's Network");
        let patch = json!({
            "metadata": { "resourceVersion": network.resource_version() },
            "spec": translate::printed_edit(edit, &network.spec),
        });
        let api = Api::<OperatorNetwork>::all(self.client.clone());
        let params = report::written_by_us();
        let patch = Patch::Merge(&patch);
        let written = self.leadership.act(api.patch(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the operator's Network"))
    }

    /// Publishes where the cluster is going.
    async fn publish(&self, config: Option<&ConfigNetwork>, record: &Record) -> Result<(), RoundError> {
        // Without one, whoever gives nodes their places makes it first.
        let Some(config) = config else { return Ok(()) };
        let now = config.status.clone().unwrap_or_default();
        let (mtu, migration) = (record.published().bytes(), translate::migration(record));
        if now.cluster_network_mtu == Some(mtu) && now.migration == migration {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "resourceVersion": config.resource_version() },
            "status": { "clusterNetworkMTU": mtu, "migration": migration },
        });
        let api = Api::<ConfigNetwork>::all(self.client.clone());
        let params = report::written_by_us();
        let patch = Patch::Merge(&patch);
        let written = self.leadership.act(api.patch_status(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the status of the cluster's Network"))
    }

    /// Writes conditions of the operator's `Network`, if they say something else than they do.
    async fn conditions(&self, network: &OperatorNetwork, wanted: &[Wanted]) -> Result<(), RoundError> {
        let now = network.status.clone().unwrap_or_default();
        let Some(conditions) = report::merged(&now.conditions, wanted, jiff::Timestamp::now()) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": { "resourceVersion": network.resource_version() },
            "status": { "conditions": conditions },
        });
        let api = Api::<OperatorNetwork>::all(self.client.clone());
        let params = report::written_by_us();
        let patch = Patch::Merge(&patch);
        let written = self.leadership.act(api.patch_status(SINGLETON, &params, &patch)).await;
        written.map(|_| ()).map_err(RoundError::writing("the status of the operator's Network"))
    }
}

/// What a node says; what it says that cannot be understood; nothing of a node without a name.
///
/// A node that cannot be understood is away: it is told nothing, it counts as one that may not be missed, and nothing
/// goes on without it.
fn understood(object: &ApiNode) -> (Option<Machine>, Option<String>) {
    match machine(object) {
        Ok(machine) => (Some(machine), None),
        Err(wrong @ NotAMachine::Name(_)) => (None, Some(wrong.to_string())),
        Err(wrong @ NotAMachine::Annotation { .. }) => {
            let mut bare = object.clone();
            bare.metadata.annotations = None;
            let away = |mut machine: Machine| {
                machine.node.ready = Some(Truth::Unknown);
                machine.tainted = false;
                machine
            };
            (machine(&bare).ok().map(away), Some(wrong.to_string()))
        }
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

/// What is known of nodes, for the MTU.
fn facts(world: &World) -> BTreeMap<NodeName, NodeFacts> {
    let targets: BTreeMap<&str, Option<&String>> =
        world.pools.iter().map(|seen| (seen.pool.name.as_str(), seen.pool.target.as_ref())).collect();
    let epoch = |name: &String| machine_config::epoch(&world.configs.get(name)?.metadata).ok()?;
    let of = |seen: &Seen| {
        let node = &seen.machine.node;
        let target = seen.pool.as_deref().and_then(|pool| targets.get(pool).copied().flatten());
        let done = node.current.as_ref().filter(|current| node.is_done() && Some(*current) == target);
        // What cannot be read was not said; the node is waited for, and named.
        let observed = translate::observed(seen.object.metadata.annotations.as_ref()).ok().flatten();
        (node.name.clone(), NodeFacts { done: done.and_then(epoch), observed })
    };
    let linux = |seen: &&Seen| seen.machine.node.labels.get("kubernetes.io/os") != Some("windows");
    world.nodes.iter().filter(linux).map(of).collect()
}

/// A reference to a node, for Events.
pub(super) fn node_reference(seen: &Seen) -> ObjectReference {
    seen.object.object_ref(&())
}
