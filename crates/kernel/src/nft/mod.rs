//! nftables: tables of ours, whole, in one transaction.
//!
//! A change is planned for one generation of the ruleset and committed only if that is still the current one;
//! otherwise the answer is [`crate::Error::Stale`] and nothing has happened. Thousands of things to match go into
//! sets and maps, never into rules: a map of ten thousand loads in milliseconds and costs a packet one lookup.

use std::collections::BTreeMap;

mod compile;
mod copy;
mod diff;
mod handle;
mod lift;
mod message;
mod notice;
mod rule;
mod statement;
#[cfg(test)]
mod tests;
mod value;
mod vm;

pub use copy::Copy;
pub use diff::{Change, Changes, diff};
pub use handle::Nft;
pub(crate) use notice::notice;
pub use notice::{Notice, What};
pub use rule::{Count, Rule, Seen};
pub use statement::{
    Base, Compare, Ct, Fib, FibResult, Limit, Meta, NatFlags, NatKind, NatTo, Payload, Reject, Settable,
    Source, Statement, Unit, Verdict,
};
pub use value::{Data, Datatype, Key, Value};

use crate::name::IfName;

/// Which packets a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableFamily {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// ARP.
    Arp,
    /// What a bridge forwards.
    Bridge,
    /// Frames as they enter or leave a link.
    Netdev,
    /// Another number.
    Other(u8),
}

impl TableFamily {
    const ALL: [(TableFamily, u8); 6] = [
        (TableFamily::Inet, 1),
        (TableFamily::Ip, 2),
        (TableFamily::Arp, 3),
        (TableFamily::Netdev, 5),
        (TableFamily::Bridge, 7),
        (TableFamily::Ip6, 10),
    ];

    pub(crate) fn number(self) -> u8 {
        if let TableFamily::Other(number) = self {
            return number;
        }
        Self::ALL.iter().find(|(f, _)| *f == self).map_or(0, |(_, n)| *n)
    }

    pub(crate) fn read(number: u8) -> TableFamily {
        Self::ALL.iter().find(|(_, n)| *n == number).map_or(TableFamily::Other(number), |(f, _)| *f)
    }
}

impl std::fmt::Display for TableFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TableFamily::Inet => f.write_str("inet"),
            TableFamily::Ip => f.write_str("ip"),
            TableFamily::Ip6 => f.write_str("ip6"),
            TableFamily::Arp => f.write_str("arp"),
            TableFamily::Bridge => f.write_str("bridge"),
            TableFamily::Netdev => f.write_str("netdev"),
            TableFamily::Other(number) => write!(f, "family {number}"),
        }
    }
}

/// Everything there is, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ruleset {
    /// What a change planned from this is guarded by.
    pub generation: u32,
    /// The tables.
    pub tables: Vec<Table>,
}

/// A table with all that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// See [`TableFamily`].
    pub family: TableFamily,
    /// Its name; ours is [`crate::Mark::nft_table`].
    pub name: String,
    /// Its switches.
    pub flags: TableFlags,
    /// Chains by name.
    pub chains: BTreeMap<String, Chain>,
    /// Named sets and maps by name.
    pub sets: BTreeMap<String, Set>,
}

/// A table's switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TableFlags {
    /// Its chains see no packets.
    pub dormant: bool,
    /// It belongs to the socket that made it: nobody else can change it and it goes when the socket closes. A
    /// datapath that outlives its agent must not have it.
    pub owner: bool,
    /// It stays when its owner goes (kernel 6.9).
    pub persist: bool,
}

impl Table {
    /// An empty one.
    pub fn new(family: TableFamily, name: impl Into<String>) -> Table {
        Table {
            family,
            name: name.into(),
            flags: TableFlags::default(),
            chains: BTreeMap::new(),
            sets: BTreeMap::new(),
        }
    }

    /// With a chain.
    pub fn chain(mut self, name: impl Into<String>, chain: Chain) -> Table {
        self.chains.insert(name.into(), chain);
        self
    }

    /// With a set or map.
    pub fn set(mut self, name: impl Into<String>, set: Set) -> Table {
        self.sets.insert(name.into(), set);
        self
    }

    pub(crate) fn id(&self) -> TableId {
        TableId { family: self.family, name: self.name.clone() }
    }
}

/// A table's name and family.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId {
    /// See [`TableFamily`].
    pub family: TableFamily,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for TableId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.family, self.name)
    }
}

/// A chain: rules in order, and where packets meet them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Chain {
    /// Attached to a hook; without, it is reached by jumps only.
    pub hook: Option<Hook>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// Where a chain is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What kind of decisions it makes.
    pub kind: HookKind,
    /// At which point of a packet's way.
    pub point: HookPoint,
    /// Lower is earlier.
    pub priority: i32,
    /// What happens to packets that no rule decided.
    pub policy: Policy,
    /// The links of a netdev chain, sorted. A link that goes takes its place here with it.
    pub devices: Vec<IfName>,
}

/// What a chain decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// Who may pass.
    Filter,
    /// Addresses, once per flow.
    Nat,
    /// Changes that make a locally made packet be routed again.
    Route,
}

/// A point of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// After routing.
    Postrouting,
    /// Netdev: as a frame arrives.
    Ingress,
    /// Netdev: as a frame leaves.
    Egress,
    /// Another number.
    Other(u32),
}

/// What happens at the end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Pass.
    Accept,
    /// Do not.
    Drop,
}

/// Well-known priorities.
pub mod priority {
    /// Before connection tracking.
    pub const RAW: i32 = -300;
    /// Where marks are changed.
    pub const MANGLE: i32 = -150;
    /// Where destinations are translated.
    pub const DSTNAT: i32 = -100;
    /// Where packets are filtered.
    pub const FILTER: i32 = 0;
    /// Where sources are translated.
    pub const SRCNAT: i32 = 100;
}

impl Chain {
    /// Reached by jumps.
    pub fn regular(rules: Vec<Rule>) -> Chain {
        Chain { hook: None, rules }
    }

    /// Attached to a hook; accepts what no rule decided.
    pub fn at(kind: HookKind, point: HookPoint, priority: i32, rules: Vec<Rule>) -> Chain {
        let hook = Hook { kind, point, priority, policy: Policy::Accept, devices: vec![] };
        Chain { hook: Some(hook), rules }
    }

    /// With a policy.
    pub fn policy(mut self, policy: Policy) -> Chain {
        if let Some(hook) = &mut self.hook {
            hook.policy = policy;
        }
        self
    }

    /// On links (netdev).
    pub fn on(mut self, mut devices: Vec<IfName>) -> Chain {
        if let Some(hook) = &mut self.hook {
            devices.sort();
            hook.devices = devices;
        }
        self
    }
}

/// A set, a map, or a verdict map, with its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The fields of a key; several are a concatenation.
    pub key: Vec<Datatype>,
    /// What a key leads to.
    pub leads_to: LeadsTo,
    /// Keys may be ranges.
    pub intervals: bool,
    /// The elements.
    pub elements: BTreeMap<Key, Data>,
}

/// What a key leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadsTo {
    /// Nothing: a set.
    Nothing,
    /// Fields: a map.
    Values(Vec<Datatype>),
    /// A verdict.
    Verdict,
}

impl Set {
    /// An empty set.
    pub fn of(key: impl Into<Vec<Datatype>>) -> Set {
        Set { key: key.into(), leads_to: LeadsTo::Nothing, intervals: false, elements: BTreeMap::new() }
    }

    /// An empty map.
    pub fn map(key: impl Into<Vec<Datatype>>, data: impl Into<Vec<Datatype>>) -> Set {
        Set { leads_to: LeadsTo::Values(data.into()), ..Set::of(key) }
    }

    /// An empty verdict map.
    pub fn verdicts(key: impl Into<Vec<Datatype>>) -> Set {
        Set { leads_to: LeadsTo::Verdict, ..Set::of(key) }
    }

    /// Whose keys may be ranges and prefixes.
    pub fn with_intervals(self) -> Set {
        Set { intervals: true, ..self }
    }

    /// With elements.
    pub fn with(mut self, elements: impl IntoIterator<Item = (Key, Data)>) -> Set {
        self.elements.extend(elements);
        self
    }

    /// The same but for the elements.
    pub(crate) fn same_shape(&self, other: &Set) -> bool {
        self.key == other.key && self.leads_to == other.leads_to && self.intervals == other.intervals
    }
}
