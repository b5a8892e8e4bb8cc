//! What may change on a pod that exists.

use serde_json::{Value, json};

use super::super::access::{items, items_mut, keep, number, present, text};
use super::super::validate as common;
use super::validate;
use crate::field::{FieldError, Path};

/// Puts everything but the spec back.
pub(super) fn only_spec(object: &mut Value, old: &Value) {
    keep(object, old, "spec");
    keep(object, old, "status");
    let was = &old["metadata"];
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        keep(&mut object["metadata"], was, field);
    }
}

/// Puts everything but the containers' resources back.
pub(super) fn only_resources(object: &mut Value, old: &Value) {
    let new = object["spec"].take();
    let same = |list: &str| {
        let names = |spec: &Value| -> Vec<String> {
            items(spec, list).iter().map(|c| text(c, "/name").to_owned()).collect()
        };
        names(&new) == names(&old["spec"])
    };
    if !same("/containers") || !same("/initContainers") {
        // Validation will say what is wrong with it.
        object["spec"] = new;
        return;
    }
    only_spec(object, old);
    for list in ["/containers", "/initContainers"] {
        let wanted = items(&new, list);
        for (container, wanted) in items_mut(&mut object["spec"], list).iter_mut().zip(wanted) {
            keep(container, wanted, "resources");
            keep(container, wanted, "resizePolicy");
        }
    }
}

/// What is wrong with a replacement of the pod itself.
pub(super) fn errors(object: &Value, old: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let mut errors = validate::pod(object);
    for list in ["containers", "initContainers"] {
        let (new, was) =
            (items(&object["spec"], &format!("/{list}")), items(&old["spec"], &format!("/{list}")));
        if new.len() != was.len() {
            let complaint = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(path.child(list), complaint));
            return errors;
        }
        for at in (0..new.len()).filter(|at| text(&new[*at], "/image").is_empty()) {
            errors.push(FieldError::required(path.child(list).index(at).child("image"), ""));
        }
    }
    match deadline_error(object, old) {
        Some((error, true)) => {
            errors.push(error);
            return errors;
        }
        Some((error, false)) => errors.push(error),
        None => {}
    }
    errors.extend(toleration_error(object, old));
    errors.extend(gate_errors(object, old));
    let mut munged = object["spec"].clone();
    for list in ["/containers", "/initContainers"] {
        let was = items(&old["spec"], list);
        for (container, was) in items_mut(&mut munged, list).iter_mut().zip(was) {
            keep(container, was, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(&mut munged, &old["spec"], field);
    }
    if !items(&old["spec"], "/schedulingGates").is_empty() {
        // Nothing has been scheduled yet: where the pod may go can still be narrowed.
        keep(&mut munged, &old["spec"], "nodeSelector");
        keep(&mut munged, &old["spec"], "affinity");
    }
    if munged != old["spec"] {
        errors.push(FieldError::forbidden(
            path,
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
        ));
    }
    errors
}

/// A deadline may come nearer, never move away. True where nothing further is looked at.
fn deadline_error(object: &Value, old: &Value) -> Option<(FieldError, bool)> {
    let path = Path::new("spec.activeDeadlineSeconds");
    let (new, was) = (&object["spec"]["activeDeadlineSeconds"], &old["spec"]["activeDeadlineSeconds"]);
    match (new.as_i64(), was.as_i64()) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            Some((FieldError::invalid(path, new, "must be between 0 and 2147483647, inclusive"), true))
        }
        (Some(seconds), Some(before)) if before < seconds => {
            Some((FieldError::invalid(path, new, "must be less than or equal to previous value"), true))
        }
        (None, Some(_)) => {
            let complaint = "must not update from a positive integer to nil value";
            Some((FieldError::invalid(path, &Value::Null, complaint), false))
        }
        _ => None,
    }
}

fn toleration_error(object: &Value, old: &Value) -> Option<FieldError> {
    let kept = |was: &Value| {
        items(object, "/spec/tolerations").iter().any(|new| {
            let mut was = was.clone();
            keep(&mut was, new, "tolerationSeconds");
            was == *new
        })
    };
    (!items(old, "/spec/tolerations").iter().all(kept)).then(|| {
        FieldError::forbidden(
            Path::new("spec.tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        )
    })
}

fn gate_errors(object: &Value, old: &Value) -> Vec<FieldError> {
    let was = items(old, "/spec/schedulingGates");
    items(object, "/spec/schedulingGates")
        .iter()
        .enumerate()
        .filter(|(_, gate)| !was.contains(gate))
        .map(|(at, gate)| {
            FieldError::forbidden(
                Path::new("spec.schedulingGates").index(at).child("name"),
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "/name")),
            )
        })
        .collect()
}

/// Ephemeral containers come and stay.
pub(super) fn ephemeral_errors(object: &Value, old: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.ephemeralContainers");
    let mut errors = validate::pod(object);
    let new = items(object, "/spec/ephemeralContainers");
    for was in items(old, "/spec/ephemeralContainers") {
        let name = text(was, "/name");
        match new.iter().enumerate().find(|(_, c)| c["name"] == was["name"]) {
            None => errors.push(FieldError::forbidden(
                path.clone(),
                format!("existing ephemeral containers {name:?} may not be removed\n"),
            )),
            Some((_, is)) if is != was => errors.push(FieldError::forbidden(
                path.clone(),
                format!("existing ephemeral containers {name:?} may not be changed\n"),
            )),
            Some(_) => {}
        }
    }
    errors
}

/// What is wrong with a new status.
pub(super) fn status_errors(object: &Value, old: &Value) -> Vec<FieldError> {
    let path = Path::new("status");
    let mut errors = Vec::new();
    if number(object, "/status/observedGeneration") < 0 {
        errors.push(FieldError::invalid(
            path.child("observedGeneration"),
            &object["status"]["observedGeneration"],
            "must be a non-negative integer",
        ));
    }
    if present(old, "/status/qosClass") || present(object, "/status/qosClass") {
        errors.extend(common::immutable(object, old, "/status/qosClass", path.child("qosClass")));
    }
    errors.extend(restart_errors(object, old));
    for list in ["podIPs", "hostIPs"] {
        errors.extend(ip_errors(object, list));
    }
    errors
}

/// A container that ended, in a pod that does not restart it, stays ended.
fn restart_errors(object: &Value, old: &Value) -> Vec<FieldError> {
    let policy = text(old, "/spec/restartPolicy");
    if policy == "Always" {
        return Vec::new();
    }
    let path = Path::new("status.containerStatuses");
    let new = items(object, "/status/containerStatuses");
    let mut errors = Vec::new();
    for was in items(old, "/status/containerStatuses") {
        let Some(code) = was.pointer("/state/terminated/exitCode").and_then(Value::as_i64) else { continue };
        if code != 0 && policy == "OnFailure" {
            continue;
        }
        for (at, is) in new.iter().enumerate().filter(|(_, s)| s["name"] == was["name"]) {
            if !present(is, "/state/terminated") {
                errors.push(FieldError::forbidden(
                    path.index(at).child("state"),
                    "may not be transitioned to non-terminated state",
                ));
            }
        }
    }
    errors
}

fn ip_errors(object: &Value, list: &str) -> Vec<FieldError> {
    let path = Path::new("status").child(list);
    let addresses: Vec<&str> =
        items(object, &format!("/status/{list}")).iter().map(|a| text(a, "/ip")).collect();
    let mut errors: Vec<FieldError> = addresses
        .iter()
        .enumerate()
        .filter(|(_, ip)| ip.parse::<std::net::IpAddr>().is_err())
        .map(|(at, ip)| FieldError::invalid(path.index(at), &json!(ip), common::NOT_AN_ADDRESS))
        .collect();
    let same_family = addresses.len() == 2 && addresses[0].contains(':') == addresses[1].contains(':');
    if errors.is_empty() && (addresses.len() > 2 || same_family) {
        let shown: Vec<Value> = addresses.iter().map(|ip| json!({"IP": ip})).collect();
        errors.push(FieldError::invalid(
            path,
            &json!(shown),
            "may specify no more than one IP for each IP family",
        ));
    }
    errors
}
