//! Keeping the host's addresses on the bridge for as long as the host is up.
//!
//! The host's network service knows nothing of the bridge. When it configures the uplink anew, or renews a lease, it
//! does so on the uplink, and what it puts there moves on to the bridge. And a bridge that the switch made anew is
//! given back what it had.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netferry_core::overlay::zone::Datapath;
use netferry_kernel::address::Address;
use netferry_kernel::link::Link;
use netferry_kernel::route::{Kind, LOCAL, Route};
use netferry_kernel::{Changes, Event, IfName, Kernel, Objects, Result, Topics, Watch};
use netferry_ovs::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use super::bridge::{self, Plan, Switch};
use super::bridge_size::{self, BridgeSize};
use super::record::{BridgeRecord, Record};
use super::{announce, hand_over, transfer};
use crate::pause::Pause;

/// After something the kernel or the switch refused. At first long enough for it to be over, short enough for nobody to
/// notice.
const PAUSE: Pause = Pause::new(Duration::from_millis(200), Duration::from_secs(5));

/// How often everything is looked at although nothing was told: the kernel does not tell of every setting.
const RESYNC: Duration = Duration::from_secs(10);

/// What host-init did at this boot, and what it did it with.
#[derive(Clone, Debug)]
pub struct Done {
    /// Where it was written down. Once it is not there any more it is being undone, and nothing is put back.
    pub run: PathBuf,
    /// Who moves packets.
    pub datapath: Datapath,
    /// The bridge.
    pub bridge: BridgeRecord,
    /// What the bridge is to carry. Only this task writes its row.
    pub size: watch::Receiver<BridgeSize>,
}

/// Keeps what host-init did, for as long as it is run: the rows of the switch, and what is on the links.
pub async fn keep(kernel: Arc<Kernel>, switch: Client, done: Done) {
    let name = |name: &str| IfName::new(name.to_owned());
    let (bridge, uplink) = match (name(&done.bridge.name), name(&done.bridge.uplink)) {
        (Ok(bridge), Ok(uplink)) => (bridge, uplink),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "what host-init wrote down makes no sense"
            );
            return;
        }
    };
    let links = async {
        let mut pause = PAUSE;
        loop {
            let began = Instant::now();
            let Err(error) = follow(&kernel, &bridge, &uplink, || done.stands()).await;
            tracing::warn!(error = &error as &dyn std::error::Error, "listening to the kernel");
            pause.wait_since(began).await;
        }
    };
    let switch = Switch::over(switch);
    tokio::join!(
        links,
        keep_rows(&switch, &bridge, &uplink, &done),
        bridge_size::keep(&kernel, &bridge, &done)
    );
}

impl Done {
    /// Is it not being undone?
    pub(super) fn stands(&self) -> bool {
        matches!(Record::read(&self.run), Ok(Some(record)) if record.bridge.is_some())
    }
}

/// Puts rows back that somebody took out of the switch's database: without them the node is cut off.
async fn keep_rows(switch: &Switch, bridge: &IfName, uplink: &IfName, done: &Done) -> Infallible {
    let mut watcher = switch.client.watch(&["Bridge", "Port", "Interface"]);
    let mut size = done.size.clone();
    let names = [bridge.as_str(), uplink.as_str()];
    loop {
        tokio::select! {
            () = bridge::changed(&mut watcher, &names) => {}
            Ok(()) = size.changed() => {}
        }
        let found = bridge::find(&switch.client.snapshot(), bridge);
        let Some(mac) = found.mac.or_else(|| done.bridge.mac.parse().ok()).filter(|_| done.stands()) else {
            continue;
        };
        // What the row says counts only while it is on its way: somebody else may have written it.
        let wanted = size.borrow_and_update().wanted(done.bridge.mtu);
        let mtu = wanted.or(found.mtu).unwrap_or(done.bridge.mtu);
        let plan = Plan { bridge, mac, mtu, datapath: done.datapath, uplink: Some(uplink) };
        let mut pause = PAUSE;
        while let Err(error) = switch.settle(&plan).await {
            let error = &error as &(dyn std::error::Error + Send + Sync);
            tracing::warn!(%bridge, error = error as &dyn std::error::Error, "keeping the uplink's bridge");
            pause.wait().await;
        }
    }
}

/// Follows what happens to the two links, for as long as what host-init did `stands`. Never ends by itself; an error is
/// one of listening, upon which the caller begins again.
pub async fn follow(
    kernel: &Kernel,
    bridge: &IfName,
    uplink: &IfName,
    stands: impl Fn() -> bool,
) -> Result<Infallible> {
    let topics = Topics { rules: false, neighbours: false, settings: false, nft: false, ..Topics::ALL };
    let mut watch = Watch::open(kernel, topics)?;
    let mut known = Known::default();
    let mut events = Vec::new();
    let mut pause = PAUSE;
    loop {
        if events.is_empty() {
            let told = tokio::time::timeout(RESYNC, watch.next()).await;
            events.push(told.unwrap_or(Ok(Event::Resync))?);
        }
        events.extend(watch.ready()?);
        known.fell |= events.iter().any(|event| falls(event, bridge));
        let concerned = events.drain(..).any(|event| known.concerned(&event, bridge, uplink));
        if !concerned || !stands() {
            continue;
        }
        match known.put_right(kernel, bridge, uplink) {
            Ok(seen) => {
                pause.reset();
                // What was read while the bridge fell is not what it had.
                events = watch.ready()?;
                if let Some(seen) = seen.filter(|_| !events.iter().any(|event| falls(event, bridge))) {
                    known = seen;
                }
            }
            Err(error) => {
                tracing::warn!(%bridge, %uplink, error = &error as &dyn std::error::Error,
                    "the host's addresses could not be kept on the bridge");
                pause.wait().await;
                events.push(Event::Resync);
            }
        }
    }
}

/// Does the bridge lose what is on it? The switch switches it off for a moment to give it its hardware address.
fn falls(event: &Event, bridge: &IfName) -> bool {
    matches!(event, Event::Link(link) if link.name == *bridge && !link.up)
        || matches!(event, Event::LinkGone(link) if link.name == *bridge)
}

/// What the bridge had when last seen.
#[derive(Debug, Default)]
struct Known {
    bridge: Option<Link>,
    uplink: Option<u32>,
    /// It was switched off since, and lost some of it.
    fell: bool,
    addresses: Vec<Address>,
    routes: Vec<Route>,
}

impl Known {
    fn concerned(&self, event: &Event, bridge: &IfName, uplink: &IfName) -> bool {
        let index = |index: u32| {
            Some(index) == self.uplink || Some(index) == self.bridge.as_ref().map(|bridge| bridge.index)
        };
        match event {
            Event::Resync => true,
            Event::Link(link) => link.name == *bridge || link.name == *uplink,
            Event::Address(address) => index(address.link),
            Event::Route(route) => {
                route.table != LOCAL && route.hops.iter().any(|h| h.link.is_some_and(index))
            }
            // What the bridge loses is learned at its next change; what the uplink loses was to go.
            Event::LinkGone(_)
            | Event::AddressGone(_)
            | Event::RouteGone(_)
            | Event::Rule(_)
            | Event::RuleGone(_)
            | Event::Neighbour(_)
            | Event::NeighbourGone(_)
            | Event::Setting
            | Event::Nft(_) => false,
        }
    }

    /// Puts everything in its place; answers what the bridge has now, if that is all it is to have.
    fn put_right(
        &self,
        kernel: &Kernel,
        bridge: &IfName,
        uplink: &IfName,
    ) -> std::result::Result<Option<Known>, super::InitError> {
        let find = |name| super::tell(kernel.links().named(name), || format!("looking for link {name}"));
        // Neither is here: nothing can be on it. Their coming is an event.
        let (Some(to), Some(from)) = (find(bridge)?, find(uplink)?) else { return Ok(None) };
        super::tell(super::learn_from_routers(kernel, &from, &to), || format!("settings of {bridge}"))?;
        let anew = self.fell || self.bridge.as_ref().is_some_and(|before| before.index != to.index);
        if anew {
            super::tell(self.give_back(kernel, &to), || format!("giving {bridge} back what it had"))?;
        }
        let load = super::observe(kernel, &from, &to)?;
        if !load.is_empty() {
            hand_over(kernel, &from, &to)?;
        }
        if let (true, Some(mac)) = (anew || !load.add.is_empty(), to.mac) {
            announce(kernel, &to, mac)?;
        }
        super::tell(look(kernel, to, from.index), || format!("reading what is on {bridge}"))
    }

    /// The switch made the bridge anew or switched it off, and not everything is on it.
    fn give_back(&self, kernel: &Kernel, to: &Link) -> Result<()> {
        let before = self.bridge.as_ref().map_or(0, |bridge| bridge.index);
        transfer::up(kernel, &to.name)?;
        let here = |link: &mut u32| {
            if *link == before {
                *link = to.index;
            }
        };
        let mut load = transfer::Load::default();
        for address in &self.addresses {
            let mut address = Address { no_dad: address.net.addr().is_ipv6(), ..address.clone() };
            here(&mut address.link);
            load.add.push(address);
        }
        transfer::add_addresses(kernel, &load)?;
        for route in &self.routes {
            let mut route = route.clone();
            route.hops.iter_mut().filter_map(|hop| hop.link.as_mut()).for_each(here);
            let replace = vec![(route.clone(), route)];
            kernel.routes().apply(&Changes { replace, ..Changes::default() })?;
        }
        Ok(())
    }
}

/// What is on the bridge; nothing if it is switched off, and so has lost some of it already.
fn look(kernel: &Kernel, bridge: Link, uplink: u32) -> Result<Option<Known>> {
    let index = bridge.index;
    let mut addresses = kernel.addresses().observe()?;
    addresses.retain(|a| a.link == index && (a.scope == 0 || a.net.addr().is_ipv4()));
    let mut routes = kernel.routes().observe()?;
    routes.retain(|r| {
        let made_by_hand = r.table != LOCAL && r.kind == Kind::Unicast && ![2, 9].contains(&r.protocol);
        made_by_hand && r.hops.iter().any(|hop| hop.link == Some(index))
    });
    routes.sort_by_key(|route| route.hops.iter().any(|hop| hop.gateway.is_some()));
    let stands = kernel.links().named(&bridge.name)?.is_some_and(|now| now.index == index && now.up);
    let known = Known { bridge: Some(bridge), uplink: Some(uplink), fell: false, addresses, routes };
    Ok(stands.then_some(known))
}
