//! A pod that a budget keeps on its node, and so keeps the node from being drained.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::site::Site;

fn pods(site: &Site) -> Api<Pod> {
    Api::namespaced(site.cluster.client.clone(), "default")
}

fn budgets(site: &Site) -> Api<PodDisruptionBudget> {
    Api::namespaced(site.cluster.client.clone(), "default")
}

/// A pod of this name, which a budget of the same name keeps on the node.
pub(crate) async fn keep(site: &Site, name: &str, node: &str) {
    let pod = json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "none" }] },
    });
    let pod = serde_json::from_value(pod).expect("a pod");
    pods(site).create(&PostParams::default(), &pod).await.expect("a pod");
    let running =
        json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods(site).patch_status(name, &PatchParams::default(), &Patch::Merge(&running)).await.expect("a status");
    let budget = json!({
        "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": name } } },
    });
    let budget = serde_json::from_value(budget).expect("a budget");
    budgets(site).create(&PostParams::default(), &budget).await.expect("a budget");
}

/// The budget is no more, and the pod goes once it is asked to.
pub(crate) async fn let_go(site: &Site, name: &str) {
    budgets(site).delete(name, &DeleteParams::default()).await.expect("a deletion");
    // What a kubelet does with a pod that is to end.
    site.until("the pod is asked to go", async |site| {
        match pods(site).get_opt(name).await.expect("an answer") {
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => {
                let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                pods(site).delete(name, &now).await.ok().map(|_| ())
            }
            Some(_) => None,
            None => Some(()),
        }
    })
    .await;
}
