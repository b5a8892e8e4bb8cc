//! Links as netlink messages.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::{Bridge, Kind, Link, MacvlanMode, Make, VethPeer, Vxlan, Want};
use crate::TunMode;
use crate::name::{IfName, Mac};
use crate::wire::{self, Attributes, Message, Writer, attribute};

pub(crate) const NEW: u16 = 16;
pub(crate) const DEL: u16 = 17;
pub(super) const GET: u16 = 18;
pub(super) const SET: u16 = 19;
pub(super) const NEW_PROPERTY: u16 = 108;
pub(super) const HEADER: usize = 16;

const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const LOWER: u16 = 5;
const MASTER: u16 = 10;
const INFO: u16 = 18;
const ALIAS: u16 = 20;
const GROUP: u16 = 27;
pub(super) const NAMESPACE_FD: u16 = 28;
pub(super) const EXT_MASK: u16 = 29;
const LOWER_NAMESPACE: u16 = 37;
const MIN_MTU: u16 = 50;
const MAX_MTU: u16 = 51;
const PROPERTIES: u16 = 52;
const ALT_NAME: u16 = 53;

const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const BRIDGE_FORWARD_DELAY: u16 = 1;
const BRIDGE_STP: u16 = 5;
const BRIDGE_SNOOPING: u16 = 23;
const VXLAN_ID: u16 = 1;
const VXLAN_LOCAL: u16 = 4;
const VXLAN_LEARNING: u16 = 7;
const VXLAN_PORT: u16 = 15;
const VXLAN_LOCAL6: u16 = 17;
const MACVLAN_MODE: u16 = 1;
const TUN_TYPE: u16 = 3;

/// Counters are not read: they make a dump half as long again.
pub(super) const SKIP_STATISTICS: u32 = 1 << 3;

const UP: u32 = libc::IFF_UP as u32;

/// `struct ifinfomsg`; `up` only where it is to change.
pub(super) fn header(w: &mut Writer, index: u32, up: Option<bool>) {
    let change = if up.is_some() { UP } else { 0 };
    let flags = if up == Some(true) { UP } else { 0 };
    w.raw(&[0; 4]).raw(&index.to_ne_bytes()).raw(&flags.to_ne_bytes()).raw(&change.to_ne_bytes());
}

pub(super) fn name(w: &mut Writer, name: &IfName) {
    w.str(NAME, name.as_str());
}

/// What a link can be given at birth and later.
pub(super) fn properties(w: &mut Writer, want: &Want, master: Option<u32>) {
    if let Some(mtu) = want.mtu {
        w.u32(MTU, mtu);
    }
    if let Some(mac) = want.mac {
        w.bytes(ADDRESS, &mac.0);
    }
    if let Some(group) = want.group {
        w.u32(GROUP, group);
    }
    if let Some(master) = master {
        w.u32(MASTER, master);
    }
}

/// Not NUL-terminated: the kernel keeps the bytes as they are.
pub(super) fn alias(w: &mut Writer, want: &Want) {
    if let Some(alias) = &want.alias {
        w.bytes(ALIAS, alias.as_bytes());
    }
}

pub(super) fn alt_names(w: &mut Writer, names: &BTreeSet<String>) {
    w.nest(PROPERTIES, |w| {
        for name in names {
            w.str(ALT_NAME, name);
        }
    });
}

pub(super) fn make(w: &mut Writer, make: &Make, parent: Option<u32>) {
    if let Some(parent) = parent {
        w.u32(LOWER, parent);
    }
    w.nest(INFO, |w| match make {
        Make::Veth(peer) => {
            w.str(INFO_KIND, "veth").nest(INFO_DATA, |w| {
                w.nest(VETH_PEER, |w| veth_peer(w, peer));
            });
        }
        Make::Bridge(bridge) => {
            w.str(INFO_KIND, "bridge").nest(INFO_DATA, |w| {
                w.u32(BRIDGE_STP, u32::from(bridge.stp));
                w.u8(BRIDGE_SNOOPING, u8::from(bridge.multicast_snooping));
                if bridge.forward_delay != 0 {
                    w.u32(BRIDGE_FORWARD_DELAY, bridge.forward_delay);
                }
            });
        }
        Make::Vxlan(vxlan) => {
            w.str(INFO_KIND, "vxlan").nest(INFO_DATA, |w| {
                w.u32(VXLAN_ID, vxlan.id).be16(VXLAN_PORT, vxlan.port);
                w.u8(VXLAN_LEARNING, u8::from(vxlan.learning));
                match vxlan.local {
                    Some(local @ IpAddr::V4(_)) => w.ip(VXLAN_LOCAL, local),
                    Some(local @ IpAddr::V6(_)) => w.ip(VXLAN_LOCAL6, local),
                    None => w,
                };
            });
        }
        Make::Macvlan { mode, .. } => {
            w.str(INFO_KIND, "macvlan").nest(INFO_DATA, |w| {
                w.u32(MACVLAN_MODE, macvlan_number(*mode));
            });
        }
        Make::Tun(_) => {}
    });
}

fn veth_peer(w: &mut Writer, peer: &VethPeer) {
    header(w, 0, None);
    name(w, &peer.name);
    if let Some(place) = &peer.namespace {
        w.bytes(NAMESPACE_FD, &place.0.as_fd().as_raw_fd().to_ne_bytes());
    }
    if let Some(mac) = peer.mac {
        w.bytes(ADDRESS, &mac.0);
    }
    if let Some(mtu) = peer.mtu {
        w.u32(MTU, mtu);
    }
}

pub(crate) fn read(message: Message<'_>) -> Option<Link> {
    let header = message.body.get(..HEADER)?;
    // The bridge speaks of its ports under its own family, in messages that are no links.
    if header[0] != 0 {
        return None;
    }
    let flags = wire::u32(&header[8..12])?;
    let a = Attributes::after(message.body, HEADER);
    let number = |kind| a.find(kind).and_then(wire::u32);
    Some(Link {
        index: wire::u32(&header[4..8])?,
        name: IfName::reported(&a.find(NAME).and_then(wire::str)?),
        kind: read_kind(a.inside(INFO)),
        up: flags & UP != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
        mtu: number(MTU).unwrap_or(0),
        min_mtu: number(MIN_MTU).unwrap_or(0),
        max_mtu: number(MAX_MTU).unwrap_or(0),
        mac: a.find(ADDRESS).and_then(Mac::read),
        master: number(MASTER).filter(|i| *i != 0),
        lower: number(LOWER).filter(|i| *i != 0),
        lower_namespace: number(LOWER_NAMESPACE).map(u32::cast_signed),
        group: number(GROUP).unwrap_or(0),
        alias: a.find(ALIAS).and_then(wire::str).filter(|s| !s.is_empty()),
        alt_names: a
            .inside(PROPERTIES)
            .into_iter()
            .filter(|(kind, _)| *kind == ALT_NAME)
            .filter_map(|(_, value)| wire::str(value))
            .collect(),
    })
}

fn read_kind(info: Attributes<'_>) -> Kind {
    let Some(kind) = info.find(INFO_KIND).and_then(wire::str) else { return Kind::Device };
    let data = info.inside(INFO_DATA);
    match kind.as_str() {
        "veth" => Kind::Veth,
        "bridge" => Kind::Bridge(Bridge {
            stp: data.find(BRIDGE_STP).and_then(wire::u32).unwrap_or(0) != 0,
            multicast_snooping: data.find(BRIDGE_SNOOPING).and_then(wire::u8).unwrap_or(0) != 0,
            forward_delay: data.find(BRIDGE_FORWARD_DELAY).and_then(wire::u32).unwrap_or(0),
        }),
        "vxlan" => Kind::Vxlan(Vxlan {
            id: data.find(VXLAN_ID).and_then(wire::u32).unwrap_or(0),
            port: data.find(VXLAN_PORT).and_then(attribute::be16).unwrap_or(0),
            local: data.find(VXLAN_LOCAL).or(data.find(VXLAN_LOCAL6)).and_then(wire::ip),
            learning: data.find(VXLAN_LEARNING).and_then(wire::u8).unwrap_or(0) != 0,
        }),
        "macvlan" => Kind::Macvlan(read_macvlan(data.find(MACVLAN_MODE).and_then(wire::u32).unwrap_or(0))),
        "tun" => Kind::Tun(match data.find(TUN_TYPE).and_then(wire::u8) {
            Some(2) => TunMode::Tap,
            Some(_) | None => TunMode::Tun,
        }),
        _ => Kind::Other(kind),
    }
}

fn macvlan_number(mode: MacvlanMode) -> u32 {
    match mode {
        MacvlanMode::Private => 1,
        MacvlanMode::Vepa => 2,
        MacvlanMode::Bridge => 4,
        MacvlanMode::Passthru => 8,
        MacvlanMode::Other(number) => number,
    }
}

fn read_macvlan(number: u32) -> MacvlanMode {
    match number {
        1 => MacvlanMode::Private,
        2 => MacvlanMode::Vepa,
        4 => MacvlanMode::Bridge,
        8 => MacvlanMode::Passthru,
        other => MacvlanMode::Other(other),
    }
}
