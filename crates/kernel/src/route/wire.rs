//! Routes as netlink messages.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Filter, Hop, Kind, Route, RouteMtu, Scope};
use crate::address::Lifetime;
use crate::family::Family;
use crate::wire::{self, Attributes, Message, Writer, aligned};

pub(crate) const NEW: u16 = 24;
pub(crate) const DEL: u16 = 25;
pub(super) const GET: u16 = 26;
const HEADER: usize = 12;

const DST: u16 = 1;
const OIF: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const PREFSRC: u16 = 7;
const METRICS: u16 = 8;
const MULTIPATH: u16 = 9;
const CACHE: u16 = 12;
const TABLE: u16 = 15;
const VIA: u16 = 18;
const EXPIRES: u16 = 23;

const METRIC_LOCK: u16 = 1;
const METRIC_MTU: u16 = 2;
const METRIC_ADVMSS: u16 = 8;

/// In which the kernel tells times.
const USER_HZ: u32 = 100;

const ONLINK: u32 = 0x4;
const CLONED: u32 = 0x200;

pub(super) fn write_filter(w: &mut Writer, family: Family, filter: Filter) {
    let small = filter.table.and_then(|t| u8::try_from(t).ok()).unwrap_or(0);
    w.raw(&[family.number(), 0, 0, 0, small, filter.protocol.unwrap_or(0), 0, 0]).raw(&[0; 4]);
    if let Some(table) = filter.table {
        w.u32(TABLE, table);
    }
}

pub(super) fn write(w: &mut Writer, route: &Route) {
    let family = Family::of(route.to.addr());
    let flags = match route.hops.as_slice() {
        [only] if only.onlink => ONLINK,
        _ => 0,
    };
    let table = u8::try_from(route.table).unwrap_or(0);
    let kind = kind_number(route.kind);
    let scope = scope_number(route.scope);
    w.raw(&[family.number(), route.to.prefix_len(), 0, 0, table, route.protocol, scope, kind]);
    w.raw(&flags.to_ne_bytes()).u32(TABLE, route.table).u32(PRIORITY, route.metric);
    if route.to.prefix_len() > 0 {
        w.ip(DST, route.to.addr());
    }
    if let Some(source) = route.source {
        w.ip(PREFSRC, source);
    }
    if let Lifetime::Seconds(seconds) = route.lifetime {
        w.u32(EXPIRES, seconds);
    }
    if route.mtu.is_some() || route.advmss.is_some() {
        w.nest(METRICS, |w| {
            if let Some(mtu) = route.mtu {
                if mtu.locked {
                    w.u32(METRIC_LOCK, 1 << METRIC_MTU);
                }
                w.u32(METRIC_MTU, mtu.bytes);
            }
            if let Some(advmss) = route.advmss {
                w.u32(METRIC_ADVMSS, advmss);
            }
        });
    }
    match route.hops.as_slice() {
        [] => {}
        [only] => {
            if let Some(link) = only.link {
                w.u32(OIF, link);
            }
            write_gateway(w, family, only);
        }
        several => {
            w.nest(MULTIPATH, |w| several.iter().for_each(|hop| write_hop(w, family, hop)));
        }
    }
}

/// `struct rtnexthop`: length, flags, weight less one, link.
fn write_hop(w: &mut Writer, family: Family, hop: &Hop) {
    let start = w.buffer.len();
    let share = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    w.raw(&[0, 0, if hop.onlink { ONLINK as u8 } else { 0 }, share]);
    w.raw(&hop.link.unwrap_or(0).to_ne_bytes());
    write_gateway(w, family, hop);
    let length = u16::try_from(w.buffer.len() - start).unwrap_or(0);
    w.buffer[start..start + 2].copy_from_slice(&length.to_ne_bytes());
}

fn write_gateway(w: &mut Writer, family: Family, hop: &Hop) {
    match hop.gateway {
        None => {}
        Some(gateway) if Family::of(gateway) == family => {
            w.ip(GATEWAY, gateway);
        }
        Some(gateway) => {
            let mut via = u16::from(Family::of(gateway).number()).to_ne_bytes().to_vec();
            match gateway {
                IpAddr::V4(v4) => via.extend_from_slice(&v4.octets()),
                IpAddr::V6(v6) => via.extend_from_slice(&v6.octets()),
            }
            w.bytes(VIA, &via);
        }
    }
}

/// A cached clone is not a route of anybody.
pub(crate) fn read(message: Message<'_>) -> Option<Route> {
    let header = message.body.get(..HEADER)?;
    let family = Family::read(header[0])?;
    let flags = wire::u32(&header[8..12])?;
    if flags & CLONED != 0 {
        return None;
    }
    let a = Attributes::after(message.body, HEADER);
    let destination = a.find(DST).and_then(wire::ip).unwrap_or(family.unspecified());
    let metrics = a.inside(METRICS);
    let locks = metrics.find(METRIC_LOCK).and_then(wire::u32).unwrap_or(0);
    let mut hops = read_hops(a.find(MULTIPATH).unwrap_or_default());
    if hops.is_empty() {
        let link = a.find(OIF).and_then(wire::u32);
        let gateway = read_gateway(a);
        if link.is_some() || gateway.is_some() {
            hops.push(Hop { link, gateway, onlink: flags & ONLINK != 0, weight: 1 });
        }
    }
    Some(
        Route {
            to: IpNet::new(destination, header[1]).ok()?,
            table: a.find(TABLE).and_then(wire::u32).unwrap_or(u32::from(header[4])),
            kind: read_kind(header[7]),
            protocol: header[5],
            scope: read_scope(header[6]),
            metric: a.find(PRIORITY).and_then(wire::u32).unwrap_or(0),
            mtu: metrics
                .find(METRIC_MTU)
                .and_then(wire::u32)
                .map(|bytes| RouteMtu { bytes, locked: locks & (1 << METRIC_MTU) != 0 }),
            advmss: metrics.find(METRIC_ADVMSS).and_then(wire::u32),
            source: a.find(PREFSRC).and_then(wire::ip),
            lifetime: read_lifetime(a),
            hops,
        }
        .normal(),
    )
}

/// The third number of `struct rta_cacheinfo`, in hundredths of a second; 0 where there is no end.
fn read_lifetime(a: Attributes<'_>) -> Lifetime {
    let left = a.find(CACHE).and_then(|cache| wire::u32(cache.get(8..12)?)).unwrap_or(0);
    // What is about to end is not what never ends.
    if left == 0 { Lifetime::Forever } else { Lifetime::Seconds((left / USER_HZ).max(1)) }
}

fn read_hops(mut bytes: &[u8]) -> Vec<Hop> {
    let mut hops = Vec::new();
    while let Some(header) = bytes.get(..8) {
        let length = u16::from_ne_bytes([header[0], header[1]]) as usize;
        let Some(attributes) = bytes.get(8..length) else { break };
        hops.push(Hop {
            link: wire::u32(&header[4..8]).filter(|l| *l != 0),
            gateway: read_gateway(Attributes(attributes)),
            onlink: u32::from(header[2]) & ONLINK != 0,
            weight: u16::from(header[3]) + 1,
        });
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    hops
}

fn read_gateway(a: Attributes<'_>) -> Option<IpAddr> {
    let via = || a.find(VIA).and_then(|v| v.get(2..)).and_then(wire::ip);
    a.find(GATEWAY).and_then(wire::ip).or_else(via)
}

const KINDS: [(Kind, u8); 6] = [
    (Kind::Unicast, 1),
    (Kind::Local, 2),
    (Kind::Blackhole, 6),
    (Kind::Unreachable, 7),
    (Kind::Prohibit, 8),
    (Kind::Throw, 9),
];

fn kind_number(kind: Kind) -> u8 {
    if let Kind::Other(number) = kind {
        return number;
    }
    KINDS.iter().find(|(k, _)| *k == kind).map_or(1, |(_, n)| *n)
}

fn read_kind(number: u8) -> Kind {
    KINDS.iter().find(|(_, n)| *n == number).map_or(Kind::Other(number), |(k, _)| *k)
}

fn scope_number(scope: Scope) -> u8 {
    match scope {
        Scope::Universe => 0,
        Scope::Link => 253,
        Scope::Host => 254,
        Scope::Other(number) => number,
    }
}

fn read_scope(number: u8) -> Scope {
    match number {
        0 => Scope::Universe,
        253 => Scope::Link,
        254 => Scope::Host,
        other => Scope::Other(other),
    }
}
