//! Routes that appear while a change lasts, from router advertisements, leases or by hand: pinned when the kernel
//! announces them.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use netferry_core::mtu::{Envelope, Mtu, steps};
use netferry_kernel::route::{Route, RouteMtu};
use netferry_kernel::{Event, IfName, Kernel, Objects, Topics, Watch};

use super::{
    BY_ROUTER, Result, SizeError, hold_advertised, leads_out, managed, ours_to_write, replace, tell,
};

/// After something the kernel refused.
const PAUSE: Duration = Duration::from_millis(200);

/// Holds every route out of the uplinks at the pin, those that appear later too, for as long as it is run. Without a pin
/// there is nothing to hold.
pub async fn keep(kernel: Arc<Kernel>, uplinks: Vec<IfName>, wanted: Envelope) {
    let Some(pin) = wanted.pin() else { return };
    loop {
        let Err(error) = follow(&kernel, &uplinks, wanted, pin).await;
        tracing::warn!(error = &error as &dyn std::error::Error, "holding routes at {pin}");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow(kernel: &Kernel, uplinks: &[IfName], wanted: Envelope, pin: Mtu) -> Result<Infallible> {
    let topics = Topics { addresses: false, rules: false, neighbours: false, nft: false, ..Topics::ALL };
    let listening = |source| SizeError::Kernel { step: "listening to the kernel".to_owned(), source };
    let mut watch = Watch::open(kernel, topics).map_err(listening)?;
    let mut links = BTreeSet::new();
    loop {
        let mut events = vec![watch.next().await.map_err(listening)?];
        events.extend(watch.ready().map_err(listening)?);
        if events.iter().any(concerns_links) {
            let names: Vec<&IfName> = uplinks.iter().collect();
            let all = tell(kernel.links().observe(), || "reading links".to_owned())?;
            let managed = managed(&all, &names);
            links = managed.iter().map(|managed| managed.link.index).collect();
            hold_advertised(kernel, &managed, wanted)?;
        }
        // Events tell that something is new; what is there is read, for two that came one after the other may be of one
        // route.
        let appeared = |event: &Event| matches!(event, Event::Route(route) if escapes(route, &links, wanted));
        if events.iter().any(|event| concerns_links(event) || appeared(event)) {
            let routes = tell(kernel.routes().observe(), || "reading routes".to_owned())?;
            for route in ours_to_write(routes, &links) {
                hold(kernel, route, wanted, pin)?;
            }
        }
    }
}

/// The kernel forgets what advertised routes may send when an interface's size is set.
fn concerns_links(event: &Event) -> bool {
    match event {
        Event::Resync | Event::Link(_) | Event::LinkGone(_) | Event::Setting => true,
        Event::Address(_)
        | Event::AddressGone(_)
        | Event::Route(_)
        | Event::RouteGone(_)
        | Event::Rule(_)
        | Event::RuleGone(_)
        | Event::Neighbour(_)
        | Event::NeighbourGone(_)
        | Event::Nft(_) => false,
    }
}

/// Does it let out more than it should?
fn escapes(route: &Route, links: &BTreeSet<u32>, wanted: Envelope) -> bool {
    let own = size(route);
    leads_out(route, links) && route.protocol != BY_ROUTER && steps::pinned(own, wanted) != own
}

fn size(route: &Route) -> Option<Mtu> {
    route.mtu.and_then(|mtu| Mtu::new(mtu.bytes).ok())
}

fn hold(kernel: &Kernel, route: Route, wanted: Envelope, pin: Mtu) -> Result<()> {
    let shall = steps::pinned(size(&route), wanted);
    if shall == size(&route) {
        return Ok(());
    }
    tracing::info!(to = %route.to, %pin, "a route that appeared is held");
    let mtu = shall.map(|mtu| RouteMtu { bytes: mtu.bytes(), locked: route.mtu.is_some_and(|m| m.locked) });
    replace(kernel, &Route { mtu, ..route })
}
