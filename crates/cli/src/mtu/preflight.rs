//! What could go wrong with a change, gathered before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Api, Client};
use netferry_api::rollout::conditions::PoolConditionType;
use netferry_core::mtu::preflight::{BudgetReport, Finding, NodeReport, PoolReport, Report, look};
use netferry_core::mtu::probe::judge::{Trouble, trouble, untried};
use netferry_core::mtu::record::Change;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::rollout::drain::may_be_kept;
use netferry_core::rollout::status::{ConditionKind, Hindered, status};
use netferry_translate::{drain, mtu as wire, object_name};

use super::seen::{Seen, SeenNode, SeenPool, answer};
use crate::exit::Failure;

const RENDER_DEGRADED: &str = PoolConditionType::RenderDegraded.as_str();

/// Looks for what speaks against a change.
pub(super) async fn findings(client: &Client, seen: &Seen, change: &Change) -> Result<Vec<Finding>, Failure> {
    let nodes = seen.nodes.iter().map(|(name, node)| (name.clone(), of_node(node))).collect();
    let pools = seen.pools.iter().map(|pool| of_pool(seen, pool)).collect();
    let budgets = budgets(client, seen).await?;
    let (troubles, untried) = ways(seen);
    Ok(look(change, &Report { nodes, pools, budgets, troubles, untried }))
}

/// What nodes found out about the ways between them.
fn ways(seen: &Seen) -> (Vec<Trouble>, Vec<NodeName>) {
    let (uids, reports) = seen.reports();
    let troubles = reports.iter().flat_map(|(from, report)| trouble(from, report, &uids)).collect();
    let epoch = |name: &NodeName| seen.nodes.get(name)?.facts.observed.map(|observed| observed.epoch);
    // Of a node that says nothing at all that is what is said.
    let spoke = |name: &NodeName| epoch(name).is_some();
    (troubles, untried(epoch, &uids, &reports).into_iter().filter(spoke).collect())
}

fn of_node(node: &SeenNode) -> NodeReport {
    let node_says = &node.machine.node;
    let drift = node_says.is_degraded().then(|| node_says.reason.clone());
    NodeReport {
        ready: node_says.is_ready(),
        observed: node.facts.observed,
        equipment: wire::equipment(node.object.metadata.annotations.as_ref()),
        drift: drift.into_iter().chain(node.wrong.clone()).collect(),
        unclaimed: node.facts.unclaimed,
    }
}

fn of_pool(seen: &Seen, pool: &SeenPool) -> PoolReport {
    let members: Vec<_> = seen
        .nodes
        .values()
        .filter(|node| node.pool.as_ref() == Some(&pool.pool.name))
        .map(|node| node.machine.node.clone())
        .collect();
    let now = status(&pool.pool, &members, Hindered::default());
    let updating = now.conditions.iter().any(|one| one.kind == ConditionKind::Updating && one.holds);
    // What could not be merged only the operator knows.
    let written = pool.object.status.iter().flat_map(|status| &status.conditions);
    let degraded = written.filter(|one| one.type_ == RENDER_DEGRADED && one.status == "True");
    PoolReport {
        name: pool.pool.name.clone(),
        paused: pool.pool.paused,
        updating,
        degraded: degraded.map(|one| one.message.clone()).next(),
    }
}

/// Budgets that allow no disruption now, with the pods they keep on nodes that would be drained.
async fn budgets(client: &Client, seen: &Seen) -> Result<Vec<BudgetReport>, Failure> {
    // The only node of a cluster is not drained.
    if seen.nodes.len() == 1 {
        return Ok(Vec::new());
    }
    let all = ListParams::default();
    let api = Api::<PodDisruptionBudget>::all(client.clone());
    let exhausted = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().is_none_or(|status| status.disruptions_allowed <= 0)
    };
    let budgets = answer("listing PodDisruptionBudgets", api.list(&all)).await?.items;
    let budgets: Vec<PodDisruptionBudget> = budgets.into_iter().filter(exhausted).collect();
    if budgets.is_empty() {
        return Ok(Vec::new());
    }
    let names: BTreeSet<&str> = seen.nodes.keys().map(|name| name.as_str()).collect();
    let mut kept: BTreeMap<ObjectName, Vec<ObjectName>> = BTreeMap::new();
    for pod in answer("listing pods", Api::<Pod>::all(client.clone()).list(&all)).await? {
        let read = drain::pod(&pod);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if !may_be_kept(&read) || !node.is_some_and(|node| names.contains(node)) {
            continue;
        }
        for budget in &budgets {
            let same = budget.metadata.namespace == pod.metadata.namespace;
            let one = std::slice::from_ref(budget);
            if same && !drain::budgets(pod.metadata.labels.as_ref(), one).is_empty() {
                kept.entry(object_name(&budget.metadata)).or_default().push(read.name.clone());
            }
        }
    }
    Ok(kept.into_iter().map(|(name, pods)| BudgetReport { name, pods }).collect())
}
