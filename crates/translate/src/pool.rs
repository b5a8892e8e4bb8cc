//! `MachineConfigPool`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as WrittenSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::rollout::annotations::{ROLE_LABEL, Taken};
use netferry_api::rollout::conditions::PoolConditionType;
use netferry_api::rollout::{MachineConfigPool, MachineConfigPoolStatus, PoolCondition, PoolConfiguration};
use netferry_core::label::{LabelSelector, Labels};
use netferry_core::name::{NodeName, NotANodeName};
use netferry_core::rollout::pool::{
    CONTROL_PLANE, CONTROL_PLANE_LABELS, Identity, MaxUnavailable, NotALimit, Pool, WORKER, membership,
};
use netferry_core::rollout::status::{ConditionKind, PoolStatus};
use serde_json::json;

use crate::condition::upsert;
use crate::labels::{NotASelector, selector};

/// A pool that cannot be understood. No node of it is told anything.
#[derive(Debug, thiserror::Error)]
#[error("MachineConfigPool {pool}: {problem}")]
pub struct NotAPool {
    /// Which one.
    pub pool: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a pool.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A selector that is none.
    #[error("spec.{field}: {problem}")]
    Selector {
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        problem: NotASelector,
    },
    /// A limit that is none.
    #[error("spec.{0}")]
    Limit(NotALimit),
    /// What is kept of nodes that were taken cannot be read. Going on without would take one node too many.
    #[error("{0}")]
    Taken(AnnotationError),
    /// What is kept of nodes that were taken names something that is no node.
    #[error("annotation {key}: {0}", key = Taken::KEY)]
    TakenName(NotANodeName),
}

/// A pool as a rollout sees it.
///
/// # Errors
/// The first thing in it that cannot be understood.
pub fn pool(written: &MachineConfigPool) -> Result<Pool, NotAPool> {
    let name = written.metadata.name.clone().unwrap_or_default();
    read(written, &name).map_err(|problem| NotAPool { pool: name, problem })
}

fn read(written: &MachineConfigPool, name: &str) -> Result<Pool, Problem> {
    let spec = &written.spec;
    let finished = written.status.as_ref().and_then(|status| status.configuration.as_ref());
    Ok(Pool {
        name: name.to_owned(),
        nodes: select("nodeSelector", spec.node_selector.as_ref())?,
        configs: select("machineConfigSelector", spec.machine_config_selector.as_ref())?,
        paused: spec.is_paused(),
        max_unavailable: limit(spec.max_unavailable.as_ref()).map_err(Problem::Limit)?,
        target: configured(spec.configuration.as_ref()),
        finished: configured(finished),
        taken: taken(written.metadata.annotations.as_ref())?,
    })
}

/// The two pools every cluster has, as they are made where nobody made them.
pub fn usual() -> [MachineConfigPool; 2] {
    let [label, before] = CONTROL_PLANE_LABELS;
    // Who is in the control plane is marked everywhere; who is not, only in some clusters.
    let control_plane = json!([{ "key": label, "operator": "Exists" }]);
    let others = json!([
        { "key": label, "operator": "DoesNotExist" }, { "key": before, "operator": "DoesNotExist" },
    ]);
    [(CONTROL_PLANE, control_plane), (WORKER, others)].map(|(name, nodes)| {
        let spec = json!({
            "nodeSelector": { "matchExpressions": nodes },
            "machineConfigSelector": { "matchLabels": { ROLE_LABEL: name } },
        });
        MachineConfigPool::new(name, serde_json::from_value(spec).expect("it is the spec of a pool"))
    })
}

/// Whether a node with these labels is in no pool, or in several, and will be when those are made that nobody made.
pub fn unclaimed(pools: &[Pool], labels: &Labels) -> bool {
    if membership(pools, labels).pool().is_some() {
        return false;
    }
    let unmade = usual().into_iter().filter_map(|usual| pool(&usual).ok());
    let unmade = unmade.filter(|usual| !pools.iter().any(|pool| pool.name == usual.name));
    let all: Vec<Pool> = pools.iter().cloned().chain(unmade).collect();
    membership(&all, labels).pool().is_none()
}

fn select(field: &'static str, written: Option<&WrittenSelector>) -> Result<Option<LabelSelector>, Problem> {
    let read = written.map(selector).transpose();
    read.map_err(|problem| Problem::Selector { field, problem })
}

fn limit(written: Option<&IntOrString>) -> Result<MaxUnavailable, NotALimit> {
    match written {
        None => Ok(MaxUnavailable::default()),
        Some(IntOrString::Int(number)) => match u32::try_from(*number) {
            Ok(number) => Ok(MaxUnavailable::Number(number)),
            Err(_) => Err(NotALimit(number.to_string())),
        },
        Some(IntOrString::String(text)) => MaxUnavailable::percent(text),
    }
}

fn configured(written: Option<&PoolConfiguration>) -> Option<String> {
    written?.rendered.name.clone().filter(|name| !name.is_empty())
}

fn taken(annotations: Option<&BTreeMap<String, String>>) -> Result<BTreeSet<Identity>, Problem> {
    let Some(annotations) = annotations else { return Ok(BTreeSet::new()) };
    let taken = Taken::read(annotations).map_err(Problem::Taken)?.unwrap_or_default();
    let identity = |(name, uid): (String, String)| Ok(Identity { name: NodeName::new(name)?, uid });
    taken.0.into_iter().map(identity).collect::<Result<_, NotANodeName>>().map_err(Problem::TakenName)
}

/// Nodes that were taken, as a pool's annotation.
pub fn printed_taken(taken: &BTreeSet<Identity>) -> Taken {
    Taken(taken.iter().map(|node| (node.name.to_string(), node.uid.clone())).collect())
}

/// A rendered MachineConfig and those it was merged from, as pools name them.
pub fn configuration(rendered: &str, sources: &[String]) -> PoolConfiguration {
    let reference = |name: &str| ObjectReference {
        api_version: Some("machineconfiguration.openshift.io/v1".to_owned()),
        kind: Some("MachineConfig".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    };
    PoolConfiguration {
        rendered: reference(rendered),
        source: sources.iter().map(|name| reference(name)).collect(),
    }
}

/// How far a pool is, in the words of its status; what others wrote there stays. `at` is the time of what changed.
pub fn printed_status(
    written: &MachineConfigPool,
    status: &PoolStatus,
    at: &Time,
) -> MachineConfigPoolStatus {
    let now = written.status.clone().unwrap_or_default();
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let finished = match &status.finished {
        // What every node finished is what the pool was told, with all that it was merged from.
        Some(finished) if configured(written.spec.configuration.as_ref()).as_ref() == Some(finished) => {
            written.spec.configuration.clone()
        }
        Some(finished) if configured(now.configuration.as_ref()).as_ref() == Some(finished) => {
            now.configuration.clone()
        }
        Some(finished) => Some(configuration(finished, &[])),
        None => None,
    };
    let mut conditions = now.conditions;
    for wanted in &status.conditions {
        let condition = PoolCondition {
            type_: kind(wanted.kind).as_str().to_owned(),
            status: if wanted.holds { "True" } else { "False" }.to_owned(),
            last_transition_time: Some(at.clone()),
            reason: wanted.reason.clone(),
            message: wanted.message.clone(),
        };
        upsert(&mut conditions, condition);
    }
    MachineConfigPoolStatus {
        observed_generation: written.metadata.generation,
        configuration: finished,
        machine_count: count(status.machines),
        updated_machine_count: count(status.updated),
        ready_machine_count: count(status.ready),
        unavailable_machine_count: count(status.unavailable),
        degraded_machine_count: count(status.degraded),
        conditions,
    }
}

fn kind(kind: ConditionKind) -> PoolConditionType {
    match kind {
        ConditionKind::Updated => PoolConditionType::Updated,
        ConditionKind::Updating => PoolConditionType::Updating,
        ConditionKind::NodeDegraded => PoolConditionType::NodeDegraded,
        ConditionKind::RenderDegraded => PoolConditionType::RenderDegraded,
        ConditionKind::Degraded => PoolConditionType::Degraded,
    }
}

#[cfg(test)]
mod tests {
    use netferry_core::label::Labels;
    use netferry_core::rollout::status;
    use serde_json::Value;

    use super::*;

    fn written(annotations: Value, spec: Value) -> MachineConfigPool {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": { "name": "infra", "generation": 3, "annotations": annotations }, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_node_is_unclaimed_that_no_pool_selects_nor_one_that_is_made() {
        let worker = Labels::from_iter([("node-role.kubernetes.io/worker", "")]);
        let (bare, old) = (Labels::default(), Labels::from_iter([("node-role.kubernetes.io/master", "")]));
        let own = |name: &str, label: &str| {
            let spec = json!({ "nodeSelector": { "matchLabels": { label: "" } } });
            Pool { name: name.to_owned(), ..pool(&written(json!({}), spec)).unwrap() }
        };
        for labels in [&worker, &bare, &old] {
            assert!(!unclaimed(&[], labels), "both are made: {labels:?}");
        }
        let pools = [own("worker", "node-role.kubernetes.io/worker"), own("infra", "infra")];
        assert!(!unclaimed(&pools, &worker) && !unclaimed(&pools, &old));
        assert!(unclaimed(&pools, &bare), "nobody makes another for the rest");
        let several = [own("a", "x"), own("b", "x")];
        assert!(unclaimed(&several, &Labels::from_iter([("x", "")])));
    }

    #[test]
    fn a_pool_is_read_as_people_write_it() {
        let spec = json!({
            "nodeSelector": { "matchLabels": { "node-role.kubernetes.io/infra": "" } },
            "machineConfigSelector": { "matchExpressions": [
                { "key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", "infra"] },
            ] },
            "paused": true, "maxUnavailable": "25%",
            "configuration": { "name": "rendered-infra-1", "source": [{ "name": "00-worker" }] },
        });
        let pool = pool(&written(json!({ "netferry.dev/taken": r#"{"a":"1"}"# }), spec)).unwrap();
        let infra = Labels::from_iter([("node-role.kubernetes.io/infra", "")]);
        assert!(pool.nodes.unwrap().matches(&infra));
        let role = |role| Labels::from_iter([("machineconfiguration.openshift.io/role", role)]);
        let configs = pool.configs.unwrap();
        assert!(configs.matches(&role("worker")) && configs.matches(&role("infra")));
        assert!(!configs.matches(&role("master")));
        assert_eq!((pool.paused, pool.max_unavailable), (true, MaxUnavailable::Percent(25)));
        assert_eq!(pool.target.as_deref(), Some("rendered-infra-1"));
        assert_eq!(printed_taken(&pool.taken).to_string(), r#"{"a":"1"}"#);
    }

    #[test]
    fn a_pool_that_says_little_selects_nothing_and_moves_one_by_one() {
        let pool = pool(&written(json!({}), json!({ "configuration": { "name": "" } }))).unwrap();
        assert_eq!((pool.nodes, pool.configs, pool.target, pool.finished), (None, None, None, None));
        assert_eq!((pool.paused, pool.max_unavailable), (false, MaxUnavailable::Number(1)));
        assert!(pool.taken.is_empty());
    }

    #[test]
    fn a_pool_that_cannot_be_understood_is_refused_with_its_field() {
        let odd = json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] });
        for (annotations, spec, said) in [
            (
                json!({}),
                json!({ "maxUnavailable": "60" }),
                "spec.maxUnavailable \"60\" is neither a number nor a percentage such as \"10%\"",
            ),
            (
                json!({}),
                json!({ "maxUnavailable": -1 }),
                "spec.maxUnavailable \"-1\" is neither a number nor a percentage such as \"10%\"",
            ),
            (
                json!({}),
                json!({ "nodeSelector": odd }),
                "spec.nodeSelector: label \"a\" is compared by \"Near\", which is not In, NotIn, Exists or DoesNotExist",
            ),
            (
                json!({}),
                json!({ "machineConfigSelector": odd }),
                "spec.machineConfigSelector: label \"a\" is compared by \"Near\", which is not In, NotIn, Exists or DoesNotExist",
            ),
            (
                json!({ "netferry.dev/taken": "a" }),
                json!({}),
                "annotation netferry.dev/taken is not the JSON it should be",
            ),
            (
                json!({ "netferry.dev/taken": r#"{"A_":"1"}"# }),
                json!({}),
                "annotation netferry.dev/taken: \"A_\" is not the name of a node",
            ),
        ] {
            let wrong = pool(&written(annotations, spec)).unwrap_err().to_string();
            assert_eq!(wrong, format!("MachineConfigPool infra: {said}"));
        }
    }

    #[test]
    fn a_status_keeps_the_time_of_what_did_not_change_and_what_others_wrote() {
        let mut object = written(
            json!({}),
            json!({ "configuration": { "name": "r2", "source": [{ "name": "00-worker" }] } }),
        );
        let at =
            |second| Time(serde_json::from_value(json!(format!("2026-01-01T00:00:0{second}Z"))).unwrap());
        object.status = Some(
            serde_json::from_value(json!({
                "configuration": { "name": "r1" },
                "conditions": [{ "type": "Others", "status": "True", "lastTransitionTime": null }],
            }))
            .unwrap(),
        );
        let first = printed_status(
            &object,
            &status::status::<netferry_core::rollout::pool::Node>(
                &pool(&object).unwrap(),
                &[],
                status::Hindered { render: Some("no"), ..Default::default() },
            ),
            &at(1),
        );
        assert_eq!(first.configuration, object.spec.configuration, "no node is behind");
        assert_eq!((first.machine_count, first.observed_generation), (0, Some(3)));
        object.status = Some(first.clone());
        let second = printed_status(
            &object,
            &status::status::<netferry_core::rollout::pool::Node>(
                &pool(&object).unwrap(),
                &[],
                status::Hindered::default(),
            ),
            &at(2),
        );
        let of = |status: &MachineConfigPoolStatus, kind: &str| {
            let found = status.conditions.iter().find(|condition| condition.type_ == kind).unwrap();
            (found.status.clone(), found.last_transition_time.clone())
        };
        assert_eq!(of(&second, "Updated"), ("True".into(), Some(at(1))));
        assert_eq!(of(&first, "RenderDegraded"), ("True".into(), Some(at(1))));
        assert_eq!(of(&second, "RenderDegraded"), ("False".into(), Some(at(2))));
        assert_eq!(of(&second, "Others").0, "True");
        assert_eq!(second.conditions.len(), 6);
    }
}
