//! What a cluster needs before this network can be asked for: our kinds, a namespace, and the `Network` itself.
//!
//! Whatever is there already is somebody's and stays as it is.

use std::time::Duration;

use anyhow::{Context, anyhow};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use netferry_api::overlay::{OperatorNetwork, SINGLETON};
use netferry_core::overlay::topology::Mode;
use netferry_translate::networks;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::exit::Failure;

/// Who makes them, for whoever wonders.
const US: &str = "netferry-solo";
/// Between attempts: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The ranges of a network that is not there yet.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    pub(super) cluster: Vec<IpNet>,
    pub(super) service: Vec<IpNet>,
}

/// Makes what is missing, however long the API takes to answer.
pub(super) async fn furnish(client: &Client, namespace: &str, ranges: &Ranges) -> Result<(), Failure> {
    let definitions: Vec<CustomResourceDefinition> = netferry_api::crds()
        .iter()
        .map(|(_, text)| serde_saphyr::from_str(text))
        .collect::<Result<_, _>>()
        .context("reading a definition of ours")?;
    let place: Namespace = object(json!({"metadata": {"name": namespace}}));
    let mut pause = AGAIN.0;
    loop {
        match attempt(client, &definitions, &place, ranges).await {
            Ok(found) => return fits(&found),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "the cluster has not everything yet that this network needs; trying again"
                );
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN.1);
    }
}

async fn attempt(
    client: &Client,
    definitions: &[CustomResourceDefinition],
    namespace: &Namespace,
    ranges: &Ranges,
) -> Result<OperatorNetwork, kube::Error> {
    for definition in definitions {
        ensure(&Api::all(client.clone()), definition).await?;
    }
    ensure(&Api::all(client.clone()), namespace).await?;
    let networks = Api::<OperatorNetwork>::all(client.clone());
    ensure(&networks, &network(ranges)).await?;
    networks.get(SINGLETON).await
}

async fn ensure<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let params = PostParams { field_manager: Some(US.to_owned()), ..PostParams::default() };
    match api.create(&params, object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}

/// Whether what is asked for is this kind of network.
fn fits(found: &OperatorNetwork) -> Result<(), Failure> {
    let why = match networks::mode(found.metadata.annotations.as_ref()) {
        Ok(Some(Mode::SingleNode)) => return Ok(()),
        Ok(Some(Mode::MultiNode) | None) => "it is for any number of nodes".to_owned(),
        Err(refusal) => refusal.to_string(),
    };
    let (key, value) = networks::printed_mode(Mode::SingleNode);
    Err(Failure::Refused(anyhow!(
        "Network.operator.openshift.io {SINGLETON}: {why}. For one machine it has the annotation {key}: {value}, from \
         before its first node; for many, run `netferry agent` and `netferry operator` instead"
    )))
}

/// The network this machine is given where nobody asked for another.
fn network(ranges: &Ranges) -> OperatorNetwork {
    let (key, value) = networks::printed_mode(Mode::SingleNode);
    let cluster = ranges.cluster.iter().map(|net| {
        // One machine has one subnet: as much as pods can use of it.
        let most = if net.addr().is_ipv4() { 24 } else { 64 };
        json!({"cidr": net, "hostPrefix": net.prefix_len().max(most)})
    });
    object(json!({
        "metadata": {"name": SINGLETON, "annotations": {key: value}},
        "spec": {
            "managementState": "Managed",
            "clusterNetwork": cluster.collect::<Vec<_>>(),
            "serviceNetwork": ranges.service,
            "defaultNetwork": {"type": "OVNKubernetes"},
        },
    }))
}

fn object<K: DeserializeOwned>(json: serde_json::Value) -> K {
    serde_json::from_value(json).expect("an object of its kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_asked_for_here_is_one_this_machine_can_run() {
        let ranges = |cluster: &[&str], service: &[&str]| {
            let read = |all: &[&str]| all.iter().map(|net| net.parse().unwrap()).collect();
            Ranges { cluster: read(cluster), service: read(service) }
        };
        let asked = network(&ranges(&["10.42.0.0/16", "fd42::/48"], &["10.43.0.0/16", "fd43::/112"]));
        fits(&asked).unwrap();
        networks::wanted(&asked.spec).expect("ranges the operator takes");
    }

    #[test]
    fn a_network_for_many_nodes_is_refused_with_what_to_do() {
        let mut many = network(&Ranges { cluster: vec![], service: vec![] });
        many.metadata.annotations = None;
        let Err(Failure::Refused(why)) = fits(&many) else { panic!("taken") };
        let why = why.to_string();
        assert!(
            why.contains("netferry.dev/topology: single-node") && why.contains("netferry agent"),
            "{why}"
        );
    }
}
