//! Routes that tunnels have for themselves, where the kernel wraps packets.
//!
//! What a host sends to another node's address may end in a pod there: pods speak to other hosts from their node's
//! address, and a node's ports lead to pods. Where it is larger than a pod takes, that node says so, and the kernel
//! notes it for the node's address. But tunnels end at the same address: for as long as the note is kept, ten minutes
//! after it was last made, the kernel would wrap nothing for that node that is not smaller than that by its headers,
//! and drops what is, full-size packets of pods, without telling them. Such notes are kept with the route that they
//! were made of. So tunnels get copies of the host's routes, which nothing else is sent by.
//!
//! A way that the copies do not have is looked for among the host's own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use netferry_core::overlay::host::GENEVE_PORT;
use netferry_kernel::address::Lifetime;
use netferry_kernel::route::{Kind, MAIN, Route};
use netferry_kernel::rule::Rule;
use netferry_kernel::{Event, Family, Kernel, Object as _, Objects as _, Result, Topics, Watch};
use tokio::time::{Instant, sleep, timeout};

use crate::ownership::{
    self, TUNNEL_ROUTE_TABLE as TABLE, TUNNEL_RULE_PRIORITY as PRIORITY, tunnel_routes as mark,
};
use crate::pause::Pause;

const UDP: u8 = 17;
/// After something that the kernel refused: first, and at most.
const PAUSE: Pause = Pause::new(Duration::from_millis(100), Duration::from_secs(5));
/// Between looks: a host whose routes change all the time is not asked for all of them each time.
const APART: Duration = Duration::from_millis(50);
/// How often a route may be gone that was there a moment ago.
const TRIES: usize = 3;

/// Keeps the copies as the host's routes are. They stay when this ends.
pub async fn keep(kernel: Arc<Kernel>, resync: Duration) -> Infallible {
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let Err(error) = follow(&kernel, resync).await;
        tracing::warn!(error = &error as &dyn std::error::Error, "keeping routes of tunnels");
        pause.wait_since(began).await;
    }
}

/// Removes the copies, and what leads to them.
pub fn withdraw(kernel: &Kernel) -> Result<()> {
    kernel.rules().converge(&[], &mark())?;
    kernel.routes().converge(&[], &mark())?;
    Ok(())
}

async fn follow(kernel: &Kernel, resync: Duration) -> Result<Infallible> {
    let topics = Topics { addresses: true, routes: true, rules: true, ..Topics::default() };
    let mut watch = Watch::open(kernel, topics)?;
    loop {
        let told = timeout(resync, watch.next()).await;
        let mut events = vec![told.unwrap_or(Ok(Event::Resync))?];
        events.extend(watch.ready()?);
        if events.iter().any(concerns) {
            settle(kernel)?;
            sleep(APART).await;
        }
    }
}

fn concerns(event: &Event) -> bool {
    match event {
        // Routes that speak from an address went with it, and nobody says so.
        Event::Resync | Event::AddressGone(_) => true,
        Event::Route(route) | Event::RouteGone(route) => [MAIN, TABLE].contains(&route.table),
        Event::Rule(rule) | Event::RuleGone(rule) => rule.is_ours(&mark()),
        // Routes that go with their link go in all tables, and those that come with it are told.
        Event::Link(_)
        | Event::LinkGone(_)
        | Event::Address(_)
        | Event::Neighbour(_)
        | Event::NeighbourGone(_)
        | Event::Setting
        | Event::Nft(_) => false,
    }
}

/// Makes the copies, and has tunnels use them.
fn settle(kernel: &Kernel) -> Result<()> {
    let mut tries = 1;
    while let Err(error) = copy(kernel) {
        if tries == TRIES {
            // Some of the ways may be worse than none: one to everywhere leads astray where one to a part is missing.
            kernel.rules().converge(&[], &mark())?;
            return Err(error);
        }
        tries += 1;
    }
    let mut families = vec![Family::V4];
    families.extend(kernel.sysctls().speaks_v6()?.then_some(Family::V6));
    let rule = |family: &Family| Rule::lookup(*family, PRIORITY, TABLE).to_port(UDP, GENEVE_PORT);
    let rules: Vec<Rule> = families.iter().map(rule).collect();
    let changes = kernel.rules().converge(&rules, &mark())?;
    if !changes.is_empty() {
        tracing::info!(table = TABLE, "tunnels have routes of their own");
    }
    Ok(())
}

fn copy(kernel: &Kernel) -> Result<()> {
    let have = kernel.routes().observe()?;
    let changes = netferry_kernel::diff(&copies(&have), &have, &mark());
    for conflict in &changes.conflicts {
        tracing::warn!(want = ?conflict.want, have = ?conflict.have, "somebody else's is in the way");
    }
    kernel.routes().apply(&changes)
}

/// The host's ways for tunnels: those to where no tunnel ends, and those into the overlay, are left out. Sizes are not
/// copied: what pods send is smaller than any link they are sent through, whatever hosts are held to meanwhile.
fn copies(routes: &[Route]) -> Vec<Route> {
    let mut copies = BTreeMap::new();
    for route in routes {
        let leads_on = match route.kind {
            Kind::Unicast | Kind::Blackhole | Kind::Unreachable | Kind::Prohibit | Kind::Throw => true,
            Kind::Local | Kind::Other(_) => false,
        };
        if route.table == MAIN
            && leads_on
            && !route.is_ours(&ownership::host())
            && !is_of_the_link_alone(route.to.addr())
        {
            let copy =
                Route { table: TABLE, mtu: None, advmss: None, lifetime: Lifetime::Forever, ..route.clone() };
            copies.entry(copy.key()).or_insert(copy);
        }
    }
    copies.into_values().collect()
}

/// No tunnel ends at such an address.
fn is_of_the_link_alone(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_multicast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    }
}

#[cfg(test)]
mod tests {
    use netferry_kernel::route::{Hop, LOCAL};

    use super::*;

    #[test]
    fn tunnels_get_the_hosts_ways_without_their_sizes_and_none_into_the_overlay() {
        let to = |net: &str| Route::new(net.parse().unwrap(), vec![Hop::on(2)]);
        let router = Hop::via(2, "172.30.0.1".parse().unwrap());
        let overlay = Route { protocol: ownership::host().protocol, ..to("10.244.0.0/16") };
        let routes = [
            to("172.30.0.0/16").source("172.30.1.1".parse().unwrap()),
            Route::new("0.0.0.0/0".parse().unwrap(), vec![router.clone()]).metric(100).mtu(1400),
            Route::dead_end("192.0.2.0/24".parse().unwrap(), Kind::Unreachable),
            Route { lifetime: Lifetime::Seconds(30), ..to("2001:db8::/64") },
            overlay,
            to("fe80::/64"),
            to("203.0.113.0/24").table(77),
            Route { kind: Kind::Local, ..to("172.30.1.1/32").table(LOCAL) },
        ];
        let copies = copies(&routes);
        let shall = [
            Route::new("0.0.0.0/0".parse().unwrap(), vec![router]).metric(100),
            to("172.30.0.0/16").source("172.30.1.1".parse().unwrap()),
            Route::dead_end("192.0.2.0/24".parse().unwrap(), Kind::Unreachable),
            to("2001:db8::/64"),
        ];
        assert_eq!(copies, shall.map(|route| route.table(TABLE)));
    }
}
