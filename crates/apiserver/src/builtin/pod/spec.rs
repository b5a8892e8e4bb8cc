//! What a server fills into a pod's spec, in a Pod and in a template alike.

use serde_json::{Value, json};

use super::super::access::{fill, items_mut, text};
use super::super::resources;

/// Volume sources whose files get a mode.
const WITH_MODE: [&str; 4] = ["secret", "configMap", "downwardAPI", "projected"];

/// The defaults of a pod spec, wherever it stands.
pub(in super::super) fn default(spec: &mut Value) {
    fill_text(spec, "dnsPolicy", "ClusterFirst");
    fill_text(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill_text(spec, "schedulerName", "default-scheduler");
    share_account(spec);
    for volume in items_mut(spec, "/volumes") {
        default_volume(volume);
    }
    for list in ["/initContainers", "/containers", "/ephemeralContainers"] {
        for container in items_mut(spec, list) {
            default_container(container);
        }
    }
    resources::round(spec.pointer_mut("/overhead"));
    round_requirements(spec);
}

/// Sets a text where it is absent or empty.
fn fill_text(value: &mut Value, key: &str, with: &str) {
    if value.get(key).and_then(Value::as_str).unwrap_or_default().is_empty() {
        value[key] = json!(with);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`: both are printed, the new one wins.
pub(super) fn share_account(spec: &mut Value) {
    let account = match text(spec, "/serviceAccountName") {
        "" => text(spec, "/serviceAccount"),
        name => name,
    }
    .to_owned();
    if !account.is_empty() {
        spec["serviceAccountName"] = json!(account);
        spec["serviceAccount"] = json!(account);
    }
}

fn default_volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    if map.keys().all(|key| key == "name") {
        map.insert("emptyDir".to_owned(), json!({}));
    }
    for source in WITH_MODE {
        if let Some(source) = map.get_mut(source) {
            fill(source, "defaultMode", 420);
        }
    }
    if let Some(path) = map.get_mut("hostPath") {
        fill(path, "type", "");
    }
    if let Some(image) = map.get_mut("image") {
        let policy = pull_policy(text(image, "/reference"));
        fill_text(image, "pullPolicy", policy);
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        fill(claim, "volumeMode", "Filesystem");
    }
    for item in items_mut(volume, "/downwardAPI/items") {
        default_field_ref(item);
    }
    for source in items_mut(volume, "/projected/sources") {
        for item in items_mut(source, "/downwardAPI/items") {
            default_field_ref(item);
        }
        if let Some(token) = source.get_mut("serviceAccountToken") {
            fill(token, "expirationSeconds", 3600);
        }
    }
}

fn default_field_ref(item: &mut Value) {
    if let Some(field) = item.get_mut("fieldRef") {
        fill_text(field, "apiVersion", "v1");
    }
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(text(container, "/image"));
    fill_text(container, "imagePullPolicy", policy);
    fill_text(container, "terminationMessagePath", "/dev/termination-log");
    fill_text(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "/ports") {
        fill_text(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "/env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            default_field_ref(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            default_probe(probe);
        }
    }
    for handler in ["/lifecycle/postStart/httpGet", "/lifecycle/preStop/httpGet"] {
        default_http_get(container.pointer_mut(handler));
    }
    round_requirements(container);
}

fn round_requirements(holder: &mut Value) {
    for list in ["/resources/limits", "/resources/requests"] {
        resources::round(holder.pointer_mut(list));
    }
}

fn default_probe(probe: &mut Value) {
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill(probe, field, value);
    }
    default_http_get(probe.get_mut("httpGet"));
    if let Some(grpc) = probe.get_mut("grpc") {
        fill(grpc, "service", "");
    }
}

fn default_http_get(action: Option<&mut Value>) {
    if let Some(action) = action {
        fill_text(action, "path", "/");
        fill_text(action, "scheme", "HTTP");
    }
}

/// A moving tag is pulled every time.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    // What is no image reference has no tag to move.
    let readable = !last.is_empty() && !last.bytes().any(|b| b.is_ascii_whitespace());
    match last.split_once(':') {
        Some((repository, "latest")) if is_repository(repository) => "Always",
        None if digest.is_none() && readable && is_repository(last) => "Always",
        Some(_) | None => "IfNotPresent",
    }
}

fn is_repository(name: &str) -> bool {
    !name.bytes().any(|b| b.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::pull_policy;

    #[test]
    fn only_a_moving_tag_is_pulled_every_time() {
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("registry:5000/a/busybox", "Always"),
            ("busybox:1.36", "IfNotPresent"),
            ("busybox@sha256:0123", "IfNotPresent"),
            ("registry:5000/a/busybox:1", "IfNotPresent"),
            ("", "IfNotPresent"),
            ("BUSYBOX", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
