//! Policy rules: which routing table a packet is looked up in.

use ipnet::IpNet;

use crate::error::{Attempt, Error, Result};
use crate::family::Family;
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::name::IfName;
use crate::objects::{Changes, Object, Objects};
use crate::wire::{self, Attributes, Batch, Message, Writer, flag};

pub(crate) const NEW: u16 = 32;
pub(crate) const DEL: u16 = 33;
const GET: u16 = 34;
const HEADER: usize = 12;

const DST: u16 = 1;
const SRC: u16 = 2;
const IIFNAME: u16 = 3;
const GOTO: u16 = 4;
const PRIORITY: u16 = 6;
const FWMARK: u16 = 10;
const SUPPRESS_PREFIX: u16 = 14;
const TABLE: u16 = 15;
const FWMASK: u16 = 16;
const OIFNAME: u16 = 17;
const L3MDEV: u16 = 19;
const PROTOCOL: u16 = 21;
const IP_PROTOCOL: u16 = 22;
const DESTINATION_PORTS: u16 = 24;

const INVERT: u32 = 0x2;
const UNSUPPRESSED: u32 = u32::MAX;

/// What a matching rule does. There is no rule without one: the kernel would take it and do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Look up this table; go on if it has no route.
    Table(u32),
    /// Go on at the rule with this priority.
    Goto(u32),
    /// Go on at the next rule.
    Nothing,
    /// Drop silently.
    Blackhole,
    /// Drop and say unreachable.
    Unreachable,
    /// Drop and say prohibited.
    Prohibit,
    /// One of the kernel's that this crate does not make.
    Other(u8),
}

/// Bits of a packet's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fwmark {
    /// What they must be.
    pub value: u32,
    /// Which.
    pub mask: u32,
}

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whose packets.
    pub family: Family,
    /// Lower is earlier.
    pub priority: u32,
    /// Source.
    pub from: Option<IpNet>,
    /// Destination.
    pub to: Option<IpNet>,
    /// Came in here.
    pub iif: Option<IfName>,
    /// Bound to leave here.
    pub oif: Option<IfName>,
    /// Carries this mark.
    pub mark: Option<Fwmark>,
    /// Transport protocol.
    pub ip_protocol: Option<u8>,
    /// Ports it goes to, the first and the last.
    pub destination_ports: Option<(u16, u16)>,
    /// Matches what the conditions do not.
    pub invert: bool,
    /// What then.
    pub action: Action,
    /// Do not take routes of the table with a prefix as short as this.
    pub suppress_prefix: Option<u32>,
    /// The table is that of the packet's VRF.
    pub l3mdev: bool,
    /// `FRA_PROTOCOL`: who put it there.
    pub protocol: u8,
}

impl Rule {
    /// Everything of a family, looked up in a table.
    pub fn lookup(family: Family, priority: u32, table: u32) -> Rule {
        Rule {
            family,
            priority,
            from: None,
            to: None,
            iif: None,
            oif: None,
            mark: None,
            ip_protocol: None,
            destination_ports: None,
            invert: false,
            action: Action::Table(table),
            suppress_prefix: None,
            l3mdev: false,
            protocol: 0,
        }
    }

    /// Only packets from here.
    pub fn from(self, from: IpNet) -> Rule {
        Rule { from: Some(from.trunc()), ..self }
    }

    /// Only packets to here.
    pub fn to(self, to: IpNet) -> Rule {
        Rule { to: Some(to.trunc()), ..self }
    }

    /// Only packets with this mark.
    pub fn marked(self, value: u32, mask: u32) -> Rule {
        Rule { mark: Some(Fwmark { value, mask }), ..self }
    }

    /// Only packets of a transport protocol to this port of its.
    pub fn to_port(self, ip_protocol: u8, port: u16) -> Rule {
        Rule { ip_protocol: Some(ip_protocol), destination_ports: Some((port, port)), ..self }
    }

    fn describe(&self) -> String {
        let part =
            |name: &str, value: Option<String>| value.map(|v| format!(" {name} {v}")).unwrap_or_default();
        format!(
            "rule {}:{}{}{}{} {:?}",
            self.priority,
            part("from", self.from.map(|n| n.to_string())),
            part("to", self.to.map(|n| n.to_string())),
            part("fwmark", self.mark.map(|m| format!("{:#x}/{:#x}", m.value, m.mask))),
            part("iif", self.iif.as_ref().map(ToString::to_string)),
            self.action
        )
    }

    fn check(&self) -> Result<()> {
        let wrong = |net: Option<IpNet>| net.is_some_and(|n| Family::of(n.addr()) != self.family);
        if wrong(self.from) || wrong(self.to) {
            return Err(Error::invalid(self.describe(), "a prefix is of the other family"));
        }
        if self.mark.is_some_and(|m| m.value & !m.mask != 0) {
            return Err(Error::invalid(
                self.describe(),
                "the mark has bits outside its mask and can never match",
            ));
        }
        if self.destination_ports.is_some_and(|(first, last)| first == 0 || first > last) {
            return Err(Error::invalid(self.describe(), "there are no such ports"));
        }
        if matches!(self.action, Action::Table(0)) && !self.l3mdev {
            return Err(Error::invalid(self.describe(), "table 0 is none"));
        }
        Ok(())
    }

    fn write(&self, w: &mut Writer) {
        let (action, table) = match self.action {
            Action::Table(table) => (1, Some(table)),
            Action::Goto(_) => (2, None),
            Action::Nothing => (3, None),
            Action::Blackhole => (6, None),
            Action::Unreachable => (7, None),
            Action::Prohibit => (8, None),
            Action::Other(action) => (action, None),
        };
        let length = |net: Option<IpNet>| net.map_or(0, |n| n.prefix_len());
        let small = table.and_then(|t| u8::try_from(t).ok()).unwrap_or(0);
        w.raw(&[self.family.number(), length(self.to), length(self.from), 0, small, 0, 0, action]);
        w.raw(&(if self.invert { INVERT } else { 0 }).to_ne_bytes());
        w.u32(PRIORITY, self.priority);
        if let Some(table) = table {
            w.u32(TABLE, table);
        }
        if let Action::Goto(target) = self.action {
            w.u32(GOTO, target);
        }
        for (kind, net) in [(DST, self.to), (SRC, self.from)] {
            if let Some(net) = net {
                w.ip(kind, net.network());
            }
        }
        for (kind, name) in [(IIFNAME, &self.iif), (OIFNAME, &self.oif)] {
            if let Some(name) = name {
                w.str(kind, name.as_str());
            }
        }
        if let Some(mark) = self.mark {
            w.u32(FWMARK, mark.value).u32(FWMASK, mark.mask);
        }
        if let Some(length) = self.suppress_prefix {
            w.u32(SUPPRESS_PREFIX, length);
        }
        if self.l3mdev {
            w.u8(L3MDEV, 1);
        }
        if let Some(protocol) = self.ip_protocol {
            w.u8(IP_PROTOCOL, protocol);
        }
        if let Some((first, last)) = self.destination_ports {
            w.bytes(DESTINATION_PORTS, &[first.to_ne_bytes(), last.to_ne_bytes()].concat());
        }
        w.u8(PROTOCOL, self.protocol);
    }

    pub(crate) fn read(message: Message<'_>) -> Option<Rule> {
        let header = message.body.get(..HEADER)?;
        let family = Family::read(header[0])?;
        let a = Attributes::after(message.body, HEADER);
        let net = |kind, length| match a.find(kind).and_then(wire::ip) {
            Some(ip) => IpNet::new(ip, length).ok(),
            None if length > 0 => None,
            None => None,
        };
        let table = a.find(TABLE).and_then(wire::u32).unwrap_or(u32::from(header[4]));
        Some(Rule {
            family,
            priority: a.find(PRIORITY).and_then(wire::u32).unwrap_or(0),
            from: net(SRC, header[2]),
            to: net(DST, header[1]),
            iif: a.find(IIFNAME).and_then(wire::str).map(|n| IfName::reported(&n)),
            oif: a.find(OIFNAME).and_then(wire::str).map(|n| IfName::reported(&n)),
            mark: a
                .find(FWMARK)
                .and_then(wire::u32)
                .map(|value| Fwmark { value, mask: a.find(FWMASK).and_then(wire::u32).unwrap_or(u32::MAX) }),
            ip_protocol: a.find(IP_PROTOCOL).and_then(wire::u8),
            destination_ports: a.find(DESTINATION_PORTS).and_then(ports),
            invert: wire::u32(&header[8..12])? & INVERT != 0,
            action: match header[7] {
                1 => Action::Table(table),
                2 => Action::Goto(a.find(GOTO).and_then(wire::u32).unwrap_or(0)),
                3 => Action::Nothing,
                6 => Action::Blackhole,
                7 => Action::Unreachable,
                8 => Action::Prohibit,
                other => Action::Other(other),
            },
            suppress_prefix: a.find(SUPPRESS_PREFIX).and_then(wire::u32).filter(|l| *l != UNSUPPRESSED),
            l3mdev: a.find(L3MDEV).and_then(wire::u8) == Some(1),
            protocol: a.find(PROTOCOL).and_then(wire::u8).unwrap_or(0),
        })
    }
}

fn ports(bytes: &[u8]) -> Option<(u16, u16)> {
    let (first, last) = bytes.split_first_chunk()?;
    Some((u16::from_ne_bytes(*first), u16::from_ne_bytes(last.try_into().ok()?)))
}

/// Everything but the owner: two owners cannot have the same rule, the kernel refuses the second.
type Identity = (
    (Family, u32, Option<IpNet>, Option<IpNet>),
    (Option<IfName>, Option<IfName>, Option<Fwmark>, Option<u8>, Option<(u16, u16)>),
    (bool, Action, Option<u32>, bool),
);

impl Object for Rule {
    type Key = Identity;

    fn key(&self) -> Identity {
        (
            (self.family, self.priority, self.from, self.to),
            (self.iif.clone(), self.oif.clone(), self.mark, self.ip_protocol, self.destination_ports),
            (self.invert, self.action, self.suppress_prefix, self.l3mdev),
        )
    }

    fn stamped(&self, mark: &Mark) -> Rule {
        Rule { protocol: mark.protocol, ..self.clone() }
    }

    /// The kernel's own rules have protocol 2; a rule of ours outside our priorities is a leftover all the same.
    fn is_ours(&self, mark: &Mark) -> bool {
        self.protocol == mark.protocol
    }

    fn satisfied_by(&self, have: &Rule) -> bool {
        self == have
    }

    /// Rules are never changed, only added and removed.
    fn replaces(&self, _: &Rule) -> bool {
        false
    }
}

/// See [`Kernel::rules`].
#[derive(Debug)]
pub struct Rules<'k>(pub(crate) &'k Kernel);

impl Objects for Rules<'_> {
    type Want = [Rule];
    type State = Vec<Rule>;
    type Changes = Changes<Rule>;

    fn observe(&self) -> Result<Vec<Rule>> {
        self.0.route_socket().dump(
            GET,
            "rules",
            |w| {
                w.raw(&[0; HEADER]);
            },
            |message, found| found.extend(Rule::read(message)),
        )
    }

    fn diff(want: &[Rule], have: &Vec<Rule>, mark: &Mark) -> Changes<Rule> {
        crate::diff(want, have, mark)
    }

    /// Adds before it removes: a packet between the two meets a rule too many, never one too few.
    fn apply(&self, changes: &Changes<Rule>) -> Result<()> {
        let mut batch = Batch::default();
        for rule in changes.add.iter().chain(changes.replace.iter().map(|(_, new)| new)) {
            rule.check()?;
            let flags = flag::ACK | flag::CREATE | flag::EXCLUSIVE;
            batch.push(NEW, flags, Attempt::Adding, rule.describe(), |w| rule.write(w));
        }
        for rule in changes.remove.iter().chain(changes.replace.iter().map(|(old, _)| old)) {
            batch.push(DEL, flag::ACK, Attempt::Removing, rule.describe(), |w| rule.write(w));
        }
        self.0.route_socket().run(batch)
    }
}
