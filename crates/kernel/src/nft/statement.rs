//! The language of rules: what can be looked at, and what can be done.

use crate::family::Family;

/// What a packet carries along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    /// Its length.
    Length,
    /// Its EtherType.
    EtherType,
    /// Its mark.
    Mark,
    /// The name of the link it came in.
    IifName,
    /// The name of the link it will leave by.
    OifName,
    /// 2 for IPv4, 10 for IPv6.
    NfProto,
    /// Its transport protocol.
    L4Proto,
    /// To us, to all, to some.
    PacketType,
    /// The group of the link it came in.
    IifGroup,
    /// The group of the link it will leave by.
    OifGroup,
    /// The number of the link it came in.
    Iif,
    /// The number of the link it will leave by.
    Oif,
    /// Four bytes nobody can foretell.
    Random,
}

/// What is known about its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ct {
    /// Bits: 2 established, 4 related, 8 new, 1 invalid, 64 untracked.
    State,
    /// 0 in the direction of the first packet, 1 back.
    Direction,
    /// Bits: 16 source translated, 32 destination translated.
    Status,
    /// Its mark.
    Mark,
}

/// What the routing tables say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fib {
    /// Of the source, else of the destination.
    pub source: bool,
    /// Considering the packet's mark.
    pub mark: bool,
    /// Considering the link it came in.
    pub iif: bool,
    /// See [`FibResult`].
    pub result: FibResult,
}

/// What to ask the routing tables for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibResult {
    /// The type of the address (`RTN_*`: 2 is local).
    AddressType,
    /// The number of the link towards it; 0 is none.
    Oif,
    /// The name of the link towards it.
    OifName,
}

/// Bytes of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Counted from here.
    pub base: Base,
    /// So many bytes on.
    pub offset: u32,
    /// So many bytes.
    pub length: u32,
}

/// Where bytes are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The Ethernet header.
    Link,
    /// The IP header.
    Network,
    /// The transport header.
    Transport,
}

impl Payload {
    /// The source address.
    pub const fn source(family: Family) -> Payload {
        match family {
            Family::V4 => Payload { base: Base::Network, offset: 12, length: 4 },
            Family::V6 => Payload { base: Base::Network, offset: 8, length: 16 },
        }
    }

    /// The destination address.
    pub const fn destination(family: Family) -> Payload {
        match family {
            Family::V4 => Payload { base: Base::Network, offset: 16, length: 4 },
            Family::V6 => Payload { base: Base::Network, offset: 24, length: 16 },
        }
    }

    /// The source port of TCP, UDP, SCTP.
    pub const SOURCE_PORT: Payload = Payload { base: Base::Transport, offset: 0, length: 2 };
    /// The destination port of TCP, UDP, SCTP.
    pub const DESTINATION_PORT: Payload = Payload { base: Base::Transport, offset: 2, length: 2 };
    /// The hardware source.
    pub const SOURCE_MAC: Payload = Payload { base: Base::Link, offset: 6, length: 6 };
    /// The hardware destination.
    pub const DESTINATION_MAC: Payload = Payload { base: Base::Link, offset: 0, length: 6 };
    /// The address an ARP packet asks for.
    pub const ARP_TARGET: Payload = Payload { base: Base::Network, offset: 24, length: 4 };
    /// The address an ARP packet speaks for.
    pub const ARP_SENDER: Payload = Payload { base: Base::Network, offset: 14, length: 4 };
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// See [`Meta`].
    Meta(Meta),
    /// See [`Ct`].
    Ct(Ct),
    /// See [`Fib`].
    Fib(Fib),
    /// See [`Payload`].
    Payload(Payload),
    /// A constant, in the byte order of what it is compared with or written to.
    Literal(Vec<u8>),
    /// `(of & mask) ^ xor`.
    Bits {
        /// Of what.
        of: Box<Source>,
        /// Which bits stay.
        mask: Vec<u8>,
        /// Which bits turn.
        xor: Vec<u8>,
    },
    /// What a map has for a key. Without an entry the rule ends here.
    Map {
        /// The key, one source per field.
        key: Vec<Source>,
        /// The map, of the same table.
        map: String,
    },
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The same.
    Equal,
    /// Not the same.
    NotEqual,
    /// Less.
    Less,
    /// Less or the same.
    AtMost,
    /// More.
    Greater,
    /// More or the same.
    AtLeast,
}

/// What a packet's fate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes this hook.
    Accept,
    /// It is dropped.
    Drop,
    /// The next rule.
    Continue,
    /// Back to where the chain was called.
    Return,
    /// To a chain, and back.
    Jump(String),
    /// To a chain, for good.
    Goto(String),
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    /// The packet's mark.
    Mark,
    /// The flow's mark.
    CtMark,
    /// Shows up in `nft monitor trace`.
    Trace,
}

/// Which address is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatKind {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// What to translate to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatTo {
    /// An address; the port stays if it can.
    Address(Source),
    /// An address and a port.
    AddressPort(Source, Source),
    /// What a map of address and port has for a key.
    MappedAddressPort {
        /// The key, one source per field.
        key: Vec<Source>,
        /// The map, of the same table.
        map: String,
    },
}

/// How ports are chosen, and whether a client keeps its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NatFlags {
    /// Ports at random.
    pub random: bool,
    /// Ports at random by a better generator.
    pub fully_random: bool,
    /// One client, one address.
    pub persistent: bool,
}

/// How a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// TCP reset.
    TcpReset,
    /// ICMP or ICMPv6 by the packet's family (`NFT_REJECT_ICMPX_*`: 1 is port unreachable, 3 prohibited).
    Icmpx(u8),
    /// ICMP or ICMPv6 with the family's own code.
    Icmp(u8),
}

/// The time of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Per second.
    Second,
    /// Per minute.
    Minute,
    /// Per hour.
    Hour,
    /// Per day.
    Day,
    /// Per week.
    Week,
}

/// So many per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many packets.
    pub rate: u64,
    /// In what time.
    pub unit: Unit,
    /// How many at once beyond it.
    pub burst: u32,
    /// Matches what exceeds it, else what does not.
    pub over: bool,
}

/// One step of a rule. A step that does not match ends the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// A value compares.
    Match {
        /// What.
        source: Source,
        /// How.
        compare: Compare,
        /// With what, in the byte order of the source.
        value: Vec<u8>,
    },
    /// A value is (not) in a range, ends included.
    Range {
        /// What.
        source: Source,
        /// From.
        from: Vec<u8>,
        /// To.
        to: Vec<u8>,
        /// Is not.
        negated: bool,
    },
    /// A key is (not) in a set.
    InSet {
        /// The key, one source per field.
        key: Vec<Source>,
        /// The set, of the same table.
        set: String,
        /// Is not.
        negated: bool,
    },
    /// The verdict a map has for a key.
    VerdictMap {
        /// The key, one source per field.
        key: Vec<Source>,
        /// The map, of the same table.
        map: String,
    },
    /// Something is written.
    Set {
        /// What.
        to: Settable,
        /// Which value.
        from: Source,
    },
    /// Counts packets and bytes.
    Counter,
    /// See [`Limit`].
    Limit(Limit),
    /// Translates an address; decides the packet.
    Nat {
        /// Which address.
        kind: NatKind,
        /// Of which family.
        family: Family,
        /// To what.
        to: NatTo,
        /// See [`NatFlags`].
        flags: NatFlags,
    },
    /// Translates the source to an address of the link it leaves by.
    Masquerade(NatFlags),
    /// Translates the destination to this host, with a port (two bytes, network order) if given.
    Redirect(Option<Source>),
    /// The packet is not tracked.
    Notrack,
    /// See [`Reject`].
    Reject(Reject),
    /// Decides.
    Verdict(Verdict),
    /// Something this crate does not speak, by the kernel's name. Never equal to anything we write.
    Unknown(String),
}
