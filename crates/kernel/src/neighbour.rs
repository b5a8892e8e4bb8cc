//! Neighbour entries: who has which hardware address.

use std::net::IpAddr;

use crate::error::{Attempt, Result};
use crate::family::Family;
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::name::Mac;
use crate::objects::{Changes, Object, Objects};
use crate::wire::{self, Attributes, Batch, Message, Writer, flag};

pub(crate) const NEW: u16 = 28;
pub(crate) const DEL: u16 = 29;
const GET: u16 = 30;
const HEADER: usize = 12;

const DST: u16 = 1;
const LLADDR: u16 = 2;
const PROTOCOL: u16 = 12;

const PERMANENT: u16 = 0x80;
const NOARP: u16 = 0x40;
const PROXY: u8 = 0x08;

/// How an entry came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbourhood {
    /// Configured; never asked for, never forgotten.
    Permanent,
    /// The link needs no resolution.
    NoArp,
    /// Learned by the kernel, with its `NUD_*` state.
    Learned(u16),
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The link's index.
    pub link: u32,
    /// Whose.
    pub ip: IpAddr,
    /// Where; unknown while the kernel is still asking.
    pub mac: Option<Mac>,
    /// See [`Neighbourhood`].
    pub state: Neighbourhood,
    /// `NDA_PROTOCOL`: who put it there.
    pub protocol: u8,
}

impl Neighbour {
    /// An entry that stays.
    pub fn permanent(link: u32, ip: IpAddr, mac: Mac) -> Neighbour {
        Neighbour { link, ip, mac: Some(mac), state: Neighbourhood::Permanent, protocol: 0 }
    }

    fn describe(&self) -> String {
        format!("neighbour {} on link {}", self.ip, self.link)
    }

    fn write(&self, w: &mut Writer) {
        let state = match self.state {
            Neighbourhood::Permanent => PERMANENT,
            Neighbourhood::NoArp => NOARP,
            Neighbourhood::Learned(state) => state,
        };
        w.raw(&[Family::of(self.ip).number(), 0, 0, 0]).raw(&self.link.to_ne_bytes());
        w.raw(&state.to_ne_bytes()).raw(&[0, 0]).ip(DST, self.ip);
        if let Some(mac) = self.mac {
            w.bytes(LLADDR, &mac.0);
        }
        if self.protocol != 0 {
            w.u8(PROTOCOL, self.protocol);
        }
    }

    pub(crate) fn read(message: Message<'_>) -> Option<Neighbour> {
        let header = message.body.get(..HEADER)?;
        Family::read(header[0])?;
        if header[10] & PROXY != 0 {
            return None;
        }
        let attributes = Attributes::after(message.body, HEADER);
        let state = wire::u16(&header[8..10])?;
        Some(Neighbour {
            link: wire::u32(&header[4..8])?,
            ip: attributes.find(DST).and_then(wire::ip)?,
            mac: attributes.find(LLADDR).and_then(Mac::read),
            state: match state {
                _ if state & PERMANENT != 0 => Neighbourhood::Permanent,
                _ if state & NOARP != 0 => Neighbourhood::NoArp,
                _ => Neighbourhood::Learned(state),
            },
            protocol: attributes.find(PROTOCOL).and_then(wire::u8).unwrap_or(0),
        })
    }
}

impl Object for Neighbour {
    type Key = (u32, IpAddr);

    fn key(&self) -> Self::Key {
        (self.link, self.ip)
    }

    fn stamped(&self, mark: &Mark) -> Neighbour {
        Neighbour { protocol: mark.protocol, ..self.clone() }
    }

    fn is_ours(&self, mark: &Mark) -> bool {
        self.protocol == mark.protocol
    }

    fn satisfied_by(&self, have: &Neighbour) -> bool {
        self == have
    }

    fn replaces(&self, _: &Neighbour) -> bool {
        true
    }

    fn yields(&self) -> bool {
        matches!(self.state, Neighbourhood::Learned(_) | Neighbourhood::NoArp) && self.protocol == 0
    }
}

/// See [`Kernel::neighbours`].
#[derive(Debug)]
pub struct Neighbours<'k>(pub(crate) &'k Kernel);

impl Objects for Neighbours<'_> {
    type Want = [Neighbour];
    type State = Vec<Neighbour>;
    type Changes = Changes<Neighbour>;

    fn observe(&self) -> Result<Vec<Neighbour>> {
        self.0.route_socket().dump(
            GET,
            "neighbours",
            |w| {
                w.raw(&[0; HEADER]);
            },
            |message, found| found.extend(Neighbour::read(message)),
        )
    }

    fn diff(want: &[Neighbour], have: &Vec<Neighbour>, mark: &Mark) -> Changes<Neighbour> {
        crate::diff(want, have, mark)
    }

    fn apply(&self, changes: &Changes<Neighbour>) -> Result<()> {
        let mut batch = Batch::default();
        for neighbour in &changes.remove {
            batch.push(DEL, flag::ACK, Attempt::Removing, neighbour.describe(), |w| neighbour.write(w));
        }
        for (_, neighbour) in &changes.replace {
            let flags = flag::ACK | flag::CREATE | flag::REPLACE;
            batch.push(NEW, flags, Attempt::Replacing, neighbour.describe(), |w| neighbour.write(w));
        }
        for neighbour in &changes.add {
            // Between observing and adding the kernel may have learned one by itself; that one yields.
            let flags = flag::ACK | flag::CREATE | flag::REPLACE;
            batch.push(NEW, flags, Attempt::Adding, neighbour.describe(), |w| neighbour.write(w));
        }
        self.0.route_socket().run(batch)
    }
}
