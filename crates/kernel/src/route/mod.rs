//! Routes, of all tables.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::Lifetime;
use crate::error::{Attempt, Error, Result};
use crate::family::Family;
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::objects::{Changes, Object, Objects};
use crate::wire::{Batch, flag};

mod wire;

pub(crate) use wire::{DEL, NEW, read};

/// The main table.
pub const MAIN: u32 = 254;
/// The table of the host's own addresses, which the kernel keeps.
pub const LOCAL: u32 = 255;
/// The protocol of a route that the kernel made with an address, and that goes with it (`RTPROT_KERNEL`).
pub const BY_KERNEL: u8 = 2;
/// The protocol of a route that was made of a router's advertisement, by the kernel or by the host's network service
/// (`RTPROT_RA`).
pub const BY_ROUTER: u8 = 9;
/// What the kernel takes for an IPv6 route without a metric.
const METRIC6: u32 = 1024;

/// What a route does with a packet (`RTN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Sends it on.
    Unicast,
    /// Takes it in.
    Local,
    /// Drops it silently.
    Blackhole,
    /// Drops it and says unreachable.
    Unreachable,
    /// Drops it and says prohibited.
    Prohibit,
    /// Ends the lookup in this table.
    Throw,
    /// One of the kernel's that this crate does not make.
    Other(u8),
}

/// How far away a destination is (`RT_SCOPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Anywhere.
    Universe,
    /// On this wire.
    Link,
    /// This host.
    Host,
    /// Another number.
    Other(u8),
}

/// The largest packet a route sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteMtu {
    /// In bytes.
    pub bytes: u32,
    /// Path MTU discovery may not lower it.
    pub locked: bool,
}

/// One way on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// Out of this link.
    pub link: Option<u32>,
    /// To this router; of the other family too.
    pub gateway: Option<IpAddr>,
    /// The router is on the wire although no address says so.
    pub onlink: bool,
    /// Its share, at least 1.
    pub weight: u16,
}

impl Hop {
    /// Straight onto a wire.
    pub fn on(link: u32) -> Hop {
        Hop { link: Some(link), gateway: None, onlink: false, weight: 1 }
    }

    /// To a router.
    pub fn via(link: u32, gateway: IpAddr) -> Hop {
        Hop { gateway: Some(gateway), ..Hop::on(link) }
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to. Host bits are zero.
    pub to: IpNet,
    /// In which table.
    pub table: u32,
    /// See [`Kind`].
    pub kind: Kind,
    /// `RTPROT_*`: who put it there.
    pub protocol: u8,
    /// See [`Scope`].
    pub scope: Scope,
    /// Lower wins.
    pub metric: u32,
    /// See [`RouteMtu`].
    pub mtu: Option<RouteMtu>,
    /// The maximum segment size to announce.
    pub advmss: Option<u32>,
    /// The source of packets that have none yet.
    pub source: Option<IpAddr>,
    /// How long the kernel keeps it, if nobody renews it; of IPv6 only.
    pub lifetime: Lifetime,
    /// The ways; several share the traffic. None where the packet goes no further.
    pub hops: Vec<Hop>,
}

impl Route {
    /// A route in the main table.
    pub fn new(to: IpNet, hops: Vec<Hop>) -> Route {
        let direct = to.addr().is_ipv4() && hops.iter().all(|h| h.gateway.is_none());
        Route {
            to: to.trunc(),
            table: MAIN,
            kind: Kind::Unicast,
            protocol: 0,
            scope: if direct { Scope::Link } else { Scope::Universe },
            metric: 0,
            mtu: None,
            advmss: None,
            source: None,
            lifetime: Lifetime::Forever,
            hops,
        }
        .normal()
    }

    /// A route that leads nowhere.
    pub fn dead_end(to: IpNet, kind: Kind) -> Route {
        Route { kind, scope: Scope::Universe, ..Route::new(to, vec![]) }
    }

    /// In another table.
    pub fn table(self, table: u32) -> Route {
        Route { table, ..self }
    }

    /// With a metric.
    pub fn metric(self, metric: u32) -> Route {
        Route { metric, ..self }.normal()
    }

    /// With a largest packet.
    pub fn mtu(self, bytes: u32) -> Route {
        Route { mtu: Some(RouteMtu { bytes, locked: false }), ..self }
    }

    /// With a preferred source.
    pub fn source(self, source: IpAddr) -> Route {
        Route { source: Some(source), ..self }
    }

    /// As the kernel reports it: IPv6 has no scopes and a default metric, dead ends have no hops.
    fn normal(mut self) -> Route {
        if self.to.addr().is_ipv6() {
            self.scope = Scope::Universe;
            if self.metric == 0 {
                self.metric = METRIC6;
            }
        }
        if !matches!(self.kind, Kind::Unicast | Kind::Local | Kind::Other(_)) {
            self.hops.clear();
        }
        for hop in &mut self.hops {
            hop.weight = hop.weight.max(1);
        }
        self
    }

    fn describe(&self) -> String {
        format!("route {} table {} metric {}", self.to, self.table, self.metric)
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: &str| Err(Error::invalid(self.describe(), why));
        if self.to.trunc() != self.to {
            return refuse("the destination has host bits");
        }
        if self.kind == Kind::Unicast && self.hops.is_empty() {
            return refuse("there is no way on");
        }
        if self.hops.iter().any(|h| h.link.is_none() && h.gateway.is_none()) {
            return refuse("a way on has neither link nor router");
        }
        if self.source.is_some_and(|s| Family::of(s) != Family::of(self.to.addr())) {
            return refuse("the source is of the other family");
        }
        if self.table == 0 {
            return refuse("table 0 is none");
        }
        Ok(())
    }
}

impl Object for Route {
    type Key = (u32, IpNet, u32);

    fn key(&self) -> Self::Key {
        (self.table, self.to, self.metric)
    }

    fn stamped(&self, mark: &Mark) -> Route {
        Route { protocol: mark.protocol, ..self.clone() }.normal()
    }

    fn is_ours(&self, mark: &Mark) -> bool {
        self.protocol == mark.protocol
    }

    fn satisfied_by(&self, have: &Route) -> bool {
        let sorted = |route: &Route| {
            let mut hops = route.hops.clone();
            hops.sort();
            Route { hops, lifetime: Lifetime::Forever, ..route.clone() }
        };
        sorted(self) == sorted(have) && self.lifetime.satisfied_by(have.lifetime)
    }

    /// The kernel swaps the route in place: no packet meets a gap.
    fn replaces(&self, _: &Route) -> bool {
        true
    }
}

/// Which routes to read; everything by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    /// Of this table only.
    pub table: Option<u32>,
    /// With this protocol only.
    pub protocol: Option<u8>,
    /// Of this family only.
    pub family: Option<Family>,
}

/// See [`Kernel::routes`].
#[derive(Debug)]
pub struct Routes<'k>(pub(crate) &'k Kernel);

impl Routes<'_> {
    /// Reads some routes; the kernel leaves the others out.
    pub fn observe_only(&self, filter: Filter) -> Result<Vec<Route>> {
        let families = filter.family.map_or(vec![Family::V4, Family::V6], |f| vec![f]);
        let mut socket = self.0.route_socket();
        let mut found = Vec::new();
        for family in families {
            let read = socket.dump(
                wire::GET,
                "routes",
                |w| wire::write_filter(w, family, filter),
                |message, found| found.extend(read(message)),
            );
            match read {
                Ok(some) => found.extend(some),
                // A table nobody has used yet.
                Err(error) if filter.table.is_some() && error.errno() == Some(nix::errno::Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

impl Objects for Routes<'_> {
    type Want = [Route];
    type State = Vec<Route>;
    type Changes = Changes<Route>;

    fn observe(&self) -> Result<Vec<Route>> {
        self.observe_only(Filter::default())
    }

    fn diff(want: &[Route], have: &Vec<Route>, mark: &Mark) -> Changes<Route> {
        crate::diff(want, have, mark)
    }

    fn apply(&self, changes: &Changes<Route>) -> Result<()> {
        let mut batch = Batch::default();
        for route in &changes.remove {
            batch.push(DEL, flag::ACK, Attempt::Removing, route.describe(), |w| wire::write(w, route));
        }
        for (_, route) in &changes.replace {
            route.check()?;
            let flags = flag::ACK | flag::CREATE | flag::REPLACE;
            batch.push(NEW, flags, Attempt::Replacing, route.describe(), |w| wire::write(w, route));
        }
        for route in &changes.add {
            route.check()?;
            let flags = flag::ACK | flag::CREATE | flag::EXCLUSIVE;
            batch.push(NEW, flags, Attempt::Adding, route.describe(), |w| wire::write(w, route));
        }
        self.0.route_socket().run(batch)
    }
}
