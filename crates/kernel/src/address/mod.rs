//! Addresses on links.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::{Attempt, Error, Result};
use crate::family::Family;
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::objects::{Changes, Object, Objects};
use crate::wire::{self, Attributes, Batch, Message, Writer, flag};

mod promote;

pub(crate) const NEW: u16 = 20;
pub(crate) const DEL: u16 = 21;
const GET: u16 = 22;
const HEADER: usize = 8;

const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const LABEL: u16 = 3;
const BROADCAST: u16 = 4;
const CACHEINFO: u16 = 6;
const FLAGS: u16 = 8;
const METRIC: u16 = 9;
const PROTOCOL: u16 = 11;

const F_SECONDARY: u32 = 0x01;
const F_NODAD: u32 = 0x02;
const F_DADFAILED: u32 = 0x08;
const F_DEPRECATED: u32 = 0x20;
const F_TENTATIVE: u32 = 0x40;
const F_NOPREFIXROUTE: u32 = 0x200;

/// How long something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifetime {
    /// So many seconds from now.
    Seconds(u32),
    /// For ever.
    Forever,
}

impl Lifetime {
    fn number(self) -> u32 {
        match self {
            Lifetime::Seconds(s) => s,
            Lifetime::Forever => u32::MAX,
        }
    }

    fn read(number: u32) -> Lifetime {
        if number == u32::MAX { Lifetime::Forever } else { Lifetime::Seconds(number) }
    }

    /// Time passes: what is there may have less left than was wanted, but not end where it should not.
    pub(crate) fn satisfied_by(self, have: Lifetime) -> bool {
        match (self, have) {
            (Lifetime::Seconds(want), Lifetime::Seconds(have)) => have <= want && (have == 0) == (want == 0),
            (want, have) => want == have,
        }
    }
}

/// What the kernel found out about an address. Not ours to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Status {
    /// Duplicate address detection is still running.
    pub tentative: bool,
    /// Somebody else on the wire has it.
    pub duplicate: bool,
    /// Not used as a source of new flows.
    pub deprecated: bool,
    /// Another address of the same network is the primary one.
    pub secondary: bool,
}

/// An address on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The link's index.
    pub link: u32,
    /// The address itself, with host bits, and the length of its network.
    pub net: IpNet,
    /// The other end of a point-to-point link.
    pub peer: Option<IpAddr>,
    /// IPv4 only; begins with the link's name by custom.
    pub label: Option<String>,
    /// `IFA_PROTO`: who put it there.
    pub protocol: u8,
    /// `RT_SCOPE_*`: 0 is global, 253 is link, 254 is host.
    pub scope: u8,
    /// How long it stays.
    pub valid: Lifetime,
    /// How long it is used as a source; `Seconds(0)` with a valid address means never.
    pub preferred: Lifetime,
    /// Do not add a route to its network.
    pub no_prefix_route: bool,
    /// IPv6: use it at once, without asking whether somebody has it.
    pub no_dad: bool,
    /// The metric of its network's route, where not the default.
    pub metric: Option<u32>,
    /// See [`Status`].
    pub status: Status,
}

impl Address {
    /// An address for ever, global, with all defaults.
    pub fn new(link: u32, net: IpNet) -> Address {
        Address {
            link,
            net,
            peer: None,
            label: None,
            protocol: 0,
            scope: 0,
            valid: Lifetime::Forever,
            preferred: Lifetime::Forever,
            no_prefix_route: false,
            no_dad: false,
            metric: None,
            status: Status::default(),
        }
    }

    /// With a label.
    pub fn labelled(mut self, label: impl Into<String>) -> Address {
        self.label = Some(label.into());
        self
    }

    fn describe(&self) -> String {
        format!("address {} on link {}", self.net, self.link)
    }

    fn check(&self) -> Result<()> {
        match &self.label {
            Some(label) if label.is_empty() || label.len() >= libc::IFNAMSIZ => {
                Err(Error::invalid(self.describe(), format!("label {label:?} must have 1 to 15 bytes")))
            }
            Some(_) if self.net.addr().is_ipv6() => {
                Err(Error::invalid(self.describe(), "IPv6 addresses have no label"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn write(&self, w: &mut Writer) {
        let mut flags = 0;
        flags |= if self.no_dad { F_NODAD } else { 0 };
        flags |= if self.no_prefix_route { F_NOPREFIXROUTE } else { 0 };
        let family = Family::of(self.net.addr());
        w.raw(&[family.number(), self.net.prefix_len(), 0, self.scope]).raw(&self.link.to_ne_bytes());
        w.ip(LOCAL, self.net.addr()).ip(ADDRESS, self.peer.unwrap_or(self.net.addr()));
        if let (IpNet::V4(net), None) = (self.net, self.peer)
            && net.prefix_len() < 31
        {
            w.ip(BROADCAST, IpAddr::V4(net.broadcast()));
        }
        if let Some(label) = &self.label {
            w.str(LABEL, label);
        }
        w.u32(FLAGS, flags);
        let mut lifetimes = [0; 16];
        lifetimes[..4].copy_from_slice(&self.preferred.number().to_ne_bytes());
        lifetimes[4..8].copy_from_slice(&self.valid.number().to_ne_bytes());
        w.bytes(CACHEINFO, &lifetimes);
        if let Some(metric) = self.metric {
            w.u32(METRIC, metric);
        }
        if self.protocol != 0 {
            w.u8(PROTOCOL, self.protocol);
        }
    }

    pub(crate) fn read(message: Message<'_>) -> Option<Address> {
        let header = message.body.get(..HEADER)?;
        let attributes = Attributes::after(message.body, HEADER);
        let address = attributes.find(ADDRESS).and_then(wire::ip);
        let local = attributes.find(LOCAL).and_then(wire::ip).or(address)?;
        let flags = attributes.find(FLAGS).and_then(wire::u32).unwrap_or(u32::from(header[2]));
        let lifetimes = attributes.find(CACHEINFO).unwrap_or_default();
        let lifetime = |at: usize| {
            lifetimes.get(at..at + 4).and_then(wire::u32).map_or(Lifetime::Forever, Lifetime::read)
        };
        Some(Address {
            link: wire::u32(&header[4..8])?,
            net: IpNet::new(local, header[1]).ok()?,
            peer: address.filter(|a| *a != local),
            label: attributes.find(LABEL).and_then(wire::str),
            protocol: attributes.find(PROTOCOL).and_then(wire::u8).unwrap_or(0),
            scope: header[3],
            valid: lifetime(4),
            preferred: lifetime(0),
            no_prefix_route: flags & F_NOPREFIXROUTE != 0,
            no_dad: flags & F_NODAD != 0,
            metric: attributes.find(METRIC).and_then(wire::u32).filter(|m| *m != 0),
            status: Status {
                tentative: flags & F_TENTATIVE != 0,
                duplicate: flags & F_DADFAILED != 0,
                deprecated: flags & F_DEPRECATED != 0,
                secondary: local.is_ipv4() && flags & F_SECONDARY != 0,
            },
        })
    }
}

impl Object for Address {
    /// IPv6 has an address once per link, IPv4 once per network length.
    type Key = (u32, IpAddr, u8);

    fn key(&self) -> Self::Key {
        let length = if self.net.addr().is_ipv4() { self.net.prefix_len() } else { 0 };
        (self.link, self.net.addr(), length)
    }

    fn stamped(&self, mark: &Mark) -> Address {
        Address { protocol: mark.protocol, ..self.clone() }
    }

    fn is_ours(&self, mark: &Mark) -> bool {
        self.protocol == mark.protocol
            || self.label.as_ref().is_some_and(|l| l.ends_with(mark.label_suffix.as_str()))
    }

    fn satisfied_by(&self, have: &Address) -> bool {
        self.replaces(have)
            && self.protocol == have.protocol
            && self.valid.satisfied_by(have.valid)
            && self.preferred.satisfied_by(have.preferred)
            && self.no_prefix_route == have.no_prefix_route
            && self.metric.is_none_or(|m| Some(m) == have.metric)
    }

    /// Label, scope and peer can only be given at birth; so can the switch that skips duplicate detection.
    fn replaces(&self, have: &Address) -> bool {
        (self.label.is_none() || self.label == have.label)
            && self.scope == have.scope
            && self.peer == have.peer
            && self.net == have.net
            && self.no_dad == have.no_dad
    }
}

/// See [`Kernel::addresses`].
#[derive(Debug)]
pub struct Addresses<'k>(pub(crate) &'k Kernel);

impl Objects for Addresses<'_> {
    type Want = [Address];
    type State = Vec<Address>;
    type Changes = Changes<Address>;

    fn observe(&self) -> Result<Vec<Address>> {
        self.0.route_socket().dump(
            GET,
            "addresses",
            |w| {
                w.raw(&[0; HEADER]);
            },
            |message, found| found.extend(Address::read(message)),
        )
    }

    fn diff(want: &[Address], have: &Vec<Address>, mark: &Mark) -> Changes<Address> {
        crate::diff(want, have, mark)
    }

    fn apply(&self, changes: &Changes<Address>) -> Result<()> {
        for address in changes.replace.iter().map(|(_, new)| new).chain(&changes.add) {
            address.check()?;
        }
        let promoted = promote::before_removing(self.0, &changes.remove)?;
        let mut batch = Batch::default();
        for address in &changes.remove {
            batch.push(DEL, flag::ACK, Attempt::Removing, address.describe(), |w| address.write(w));
        }
        for (_, address) in &changes.replace {
            let flags = flag::ACK | flag::CREATE | flag::REPLACE;
            batch.push(NEW, flags, Attempt::Replacing, address.describe(), |w| address.write(w));
        }
        for address in &changes.add {
            let flags = flag::ACK | flag::CREATE | flag::EXCLUSIVE;
            batch.push(NEW, flags, Attempt::Adding, address.describe(), |w| address.write(w));
        }
        let done = self.0.route_socket().run(batch);
        promoted.put_back(self.0).and(done)
    }
}
