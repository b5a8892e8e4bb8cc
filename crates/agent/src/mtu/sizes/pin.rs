//! What happens to sizes while a change lasts: routes that appear, from router advertisements, leases or by hand, are
//! pinned when the kernel announces them, and a link that the host's network service gives the size it will have after
//! the change goes back to what it has to carry until then.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use netferry_core::mtu::steps;
use netferry_core::size::{Envelope, Mtu};
use netferry_kernel::route::{Route, RouteMtu};
use netferry_kernel::{Event, IfName, Kernel, Topics, Watch};
use tokio::time::Instant;

use super::{Managed, Result, SizeError, advertised, before, leads_out, look, ours_to_write, replace, run};
use crate::pause::Pause;

/// After something the kernel refused: first, and at most.
const PAUSE: Pause = Pause::new(Duration::from_millis(200), Duration::from_secs(5));
/// How often everything is looked at although nothing was told: the kernel does not tell of every setting.
const RESYNC: Duration = Duration::from_secs(10);

/// Holds the uplinks at what they are to carry and every route out of them at the pin, those that appear later too, for
/// as long as it is run. Without a pin there is nothing to hold.
pub async fn keep(kernel: Arc<Kernel>, uplinks: Vec<IfName>, wanted: Envelope, directory: PathBuf) {
    let Some(pin) = wanted.pin() else { return };
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let Err(error) = follow(&kernel, &uplinks, wanted, &directory).await;
        tracing::warn!(error = &error as &dyn std::error::Error, "holding routes at {pin}");
        pause.wait_since(began).await;
    }
}

async fn follow(
    kernel: &Kernel,
    uplinks: &[IfName],
    wanted: Envelope,
    directory: &Path,
) -> Result<Infallible> {
    let topics = Topics { addresses: false, rules: false, neighbours: false, nft: false, ..Topics::ALL };
    let listening = |source| SizeError::Kernel { step: "listening to the kernel".to_owned(), source };
    let mut watch = Watch::open(kernel, topics).map_err(listening)?;
    let names: Vec<&IfName> = uplinks.iter().collect();
    let mut links = vec![];
    let mut indices = BTreeSet::new();
    loop {
        let told = tokio::time::timeout(RESYNC, watch.next()).await;
        let mut events = vec![told.unwrap_or(Ok(Event::Resync)).map_err(listening)?];
        events.extend(watch.ready().map_err(listening)?);
        if events.iter().any(concerns_links) {
            links = look(kernel, &names)?;
            if links.iter().any(|managed| is_off(managed, wanted)) {
                tracing::info!(%wanted, "somebody gave a link another size");
                run(kernel, &names, wanted, directory)?;
            }
            advertised::hold(kernel, &links, wanted, directory)?;
            indices = links.iter().map(|managed| managed.link.index).collect();
        }
        // Events tell that something is new; what is there is read, for two that came one after the other may be of one
        // route.
        let appeared =
            |event: &Event| matches!(event, Event::Route(route) if escapes(route, &indices, wanted));
        if events.iter().any(|event| concerns_links(event) || appeared(event)) {
            for route in ours_to_write(kernel, &links)? {
                hold(kernel, route, wanted, directory)?;
            }
        }
    }
}

/// Does it not carry what it is to? Others may stand on what is below, so that may carry more.
fn is_off(Managed { link, below, .. }: &Managed, wanted: Envelope) -> bool {
    let carries = wanted.carries().bytes();
    link.mtu < carries || link.mtu > carries && !below
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
    leads_out(route, links) && steps::pinned(own, wanted) != own
}

fn size(route: &Route) -> Option<Mtu> {
    route.mtu.and_then(|mtu| Mtu::new(mtu.bytes).ok())
}

fn hold(kernel: &Kernel, route: Route, wanted: Envelope, directory: &Path) -> Result<()> {
    let shall = steps::pinned(size(&route), wanted);
    if shall == size(&route) {
        return Ok(());
    }
    before::note(directory, [&route])?;
    tracing::info!(to = %route.to, %wanted, "a route that appeared is held");
    let mtu = shall.map(|mtu| RouteMtu { bytes: mtu.bytes(), locked: route.mtu.is_some_and(|m| m.locked) });
    replace(kernel, &Route { mtu, ..route })
}
