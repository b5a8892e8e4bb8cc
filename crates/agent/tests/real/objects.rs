//! Objects of a cluster.

use serde_json::{Value, json};

use crate::world::World;

/// The annotations of the `n`th node (from 1), with its subnet, id and tunnel address.
pub(crate) fn node_annotations(n: u8) -> Value {
    json!({
        "k8s.ovn.org/node-id": (n + 1).to_string(),
        "k8s.ovn.org/node-subnets": format!(r#"{{"default":["10.244.{n}.0/24"]}}"#),
        "k8s.ovn.org/node-chassis-id": format!("chassis-{n}"),
        "k8s.ovn.org/node-primary-ifaddr": format!(r#"{{"ipv4":"172.30.0.{n}/16"}}"#),
        "k8s.ovn.org/host-cidrs": format!(r#"["172.30.0.{n}/16"]"#),
    })
}

impl World {
    /// The `n`th node, `n<n>`.
    pub(crate) async fn put_node(&self, n: u8) {
        self.put(
            "v1",
            "Node",
            "nodes",
            json!({
                "metadata": {"name": format!("n{n}"), "annotations": node_annotations(n)},
            }),
        )
        .await;
    }

    /// A pod of node `n<n>` that is attached with this last byte of its address.
    pub(crate) async fn put_pod(&self, n: u8, name: &str, last: u8, labels: Value) {
        let address = format!("10.244.{n}.{last}");
        self.put(
            "v1",
            "Pod",
            "pods",
            json!({
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "spec": {"nodeName": format!("n{n}"), "containers": [{"name": "c", "image": "i"}]},
            }),
        )
        .await;
        let pods = self.api("v1", "Pod", "pods", Some("default"));
        let status = kube::api::Patch::Merge(json!({"status": {"podIPs": [{"ip": address}]}}));
        let pod = pods.patch_status(name, &Default::default(), &status).await.expect("a status");
        if n == 1 {
            self.attach("default", name, &pod.metadata.uid.expect("a UID"), &address);
        }
    }

    /// Detaches a pod of the first node, and deletes it.
    pub(crate) async fn end_pod(&self, name: &str) {
        self.vsctl(&["del-port", "pods", name]).expect("the switch lets go of the port");
        self.delete("v1", "Pod", "pods", "default", name).await;
    }

    /// A Service of port 80 at this address, and who answers on 8080.
    pub(crate) async fn put_service(&self, name: &str, address: &str, backends: &[&str]) {
        self.put_service_of("TCP", name, address).await;
        self.put_slice(name, backends).await;
    }

    /// A Service of a protocol, without backends.
    pub(crate) async fn put_service_of(&self, protocol: &str, name: &str, address: &str) {
        self.put(
            "v1",
            "Service",
            "services",
            json!({
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"clusterIP": address, "ports": [{"protocol": protocol, "port": 80, "targetPort": 8080}]},
            }),
        )
        .await;
    }

    /// Who answers for a Service.
    pub(crate) async fn put_slice(&self, service: &str, backends: &[&str]) {
        self.put_slice_of("TCP", service, backends).await;
    }

    /// Who answers for a Service of a protocol.
    pub(crate) async fn put_slice_of(&self, protocol: &str, service: &str, backends: &[&str]) {
        let endpoint = |address: &&str| json!({"addresses": [address], "conditions": {"ready": true}});
        self.put(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "endpointslices",
            json!({
                "metadata": {
                    "name": format!("{service}-1"), "namespace": "default",
                    "labels": {"kubernetes.io/service-name": service},
                },
                "addressType": "IPv4",
                "ports": [{"name": "", "port": 8080, "protocol": protocol}],
                "endpoints": backends.iter().map(endpoint).collect::<Vec<_>>(),
            }),
        )
        .await;
    }

    /// Deletes an object, at once.
    pub(crate) async fn delete(&self, version: &str, kind: &str, plural: &str, namespace: &str, name: &str) {
        let api = self.api(version, kind, plural, Some(namespace).filter(|namespace| !namespace.is_empty()));
        let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
        api.delete(name, &now).await.expect("it is there");
    }
}
