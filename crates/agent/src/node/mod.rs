//! What is true of this node, observed and told to the cluster.
//!
//! [`observe`] follows the kernel and the switch; [`annotations`] prints what it finds for other nodes, and
//! [`publisher`] writes it to the Node. [`own`] watches that Node, and [`gate`] decides whether it may start pods.

pub mod annotations;
pub mod gate;
mod look;
pub mod own;
pub mod publisher;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use netferry_kernel::{Event, IfName, Kernel, Objects, Result, Topics, Watch};
use netferry_ovs::Client;
use netferry_ovs::tables::vswitch::OpenVSwitch;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::capability::Startup;
use crate::context::Context;
use annotations::FACT_KEYS;
use publisher::When;

pub use look::{HostFacts, Sight, look};

/// Addresses come and go one by one; what is true in between is nobody's business.
const SETTLING: Duration = Duration::from_millis(100);
/// After listening to the kernel failed.
const PAUSE: Duration = Duration::from_secs(1);

/// What is true of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Of its host.
    pub host: HostFacts,
    /// The identity of its switch.
    pub chassis: String,
}

/// What facts are observed with.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The host's kernel.
    pub kernel: Arc<Kernel>,
    /// The database of the node's switch.
    pub switch: Client,
    /// The bridge that host-init made, which is then the way to the other nodes.
    pub bridge: Option<IfName>,
    /// The node as the cluster knows it.
    pub node: watch::Receiver<Option<Node>>,
}

/// Observes the node, and publishes its facts on the object that was admitted.
pub(crate) fn start(
    context: &Context,
    Startup { tasks, publisher, .. }: &mut Startup,
    facts: watch::Sender<Option<NodeFacts>>,
) {
    let sources = Sources {
        kernel: Arc::clone(&context.kernel),
        switch: context.stores.switch.clone(),
        bridge: context.bridge().map(|(bridge, _)| bridge),
        node: context.own.clone(),
    };
    tasks.spawn(observe(sources, facts));
    let name = context.config.node.to_string();
    let owned = ("node", &FACT_KEYS[..], When::Admitted);
    publisher
        .add_printed(tasks, owned, context.facts.clone(), move |facts| annotations::of_facts(&name, facts));
}

/// Follows what is true. What is not known for a moment is not forgotten: others would lose their way to this node
/// over a link that is being made anew. Ends when nobody listens.
pub async fn observe(mut sources: Sources, facts: watch::Sender<Option<NodeFacts>>) {
    while !facts.is_closed() {
        if let Err(error) = follow(&mut sources, &facts).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "observing the node");
            sleep(PAUSE).await;
        }
    }
}

async fn follow(sources: &mut Sources, facts: &watch::Sender<Option<NodeFacts>>) -> Result<()> {
    let topics = Topics { rules: false, neighbours: false, settings: false, nft: false, ..Topics::ALL };
    let mut kernel = Watch::open(&sources.kernel, topics)?;
    let mut switch = sources.switch.watch(&["Open_vSwitch"]);
    let mut known_as = BTreeSet::new();
    let mut watching = true;
    loop {
        tokio::select! {
            event = kernel.next() => if !concerns(&event?) { continue },
            _ = switch.next() => {}
            changed = sources.node.changed(), if watching => {
                watching = changed.is_ok();
                let now = internal_addresses(sources.node.borrow_and_update().as_ref());
                if now == known_as {
                    continue;
                }
                known_as = now;
            }
            () = facts.closed() => return Ok(()),
        }
        if facts.borrow().is_some() {
            sleep(SETTLING).await;
        }
        kernel.ready()?;
        let Some(now) = read(sources, &known_as)? else { continue };
        facts.send_if_modified(|facts| {
            let differs = facts.as_ref() != Some(&now);
            if differs {
                tracing::info!(facts = ?now, "what is true of this node");
                *facts = Some(now);
            }
            differs
        });
    }
}

fn concerns(event: &Event) -> bool {
    match event {
        Event::Resync | Event::Link(_) | Event::LinkGone(_) | Event::Address(_) | Event::AddressGone(_) => {
            true
        }
        // Only the ways out of the host are facts; pods' routes come and go.
        Event::Route(route) | Event::RouteGone(route) => route.to.prefix_len() == 0,
        Event::Rule(_)
        | Event::RuleGone(_)
        | Event::Neighbour(_)
        | Event::NeighbourGone(_)
        | Event::Setting
        | Event::Nft(_) => false,
    }
}

fn read(sources: &Sources, known_as: &BTreeSet<IpAddr>) -> Result<Option<NodeFacts>> {
    let row = sources.switch.snapshot().single::<OpenVSwitch>().ok().flatten();
    let chassis = row.and_then(|row| row.external_ids.get("system-id").cloned());
    let host = look(&Sight {
        links: &sources.kernel.links().observe()?,
        addresses: &sources.kernel.addresses().observe()?,
        routes: &sources.kernel.routes().observe()?,
        known_as,
        bridge: sources.bridge.as_ref(),
    });
    Ok(host.zip(chassis).map(|(host, chassis)| NodeFacts { host, chassis }))
}

/// The addresses that the cluster knows a node by.
fn internal_addresses(node: Option<&Node>) -> BTreeSet<IpAddr> {
    let status = node.and_then(|node| node.status.as_ref());
    let addresses = status.and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    addresses.filter(|a| a.type_ == "InternalIP").filter_map(|a| a.address.parse().ok()).collect()
}
