//! A `Node` as a rollout sees it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as k8s;
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::rollout::Waits;
use netferry_api::rollout::annotations::{
    ControlPlaneTopology, CordonedFor, CurrentConfig, DesiredConfig, DesiredDrain, Drain, LastAppliedDrain,
    NodeState as WrittenState, Reason, UPDATE_IN_PROGRESS_TAINT,
};
use netferry_core::name::{NodeName, NotANodeName};
use netferry_core::rollout::drain::Request;
use netferry_core::rollout::pool::{Node, NodeState, Truth};

use crate::labels::labels;

const SINGLE_REPLICA: &str = ControlPlaneTopology::SINGLE_REPLICA;

/// A node with what it and the drain controller say to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The node.
    pub node: Node,
    /// What it asks for.
    pub asked: Option<Request>,
    /// What was fulfilled last.
    pub fulfilled: Option<Request>,
    /// Whether we cordoned it.
    pub cordoned_by_us: bool,
    /// Whether it was told that the cluster is this node: there is nowhere to drain it to.
    pub alone: bool,
    /// Whether it carries the taint that keeps evicted pods from coming here first.
    pub tainted: bool,
}

/// A node that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum NotAMachine {
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] NotANodeName),
    /// An annotation says something that cannot be.
    #[error("node {node}: {problem}")]
    Annotation {
        /// Which.
        node: String,
        /// What is wrong.
        problem: AnnotationError,
    },
}

/// Reads a node.
///
/// # Errors
/// If its name or one of its annotations is none. Such a node is waited for: it is not told anything, and nothing goes
/// on without it.
pub fn machine(written: &k8s::Node) -> Result<Machine, NotAMachine> {
    let name = NodeName::new(written.metadata.name.clone().unwrap_or_default())?;
    let node = name.to_string();
    read(written, name).map_err(|problem| NotAMachine::Annotation { node, problem })
}

/// What a node says; what it says that cannot be understood; nothing of a node without a name.
///
/// A node that cannot be understood is away: it is told nothing, it counts as one that may not be missed, and nothing
/// goes on without it.
pub fn understood(object: &k8s::Node) -> (Option<Machine>, Option<String>) {
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

fn read(written: &k8s::Node, name: NodeName) -> Result<Machine, AnnotationError> {
    let none = BTreeMap::new();
    let annotations = written.metadata.annotations.as_ref().unwrap_or(&none);
    let spec = written.spec.as_ref();
    let conditions =
        written.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let condition = |kind: &str| {
        let found = conditions.iter().find(|condition| condition.type_ == kind)?;
        Some(match found.status.as_str() {
            "True" => Truth::True,
            "False" => Truth::False,
            _ => Truth::Unknown,
        })
    };
    let created = written.metadata.creation_timestamp.as_ref();
    let created = created.and_then(|at| u64::try_from(at.0.as_second()).ok()).unwrap_or(0);
    let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let node = Node {
        name,
        uid: written.metadata.uid.clone().unwrap_or_default(),
        labels: labels(written.metadata.labels.as_ref()),
        created,
        ready: condition("Ready"),
        disk_pressure: condition("DiskPressure"),
        network_unavailable: condition("NetworkUnavailable"),
        unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
        current: CurrentConfig::read(annotations)?.map(|config| config.get().clone()),
        desired: DesiredConfig::read(annotations)?.map(|config| config.get().clone()),
        state: WrittenState::read(annotations)?.map(state),
        reason: Reason::read(annotations)?.map(|reason| reason.get().to_owned()).unwrap_or_default(),
        waits: !Waits::read(annotations)?.is_empty(),
    };
    Ok(Machine {
        node,
        asked: DesiredDrain::read(annotations)?.map(|drain| request(&drain.0)),
        fulfilled: LastAppliedDrain::read(annotations)?.map(|drain| request(&drain.0)),
        cordoned_by_us: CordonedFor::read(annotations)?.is_some(),
        alone: annotations.get(ControlPlaneTopology::KEY).is_some_and(|topology| topology == SINGLE_REPLICA),
        tainted: taints.iter().any(|taint| taint.key == UPDATE_IN_PROGRESS_TAINT),
    })
}

/// A request, as a node or the drain controller writes it.
pub fn request(written: &Drain) -> Request {
    match written {
        Drain::Drain(config) => Request::Drain(config.clone()),
        Drain::Uncordon(config) => Request::Uncordon(config.clone()),
    }
}

/// A request as it is written.
pub fn printed_request(request: &Request) -> Drain {
    match request {
        Request::Drain(config) => Drain::Drain(config.clone()),
        Request::Uncordon(config) => Drain::Uncordon(config.clone()),
    }
}

/// What a node is doing, as it is written.
pub fn printed_state(state: NodeState) -> WrittenState {
    match state {
        NodeState::Done => WrittenState::Done,
        NodeState::Working => WrittenState::Working,
        NodeState::Rebooting => WrittenState::Rebooting,
        NodeState::Degraded => WrittenState::Degraded,
        NodeState::Unreconcilable => WrittenState::Unreconcilable,
    }
}

fn state(written: WrittenState) -> NodeState {
    match written {
        WrittenState::Done => NodeState::Done,
        WrittenState::Working => NodeState::Working,
        WrittenState::Rebooting => NodeState::Rebooting,
        WrittenState::Degraded => NodeState::Degraded,
        WrittenState::Unreconcilable => NodeState::Unreconcilable,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(annotations: Value) -> k8s::Node {
        let node = json!({
            "metadata": {
                "name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "zone": "z" }, "annotations": annotations,
            },
            "spec": { "unschedulable": true, "taints": [{ "key": "UpdateInProgress", "effect": "PreferNoSchedule" }] },
            "status": { "conditions": [
                { "type": "Ready", "status": "False" }, { "type": "DiskPressure", "status": "False" },
                { "type": "NetworkUnavailable", "status": "Unknown" },
            ] },
        });
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn what_a_node_and_its_daemon_say_is_read() {
        let machine = machine(&written(json!({
            "machineconfiguration.openshift.io/currentConfig": "r1",
            "machineconfiguration.openshift.io/desiredConfig": "r2",
            "machineconfiguration.openshift.io/state": "Working",
            "machineconfiguration.openshift.io/reason": "why",
            "machineconfiguration.openshift.io/desiredDrain": "drain-r2",
            "machineconfiguration.openshift.io/lastAppliedDrain": "uncordon-r1",
            "netferry.dev/cordoned-for": "r2",
            "waits.netferry.dev/mtu": "it is new",
        })))
        .unwrap();
        assert_eq!(machine.asked, Some(Request::Drain("r2".into())));
        assert_eq!(machine.fulfilled, Some(Request::Uncordon("r1".into())));
        assert!(machine.cordoned_by_us && machine.tainted);
        let node = machine.node;
        assert_eq!((node.name.as_str(), node.uid.as_str(), node.created), ("a", "u", 1_767_225_600));
        assert_eq!((node.current.as_deref(), node.desired.as_deref()), (Some("r1"), Some("r2")));
        assert_eq!((node.state, node.reason.as_str(), node.waits), (Some(NodeState::Working), "why", true));
        assert_eq!((node.ready, node.disk_pressure), (Some(Truth::False), Some(Truth::False)));
        assert_eq!((node.network_unavailable, node.unschedulable), (Some(Truth::Unknown), true));
        assert_eq!(node.labels.get("zone"), Some("z"));
    }

    #[test]
    fn a_new_node_says_nothing() {
        let new: k8s::Node = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
        let machine = machine(&new).unwrap();
        assert_eq!((machine.asked, machine.fulfilled, machine.cordoned_by_us), (None, None, false));
        let Node { current, desired, state, ready, waits, unschedulable, .. } = machine.node;
        assert_eq!((current, desired, state, ready), (None, None, None, None));
        assert!(!waits && !unschedulable && !machine.tainted);
    }

    #[test]
    fn what_a_node_cannot_say_is_refused_by_name() {
        for (key, value, said) in [
            ("machineconfiguration.openshift.io/state", "Fine", "is not Done, Working"),
            ("machineconfiguration.openshift.io/desiredDrain", "away", "is neither drain-"),
            ("machineconfiguration.openshift.io/lastAppliedDrain", "drain-", "names no configuration"),
            ("machineconfiguration.openshift.io/desiredConfig", "", "is empty"),
            ("netferry.dev/cordoned-for", "", "is empty"),
        ] {
            let wrong = machine(&written(json!({ key: value }))).unwrap_err().to_string();
            assert!(
                wrong.starts_with(&format!("node a: annotation {key}: ")) && wrong.contains(said),
                "{wrong}"
            );
        }
    }

    #[test]
    fn states_and_requests_are_written_as_they_are_read() {
        for state in WrittenState::ALL {
            assert_eq!(printed_state(super::state(*state)), *state);
        }
        for drain in [Drain::Drain("r".into()), Drain::Uncordon("r".into())] {
            assert_eq!(printed_request(&request(&drain)), drain);
        }
    }
}
