//! What the commands read of the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::mtu::SOURCE;
use netferry_core::mtu::check::Cluster;
use netferry_core::mtu::plan::NodeFacts;
use netferry_core::mtu::probe::verify::Known;
use netferry_core::mtu::record::Record;
use netferry_core::name::NodeName;
use netferry_core::probe::Report;
use netferry_core::rollout::pool::{Pool, membership};
use netferry_core::size::Mtu;
use netferry_translate::machine::{Machine, understood};
use netferry_translate::mtu::{APPLIED, RECORD};
use netferry_translate::served::as_it_runs;
use netferry_translate::{machine_config, mtu as wire, networks, pool as pools, probe};

use super::unserved;
use crate::exit::Failure;

/// How long the API may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The cluster, as far as its MTU goes.
pub(super) struct Seen {
    pub(super) network: OperatorNetwork,
    pub(super) cluster: Cluster,
    pub(super) record: Record,
    /// Those that are told configurations, and waited for.
    pub(super) nodes: BTreeMap<NodeName, SeenNode>,
    pub(super) pools: Vec<SeenPool>,
}

/// A node.
pub(super) struct SeenNode {
    pub(super) object: Node,
    pub(super) machine: Machine,
    pub(super) facts: NodeFacts,
    /// Its pool, by name.
    pub(super) pool: Option<String>,
    /// What of it cannot be understood.
    pub(super) wrong: Option<String>,
}

/// A pool.
pub(super) struct SeenPool {
    pub(super) object: MachineConfigPool,
    pub(super) pool: Pool,
}

/// Waits for an answer of the API, but not for ever.
pub(super) async fn answer<T>(
    attempt: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(answer) => Ok(answer.with_context(|| attempt.to_owned())?),
        Err(_) => {
            let limit = anyhow!("no answer within {} s", PATIENCE.as_secs());
            Err(Failure::TimedOut(limit.context(attempt.to_owned())))
        }
    }
}

/// The operator's `Network`.
pub(super) async fn network(client: &Client) -> Result<OperatorNetwork, Failure> {
    let api = Api::<OperatorNetwork>::all(client.clone());
    answer("reading Network.operator.openshift.io/cluster", api.get(SINGLETON)).await
}

impl Seen {
    /// Reads the cluster.
    pub(super) async fn read(client: &Client, namespace: &str) -> Result<Seen, Failure> {
        Seen::beside(network(client).await?, client, namespace).await
    }

    /// Reads the cluster, beside the operator's `Network` that was read already.
    pub(super) async fn beside(
        network: OperatorNetwork,
        client: &Client,
        namespace: &str,
    ) -> Result<Seen, Failure> {
        let config = config(client).await?;
        let (deployed, runs) =
            (networks::deployed_mode(config.as_ref()), as_it_runs(network.clone(), config.as_ref()));
        let cluster = wire::cluster(&runs.spec, deployed).ok_or_else(|| unserved::by_others(&network))?;
        let record = record(client, namespace).await?;
        let all = ListParams::default();
        let api = Api::<MachineConfigPool>::all(client.clone());
        let mut seen_pools = Vec::new();
        for object in answer("listing MachineConfigPools", api.list(&all)).await? {
            let pool = pools::pool(&object).map_err(anyhow::Error::new)?;
            seen_pools.push(SeenPool { object, pool });
        }
        let api = Api::<MachineConfig>::all(client.clone());
        let configs = answer("listing MachineConfigs", api.list_metadata(&all)).await?;
        let epochs: BTreeMap<String, u64> = configs
            .items
            .iter()
            .filter_map(|config| {
                Some((config.name_any(), machine_config::epochs(&config.metadata).ok()?.get(SOURCE)?))
            })
            .collect();
        let only: Vec<Pool> = seen_pools.iter().map(|seen| seen.pool.clone()).collect();
        let mut nodes = BTreeMap::new();
        for object in answer("listing nodes", Api::<Node>::all(client.clone()).list(&all)).await? {
            let (machine, wrong) = understood(&object);
            let Some(machine) = machine.filter(|machine| machine.node.takes_part()) else { continue };
            let found = membership(&only, &machine.node.labels);
            let target = found.pool().and_then(|pool| pool.target.as_ref());
            // What cannot be read was not said; the node is waited for, and named.
            let observed = wire::observed(object.metadata.annotations.as_ref()).ok().flatten();
            let facts = wire::facts(&machine, observed, target, |name| epochs.get(name).copied());
            let unclaimed = pools::unclaimed(&only, &machine.node.labels);
            let facts = NodeFacts { unclaimed, ..facts };
            let pool = found.pool().map(|pool| pool.name.clone());
            nodes.insert(machine.node.name.clone(), SeenNode { object, machine, facts, pool, wrong });
        }
        Ok(Seen { network, cluster, record, nodes, pools: seen_pools })
    }

    /// Whether no node is taken, because somebody said so or said something that cannot be understood.
    pub(super) fn paused(&self) -> bool {
        let mode = wire::mode(self.network.metadata.annotations.as_ref());
        mode.unwrap_or_else(|(careful, _)| careful).paused
    }

    /// What is known of nodes, as decisions want it.
    pub(super) fn facts(&self) -> BTreeMap<NodeName, NodeFacts> {
        self.nodes.iter().map(|(name, node)| (name.clone(), node.facts)).collect()
    }

    /// Which object each node is, and what nodes found out about the ways between them.
    pub(super) fn reports(&self) -> (BTreeMap<NodeName, String>, BTreeMap<NodeName, Report>) {
        let known = self.known();
        let uids = known.iter().map(|(name, known)| (name.clone(), known.uid.clone())).collect();
        (uids, known.into_iter().filter_map(|(name, known)| Some((name, known.report?))).collect())
    }

    /// What nodes run, and what they found out about the ways between them.
    pub(super) fn known(&self) -> BTreeMap<NodeName, Known> {
        let of = |(name, node): (&NodeName, &SeenNode)| {
            let known = Known {
                uid: node.machine.node.uid.clone(),
                runs: node.facts.observed.and_then(probe::runs),
                // What cannot be read was not said.
                report: probe::report(node.object.metadata.annotations.as_ref()).ok().flatten(),
            };
            (name.clone(), known)
        };
        self.nodes.iter().map(of).collect()
    }
}

/// The cluster's `Network`, if it was made already.
async fn config(client: &Client) -> Result<Option<ConfigNetwork>, Failure> {
    let api = Api::<ConfigNetwork>::all(client.clone());
    answer("reading Network.config.openshift.io/cluster", api.get_opt(SINGLETON)).await
}

/// What is applied. Where no change was ever accepted, what is published is what runs.
pub(super) async fn record(client: &Client, namespace: &str) -> Result<Record, Failure> {
    let object = format!("ConfigMap {namespace}/{APPLIED}");
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    if let Some(map) = answer(&format!("reading {object}"), api.get_opt(APPLIED)).await? {
        return Ok(wire::applied(&map).with_context(|| format!("{object}, {RECORD}"))?);
    }
    let published = config(client).await?.and_then(|config| config.status?.cluster_network_mtu);
    let published = published.ok_or_else(|| {
        anyhow!("Network.config.openshift.io/cluster does not say the MTU yet: is the operator running?")
    })?;
    Ok(Record::settled(Mtu::new(published).context("the MTU that is published")?))
}
