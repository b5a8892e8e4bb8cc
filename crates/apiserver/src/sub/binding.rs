//! `pods/binding`: how a scheduler gives a pod its node.

use serde_json::{Value, json};

use crate::field::{FieldError, Path, quoted};
use crate::names;
use crate::object::{is_deleting, meta};
use crate::registry::Cx;
use crate::status::ApiError;

/// Binds the pod `name` to the node the body names.
pub(crate) fn bind(cx: &mut Cx<'_>, name: &str, mut binding: Value) -> Result<Value, ApiError> {
    names::match_namespace(&mut binding, &cx.namespace)?;
    if meta(&binding, "name") != name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let target = &binding["target"];
    let kind = target["kind"].as_str().unwrap_or_default();
    let node = target["name"].as_str().unwrap_or_default().to_owned();
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported(Path::new("target.kind"), &json!(kind), &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(FieldError::required(Path::new("target.name"), ""));
    }
    if !errors.is_empty() {
        // The real server does not classify these.
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let told = if let [one] = told.as_slice() { one.clone() } else { format!("[{}]", told.join(", ")) };
        return Err(ApiError::unclassified(told));
    }
    let Some(pod) = cx.current(name) else { return Err(cx.not_found(name)) };
    let uid = meta(&binding, "uid");
    if !uid.is_empty() && uid != meta(&pod, "uid") {
        let key = format!("/registry/pods/{}/{name}", cx.namespace);
        return Err(names::uid_conflict("", "pods", name, &key, uid, meta(&pod, "uid")));
    }
    if is_deleting(&pod) {
        return Err(refused(cx, name, &format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    if let Some(taken) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Err(refused(cx, name, &format!("pod {name} is already assigned to node {}", quoted(taken))));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(refused(cx, name, &format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let mut bound = pod.clone();
    bound["spec"]["nodeName"] = json!(node);
    for field in ["annotations", "labels"] {
        if let Some(extra) = binding["metadata"][field].as_object() {
            for (key, value) in extra {
                crate::object::meta_mut(&mut bound)
                    .entry(field)
                    .or_insert_with(|| json!({}))
                    .as_object_mut()
                    .map(|map| map.insert(key.clone(), value.clone()));
            }
        }
    }
    set_scheduled(&mut bound, &cx.core.clock.stamp());
    if !cx.dry_run {
        cx.commit(bound)?;
    }
    Ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
}

fn refused(cx: &Cx<'_>, name: &str, why: &str) -> ApiError {
    ApiError::conflict(&cx.resource.group, "pods/binding", name, why)
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let status = &mut pod["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let scheduled =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    match conditions.iter_mut().find(|c| c["type"] == "PodScheduled") {
        Some(condition) if condition["status"] == "True" => {}
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
}
