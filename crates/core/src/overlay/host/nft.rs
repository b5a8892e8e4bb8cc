//! What the host's packet filter must hold, in our own words. Printed, it is what `nft -f` reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::net::Family;
use crate::overlay::service::Entrance;

/// A table of both families.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Where packets are sent, by where they come in.
    pub maps: BTreeMap<String, Map>,
    /// Entrances with a property.
    pub sets: BTreeMap<String, Set>,
    /// Entrances and who may use them.
    pub ranges: BTreeMap<String, Ranges>,
    /// The chains.
    pub chains: BTreeMap<String, Chain>,
}

/// What a map or a set looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    /// Protocol and port.
    Port,
    /// Address, protocol and port.
    AddressPort,
}

/// A map from an entrance to an address and port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// The family of its addresses.
    pub family: Family,
    /// What it looks at.
    pub key: Key,
    /// Its elements.
    pub elements: BTreeMap<Entrance, SocketAddr>,
}

/// A set of entrances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set {
    /// The family of its addresses.
    pub family: Family,
    /// What it looks at.
    pub key: Key,
    /// Its elements.
    pub elements: BTreeSet<Entrance>,
}

/// A set of entrances, each with sources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranges {
    /// The family of its addresses.
    pub family: Family,
    /// Its elements; the sources of one entrance do not overlap.
    pub elements: BTreeSet<(Entrance, IpNet)>,
}

/// A chain of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Where packets enter it.
    pub hook: Hook,
    /// Relative to the others of the hook; lower is earlier.
    pub priority: i32,
    /// Whether it translates addresses; otherwise it filters.
    pub nat: bool,
    /// Its rules in order.
    pub rules: Vec<Rule>,
}

/// Where packets enter a chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hook {
    /// Before the way is chosen.
    Prerouting,
    /// Sent by the host itself.
    Output,
    /// Passing through.
    Forward,
    /// Before they leave.
    Postrouting,
}

/// A rule: all conditions, then what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The conditions.
    pub when: Vec<When>,
    /// What to do.
    pub then: Then,
}

/// A condition on a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum When {
    /// It came in through this link.
    In(String),
    /// It leaves through this link.
    Out(String),
    /// It leaves through any other link.
    NotOut(String),
    /// Its source is in here.
    From(IpNet),
    /// Its source is the host's own.
    FromHost,
    /// Its destination is the host's own.
    ToHost,
    /// It is of this family.
    Family(Family),
    /// It is TCP, UDP or SCTP.
    HasPorts,
    /// It is UDP to this port.
    UdpTo(u16),
    /// The destination of its connection was replaced.
    Redirected,
    /// Its connection carries this mark.
    ConnectionMark(u32),
    /// Where it goes is an element of this set.
    InSet(String),
    /// Where it goes is no element of this set.
    NotInSet(String),
    /// Where it goes and where it comes from are together no element of these ranges.
    NotInRanges(String),
}

/// What to do with a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Then {
    /// Let pass.
    Accept,
    /// Drop.
    Drop,
    /// Leave as it is.
    Return,
    /// Replace its source.
    SourceTo(IpAddr),
    /// Replace its source by the address of the link it leaves through.
    Masquerade,
    /// Replace its destination, but for the port.
    DestinationTo(IpAddr),
    /// Replace its destination by what this map says; where the map says nothing the rule does not apply.
    DestinationBy(String),
    /// Mark its connection.
    MarkConnection(u32),
    /// Do not track its connection.
    NoTrack,
}

impl Table {
    fn key_of(&self, name: &str) -> String {
        let (family, key) = match (self.maps.get(name), self.sets.get(name)) {
            (Some(map), _) => (map.family, map.key),
            (None, Some(set)) => (set.family, set.key),
            (None, None) => (Family::V4, Key::Port),
        };
        match key {
            Key::Port => "meta l4proto . th dport".to_owned(),
            Key::AddressPort => format!("{} daddr . meta l4proto . th dport", word(family)),
        }
    }

    fn print_rule(&self, rule: &Rule, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for when in &rule.when {
            match when {
                When::In(link) => write!(f, "iifname \"{link}\" "),
                When::Out(link) => write!(f, "oifname \"{link}\" "),
                When::NotOut(link) => write!(f, "oifname != \"{link}\" "),
                When::From(net) => write!(f, "{} saddr {net} ", word(Family::of_net(*net))),
                When::FromHost => write!(f, "fib saddr type local "),
                When::ToHost => write!(f, "fib daddr type local "),
                When::Family(Family::V4) => write!(f, "meta nfproto ipv4 "),
                When::Family(Family::V6) => write!(f, "meta nfproto ipv6 "),
                When::HasPorts => write!(f, "meta l4proto {{ tcp, udp, sctp }} "),
                When::UdpTo(port) => write!(f, "udp dport {port} "),
                When::Redirected => write!(f, "ct status dnat "),
                When::ConnectionMark(mark) => write!(f, "ct mark {mark:#x} "),
                When::InSet(set) => write!(f, "{} @{set} ", self.key_of(set)),
                When::NotInSet(set) => write!(f, "{} != @{set} ", self.key_of(set)),
                When::NotInRanges(name) => {
                    let family = word(self.ranges.get(name).map_or(Family::V4, |ranges| ranges.family));
                    write!(f, "{family} daddr . meta l4proto . th dport . {family} saddr != @{name} ")
                }
            }?;
        }
        match &rule.then {
            Then::Accept => write!(f, "accept"),
            Then::Drop => write!(f, "drop"),
            Then::Return => write!(f, "return"),
            Then::SourceTo(ip) => write!(f, "snat {} to {ip}", word(Family::of(*ip))),
            Then::Masquerade => write!(f, "masquerade"),
            Then::DestinationTo(ip) => write!(f, "dnat {} to {ip}", word(Family::of(*ip))),
            Then::DestinationBy(map) => {
                let family = self.maps.get(map).map_or(Family::V4, |map| map.family);
                write!(f, "dnat {} addr . port to {} map @{map}", word(family), self.key_of(map))
            }
            Then::MarkConnection(mark) => write!(f, "ct mark set {mark:#x}"),
            Then::NoTrack => write!(f, "notrack"),
        }
    }
}

fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

fn key_type(family: Family, key: Key) -> String {
    let address = address_type(family);
    match key {
        Key::Port => "inet_proto . inet_service".to_owned(),
        Key::AddressPort => format!("{address} . inet_proto . inet_service"),
    }
}

fn address_type(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4_addr",
        Family::V6 => "ipv6_addr",
    }
}

fn key_text(entrance: &Entrance) -> String {
    let address = entrance.address.map_or(String::new(), |ip| format!("{ip} . "));
    format!("{address}{} . {}", entrance.protocol.lower(), entrance.port)
}

fn elements(f: &mut fmt::Formatter<'_>, list: Vec<String>) -> fmt::Result {
    if list.is_empty() { Ok(()) } else { writeln!(f, "    elements = {{ {} }}", list.join(", ")) }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "table inet {} {{", self.name)?;
        for (name, map) in &self.maps {
            let (key, value) = (key_type(map.family, map.key), address_type(map.family));
            writeln!(f, "  map {name} {{\n    type {key} : {value} . inet_service")?;
            let pair =
                |(k, v): (&Entrance, &SocketAddr)| format!("{} : {} . {}", key_text(k), v.ip(), v.port());
            elements(f, map.elements.iter().map(pair).collect())?;
            writeln!(f, "  }}")?;
        }
        for (name, set) in &self.sets {
            writeln!(f, "  set {name} {{\n    type {}", key_type(set.family, set.key))?;
            elements(f, set.elements.iter().map(key_text).collect())?;
            writeln!(f, "  }}")?;
        }
        for (name, ranges) in &self.ranges {
            let address = address_type(ranges.family);
            let key = key_type(ranges.family, Key::AddressPort);
            writeln!(f, "  set {name} {{\n    type {key} . {address}\n    flags interval")?;
            let pair = |(entrance, net): &(Entrance, IpNet)| format!("{} . {net}", key_text(entrance));
            elements(f, ranges.elements.iter().map(pair).collect())?;
            writeln!(f, "  }}")?;
        }
        for (name, chain) in &self.chains {
            let kind = if chain.nat { "nat" } else { "filter" };
            let hook = match chain.hook {
                Hook::Prerouting => "prerouting",
                Hook::Output => "output",
                Hook::Forward => "forward",
                Hook::Postrouting => "postrouting",
            };
            writeln!(f, "  chain {name} {{")?;
            writeln!(f, "    type {kind} hook {hook} priority {}; policy accept;", chain.priority)?;
            for rule in &chain.rules {
                f.write_str("    ")?;
                self.print_rule(rule, f)?;
                writeln!(f)?;
            }
            writeln!(f, "  }}")?;
        }
        writeln!(f, "}}")
    }
}
