//! A rule, and the words to write one.

use ipnet::IpNet;

use super::value::padded_name;
use super::{
    Compare, Ct, Fib, FibResult, Limit, Meta, NatFlags, NatKind, NatTo, Payload, Reject, Settable, Source,
    Statement, Verdict,
};
use crate::family::Family;
use crate::name::IfName;

/// A rule. Two are equal if they say the same, wherever they were seen.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Its steps.
    pub statements: Vec<Statement>,
    /// A remark that `nft` shows.
    pub comment: Option<String>,
    /// Where and how it was seen; none for a rule that is to be.
    pub seen: Option<Seen>,
}

/// What only an observed rule has.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Seen {
    /// The kernel's number for it.
    pub handle: u64,
    /// Its counters, in order.
    pub counts: Vec<Count>,
}

/// A counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.statements == other.statements
            && self.comment == other.comment
            && !self.statements.iter().any(|s| matches!(s, Statement::Unknown(_)))
    }
}

impl Eq for Rule {}

impl Rule {
    /// A rule that matches everything, to be narrowed by what follows.
    pub fn new() -> Rule {
        Rule::default()
    }

    /// With a remark.
    pub fn comment(mut self, comment: impl Into<String>) -> Rule {
        self.comment = Some(comment.into());
        self
    }

    /// With any step.
    pub fn then(mut self, statement: Statement) -> Rule {
        self.statements.push(statement);
        self
    }

    /// A value compares.
    pub fn matches(self, source: Source, compare: Compare, value: impl Into<Vec<u8>>) -> Rule {
        self.then(Statement::Match { source, compare, value: value.into() })
    }

    fn equals(self, source: Source, value: impl Into<Vec<u8>>) -> Rule {
        self.matches(source, Compare::Equal, value)
    }

    /// Packets of a family, in a table that sees both.
    pub fn family(self, family: Family) -> Rule {
        self.equals(Source::Meta(Meta::NfProto), [family.number()])
    }

    /// Packets of a transport protocol.
    pub fn protocol(self, number: u8) -> Rule {
        self.equals(Source::Meta(Meta::L4Proto), [number])
    }

    /// Packets that came in by a link.
    pub fn iifname(self, name: &IfName) -> Rule {
        self.equals(Source::Meta(Meta::IifName), padded_name(name.as_str()))
    }

    /// Packets that leave by a link.
    pub fn oifname(self, name: &IfName) -> Rule {
        self.equals(Source::Meta(Meta::OifName), padded_name(name.as_str()))
    }

    /// Packets that leave by any other link.
    pub fn oifname_is_not(self, name: &IfName) -> Rule {
        self.matches(Source::Meta(Meta::OifName), Compare::NotEqual, padded_name(name.as_str()))
    }

    /// Packets from a network; of its family too.
    pub fn from(self, net: IpNet) -> Rule {
        let family = Family::of(net.addr());
        self.family(family).within(Payload::source(family), net, Compare::Equal)
    }

    /// Packets to a network; of its family too.
    pub fn to(self, net: IpNet) -> Rule {
        let family = Family::of(net.addr());
        self.family(family).within(Payload::destination(family), net, Compare::Equal)
    }

    /// Packets of the network's family to anywhere else.
    pub fn not_to(self, net: IpNet) -> Rule {
        let family = Family::of(net.addr());
        self.family(family).within(Payload::destination(family), net, Compare::NotEqual)
    }

    fn within(self, payload: Payload, net: IpNet, compare: Compare) -> Rule {
        let octets = |ip| super::Value::from(ip).bytes();
        let of = Source::Payload(payload);
        let source = if net.prefix_len() == net.max_prefix_len() {
            of
        } else {
            let mask = octets(net.netmask());
            Source::Bits { of: Box::new(of), xor: vec![0; mask.len()], mask }
        };
        self.matches(source, compare, octets(net.network()))
    }

    /// TCP, UDP or SCTP packets to a port.
    pub fn destination_port(self, protocol: u8, port: u16) -> Rule {
        self.protocol(protocol).equals(Source::Payload(Payload::DESTINATION_PORT), port.to_be_bytes())
    }

    /// Packets with these bits of the mark.
    pub fn mark(self, value: u32, mask: u32) -> Rule {
        self.equals(masked(Source::Meta(Meta::Mark), mask), value.to_ne_bytes())
    }

    /// Packets of flows with these bits of the mark.
    pub fn ct_mark(self, value: u32, mask: u32) -> Rule {
        self.equals(masked(Source::Ct(Ct::Mark), mask), value.to_ne_bytes())
    }

    /// Packets of flows in one of the states ([`Ct::State`]).
    pub fn ct_state(self, states: u32) -> Rule {
        let bits = Source::Bits {
            of: Box::new(Source::Ct(Ct::State)),
            mask: states.to_ne_bytes().to_vec(),
            xor: vec![0; 4],
        };
        self.matches(bits, Compare::NotEqual, [0; 4])
    }

    /// Packets to an address of this host.
    pub fn to_this_host(self) -> Rule {
        self.fib_type(false)
    }

    /// Packets from an address of this host.
    pub fn from_this_host(self) -> Rule {
        self.fib_type(true)
    }

    fn fib_type(self, source: bool) -> Rule {
        let fib = Fib { source, mark: false, iif: false, result: FibResult::AddressType };
        self.equals(Source::Fib(fib), u32::from(libc::RTN_LOCAL).to_ne_bytes())
    }

    /// Packets whose key is in a set.
    pub fn in_set(self, key: impl Into<Vec<Source>>, set: impl Into<String>) -> Rule {
        self.then(Statement::InSet { key: key.into(), set: set.into(), negated: false })
    }

    /// Packets whose key is not in a set.
    pub fn not_in_set(self, key: impl Into<Vec<Source>>, set: impl Into<String>) -> Rule {
        self.then(Statement::InSet { key: key.into(), set: set.into(), negated: true })
    }

    /// The verdict a map has for a key.
    pub fn verdict_map(self, key: impl Into<Vec<Source>>, map: impl Into<String>) -> Rule {
        self.then(Statement::VerdictMap { key: key.into(), map: map.into() })
    }

    /// Counts.
    pub fn counter(self) -> Rule {
        self.then(Statement::Counter)
    }

    /// See [`Limit`].
    pub fn limit(self, limit: Limit) -> Rule {
        self.then(Statement::Limit(limit))
    }

    /// Writes the packet's mark.
    pub fn set_mark(self, from: Source) -> Rule {
        self.then(Statement::Set { to: Settable::Mark, from })
    }

    /// Writes the flow's mark.
    pub fn set_ct_mark(self, from: Source) -> Rule {
        self.then(Statement::Set { to: Settable::CtMark, from })
    }

    /// Translates the destination.
    pub fn dnat(self, family: Family, to: NatTo) -> Rule {
        let (kind, flags) = (NatKind::Destination, NatFlags::default());
        self.then(Statement::Nat { kind, family, to, flags })
    }

    /// Translates the source.
    pub fn snat(self, family: Family, to: NatTo) -> Rule {
        let (kind, flags) = (NatKind::Source, NatFlags::default());
        self.then(Statement::Nat { kind, family, to, flags })
    }

    /// Translates the source to an address of the link it leaves by.
    pub fn masquerade(self) -> Rule {
        self.then(Statement::Masquerade(NatFlags::default()))
    }

    /// Does not track.
    pub fn notrack(self) -> Rule {
        self.then(Statement::Notrack)
    }

    /// Refuses.
    pub fn reject(self, reject: Reject) -> Rule {
        self.then(Statement::Reject(reject))
    }

    /// Passes.
    pub fn accept(self) -> Rule {
        self.then(Statement::Verdict(Verdict::Accept))
    }

    /// Drops.
    pub fn drop(self) -> Rule {
        self.then(Statement::Verdict(Verdict::Drop))
    }

    /// Back to where the chain was called.
    pub fn back(self) -> Rule {
        self.then(Statement::Verdict(Verdict::Return))
    }

    /// To a chain, and back.
    pub fn jump(self, chain: impl Into<String>) -> Rule {
        self.then(Statement::Verdict(Verdict::Jump(chain.into())))
    }
}

impl Source {
    /// A mark to write.
    pub fn mark(value: u32) -> Source {
        Source::Literal(value.to_ne_bytes().to_vec())
    }

    /// An address to translate to.
    pub fn address(ip: std::net::IpAddr) -> Source {
        Source::Literal(super::Value::from(ip).bytes())
    }

    /// A port to translate to.
    pub fn port(port: u16) -> Source {
        Source::Literal(port.to_be_bytes().to_vec())
    }

    /// What a map has for a key.
    pub fn map(key: impl Into<Vec<Source>>, map: impl Into<String>) -> Source {
        Source::Map { key: key.into(), map: map.into() }
    }
}

/// A comparison with all bits needs no mask, and is read back without one.
fn masked(of: Source, mask: u32) -> Source {
    if mask == u32::MAX {
        return of;
    }
    Source::Bits { of: Box::new(of), mask: mask.to_ne_bytes().to_vec(), xor: vec![0; 4] }
}
