//! What admission adds to a new pod: its service account with a token, its priority, its patience with lost nodes.

use serde_json::{Value, json};

use super::super::access::{items, items_mut, object_at, present, text};
use super::spec::share_account;
use crate::status::ApiError;

const MIRROR: &str = "kubernetes.io/config.mirror";
const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long a pod stays on a node that stopped answering.
const PATIENCE: i64 = 300;

/// The service account a new pod runs as: look it up and hand it to [`admit_pod`].
pub fn pod_service_account(pod: &Value) -> &str {
    match (text(pod, "/spec/serviceAccountName"), text(pod, "/spec/serviceAccount")) {
        ("", "") => "default",
        ("", old) => old,
        (name, _) => name,
    }
}

/// Admits a new pod, after its defaults and before it is prepared and validated.
///
/// `account` is the ServiceAccount named by [`pod_service_account`], where it exists; `suffix` makes five random
/// characters for the token volume's name. What is added here belongs to no field manager.
pub fn admit_pod(
    pod: &mut Value,
    namespace: &str,
    account: Option<&Value>,
    suffix: impl FnOnce() -> String,
) -> Result<(), ApiError> {
    if pod.pointer("/metadata/annotations").and_then(|a| a.get(MIRROR)).is_some() {
        admit_mirror(pod)?;
    } else {
        let name = pod_service_account(pod).to_owned();
        let Some(account) = account else {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
            );
            return Err(refuse(pod, &why));
        };
        let spec = &mut pod["spec"];
        spec["serviceAccountName"] = json!(name);
        share_account(spec);
        if mounts_token(spec, account) {
            mount_token(spec, suffix);
        }
        let secrets = items(account, "/imagePullSecrets");
        if items(spec, "/imagePullSecrets").is_empty() && !secrets.is_empty() {
            spec["imagePullSecrets"] = json!(secrets);
        }
    }
    prioritise(pod)?;
    tolerate_lost_nodes(&mut pod["spec"]);
    Ok(())
}

fn refuse(pod: &Value, why: &str) -> ApiError {
    let name = match (text(pod, "/metadata/name"), text(pod, "/metadata/generateName")) {
        ("", "") => "Unknown",
        ("", prefix) => prefix,
        (name, _) => name,
    };
    ApiError::forbidden("", "pods", name, why)
}

fn admit_mirror(pod: &Value) -> Result<(), ApiError> {
    if text(pod, "/spec/serviceAccountName").is_empty() {
        Ok(())
    } else {
        Err(refuse(pod, "a mirror pod may not reference service accounts"))
    }
}

/// The pod decides whether it gets a token; else its account; else it does.
fn mounts_token(spec: &Value, account: &Value) -> bool {
    let wanted = |of: &Value| of.get("automountServiceAccountToken").and_then(Value::as_bool);
    wanted(spec).or_else(|| wanted(account)).unwrap_or(true)
}

fn mount_token(spec: &mut Value, suffix: impl FnOnce() -> String) {
    let existing = items(spec, "/volumes")
        .iter()
        .map(|v| text(v, "/name"))
        .find(|n| n.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let has_volume = existing.is_some();
    let volume = existing.unwrap_or_else(|| format!("{TOKEN_VOLUME}{}", suffix()));
    let mut mounted = false;
    for list in ["/initContainers", "/containers"] {
        for container in items_mut(spec, list) {
            if items(container, "/volumeMounts").iter().any(|m| text(m, "/mountPath") == TOKEN_PATH) {
                continue;
            }
            push(
                container,
                "volumeMounts",
                json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}),
            );
            mounted = true;
        }
    }
    if mounted && !has_volume {
        push(
            spec,
            "volumes",
            json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ]}}),
        );
    }
}

fn push(holder: &mut Value, field: &str, item: Value) {
    match holder.get_mut(field) {
        Some(Value::Array(list)) => list.push(item),
        Some(_) | None => holder[field] = json!([item]),
    }
}

/// The two classes every cluster has; others are not served here.
fn class_value(class: &str) -> Option<i64> {
    match class {
        "" => Some(0),
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    }
}

fn prioritise(pod: &mut Value) -> Result<(), ApiError> {
    let class = text(pod, "/spec/priorityClassName");
    let Some(value) = class_value(class) else {
        return Err(refuse(pod, &format!("no PriorityClass with name {class} was found")));
    };
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        return Err(refuse(pod, &why));
    }
    let policy = text(pod, "/spec/preemptionPolicy");
    if !policy.is_empty() && policy != "PreemptLowerPriority" {
        let why = format!(
            "the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission \
             controller computed PreemptLowerPriority from the given PriorityClass name"
        );
        return Err(refuse(pod, &why));
    }
    let spec = object_at(pod, "spec");
    spec.insert("priority".to_owned(), json!(value));
    spec.insert("preemptionPolicy".to_owned(), json!("PreemptLowerPriority"));
    Ok(())
}

/// Lets a pod stay a while on a node that stopped answering, unless it says how long itself.
pub(super) fn tolerate_lost_nodes(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(spec, "/tolerations").iter().any(|t| {
            matches!(text(t, "/key"), k if k == key || k.is_empty())
                && matches!(text(t, "/effect"), "NoExecute" | "")
        });
        if !tolerated {
            push(
                spec,
                "tolerations",
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE}),
            );
        }
    }
}

/// A replacement that leaves out what admission had filled in keeps it.
pub(super) fn keep_priority(spec: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if !present(spec, &format!("/{field}")) && present(old, &format!("/{field}")) {
            spec[field] = old[field].clone();
        }
    }
}
