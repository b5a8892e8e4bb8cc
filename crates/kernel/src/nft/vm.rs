//! The kernel's little machine that rules are written for: registers of four bytes, and the numbers of its
//! instructions. What compiles and what lifts share these tables, so that they cannot disagree.

use super::{Base, Compare, Ct, FibResult, Meta, NatFlags, Reject, Source, Unit, Verdict};

/// One expression of a list, its name and its data.
pub(super) const LIST_ELEMENT: u16 = 1;
pub(super) const NAME: u16 = 1;
pub(super) const DATA: u16 = 2;

/// Data is bytes or a verdict.
pub(super) const VALUE: u16 = 1;
pub(super) const VERDICT: u16 = 2;
pub(super) const VERDICT_CODE: u16 = 1;
pub(super) const VERDICT_CHAIN: u16 = 2;

/// The register whose content decides.
pub(super) const VERDICT_REGISTER: u32 = 0;
const FIRST: u32 = 8;
/// Sixteen registers of four bytes.
pub(super) const UNITS: usize = 16;

pub(super) const fn register(unit: usize) -> u32 {
    FIRST + unit as u32
}

/// The kernel reports every fourth register by its older, sixteen-byte name.
pub(super) fn unit(register: u32) -> Option<usize> {
    match register {
        1..=4 => Some((register as usize - 1) * 4),
        FIRST..24 => Some((register - FIRST) as usize),
        _ => None,
    }
}

pub(super) fn units(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

/// How many bytes a source loads.
pub(super) fn width(source: &Source) -> usize {
    match source {
        Source::Meta(Meta::IifName | Meta::OifName) => 16,
        Source::Meta(Meta::NfProto | Meta::L4Proto | Meta::PacketType) | Source::Ct(Ct::Direction) => 1,
        Source::Meta(Meta::EtherType) => 2,
        Source::Meta(
            Meta::Length
            | Meta::Mark
            | Meta::IifGroup
            | Meta::OifGroup
            | Meta::Iif
            | Meta::Oif
            | Meta::Random,
        )
        | Source::Ct(Ct::State | Ct::Status | Ct::Mark) => 4,
        Source::Fib(fib) => match fib.result {
            FibResult::OifName => 16,
            FibResult::AddressType | FibResult::Oif => 4,
        },
        Source::Payload(payload) => payload.length as usize,
        Source::Literal(bytes) => bytes.len(),
        Source::Bits { mask, .. } => mask.len(),
        // As wide as the map's data, which the rule does not say; nothing is loaded beside it.
        Source::Map { .. } => 16,
    }
}

/// A table of numbers, read both ways.
pub(super) struct Numbers<T: 'static>(pub(super) &'static [(T, u32)]);

impl<T: PartialEq + Copy> Numbers<T> {
    pub(super) fn of(&self, item: T) -> u32 {
        self.0.iter().find(|(i, _)| *i == item).map(|(_, n)| *n).expect("the table has every variant")
    }

    pub(super) fn read(&self, number: u32) -> Option<T> {
        self.0.iter().find(|(_, n)| *n == number).map(|(i, _)| *i)
    }
}

pub(super) const META: Numbers<Meta> = Numbers(&[
    (Meta::Length, 0),
    (Meta::EtherType, 1),
    (Meta::Mark, 3),
    (Meta::Iif, 4),
    (Meta::Oif, 5),
    (Meta::IifName, 6),
    (Meta::OifName, 7),
    (Meta::NfProto, 15),
    (Meta::L4Proto, 16),
    (Meta::PacketType, 19),
    (Meta::IifGroup, 21),
    (Meta::OifGroup, 22),
    (Meta::Random, 24),
]);
pub(super) const META_TRACE: u32 = 12;

pub(super) const CT: Numbers<Ct> =
    Numbers(&[(Ct::State, 0), (Ct::Direction, 1), (Ct::Status, 2), (Ct::Mark, 3)]);

pub(super) const FIB_RESULT: Numbers<FibResult> =
    Numbers(&[(FibResult::Oif, 1), (FibResult::OifName, 2), (FibResult::AddressType, 3)]);
pub(super) const FIB_SOURCE: u32 = 1;
pub(super) const FIB_DESTINATION: u32 = 2;
pub(super) const FIB_MARK: u32 = 4;
pub(super) const FIB_IIF: u32 = 8;

pub(super) const BASE: Numbers<Base> = Numbers(&[(Base::Link, 0), (Base::Network, 1), (Base::Transport, 2)]);

pub(super) const COMPARE: Numbers<Compare> = Numbers(&[
    (Compare::Equal, 0),
    (Compare::NotEqual, 1),
    (Compare::Less, 2),
    (Compare::AtMost, 3),
    (Compare::Greater, 4),
    (Compare::AtLeast, 5),
]);

/// Seconds.
pub(super) const UNIT: Numbers<Unit> = Numbers(&[
    (Unit::Second, 1),
    (Unit::Minute, 60),
    (Unit::Hour, 3600),
    (Unit::Day, 86_400),
    (Unit::Week, 604_800),
]);

pub(super) fn verdict_number(verdict: &Verdict) -> (i32, Option<&str>) {
    match verdict {
        Verdict::Drop => (0, None),
        Verdict::Accept => (1, None),
        Verdict::Continue => (-1, None),
        Verdict::Jump(chain) => (-3, Some(chain)),
        Verdict::Goto(chain) => (-4, Some(chain)),
        Verdict::Return => (-5, None),
    }
}

pub(super) fn read_verdict(number: i32, chain: Option<String>) -> Option<Verdict> {
    Some(match (number, chain) {
        (0, _) => Verdict::Drop,
        (1, _) => Verdict::Accept,
        (-1, _) => Verdict::Continue,
        (-3, Some(chain)) => Verdict::Jump(chain),
        (-4, Some(chain)) => Verdict::Goto(chain),
        (-5, _) => Verdict::Return,
        _ => return None,
    })
}

const RANDOM: u32 = 4;
const PERSISTENT: u32 = 8;
const FULLY_RANDOM: u32 = 16;

/// The lower two bits say what is given, and follow from the other attributes.
pub(super) fn nat_flags(flags: NatFlags) -> u32 {
    let bit = |on, bit| if on { bit } else { 0 };
    bit(flags.random, RANDOM) | bit(flags.persistent, PERSISTENT) | bit(flags.fully_random, FULLY_RANDOM)
}

pub(super) fn read_nat_flags(bits: u32) -> NatFlags {
    NatFlags {
        random: bits & RANDOM != 0,
        persistent: bits & PERSISTENT != 0,
        fully_random: bits & FULLY_RANDOM != 0,
    }
}

pub(super) fn reject_numbers(reject: Reject) -> (u32, u8) {
    match reject {
        Reject::Icmp(code) => (0, code),
        Reject::TcpReset => (1, 0),
        Reject::Icmpx(code) => (2, code),
    }
}

pub(super) fn read_reject(kind: u32, code: u8) -> Option<Reject> {
    Some(match kind {
        0 => Reject::Icmp(code),
        1 => Reject::TcpReset,
        2 => Reject::Icmpx(code),
        _ => return None,
    })
}
