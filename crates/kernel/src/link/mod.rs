//! Links: what a host's interfaces are, and what they shall be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::name::{IfName, Mac};

mod apply;
mod diff;
#[cfg(test)]
mod tests;
mod wire;

pub use apply::Links;
pub use diff::{Changes, Recreate, diff};
pub(crate) use wire::{DEL, NEW, read};

/// What a link is, as far as this crate tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One end of a pair.
    Veth,
    /// A bridge of the kernel.
    Bridge(Bridge),
    /// A VXLAN endpoint of the kernel.
    Vxlan(Vxlan),
    /// A link with its own hardware address on another link.
    Macvlan(MacvlanMode),
    /// Frames or packets to and from a process.
    Tun(crate::TunMode),
    /// Any other kind the kernel names.
    Other(String),
    /// Hardware, or the loopback: no kind.
    Device,
}

/// A bridge's switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bridge {
    /// Spanning tree.
    pub stp: bool,
    /// Look into multicast memberships.
    pub multicast_snooping: bool,
    /// How long a new port waits, in hundredths of a second. Without spanning tree the kernel does not wait.
    pub forward_delay: u32,
}

/// A VXLAN endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// The network identifier.
    pub id: u32,
    /// UDP port.
    pub port: u16,
    /// Where tunnels start.
    pub local: Option<IpAddr>,
    /// Learn where hardware addresses are from what arrives.
    pub learning: bool,
}

/// What macvlan links of one parent may say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacvlanMode {
    /// Nothing.
    Private,
    /// Through the switch outside.
    Vepa,
    /// Everything.
    Bridge,
    /// There is only one.
    Passthru,
    /// Another number.
    Other(u32),
}

/// A link as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number; another one after it was made again.
    pub index: u32,
    /// Its name.
    pub name: IfName,
    /// See [`Kind`].
    pub kind: Kind,
    /// Switched on.
    pub up: bool,
    /// The other side is there.
    pub carrier: bool,
    /// The loopback.
    pub loopback: bool,
    /// Largest packet.
    pub mtu: u32,
    /// Smallest `mtu` the driver takes; 0 is no limit.
    pub min_mtu: u32,
    /// Largest `mtu` the driver takes; 0 is no limit.
    pub max_mtu: u32,
    /// Hardware address.
    pub mac: Option<Mac>,
    /// The bridge or bond it is a port of.
    pub master: Option<u32>,
    /// The lower link, or the other end of a pair.
    pub lower: Option<u32>,
    /// The namespace of `lower`, as this namespace numbers it; none if it is here.
    pub lower_namespace: Option<i32>,
    /// A number to address several links by.
    pub group: u32,
    /// Free text.
    pub alias: Option<String>,
    /// Further names, up to 127 bytes each.
    pub alt_names: BTreeSet<String>,
}

/// A link to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Make {
    /// A pair; the other end is born where it belongs.
    Veth(VethPeer),
    /// A bridge.
    Bridge(Bridge),
    /// A VXLAN endpoint.
    Vxlan(Vxlan),
    /// On a parent, by name.
    Macvlan {
        /// The link below.
        parent: IfName,
        /// See [`MacvlanMode`].
        mode: MacvlanMode,
    },
    /// A persistent TUN or TAP device.
    Tun(crate::TunMode),
}

/// The other end of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethPeer {
    /// Its name there.
    pub name: IfName,
    /// The namespace it is born in; this one if none.
    pub namespace: Option<Birthplace>,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// Its largest packet.
    pub mtu: Option<u32>,
}

impl VethPeer {
    /// In this namespace, with whatever hardware address and MTU the kernel gives.
    pub fn named(name: IfName) -> VethPeer {
        VethPeer { name, namespace: None, mac: None, mtu: None }
    }

    /// In another namespace.
    pub fn inside(self, namespace: std::sync::Arc<crate::Namespace>) -> VethPeer {
        VethPeer { namespace: Some(Birthplace(namespace)), ..self }
    }
}

/// A namespace a link is born in; equal if it is the same descriptor.
#[derive(Clone, Debug)]
pub struct Birthplace(pub std::sync::Arc<crate::Namespace>);

impl PartialEq for Birthplace {
    fn eq(&self, other: &Birthplace) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Birthplace {}

/// A link as it shall be. What is `None` is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Its name: what it is found by.
    pub name: IfName,
    /// Makes it ours: made if it is missing, removed when nobody wants it. Without, an existing link of
    /// whoever's is only adjusted.
    pub make: Option<Make>,
    /// Switched on.
    pub up: Option<bool>,
    /// Largest packet.
    pub mtu: Option<u32>,
    /// Hardware address.
    pub mac: Option<Mac>,
    /// Port of this link, or of none.
    pub master: Option<Option<IfName>>,
    /// See [`Link::group`].
    pub group: Option<u32>,
    /// The alias of a link of ours: a note for whoever looks at it. The diff puts our mark in front.
    pub alias: Option<String>,
    /// Names it must have too; others it has are left alone.
    pub alt_names: BTreeSet<String>,
}

impl Want {
    /// Adjusts a link that somebody else made.
    pub fn adjust(name: IfName) -> Want {
        Want {
            name,
            make: None,
            up: None,
            mtu: None,
            mac: None,
            master: None,
            group: None,
            alias: None,
            alt_names: BTreeSet::new(),
        }
    }

    /// Makes a link.
    pub fn make(name: IfName, make: Make) -> Want {
        Want { make: Some(make), ..Want::adjust(name) }
    }

    /// Switched on.
    pub fn up(self) -> Want {
        Want { up: Some(true), ..self }
    }

    /// With a largest packet.
    pub fn mtu(self, mtu: u32) -> Want {
        Want { mtu: Some(mtu), ..self }
    }

    /// With a hardware address.
    pub fn mac(self, mac: Mac) -> Want {
        Want { mac: Some(mac), ..self }
    }

    /// As a port of another link.
    pub fn port_of(self, master: IfName) -> Want {
        Want { master: Some(Some(master)), ..self }
    }

    /// With a note in its alias.
    pub fn note(self, note: impl Into<String>) -> Want {
        Want { alias: Some(note.into()), ..self }
    }
}
