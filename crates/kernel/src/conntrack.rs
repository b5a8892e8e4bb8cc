//! Tracked connections: read, and forgotten where they must find another way.
//!
//! A UDP flow keeps the backend it was given for as long as it sends. When the backend goes, its entries must go
//! too, or the client talks to nobody for ever.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::{Attempt, Result};
use crate::family::Family;
use crate::kernel::Kernel;
use crate::wire::attribute::{be16, be32};
use crate::wire::{self, Attributes, Batch, Message, Writer, flag};

const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const HEADER: usize = 4;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const MARK: u16 = 8;
const ID: u16 = 12;
const ZONE: u16 = 18;
const TUPLE_IP: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// One direction of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Sender's port, where the protocol has ports.
    pub source_port: Option<u16>,
    /// Receiver's port, where the protocol has ports.
    pub destination_port: Option<u16>,
}

/// A tracked flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// As its first packet came.
    pub original: Tuple,
    /// As its answers come: after address translation the source is the backend.
    pub reply: Tuple,
    /// Its mark.
    pub mark: u32,
    /// `IPS_*`.
    pub status: u32,
    /// Its zone.
    pub zone: u16,
    /// The kernel's number for it: tells it from a later flow with the same addresses.
    pub id: u32,
    /// The tuple as the kernel wrote it, which is how it wants it back.
    key: Vec<u8>,
    family: u8,
}

/// Which flows; every condition that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Transport protocol.
    pub protocol: Option<u8>,
    /// The client.
    pub source: Option<IpNet>,
    /// What the client asked for.
    pub destination: Option<IpNet>,
    /// The port the client asked for.
    pub destination_port: Option<u16>,
    /// Who answers: the backend.
    pub backend: Option<IpNet>,
    /// The port the backend answers from.
    pub backend_port: Option<u16>,
    /// Bits of the mark: value, mask.
    pub mark: Option<(u32, u32)>,
    /// Only flows whose destination was translated.
    pub translated_only: bool,
}

const DESTINATION_TRANSLATED: u32 = 1 << 5;

impl Filter {
    /// Does the flow meet every condition?
    pub fn matches(&self, flow: &Flow) -> bool {
        let within = |net: Option<IpNet>, ip: IpAddr| net.is_none_or(|n| n.contains(&ip));
        self.protocol.is_none_or(|p| p == flow.original.protocol)
            && within(self.source, flow.original.source)
            && within(self.destination, flow.original.destination)
            && self.destination_port.is_none_or(|p| flow.original.destination_port == Some(p))
            && within(self.backend, flow.reply.source)
            && self.backend_port.is_none_or(|p| flow.reply.source_port == Some(p))
            && self.mark.is_none_or(|(value, mask)| flow.mark & mask == value)
            && (!self.translated_only || flow.status & DESTINATION_TRANSLATED != 0)
    }
}

/// See [`Kernel::conntrack`].
#[derive(Debug)]
pub struct Conntrack<'k>(pub(crate) &'k Kernel);

impl Conntrack<'_> {
    /// All flows of a family.
    pub fn flows(&self, family: Family) -> Result<Vec<Flow>> {
        self.0.netfilter_socket().dump(
            GET,
            "tracked connections",
            |w| {
                w.raw(&[family.number(), 0, 0, 0]);
            },
            |message, found| found.extend(read(message)),
        )
    }

    /// Forgets the flows that match any of the filters; answers which. One that ended meanwhile is fine.
    pub fn forget(&self, family: Family, filters: &[Filter]) -> Result<Vec<Flow>> {
        let mut flows = self.flows(family)?;
        flows.retain(|flow| filters.iter().any(|f| f.matches(flow)));
        self.forget_these(flows)
    }

    /// Forgets flows that were read; answers them. One that ended meanwhile is fine.
    pub fn forget_these(&self, flows: Vec<Flow>) -> Result<Vec<Flow>> {
        let mut batch = Batch::default();
        for flow in &flows {
            let (from, to) = (flow.original.source, flow.original.destination);
            batch.push(DELETE, flag::ACK, Attempt::Removing, format!("flow from {from} to {to}"), |w| {
                write(w, flow);
            });
        }
        match self.0.netfilter_socket().run(batch) {
            Err(crate::Error::Several { mut failed, of }) => {
                failed.retain(|e| e.errno() != Some(nix::errno::Errno::ENOENT));
                if failed.is_empty() { Ok(flows) } else { Err(crate::Error::Several { failed, of }) }
            }
            Err(error) if error.errno() == Some(nix::errno::Errno::ENOENT) => Ok(flows),
            Err(error) => Err(error),
            Ok(()) => Ok(flows),
        }
    }
}

fn write(w: &mut Writer, flow: &Flow) {
    w.raw(&[flow.family, 0, 0, 0]);
    w.nest(ORIGINAL, |w| {
        w.raw(&flow.key);
    });
    if flow.zone != 0 {
        w.be16(ZONE, flow.zone);
    }
    w.be32(ID, flow.id);
}

fn read(message: Message<'_>) -> Option<Flow> {
    let family = *message.body.first()?;
    let a = Attributes::after(message.body, HEADER);
    let number = |kind| a.find(kind).and_then(be32).unwrap_or(0);
    Some(Flow {
        original: read_tuple(a.inside(ORIGINAL))?,
        reply: read_tuple(a.inside(REPLY))?,
        mark: number(MARK),
        status: number(STATUS),
        zone: a.find(ZONE).and_then(be16).unwrap_or(0),
        id: number(ID),
        key: a.find(ORIGINAL)?.to_vec(),
        family,
    })
}

fn read_tuple(tuple: Attributes<'_>) -> Option<Tuple> {
    let ip = tuple.inside(TUPLE_IP);
    let protocol = tuple.inside(TUPLE_PROTOCOL);
    // 1 and 2 are IPv4, 3 and 4 are IPv6.
    let address = |v4: u16| ip.find(v4).or(ip.find(v4 + 2)).and_then(wire::ip);
    Some(Tuple {
        source: address(1)?,
        destination: address(2)?,
        protocol: protocol.find(PROTOCOL_NUMBER).and_then(wire::u8)?,
        source_port: protocol.find(SOURCE_PORT).and_then(be16),
        destination_port: protocol.find(DESTINATION_PORT).and_then(be16),
    })
}
