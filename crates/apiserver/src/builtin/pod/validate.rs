//! What is wrong with a pod's spec, as far as manifests of ours get it wrong.

use serde_json::{Value, json};

use super::super::access::{entries, flag, items, number, present, text};
use super::super::quantity::Quantity;
use super::super::validate as common;
use crate::field::{FieldError, Path};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A new pod.
pub(super) fn create(pod: &Value) -> Vec<FieldError> {
    let mut errors = self::pod(pod);
    let path = Path::new("spec");
    if !items(pod, "/spec/ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(pod, "/spec/nodeName").is_empty() && !items(pod, "/spec/schedulingGates").is_empty() {
        errors.push(FieldError::forbidden(
            path.child("nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    errors
}

/// A pod, new or not.
pub(super) fn pod(pod: &Value) -> Vec<FieldError> {
    spec(&pod["spec"], &Path::new("spec"), true)
}

/// A template.
pub(in super::super) fn template(template: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = common::labels(template, "/metadata/labels", &path.child("labels"));
    errors.extend(spec(&template["spec"], &path.child("spec"), false));
    if !items(template, "/spec/ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(
            path.child("spec").child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
    errors
}

fn spec(spec: &Value, path: &Path, is_pod: bool) -> Vec<FieldError> {
    let (volumes, mut errors) = volumes(spec, &path.child("volumes"));
    errors.extend(containers(spec, &volumes, &path.child("containers")));
    errors.extend(init_containers(spec, &volumes, &path.child("initContainers")));
    errors.extend(host_ports(spec, path, is_pod));
    let policies = ["Always", "OnFailure", "Never"];
    errors.extend(common::one_of(spec, "restartPolicy", path, &policies));
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.extend(common::one_of(spec, "dnsPolicy", path, &dns));
    errors.extend(common::labels(spec, "/nodeSelector", &path.child("nodeSelector")));
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let value = text(spec, &format!("/{field}"));
        if !value.is_empty() {
            errors.extend(common::subdomain(value, path.child(field)));
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors.push(FieldError::invalid(
            path.child("activeDeadlineSeconds"),
            &json!(seconds),
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    for field in ["hostname", "subdomain"] {
        let value = text(spec, &format!("/{field}"));
        if !value.is_empty() {
            errors.extend(common::label_dns(value, path.child(field)));
        }
    }
    errors.extend(tolerations(spec, &path.child("tolerations")));
    errors
}

/// The names of the good volumes, and what is wrong with the others.
fn volumes<'a>(spec: &'a Value, path: &Path) -> (Vec<&'a str>, Vec<FieldError>) {
    let (mut names, mut errors) = (Vec::new(), Vec::new());
    for (at, volume) in items(spec, "/volumes").iter().enumerate() {
        let path = path.index(at);
        let name = text(volume, "/name");
        let mut wrong = Vec::new();
        let mut sources = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        if let (Some(_), Some((second, _))) = (sources.next(), sources.next()) {
            wrong.push(FieldError::forbidden(path.child(second), "may not specify more than 1 volume type"));
        }
        wrong.extend(source_errors(volume, &path));
        if name.is_empty() {
            wrong.push(FieldError::required(path.child("name"), ""));
        } else {
            wrong.extend(common::label_dns(name, path.child("name")));
        }
        if names.contains(&name) {
            wrong.push(FieldError::duplicate(path.child("name"), &json!(name)));
        }
        if wrong.is_empty() {
            names.push(name);
        }
        errors.extend(wrong);
    }
    (names, errors)
}

fn source_errors(volume: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (source, field) in [
        ("secret", "secretName"),
        ("configMap", "name"),
        ("persistentVolumeClaim", "claimName"),
        ("hostPath", "path"),
    ] {
        if let Some(given) = volume.get(source)
            && text(given, &format!("/{field}")).is_empty()
        {
            errors.push(FieldError::required(path.child(source).child(field), ""));
        }
    }
    errors
}

fn containers(spec: &Value, volumes: &[&str], path: &Path) -> Vec<FieldError> {
    let containers = items(spec, "/containers");
    if containers.is_empty() {
        return vec![FieldError::required(path.clone(), "")];
    }
    let mut errors = Vec::new();
    for (at, container) in containers.iter().enumerate() {
        let path = path.index(at);
        errors.extend(common_errors(container, volumes, &path));
        if containers[..at].iter().any(|c| c["name"] == container["name"]) {
            errors.push(FieldError::duplicate(path.child("name"), &container["name"]));
        }
        errors.extend(lifecycle(container, &path));
        if present(container, "/restartPolicy") {
            errors.push(FieldError::forbidden(
                path.child("restartPolicy"),
                "may not be set for non-init containers",
            ));
        }
    }
    errors.extend(host_port_conflicts(containers, path));
    errors
}

fn init_containers(spec: &Value, volumes: &[&str], path: &Path) -> Vec<FieldError> {
    let containers = items(spec, "/initContainers");
    let mut errors = Vec::new();
    for (at, container) in containers.iter().enumerate() {
        let at_path = path.index(at);
        errors.extend(common_errors(container, volumes, &at_path));
        let others = items(spec, "/containers").iter().chain(&containers[..at]);
        if others.into_iter().any(|c| c["name"] == container["name"]) {
            errors.push(FieldError::duplicate(at_path.child("name"), &container["name"]));
        }
        errors.extend(host_port_conflicts(std::slice::from_ref(container), path));
        if text(container, "/restartPolicy") == "Always" {
            errors.extend(lifecycle(container, &at_path));
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.get(field).is_some() {
                    errors.push(FieldError::forbidden(
                        at_path.child(field),
                        "may not be set for init containers without restartPolicy=Always",
                    ));
                }
            }
        }
    }
    errors
}

fn common_errors(container: &Value, volumes: &[&str], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match text(container, "/name") {
        "" => errors.push(FieldError::required(path.child("name"), "")),
        name => errors.extend(common::label_dns(name, path.child("name"))),
    }
    if text(container, "/image").is_empty() {
        errors.push(FieldError::required(path.child("image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    errors.extend(common::one_of(container, "terminationMessagePolicy", path, &policies));
    errors.extend(ports(container, &path.child("ports")));
    for (at, variable) in items(container, "/env").iter().enumerate() {
        if text(variable, "/name").is_empty() {
            errors.push(FieldError::required(path.child("env").index(at).child("name"), ""));
        }
        if present(variable, "/valueFrom") && !text(variable, "/value").is_empty() {
            errors.push(FieldError::invalid(
                path.child("env").index(at).child("valueFrom"),
                &json!(""),
                "may not be specified when `value` is not empty",
            ));
        }
    }
    errors.extend(mounts(container, volumes, &path.child("volumeMounts")));
    errors.extend(common::one_of(container, "imagePullPolicy", path, &["Always", "IfNotPresent", "Never"]));
    errors.extend(requirements(container, &path.child("resources")));
    errors
}

fn ports(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (at, port) in items(container, "/ports").iter().enumerate() {
        let path = path.index(at);
        let name = text(port, "/name");
        if !name.is_empty() {
            let complaints = common::port_name(name, path.child("name"));
            if !complaints.is_empty() {
                errors.extend(complaints);
            } else if names.contains(&name) {
                errors.push(FieldError::duplicate(path.child("name"), &json!(name)));
            } else {
                names.push(name);
            }
        }
        match number(port, "/containerPort") {
            0 => errors.push(FieldError::required(path.child("containerPort"), "")),
            number => errors.extend(common::port_number(number, path.child("containerPort"))),
        }
        let host = number(port, "/hostPort");
        if host != 0 {
            errors.extend(common::port_number(host, path.child("hostPort")));
        }
        errors.extend(common::one_of(port, "protocol", &path, &PROTOCOLS));
    }
    errors
}

fn host_port_conflicts(containers: &[Value], path: &Path) -> Vec<FieldError> {
    let (mut taken, mut errors) = (Vec::new(), Vec::new());
    for (at, container) in containers.iter().enumerate() {
        for (nth, port) in items(container, "/ports").iter().enumerate() {
            let host = number(port, "/hostPort");
            if host == 0 {
                continue;
            }
            let key = format!("{}/{}/{host}", text(port, "/protocol"), text(port, "/hostIP"));
            if taken.contains(&key) {
                let path = path.index(at).child("ports").index(nth).child("hostPort");
                errors.push(FieldError::duplicate(path, &json!(key)));
            } else {
                taken.push(key);
            }
        }
    }
    errors
}

fn host_ports(spec: &Value, path: &Path, is_pod: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !flag(spec, "/hostNetwork") {
        return errors;
    }
    for (at, container) in items(spec, "/containers").iter().enumerate() {
        for (nth, port) in items(container, "/ports").iter().enumerate() {
            let (host, own) = (number(port, "/hostPort"), number(port, "/containerPort"));
            if (is_pod || host != 0) && host != own {
                errors.push(FieldError::invalid(
                    path.child("containers").index(at).child("ports").index(nth).child("hostPort"),
                    &json!(host),
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
    errors
}

fn mounts(container: &Value, volumes: &[&str], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mounts = items(container, "/volumeMounts");
    for (at, mount) in mounts.iter().enumerate() {
        let path = path.index(at);
        let (name, target) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        if !volumes.contains(&name) {
            errors.push(FieldError::not_found(path.child("name"), &json!(name)));
        }
        if target.is_empty() {
            errors.push(FieldError::required(path.child("mountPath"), ""));
        }
        if mounts[..at].iter().any(|m| text(m, "/mountPath") == target) {
            errors.push(FieldError::invalid(path.child("mountPath"), &json!(target), "must be unique"));
        }
    }
    errors
}

/// No amount is negative, and no request exceeds its limit.
fn requirements(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["limits", "requests"] {
        let path = path.child(list);
        errors.extend(super::super::resources::quantities(container, &format!("/resources/{list}"), &path));
    }
    for (name, request) in entries(container, "/resources/requests") {
        let limit = container.pointer("/resources/limits").and_then(|l| l.get(name)).and_then(Value::as_str);
        if let (Some(limit), Some(request)) = (limit, request.as_str())
            && Quantity::parse(request) > Quantity::parse(limit)
        {
            errors.push(FieldError::invalid(
                path.child("requests"),
                &json!(request),
                format!("must be less than or equal to {name} limit of {limit}"),
            ));
        }
    }
    errors
}

fn lifecycle(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container.pointer(&format!("/lifecycle/{hook}")) {
            errors.extend(handler_errors(handler, &path.child("lifecycle").child(hook)));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(kind) else { continue };
        let path = path.child(kind);
        errors.extend(handler_errors(probe, &path));
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            errors.extend(common::not_negative(probe.get(field), path.child(field)));
        }
        if kind != "readinessProbe" && number(probe, "/successThreshold") != 1 {
            errors.push(FieldError::invalid(
                path.child("successThreshold"),
                &probe["successThreshold"],
                "must be 1",
            ));
        }
    }
    errors
}

fn handler_errors(handler: &Value, path: &Path) -> Vec<FieldError> {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let given: Vec<&str> = kinds.into_iter().filter(|k| handler.get(*k).is_some()).collect();
    if given.is_empty() {
        return vec![FieldError::required(path.clone(), "must specify a handler type")];
    }
    given[1..]
        .iter()
        .map(|kind| FieldError::forbidden(path.child(kind), "may not specify more than 1 handler type"))
        .collect()
}

fn tolerations(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, toleration) in items(spec, "/tolerations").iter().enumerate() {
        let path = path.index(at);
        let of = |field: &str| text(toleration, &format!("/{field}"));
        if !of("key").is_empty() {
            errors.extend(common::label_name(of("key"), path.child("key")));
        } else if of("operator") != "Exists" {
            errors.push(FieldError::invalid(
                path.child("operator"),
                &json!(of("operator")),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if present(toleration, "/tolerationSeconds") && of("effect") != "NoExecute" {
            errors.push(FieldError::invalid(
                path.child("effect"),
                &json!(of("effect")),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match of("operator") {
            "Equal" | "" => errors.extend(common::label_value(of("value"), path.child("operator"))),
            "Exists" if !of("value").is_empty() => errors.push(FieldError::invalid(
                path.child("operator"),
                &json!(of("value")),
                "value must be empty when `operator` is 'Exists'",
            )),
            "Exists" => {}
            other => errors.push(FieldError::not_supported(
                path.child("operator"),
                &json!(other),
                &["Equal", "Exists"],
            )),
        }
        if !of("effect").is_empty() {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.extend(common::one_of(toleration, "effect", &path, &effects));
        }
    }
    errors
}

/// What a client is told about a pod that is legal and probably not meant.
pub(super) fn pod_warnings(pod: &Value) -> Vec<String> {
    let mut said = Vec::new();
    let complaints = crate::names::dns1123_label(text(pod, "/metadata/name"));
    if !text(pod, "/metadata/name").is_empty() && !complaints.is_empty() {
        said.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            complaints.join(" ")
        ));
    }
    said.extend(warnings(&pod["spec"], &Path::new("spec")));
    said
}

/// The same about a spec.
pub(in super::super) fn warnings(spec: &Value, path: &Path) -> Vec<String> {
    let mut said = Vec::new();
    for (at, container) in items(spec, "/containers").iter().enumerate() {
        let path = path.child("containers").index(at).child("env");
        let variables = items(container, "/env");
        for (nth, variable) in variables.iter().enumerate() {
            if variables[..nth]
                .iter()
                .any(|v| v["name"] == variable["name"] && v["value"] == variable["value"])
            {
                said.push(format!("{path}[{nth}]: duplicate definition of {}", variable["name"]));
            }
        }
    }
    said
}
