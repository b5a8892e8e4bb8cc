//! The objects field management starts from when something is created.

use serde_json::{Value, json};

/// Whether the kind is one of the built-in ones.
pub(crate) fn is_built_in(api_version: &str, kind: &str) -> bool {
    empty(api_version, kind).get("metadata").is_some()
}

/// What a new object of this kind holds by being of it, besides what its creator wrote. It counts as the creator's.
pub(crate) fn inherent(api_version: &str, kind: &str) -> Option<Value> {
    // The template's generation is a field of the server's own DaemonSets and an annotation of everybody else's.
    (api_version == "apps/v1" && kind == "DaemonSet")
        .then(|| json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "0"}}}))
}

/// What an object of this kind looks like before anybody has set anything.
///
/// Built-in kinds start with the parts that are always there, which therefore nobody owns: a new Pod's `spec` is
/// not its creator's, only what stands in it. A custom resource starts with nothing.
pub(crate) fn empty(api_version: &str, kind: &str) -> Value {
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    let role_ref = json!({"apiGroup": "", "kind": "", "name": ""});
    let node_info: Value = [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), json!("")))
    .collect::<serde_json::Map<_, _>>()
    .into();
    let mut object = match (api_version, kind) {
        ("v1", "Namespace" | "PersistentVolume") => json!({"metadata": {}, "spec": {}, "status": {}}),
        ("v1", "Node") => json!({"metadata": {}, "spec": {}, "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": node_info}}),
        ("v1", "Pod") => json!({"metadata": {}, "spec": {"containers": null}, "status": {}}),
        ("v1", "Service") => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ("v1", "ConfigMap" | "Secret" | "ServiceAccount" | "Endpoints") => json!({"metadata": {}}),
        ("v1", "Event") => json!({"metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null,
            "lastTimestamp": null, "eventTime": null, "reportingComponent": "", "reportingInstance": ""}),
        ("v1", "PersistentVolumeClaim") => {
            json!({"metadata": {}, "spec": {"resources": {}}, "status": {}})
        }
        ("v1", "ReplicationController") => json!({"metadata": {}, "spec": {}, "status": {"replicas": 0}}),
        ("events.k8s.io/v1", "Event") => json!({"metadata": {}, "eventTime": null, "regarding": {},
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null}),
        ("discovery.k8s.io/v1", "EndpointSlice") => {
            json!({"metadata": {}, "addressType": "", "endpoints": null, "ports": null})
        }
        ("autoscaling/v1", "Scale") => json!({"metadata": {}, "spec": {}, "status": {"replicas": 0}}),
        ("coordination.k8s.io/v1", "Lease") => json!({"metadata": {}, "spec": {}}),
        ("networking.k8s.io/v1", "NetworkPolicy") => json!({"metadata": {}, "spec": {"podSelector": {}}}),
        ("apps/v1", "Deployment") => json!({"metadata": {}, "status": {},
            "spec": {"selector": null, "template": template, "strategy": {}}}),
        ("apps/v1", "ReplicaSet") => json!({"metadata": {}, "status": {"replicas": 0},
            "spec": {"selector": null, "template": template}}),
        ("apps/v1", "DaemonSet") => json!({"metadata": {},
            "spec": {"selector": null, "template": template, "updateStrategy": {}},
            "status": {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
                "numberReady": 0}}),
        ("apps/v1", "StatefulSet") => json!({"metadata": {},
            "spec": {"selector": null, "template": template, "serviceName": "", "updateStrategy": {}},
            "status": {"replicas": 0, "availableReplicas": 0}}),
        ("apps/v1", "ControllerRevision") => json!({"metadata": {}, "data": null, "revision": 0}),
        ("policy/v1", "PodDisruptionBudget") => json!({"metadata": {}, "spec": {},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}}),
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => json!({"metadata": {}, "rules": null}),
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => {
            json!({"metadata": {}, "roleRef": role_ref})
        }
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            let names = json!({"plural": "", "kind": ""});
            json!({"metadata": {},
                "spec": {"group": "", "names": names, "scope": "", "versions": null},
                "status": {"conditions": null, "acceptedNames": names, "storedVersions": null}})
        }
        _ => json!({}),
    };
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object
}
