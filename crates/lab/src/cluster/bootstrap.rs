//! What a new cluster is given before its nodes come: our kinds, and what its network shall be.

use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{NetworkTopology, TopologyMode};
use serde_json::{Value, json};

use crate::error::{During, LabError, Result};
use crate::options::Options;

/// A real server takes a moment to serve a kind it was just given.
const SERVED_WITHIN: Duration = Duration::from_secs(60);

/// Gives a cluster what it starts with. Doing it again changes nothing.
pub(super) async fn furnish(client: &Client, options: &Options) -> Result<()> {
    for (file, text) in netferry_api::crds() {
        let object: Value = serde_saphyr::from_str(&text).during(format!("reading {file}"))?;
        apply(client, object).await?;
    }
    // The operator's lease is there.
    apply(client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "netferry"}})).await?;
    apply(client, network(options)).await?;
    // A controller makes it; before it has, the real server refuses every pod.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let deadline = tokio::time::Instant::now() + SERVED_WITHIN;
    while !matches!(accounts.get_opt("default").await, Ok(Some(_))) {
        if tokio::time::Instant::now() > deadline {
            let waiting_for = "the ServiceAccount default/default".into();
            return Err(LabError::TimedOut { waiting_for, within: SERVED_WITHIN });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// What the cluster's network shall be.
fn network(options: &Options) -> Value {
    let ranges: Vec<Value> = options
        .families
        .cluster_networks()
        .into_iter()
        .map(|(cidr, prefix)| json!({"cidr": cidr, "hostPrefix": prefix}))
        .collect();
    let mut annotations = serde_json::Map::new();
    if options.single_node {
        let (key, value) = NetworkTopology::from(TopologyMode::SingleNode).entry();
        annotations.insert(key, value.into());
    }
    json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "Network",
        "metadata": {"name": "cluster", "annotations": annotations},
        "spec": {
            "managementState": "Managed",
            "clusterNetwork": ranges,
            "serviceNetwork": options.families.service_networks(),
            "defaultNetwork": {"type": "OVNKubernetes", "ovnKubernetesConfig": {"mtu": options.pod_mtu()}},
        },
    })
}

/// Creates an object, or makes it what it shall be.
pub(super) async fn apply(client: &Client, object: Value) -> Result<()> {
    let object: DynamicObject =
        serde_json::from_value(object).during("reading an object of a new cluster")?;
    let types = object.types.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let attempt = format!("creating {} {name}", types.kind);
    let kind = GroupVersionKind::try_from(&types).during(attempt.clone())?;
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let deadline = tokio::time::Instant::now() + SERVED_WITHIN;
    loop {
        let params = PatchParams::apply("netferry-lab").force();
        match api.patch(&name, &params, &Patch::Apply(&object)).await {
            Ok(_) => return Ok(()),
            Err(error) if tokio::time::Instant::now() > deadline => return Err(error).during(attempt),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429 | 500..) => {}
            Err(error @ kube::Error::Api(_)) => return Err(error).during(attempt),
            // Not reached: the server may be starting again.
            Err(error) => tracing::debug!(%error, "{attempt}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Removes what a node that is gone for good leaves in the API.
pub(super) async fn forget_node(client: &Client, node: &str) -> Result<()> {
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::Node;
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
    let results = [
        nodes.delete(node, &Default::default()).await.map(drop),
        leases.delete(node, &Default::default()).await.map(drop),
    ];
    for result in results {
        match result {
            Err(error) if !gone(&error) => {
                return Err::<(), LabError>(LabError::Failed {
                    attempt: format!("deleting Node {node}"),
                    source: Box::new(error),
                });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
