//! Telling the cluster what is true of this node: as annotations of its Node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use netferry_api::annotation::{Annotation, Mac};
use netferry_api::mtu::MtuObserved;
use netferry_api::overlay::annotations::{
    ChassisId, DEFAULT_NETWORK, Gateway, GatewayBridge, GatewayMode, HostCidrs, L3GatewayConfig,
    ManagementPortMacs, PrimaryIfAddr, ZoneName,
};
use netferry_core::mtu::probe::Report;
use netferry_core::overlay::names;
use netferry_translate::assignment as translate;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::NodeFacts;
use crate::overlay::pods::Place;

/// Who writes these fields.
pub(crate) const MANAGER: &str = "netferry-agent";
/// After an API that does not answer: first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// The annotations that say it, by key.
pub fn annotations(node: &str, facts: &NodeFacts) -> BTreeMap<String, String> {
    let host = &facts.host;
    let bridge = (host.link.as_str() == names::EXTERNAL_BRIDGE).then(|| host.link.to_string());
    let gateway = Gateway::Bridge(GatewayBridge {
        mode: GatewayMode::Local,
        bridge_id: bridge,
        interface_id: format!("{}_{node}", host.link),
        mac_address: Mac(host.mac.0),
        ip_addresses: host.primary.iter().collect(),
        next_hops: host.gateways.clone(),
        node_port_enable: true,
        vlan_id: Some(0),
    });
    let mut all = BTreeMap::from([
        PrimaryIfAddr(host.primary).entry(),
        HostCidrs::new(host.addresses.iter().copied()).entry(),
        L3GatewayConfig::of_default(gateway).entry(),
    ]);
    // Plain text, which cannot be wrong unless it is empty; and an identity that is empty is none.
    all.extend(ZoneName::parse(node).ok().map(|zone| zone.entry()));
    all.extend(ChassisId::parse(&facts.chassis).ok().map(|chassis| chassis.entry()));
    if let Some(mac) = host.management {
        let macs = BTreeMap::from([(DEFAULT_NETWORK.to_owned(), Mac(mac.0))]);
        all.extend([ManagementPortMacs(macs).entry()]);
    }
    all
}

/// Those of `wanted` that the node does not have so.
pub fn missing(wanted: &BTreeMap<String, String>, node: &Node) -> BTreeMap<String, String> {
    let none = BTreeMap::new();
    let have = node.metadata.annotations.as_ref().unwrap_or(&none);
    let differs = |(key, value): &(&String, &String)| have.get(*key) != Some(*value);
    wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Keeps the node's annotations true: writes what differs when a fact changes, and again when somebody else changed
/// what was written. An API that does not answer is asked again; what is true then is what counts.
///
/// It is what others need to reach the node's pods, so it is said of the object that was let in ([`crate::mtu::admission`]) and of
/// no other: what is sent to a node that does not go with the cluster may not fit it.
///
/// Ends when no fact can change any more.
pub async fn publish(
    nodes: Api<Node>,
    name: String,
    facts: watch::Receiver<Option<NodeFacts>>,
    seen: watch::Receiver<Option<Node>>,
    admitted: watch::Receiver<Option<String>>,
) {
    let node = name.clone();
    keep_true(nodes, name, facts, seen, Some(admitted), move |facts| annotations(&node, facts)).await;
}

/// Keeps saying what the zone runs with, as [`publish`] does: it is how a node whose annotations were mangled or changed
/// by hand is given back the subnet its pods live in.
pub async fn publish_place(
    nodes: Api<Node>,
    name: String,
    place: watch::Receiver<Option<Arc<Place>>>,
    seen: watch::Receiver<Option<Node>>,
) {
    keep_true(nodes, name, place, seen, None, |place| place_annotations(place)).await;
}

/// Keeps saying which sizes the node really uses, as [`publish`] does.
pub async fn publish_sizes(
    nodes: Api<Node>,
    name: String,
    sizes: watch::Receiver<Option<MtuObserved>>,
    seen: watch::Receiver<Option<Node>>,
) {
    keep_true(nodes, name, sizes, seen, None, |sizes| BTreeMap::from([sizes.entry()])).await;
}

/// Keeps saying what probes to other nodes found out, as [`publish`] does.
pub async fn publish_probes(
    nodes: Api<Node>,
    name: String,
    found: watch::Receiver<Option<Report>>,
    seen: watch::Receiver<Option<Node>>,
) {
    keep_true(nodes, name, found, seen, None, |found| {
        BTreeMap::from([netferry_translate::probe::printed(found).entry()])
    })
    .await;
}

/// The annotations that say what the zone runs with.
pub fn place_annotations(place: &Place) -> BTreeMap<String, String> {
    BTreeMap::from([
        translate::running(&place.node.assignment).entry(),
        translate::masquerade(&place.networks).entry(),
    ])
}

async fn keep_true<T>(
    nodes: Api<Node>,
    name: String,
    mut facts: watch::Receiver<Option<T>>,
    mut seen: watch::Receiver<Option<Node>>,
    mut admitted: Option<watch::Receiver<Option<String>>>,
    annotations: impl Fn(&T) -> BTreeMap<String, String>,
) {
    let mut pause = PAUSE.0;
    let (mut watching, mut asking) = (true, admitted.is_some());
    loop {
        let wanted = facts.borrow_and_update().as_ref().map(&annotations);
        let known = seen.borrow_and_update().clone();
        let only = admitted.as_mut().map(|admitted| admitted.borrow_and_update().clone().unwrap_or_default());
        let written = match wanted {
            Some(wanted) => write(&nodes, &name, &wanted, known, only.as_deref()).await,
            None => Ok(()),
        };
        match written {
            Ok(()) => pause = PAUSE.0,
            Err(error) => {
                tracing::warn!(
                    node = name,
                    error = &error as &dyn std::error::Error,
                    "the node's facts were not published"
                );
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
                continue;
            }
        }
        tokio::select! {
            changed = facts.changed() => if changed.is_err() { return },
            changed = seen.changed(), if watching => watching = changed.is_ok(),
            changed = changes(admitted.as_mut()), if asking => asking = changed,
        }
    }
}

/// Waits for a change; whether there may be another one.
async fn changes(admitted: Option<&mut watch::Receiver<Option<String>>>) -> bool {
    match admitted {
        Some(admitted) => admitted.changed().await.is_ok(),
        None => false,
    }
}

async fn write(
    nodes: &Api<Node>,
    name: &str,
    wanted: &BTreeMap<String, String>,
    known: Option<Node>,
    only: Option<&str>,
) -> Result<(), kube::Error> {
    let node = match known {
        Some(node) => node,
        None => nodes.get(name).await?,
    };
    if only.is_some_and(|only| node.metadata.uid.as_deref() != Some(only)) {
        return Ok(());
    }
    let missing = missing(wanted, &node);
    if missing.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = missing.keys().map(String::as_str).collect();
    tracing::info!(node = name, keys = keys.join(" "), "publishing what is true here");
    let patch = json!({"metadata": {"annotations": missing}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    nodes.patch(name, &params, &Patch::Merge(patch)).await.map(drop)
}
