//! What everything else is computed with: the cluster's ranges and the pods' MTU.

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use netferry_api::overlay::{
    ConfigNetwork, ConfigNetworkStatus, OperatorNetwork, OperatorNetworkSpec, SINGLETON,
};
use netferry_core::mtu::Mtu;
use netferry_core::overlay::networks::Networks;
use netferry_translate::networks::{Refusal, deployed, deployed_mtu};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::watch::Patience;

/// What everything else is computed with.
#[derive(Clone, PartialEq, Debug)]
pub struct Basis {
    /// The cluster's ranges.
    pub networks: Networks,
    /// The pods' MTU.
    pub mtu: Mtu,
}

/// The objects a [`Basis`] is read from, as they are kept across a boot without the API.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Written {
    /// Of `Network.config.openshift.io`.
    pub status: ConfigNetworkStatus,
    /// Of `Network.operator.openshift.io`.
    pub spec: OperatorNetworkSpec,
}

impl Written {
    /// Reads them; `None` while the operator has not published anything.
    pub fn basis(&self) -> Result<Option<Basis>, Vec<Refusal>> {
        if self.status.cluster_network.is_empty() {
            return Ok(None);
        }
        let networks = deployed(&self.status, &self.spec)?;
        let mtu = deployed_mtu(&self.status).map_err(|refusal| vec![refusal])?;
        Ok(Some(Basis { networks, mtu }))
    }
}

/// Follows both `Network` objects and publishes them whenever they make sense together. Objects that are gone or make
/// no sense change nothing.
pub async fn follow(client: Client, into: watch::Sender<Option<Written>>) {
    let status =
        watch_object(Api::<ConfigNetwork>::all(client.clone()), SINGLETON).backoff(Patience::default());
    let spec = watch_object(Api::<OperatorNetwork>::all(client), SINGLETON).backoff(Patience::default());
    let (mut status, mut spec) = (std::pin::pin!(status), std::pin::pin!(spec));
    let (mut heard_status, mut heard_spec) = (None, None);
    let mut trouble = false;
    loop {
        let failed = tokio::select! {
            Some(heard) = status.next() => match heard {
                Ok(object) => {
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
        let written = Written { status: status.clone(), spec: spec.clone() };
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
