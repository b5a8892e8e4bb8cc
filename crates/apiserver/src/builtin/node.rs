//! Nodes.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{entries, fill_map, flag, items, keep, object_at, present, remove, text};
use super::resources;
use super::table::{self, AGE, NAME, columns, or};
use super::validate;
use crate::field::{FieldError, Path, Problem};
use crate::resource::{Behaviour, Column, Subresource, Through};

/// The taint a new node carries until it reports ready, so that nothing is scheduled to it too early.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

pub(super) struct Nodes;

impl Behaviour for Nodes {
    fn default(&self, object: &mut Value) {
        share_pod_cidrs(object);
        let status = object_at(object, "status");
        if let Some(capacity) = status.get("capacity").cloned() {
            fill_map(status, "allocatable", capacity);
        }
        for list in ["/status/capacity", "/status/allocatable"] {
            resources::round(object.pointer_mut(list));
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        remove(&mut object["spec"], "configSource");
        remove(&mut object["status"], "config");
        let taints = object_at(object, "spec").entry("taints").or_insert_with(|| json!([]));
        if let Value::Array(taints) = taints
            && !taints.iter().any(|t| text(t, "/key") == NOT_READY && text(t, "/effect") == "NoSchedule")
        {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        match through {
            Through::Sub(Subresource::Status) => keep(object, old, "spec"),
            Through::Main | Through::Sub(_) => {
                keep(object, old, "status");
                if !present(old, "/spec/configSource") {
                    remove(&mut object["spec"], "configSource");
                }
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = taint_errors(object);
        errors.extend(resources::quantities(object, "/status/capacity", &Path::new("status.capacity")));
        errors.extend(cidr_errors(object));
        errors
    }

    fn validate_update(&self, through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = if through == Through::Main { self.validate(object) } else { Vec::new() };
        let addresses = items(object, "/status/addresses");
        for (at, address) in addresses.iter().enumerate() {
            if addresses[..at].contains(address) {
                errors.push(FieldError {
                    problem: Problem::Duplicate,
                    path: Path::new("status.addresses").index(at),
                    // Shown with the names the fields have inside a server, not those of the API.
                    value: Some(format!(
                        "{{\"Type\":{},\"Address\":{}}}",
                        address["type"], address["address"]
                    )),
                    detail: String::new(),
                });
            }
        }
        let spec = Path::new("spec");
        let (was, is) = (items(old, "/spec/podCIDRs"), items(object, "/spec/podCIDRs"));
        if !was.is_empty() && was != is {
            errors.push(FieldError::forbidden(
                spec.child("podCIDRs"),
                "node updates may not change podCIDR except from \"\" to valid",
            ));
        }
        let provider = text(old, "/spec/providerID");
        if !provider.is_empty() && provider != text(object, "/spec/providerID") {
            errors.push(FieldError::forbidden(
                spec.child("providerID"),
                "node updates may not change providerID except from \"\" to valid",
            ));
        }
        if through != Through::Main {
            errors.extend(taint_errors(object));
        }
        errors
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.unschedulable", flag(object, "/spec/unschedulable").to_string())]
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[
            NAME,
            ("Status", "string", 0, "Whether the node reports ready, and takes new pods."),
            ("Roles", "string", 0, "The roles its labels give it."),
            AGE,
            ("Version", "string", 0, "The version its kubelet reports."),
            ("Internal-IP", "string", 1, "The first address inside the cluster's network."),
            ("External-IP", "string", 1, "The first address reachable from outside."),
            ("OS-Image", "string", 1, "The operating system it runs."),
            ("Kernel-Version", "string", 1, "The kernel it runs."),
            ("Container-Runtime", "string", 1, "What runs its containers."),
        ])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let ready = items(object, "/status/conditions").iter().rfind(|c| text(c, "/type") == "Ready");
        let mut status = match ready.map(|c| text(c, "/status")) {
            Some("True") => "Ready".to_owned(),
            Some(_) => "NotReady".to_owned(),
            None => "Unknown".to_owned(),
        };
        if flag(object, "/spec/unschedulable") {
            status.push_str(",SchedulingDisabled");
        }
        let address = |kind: &str| {
            let found = items(object, "/status/addresses").iter().find(|a| text(a, "/type") == kind);
            json!(found.map_or("<none>", |a| text(a, "/address")))
        };
        let info = |field: &str| text(object, &format!("/status/nodeInfo/{field}"));
        vec![
            table::name(object),
            json!(status),
            json!(or(&roles(object).join(","), "<none>")),
            table::age(object, now),
            json!(info("kubeletVersion")),
            address("InternalIP"),
            address("ExternalIP"),
            json!(or(info("osImage"), "<unknown>")),
            json!(or(info("kernelVersion"), "<unknown>")),
            json!(or(info("containerRuntimeVersion"), "<unknown>")),
        ]
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        match through {
            Through::Main => vec![vec!["status"]],
            Through::Sub(_) => vec![vec!["spec"]],
        }
    }

    fn has_generation(&self) -> bool {
        false
    }
}

/// `podCIDR` and `podCIDRs[0]` are one field with two names: whichever was written, both are there.
fn share_pod_cidrs(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let single = spec.get("podCIDR").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first =
        spec.get("podCIDRs").and_then(|c| c.get(0)).and_then(Value::as_str).unwrap_or_default().to_owned();
    match (single.as_str(), first.as_str()) {
        ("", "") => {}
        ("", first) => {
            spec.insert("podCIDR".to_owned(), json!(first));
        }
        (single, first) if single != first => {
            spec.insert("podCIDRs".to_owned(), json!([single]));
        }
        _ => {}
    }
}

fn roles(object: &Value) -> Vec<&str> {
    let mut roles: Vec<&str> = entries(object, "/metadata/labels")
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE_LABEL => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}

fn taint_errors(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let taints = items(object, "/spec/taints");
    for (at, taint) in taints.iter().enumerate() {
        // Upstream reports taints under `metadata`; clients match on it.
        let path = Path::new("metadata.taints").index(at);
        errors.extend(validate::label_name(text(taint, "/key"), path.child("key")));
        errors.extend(validate::label_value(text(taint, "/value"), path.child("value")));
        errors.extend(validate::one_of(
            taint,
            "effect",
            &path,
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
        ));
        let same = |t: &Value| t["key"] == taint["key"] && t["effect"] == taint["effect"];
        if taints[..at].iter().any(same) {
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                taint["key"],
                json!(text(taint, "/value")),
                taint["effect"],
                taint["timeAdded"],
            );
            errors.push(FieldError {
                problem: Problem::Duplicate,
                path,
                value: Some(shown),
                detail: "taints must be unique by key and effect pair".to_owned(),
            });
        }
    }
    errors
}

fn cidr_errors(object: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.podCIDRs");
    let cidrs = items(object, "/spec/podCIDRs");
    let mut errors = Vec::new();
    for (at, cidr) in cidrs.iter().enumerate() {
        errors.extend(validate::cidr(cidr, path.index(at)));
    }
    let families: Vec<bool> = cidrs.iter().map(|c| c.as_str().unwrap_or_default().contains(':')).collect();
    if cidrs.len() > 2 || cidrs.len() == 2 && families[0] == families[1] {
        errors.push(FieldError::invalid(
            path,
            &json!(cidrs),
            "may specify no more than one CIDR for each IP family",
        ));
    }
    errors
}
