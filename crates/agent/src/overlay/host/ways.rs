//! The ways of tunnels, where a userspace switch is told them instead of reading the kernel's.
//!
//! A switch that wraps packets itself needs to know where they go. Left to itself it reads the kernel's routes, all of
//! them anew whenever any link or route of the host changes, and knows none meanwhile. A thread of it that checks flows
//! in that moment writes down that what goes to other nodes is dropped and what comes from them is not for pods: each
//! pod that comes or goes costs packets of others. Started with `--disable-system-route` it knows the ways it is told
//! and forgets none; then this tells them. A switch that reads the kernel's is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use netferry_kernel::route::{Kind, MAIN};
use netferry_kernel::watch::{Event, Topics, Watch};
use netferry_kernel::{IfName, Kernel, Objects as _};
use netferry_ovs::unixctl::{Control, ControlError, TunnelRoute};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// How long the switch may be without a way that somebody else made it forget: nothing tells of that.
const LOOK: Duration = Duration::from_secs(1);
/// Between looks for a switch that is away. Nothing tells when its socket appears.
const PAUSE: Duration = Duration::from_millis(50);

/// The ways through one bridge.
#[derive(Debug)]
pub struct Ways {
    kernel: Arc<Kernel>,
    run: PathBuf,
    bridge: IfName,
}

impl Ways {
    /// Of the switch whose control socket is in this run directory (`/run/openvswitch`).
    pub fn new(kernel: Arc<Kernel>, run: impl Into<PathBuf>, bridge: IfName) -> Ways {
        Ways { kernel, run: run.into(), bridge }
    }

    /// Keeps what the switch is told as the kernel has it: as it changes, all again to a new process, and what somebody
    /// made it forget a moment later.
    pub async fn keep(&self) -> Infallible {
        loop {
            if let Err(error) = self.follow().await {
                let error = error.as_ref() as &dyn std::error::Error;
                tracing::debug!(bridge = %self.bridge, error, "the switch takes no ways of tunnels yet");
            }
            sleep(PAUSE).await;
        }
    }

    /// Until the switch's process ends, or something fails.
    async fn follow(&self) -> Result<(), Failed> {
        // Before the first look, so that no change falls between the two.
        let mut watch = Watch::open(
            &self.kernel,
            Topics { links: true, addresses: true, routes: true, ..Topics::default() },
        )?;
        let control = crate::overlay::switch::control(&self.run).await?;
        let mut life = UnixStream::connect(control.socket()).await?;
        let (mut afresh, mut nothing) = (true, [0; 16]);
        loop {
            let known = self.look()?;
            self.tell(&control, &known, afresh).await?;
            afresh = tokio::select! {
                changed = timeout(LOOK, self.changes(&mut watch, known.link)) => match changed {
                    Ok(done) => done.map(|()| true)?,
                    Err(_) => false,
                },
                _ = life.read(&mut nothing) => return Ok(()),
            };
        }
    }

    /// Waits until something of the bridge changes.
    async fn changes(&self, watch: &mut Watch, link: Option<u32>) -> netferry_kernel::Result<()> {
        loop {
            let mut events = vec![watch.next().await?];
            events.extend(watch.ready()?);
            if events.iter().any(|event| self.concerned(event, link)) {
                return Ok(());
            }
        }
    }

    fn concerned(&self, event: &Event, link: Option<u32>) -> bool {
        match event {
            Event::Resync => true,
            Event::Link(one) | Event::LinkGone(one) => one.name == self.bridge,
            Event::Address(one) | Event::AddressGone(one) => Some(one.link) == link,
            Event::Route(one) | Event::RouteGone(one) => {
                link.is_some() && one.hops.iter().any(|hop| hop.link == link)
            }
            Event::Rule(_)
            | Event::RuleGone(_)
            | Event::Neighbour(_)
            | Event::NeighbourGone(_)
            | Event::Setting
            | Event::Nft(_) => false,
        }
    }

    /// What the kernel has through the bridge.
    fn look(&self) -> netferry_kernel::Result<Known> {
        let Some(link) = self.kernel.links().named(&self.bridge)?.filter(|link| link.up) else {
            return Ok(Known::default());
        };
        let here = Some(link.index);
        let mut routes = self.kernel.routes().observe()?;
        routes.retain(|route| route.table == MAIN && route.kind == Kind::Unicast);
        // Of several to one network the kernel takes the one with the lowest metric.
        routes.sort_by_key(|route| route.metric);
        let mut ways = BTreeMap::new();
        for route in routes {
            let hop = route.hops.iter().find(|hop| hop.link == here);
            if let Some(hop) = hop.filter(|_| !is_of_the_link_alone(route.to.addr())) {
                ways.entry(route.to).or_insert(hop.gateway);
            }
        }
        let addresses = self.kernel.addresses().observe()?;
        let addresses = addresses.iter().filter(|one| one.link == link.index).map(|one| one.net.addr());
        Ok(Known { link: here, ways, addresses: addresses.collect() })
    }

    /// Tells the switch what it is to know; all of it if the bridge or the process may be another one: the switch ties
    /// where tunnels end to the bridge it was told a way through.
    async fn tell(&self, control: &Control, known: &Known, afresh: bool) -> Result<(), ControlError> {
        let there = control.tunnel_routes().await?;
        if there.iter().any(|route| !route.told) {
            return Ok(());
        }
        let mine = |route: &&TunnelRoute| route.mark == 0 && route.link == self.bridge.as_str();
        let there: Vec<&TunnelRoute> = there.iter().filter(mine).collect();
        let ended = there.iter().map(|route| route.to).filter(|to| !known.ways.contains_key(to));
        // A bridge that is away has no routes, and will have the same ones when it is back.
        let ended: Vec<IpNet> = if known.ways.is_empty() { Vec::new() } else { ended.collect() };
        for to in &ended {
            control.forget_tunnel_route(*to).await?;
        }
        let all = afresh || !ended.is_empty();
        for (to, router) in &known.ways {
            if !all && there.iter().any(|route| known.agrees(route, *to, *router)) {
                continue;
            }
            match control.set_tunnel_route(*to, self.bridge.as_str(), *router).await {
                // The bridge has no address to send from, or none yet.
                Err(error @ ControlError::Refused { .. }) => {
                    tracing::debug!(%to, error = &error as &dyn std::error::Error, "no way for tunnels");
                }
                done => done?,
            }
        }
        Ok(())
    }
}

/// Nothing that is wrapped goes to such an address.
fn is_of_the_link_alone(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_multicast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    }
}

/// What the kernel has through the bridge.
#[derive(Debug, Default)]
struct Known {
    link: Option<u32>,
    ways: BTreeMap<IpNet, Option<IpAddr>>,
    addresses: BTreeSet<IpAddr>,
}

impl Known {
    fn agrees(&self, there: &TunnelRoute, to: IpNet, router: Option<IpAddr>) -> bool {
        there.to == to
            && there.router == router
            && there.source.is_some_and(|source| self.addresses.contains(&source))
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;
