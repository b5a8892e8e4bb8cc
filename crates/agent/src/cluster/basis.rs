//! What everything else is computed with: the cluster's ranges and the pods' MTU.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::NetworkTopology;
use netferry_api::overlay::{
    ConfigNetwork, ConfigNetworkStatus, OperatorNetwork, OperatorNetworkSpec, SINGLETON,
};
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::topology::{Mode, WayOut};
use netferry_core::size::Mtu;
use netferry_translate::networks::{Refusal, deployed, deployed_mtu, mode};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::pause::Patience;

/// What everything else is computed with.
#[derive(Clone, PartialEq, Debug)]
pub struct Basis {
    /// The cluster's ranges.
    pub networks: Networks,
    /// The pods' MTU.
    pub mtu: Mtu,
    /// For how many nodes the network is.
    pub mode: Mode,
}

/// The objects a [`Basis`] is read from, as they are kept across a boot without the API.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Written {
    /// Of `Network.config.openshift.io`.
    pub status: ConfigNetworkStatus,
    /// Of `Network.operator.openshift.io`.
    pub spec: OperatorNetworkSpec,
    /// Annotations of `Network.config.openshift.io` that say for how many nodes the network is.
    #[serde(default)]
    pub topology: BTreeMap<String, String>,
}

impl Written {
    /// Reads them; `None` while the operator has not published anything.
    pub fn basis(&self) -> Result<Option<Basis>, Vec<Refusal>> {
        if self.status.cluster_network.is_empty() {
            return Ok(None);
        }
        let mode = mode(Some(&self.topology)).map_err(|refusal| vec![refusal])?.unwrap_or_default();
        let networks = deployed(&self.status, &self.spec)?;
        let mtu = deployed_mtu(&self.status, mode).map_err(|refusal| vec![refusal])?;
        Ok(Some(Basis { networks, mtu, mode }))
    }

    /// How pods' packets leave a node, once it is known.
    pub fn way_out(&self) -> Option<WayOut> {
        let basis = self.basis().ok().flatten()?;
        Some(basis.mode.topology().way_out)
    }
}

fn said_topology(network: &ConfigNetwork) -> Option<BTreeMap<String, String>> {
    let said = network.metadata.annotations.as_ref()?.get_key_value(NetworkTopology::KEY)?;
    Some(BTreeMap::from([(said.0.clone(), said.1.clone())]))
}

/// Follows both `Network` objects and publishes them whenever they make sense together. Objects that are gone or make
/// no sense change nothing.
pub async fn follow(client: Client, into: watch::Sender<Option<Written>>) {
    let status =
        watch_object(Api::<ConfigNetwork>::all(client.clone()), SINGLETON).backoff(Patience::default());
    let spec = watch_object(Api::<OperatorNetwork>::all(client), SINGLETON).backoff(Patience::default());
    let (mut status, mut spec) = (std::pin::pin!(status), std::pin::pin!(spec));
    let (mut heard_status, mut heard_spec) = (None, None);
    // Where nothing is said any more, what was said last holds: a running node is not made another by a slip.
    let mut topology = into.borrow().as_ref().map(|last| last.topology.clone()).unwrap_or_default();
    let mut trouble = false;
    loop {
        let failed = tokio::select! {
            Some(heard) = status.next() => match heard {
                Ok(object) => {
                    if let Some(said) = object.as_ref().and_then(said_topology) {
                        topology = said;
                    }
                    heard_status = object.and_then(|object| object.status).or(heard_status);
                    None
                }
                Err(error) => Some(error),
            },
            Some(heard) = spec.next() => match heard {
                // Without the operator's object there are no internal ranges but the defaults.
                Ok(object) => {
                    heard_spec = Some(object.map(|object| object.spec).unwrap_or_default());
                    None
                }
                Err(error) => Some(error),
            },
            () = into.closed() => return,
        };
        if let Some(error) = &failed
            && !trouble
        {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "the cluster's networks cannot be read; nothing changes until they can");
        }
        trouble = failed.is_some();
        let (Some(status), Some(spec)) = (&heard_status, &heard_spec) else { continue };
        let written = Written { status: status.clone(), spec: spec.clone(), topology: topology.clone() };
        match written.basis() {
            Ok(Some(_)) => {
                into.send_if_modified(|last| {
                    let differs = last.as_ref() != Some(&written);
                    *last = Some(written);
                    differs
                });
            }
            Ok(None) => {}
            Err(refusals) => {
                let said: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
                tracing::error!(
                    why = said.join("; "),
                    "the cluster's networks make no sense; left as they were"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn remembered(topology: serde_json::Value) -> Written {
        let mut kept = json!({
            "status": {
                "clusterNetwork": [{"cidr": "10.244.0.0/16", "hostPrefix": 24}],
                "serviceNetwork": ["10.96.0.0/16"],
            },
            "spec": {},
        });
        if !topology.is_null() {
            kept["topology"] = topology;
        }
        serde_json::from_value(kept).unwrap()
    }

    #[test]
    fn for_how_many_nodes_a_network_is_decides_what_is_not_said() {
        let basis = |topology| remembered(topology).basis().unwrap().unwrap();
        let many = basis(serde_json::Value::Null);
        assert_eq!((many.mode, many.mtu.bytes()), (Mode::MultiNode, 1400), "as remembered by those before");
        let one = basis(json!({"netferry.dev/topology": "single-node"}));
        assert_eq!((one.mode, one.mtu.bytes()), (Mode::SingleNode, 1500));
        assert!(remembered(json!({"netferry.dev/topology": "some"})).basis().is_err());
    }

    #[test]
    fn a_network_that_does_not_say_says_nothing() {
        let mut network = ConfigNetwork::new(SINGLETON, Default::default());
        assert_eq!(said_topology(&network), None);
        let said = BTreeMap::from([("netferry.dev/topology".to_owned(), "single-node".to_owned())]);
        network.metadata.annotations = Some(said.clone());
        network.metadata.annotations.as_mut().unwrap().insert("other".into(), "x".into());
        assert_eq!(said_topology(&network), Some(said));
    }
}
