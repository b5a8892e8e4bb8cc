//! Says so when a node's link is too small for the overlay: a pod there would send packets that vanish.
//!
//! The taint keeps pods away, the condition says why to whoever looks at the node. Both go when the link has grown.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use kube::api::{Api, Patch, PatchParams};
use netferry_api::overlay::annotations::{MTU_TOO_SMALL_TAINT, mtu_too_small};
use netferry_core::overlay::topology::WayOut;
use netferry_core::size::{Envelope, Mtu};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::cluster::Written;
use crate::node::NodeFacts;
use crate::node::publisher::MANAGER;

/// The type of the node's condition.
pub const CONDITION: &str = "MtuTooSmall";
const PAUSE: Duration = Duration::from_secs(1);

/// Why a node's link does not fit: what it carries of a pod's packet, and what pods send. Pure.
pub fn misfit(way_out: WayOut, facts: &NodeFacts, pods: Mtu) -> Option<String> {
    if !way_out.tunnels {
        // Nothing is wrapped: what is too large the host refuses with the size that fits, as any router does.
        return None;
    }
    let encap = facts.host.primary.iter().next()?.addr();
    let room = Mtu::new(facts.host.mtu).ok().and_then(|underlay| way_out.room(underlay, encap));
    if room.is_some_and(|room| room >= pods) {
        return None;
    }
    let room = room.map_or("none".to_owned(), |room| format!("only {}", room.bytes()));
    Some(format!(
        "link {} has an MTU of {} and carries {room} of a pod's {} bytes: raise its MTU by {} or more",
        facts.host.link,
        facts.host.mtu,
        pods.bytes(),
        missing(way_out, facts, pods, encap),
    ))
}

fn missing(way_out: WayOut, facts: &NodeFacts, pods: Mtu, encap: std::net::IpAddr) -> u32 {
    let fits = |extra: &u32| {
        let underlay = Mtu::new(facts.host.mtu.saturating_add(*extra)).ok();
        underlay.and_then(|underlay| way_out.room(underlay, encap)).is_some_and(|room| room >= pods)
    };
    (0..=u32::from(u16::MAX)).find(fits).unwrap_or(u32::from(u16::MAX))
}

/// Keeps taint and condition true, for as long as facts can change.
pub async fn keep(
    nodes: Api<Node>,
    name: String,
    mut facts: watch::Receiver<Option<NodeFacts>>,
    mut networks: watch::Receiver<Option<Written>>,
    mut served: watch::Receiver<Option<Envelope>>,
) {
    loop {
        let way_out = networks.borrow_and_update().as_ref().and_then(Written::way_out);
        let pods = *served.borrow_and_update();
        let seen = facts.borrow_and_update().clone();
        // While one of them is not known, nothing is said: neither that it fits nor that it does not.
        if let (Some(way_out), Some(pods), Some(seen)) = (way_out, pods, seen) {
            let why = misfit(way_out, &seen, pods.carries());
            if let Err(error) = say(&nodes, &name, why.as_deref()).await {
                tracing::warn!(
                    node = name,
                    error = &error as &dyn std::error::Error,
                    "whether the link fits the overlay was not published"
                );
                sleep(PAUSE).await;
                continue;
            }
        }
        tokio::select! {
            changed = facts.changed() => if changed.is_err() { return },
            changed = networks.changed() => if changed.is_err() { return },
            changed = served.changed() => if changed.is_err() { return },
        }
    }
}

async fn say(nodes: &Api<Node>, name: &str, why: Option<&str>) -> Result<(), kube::Error> {
    let node = nodes.get(name).await?;
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    if let Some(patch) = taints(&node, why.is_some()) {
        nodes.patch(name, &params, &Patch::Merge(patch)).await?;
    }
    if let Some(condition) = condition(&node, why, Timestamp::now()) {
        let patch = json!({"status": {"conditions": [condition]}});
        nodes.patch_status(name, &params, &Patch::Strategic(patch)).await?;
        if let Some(why) = why {
            tracing::error!(node = name, "{why}");
        }
    }
    Ok(())
}

/// Taints are one list of several writers, so it is written only as it was read.
fn taints(node: &Node, tainted: bool) -> Option<Value> {
    let have = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let is_ours = |taint: &Taint| taint.key == MTU_TOO_SMALL_TAINT;
    if have.iter().any(is_ours) == tainted {
        return None;
    }
    let mut taints: Vec<Taint> = have.into_iter().filter(|taint| !is_ours(taint)).collect();
    taints.extend(tainted.then(mtu_too_small));
    let version = &node.metadata.resource_version;
    Some(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}))
}

/// The condition to write; none if the node has it so, or never had it and has no reason to.
fn condition(node: &Node, why: Option<&str>, now: Timestamp) -> Option<NodeCondition> {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let have = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == CONDITION));
    let (value, reason) = if why.is_some() { ("True", "LinkTooSmall") } else { ("False", "LinkFits") };
    let message = why.unwrap_or("the node's link carries the pods' packets");
    match have {
        None if why.is_none() => return None,
        Some(have) if have.status == value && have.message.as_deref() == Some(message) => return None,
        None | Some(_) => {}
    }
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
    let since = have.filter(|have| have.status == value).and_then(|have| have.last_transition_time.clone());
    Some(NodeCondition {
        type_: CONDITION.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(time.clone()),
        last_transition_time: since.or(Some(time)),
    })
}

#[cfg(test)]
mod tests {
    use netferry_core::overlay::topology::Topology;
    use netferry_kernel::IfName;

    use super::*;
    use crate::node::HostFacts;

    #[test]
    fn a_link_too_small_for_the_pods_packets_is_reported_with_what_it_lacks() {
        let facts = NodeFacts {
            host: HostFacts {
                link: IfName::new("br-ex").unwrap(),
                mac: "02:00:00:00:00:01".parse().unwrap(),
                mtu: 1500,
                primary: netferry_api::annotation::FamilyPair::new("172.30.0.2/16".parse().ok(), None)
                    .unwrap(),
                gateways: vec![],
                addresses: vec![],
                management: None,
            },
            chassis: "6a5b".to_owned(),
        };
        let way_out = Topology::multi_node().way_out;
        let mtu = |bytes| Mtu::new(bytes).unwrap();
        assert_eq!(misfit(way_out, &facts, mtu(1442)), None);
        assert_eq!(
            misfit(Topology::single_node().way_out, &facts, mtu(9000)),
            None,
            "nothing is encapsulated"
        );
        assert_eq!(
            misfit(way_out, &facts, mtu(1450)).unwrap(),
            "link br-ex has an MTU of 1500 and carries only 1442 of a pod's 1450 bytes: raise its MTU by 8 or more"
        );
    }
}
