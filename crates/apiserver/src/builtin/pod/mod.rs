//! Pods.

mod admit;
mod qos;
pub(super) mod spec;
mod table;
mod update;
pub(super) mod validate;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use admit::{admit_pod, pod_service_account};

use super::access::{fill, flag, items, items_mut, keep, number, object_at, present, remove, text};
use crate::field::FieldError;
use crate::resource::{Behaviour, Column, Subresource, Through};

pub(super) struct Pods;

impl Behaviour for Pods {
    fn default(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        for list in ["/containers", "/initContainers"] {
            for container in items_mut(spec, list) {
                request_limits(container);
            }
        }
        request_limits(spec);
        fill(spec, "enableServiceLinks", true);
        if flag(spec, "/hostNetwork") {
            for list in ["/containers", "/initContainers"] {
                for container in items_mut(spec, list) {
                    for port in items_mut(container, "/ports") {
                        let container_port = port["containerPort"].clone();
                        fill(port, "hostPort", container_port);
                    }
                }
            }
        }
        if number(spec, "/terminationGracePeriodSeconds") < 0 {
            spec["terminationGracePeriodSeconds"] = json!(1);
        }
        spec::default(spec);
        share_pod_ips(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending", "qosClass": qos::class(&object["spec"])});
        if !items(object, "/spec/schedulingGates").is_empty() {
            object["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": object["metadata"]["creationTimestamp"],
            }]);
        }
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        match through {
            Through::Main => {
                keep(object, old, "status");
                let spec = &mut object["spec"];
                admit::keep_priority(spec, &old["spec"]);
                admit::tolerate_lost_nodes(spec);
            }
            Through::Sub(Subresource::Status) => {
                keep(object, old, "spec");
                let was = &old["metadata"];
                keep(&mut object["metadata"], was, "ownerReferences");
                keep_observations(object_at(object, "status"), &old["status"]);
            }
            Through::Sub(Subresource::EphemeralContainers) => {
                let containers = object["spec"]["ephemeralContainers"].take();
                update::only_spec(object, old);
                let spec = &mut object["spec"];
                if containers.is_null() {
                    remove(spec, "ephemeralContainers");
                } else {
                    spec["ephemeralContainers"] = containers;
                }
            }
            Through::Sub(Subresource::Resize) => update::only_resources(object, old),
            Through::Sub(_) => {}
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        validate::create(object)
    }

    fn validate_update(&self, through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        match through {
            Through::Sub(Subresource::Status) => update::status_errors(object, old),
            Through::Sub(Subresource::EphemeralContainers) => update::ephemeral_errors(object, old),
            Through::Sub(Subresource::Resize) => validate::pod(object),
            Through::Main | Through::Sub(_) => update::errors(object, old),
        }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        validate::pod_warnings(object)
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let of = |pointer: &str| text(object, pointer).to_owned();
        vec![
            ("spec.nodeName", of("/spec/nodeName")),
            ("spec.restartPolicy", of("/spec/restartPolicy")),
            ("spec.schedulerName", of("/spec/schedulerName")),
            ("spec.serviceAccountName", of("/spec/serviceAccountName")),
            ("spec.hostNetwork", flag(object, "/spec/hostNetwork").to_string()),
            ("status.phase", of("/status/phase")),
            ("status.podIP", of("/status/podIPs/0/ip")),
            // Accepted, and never set: upstream forgets to fill it in.
            ("status.podIPs", String::new()),
            ("status.nominatedNodeName", of("/status/nominatedNodeName")),
            // The name it had long ago.
            ("spec.host", of("/spec/nodeName")),
        ]
    }

    fn columns(&self) -> Vec<Column> {
        table::pod_columns()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        table::pod_cells(object, now)
    }

    fn row_conditions(&self, object: &Value) -> Vec<Value> {
        table::row_conditions(object)
    }

    fn spec_changed(&self, through: Through, object: &Value, old: &Value) -> bool {
        // Being put on a node or reporting a status asks for nothing new.
        !matches!(through, Through::Sub(Subresource::Binding | Subresource::Status))
            && object.get("spec") != old.get("spec")
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        match through {
            Through::Sub(Subresource::Status) => {
                vec![vec!["spec"], vec!["metadata", "deletionTimestamp"], vec!["metadata", "ownerReferences"]]
            }
            Through::Main | Through::Sub(_) => vec![vec!["status"]],
        }
    }
}

/// A limit without a request asks for all of it.
fn request_limits(holder: &mut Value) {
    let Some(Value::Object(limits)) = holder.pointer("/resources/limits").cloned() else { return };
    let requests = object_at(&mut holder["resources"], "requests");
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// `podIP` and `podIPs[0]` are one field with two names; the old one wins where they differ.
fn share_pod_ips(object: &mut Value) {
    let Some(status) = object.get_mut("status") else { return };
    let (single, first) = (text(status, "/podIP").to_owned(), text(status, "/podIPs/0/ip").to_owned());
    if single.is_empty() && !first.is_empty() {
        status["podIP"] = json!(first);
    } else if !single.is_empty() && single != first {
        status["podIPs"] = json!([{"ip": single}]);
    }
}

/// A status written by a client that does not know of these keeps them.
fn keep_observations(status: &mut serde_json::Map<String, Value>, old: &Value) {
    for field in ["qosClass", "observedGeneration"] {
        if !status.contains_key(field) && present(old, &format!("/{field}")) {
            status.insert(field.to_owned(), old[field].clone());
        }
    }
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let was = items(old, "/conditions").iter().find(|c| c["type"] == condition["type"]);
        if let Some(generation) = was.and_then(|c| c.get("observedGeneration")) {
            fill(condition, "observedGeneration", generation.clone());
        }
    }
}
