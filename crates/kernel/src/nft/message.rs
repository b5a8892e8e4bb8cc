//! Tables, chains, rules, sets and elements as netlink messages.

use std::collections::BTreeMap;

use super::value::{Datatype, join, split, total};
use super::{
    Chain, Data, Hook, HookKind, HookPoint, Key, LeadsTo, Policy, Rule, Set, TableFamily, TableFlags,
    TableId, Value, Verdict, compile, lift, vm,
};
use crate::name::IfName;
use crate::wire::attribute::{be32, be64, str};
use crate::wire::{Attributes, Message, Writer};

/// `struct nfgenmsg`: family, version, resource.
pub(super) const HEADER: usize = 4;

/// Message kinds: the subsystem's number, then its own.
pub(super) mod kind {
    const NFTABLES: u16 = 10 << 8;
    pub(in super::super) const NEW_TABLE: u16 = NFTABLES;
    pub(in super::super) const GET_TABLE: u16 = NFTABLES | 1;
    pub(in super::super) const DEL_TABLE: u16 = NFTABLES | 2;
    pub(in super::super) const NEW_CHAIN: u16 = NFTABLES | 3;
    pub(in super::super) const GET_CHAIN: u16 = NFTABLES | 4;
    pub(in super::super) const DEL_CHAIN: u16 = NFTABLES | 5;
    pub(in super::super) const NEW_RULE: u16 = NFTABLES | 6;
    pub(in super::super) const GET_RULE: u16 = NFTABLES | 7;
    pub(in super::super) const DEL_RULE: u16 = NFTABLES | 8;
    pub(in super::super) const NEW_SET: u16 = NFTABLES | 9;
    pub(in super::super) const GET_SET: u16 = NFTABLES | 10;
    pub(in super::super) const DEL_SET: u16 = NFTABLES | 11;
    pub(in super::super) const NEW_ELEMENTS: u16 = NFTABLES | 12;
    pub(in super::super) const GET_ELEMENTS: u16 = NFTABLES | 13;
    pub(in super::super) const DEL_ELEMENTS: u16 = NFTABLES | 14;
    pub(in super::super) const NEW_GENERATION: u16 = NFTABLES | 15;
    pub(in super::super) const GET_GENERATION: u16 = NFTABLES | 16;
    pub(in super::super) const BATCH_BEGIN: u16 = 16;
    pub(in super::super) const BATCH_END: u16 = 17;
}

const INTERVAL_END: u32 = 1;
const SET_ANONYMOUS: u32 = 0x1;
const SET_INTERVAL: u32 = 0x4;
const SET_MAP: u32 = 0x8;
const SET_CONCAT: u32 = 0x80;
const TYPE_VERDICT: u32 = 0xffff_ff00;
const RULE_COMMENT: u8 = 0;

pub(super) fn header(w: &mut Writer, family: TableFamily) {
    w.raw(&[family.number(), 0, 0, 0]);
}

pub(super) fn table(w: &mut Writer, id: &TableId, flags: Option<TableFlags>) {
    header(w, id.family);
    w.str(1, &id.name);
    if let Some(flags) = flags {
        let bit = |on, bit: u32| if on { bit } else { 0 };
        w.be32(2, bit(flags.dormant, 1) | bit(flags.owner, 2) | bit(flags.persist, 4));
    }
}

pub(super) fn read_table(message: Message<'_>) -> Option<(TableId, TableFlags)> {
    let family = TableFamily::read(*message.body.first()?);
    let a = Attributes::after(message.body, HEADER);
    let bits = a.find(2).and_then(be32).unwrap_or(0);
    let flags = TableFlags { dormant: bits & 1 != 0, owner: bits & 2 != 0, persist: bits & 4 != 0 };
    Some((TableId { family, name: a.find(1).and_then(str)? }, flags))
}

pub(super) fn chain(w: &mut Writer, table: &TableId, name: &str, hook: Option<&Hook>) {
    header(w, table.family);
    w.str(1, &table.name).str(3, name);
    let Some(hook) = hook else { return };
    w.nest(4, |w| {
        w.be32(1, point_number(hook.point)).bytes(2, &hook.priority.to_be_bytes());
        match hook.devices.as_slice() {
            [] => {}
            [only] => {
                w.str(3, only.as_str());
            }
            several => {
                w.nest(4, |w| {
                    for device in several {
                        w.str(1, device.as_str());
                    }
                });
            }
        }
    });
    w.be32(5, u32::from(hook.policy == Policy::Accept));
    w.str(
        7,
        match hook.kind {
            HookKind::Filter => "filter",
            HookKind::Nat => "nat",
            HookKind::Route => "route",
        },
    );
}

pub(super) fn read_chain(message: Message<'_>) -> Option<(TableId, String, Chain)> {
    let family = TableFamily::read(*message.body.first()?);
    let a = Attributes::after(message.body, HEADER);
    let at = a.inside(4);
    let hook = at.find(1).and_then(be32).map(|number| {
        let mut devices: Vec<IfName> = at
            .inside(4)
            .into_iter()
            .filter_map(|(_, name)| str(name))
            .map(|n| IfName::reported(&n))
            .collect();
        if devices.is_empty() {
            devices.extend(at.find(3).and_then(str).map(|n| IfName::reported(&n)));
        }
        devices.sort();
        Hook {
            kind: match a.find(7).and_then(str).as_deref() {
                Some("nat") => HookKind::Nat,
                Some("route") => HookKind::Route,
                Some(_) | None => HookKind::Filter,
            },
            point: read_point(number, family),
            priority: at.find(2).and_then(be32).unwrap_or(0).cast_signed(),
            policy: if a.find(5).and_then(be32) == Some(0) { Policy::Drop } else { Policy::Accept },
            devices,
        }
    });
    let id = TableId { family, name: a.find(1).and_then(str)? };
    Some((id, a.find(3).and_then(str)?, Chain { hook, rules: vec![] }))
}

/// netdev counts its two points from zero again.
fn point_number(point: HookPoint) -> u32 {
    match point {
        HookPoint::Prerouting | HookPoint::Ingress => 0,
        HookPoint::Input | HookPoint::Egress => 1,
        HookPoint::Forward => 2,
        HookPoint::Output => 3,
        HookPoint::Postrouting => 4,
        HookPoint::Other(number) => number,
    }
}

fn read_point(number: u32, family: TableFamily) -> HookPoint {
    match (number, family) {
        (0, TableFamily::Netdev) => HookPoint::Ingress,
        (1, TableFamily::Netdev) => HookPoint::Egress,
        (0, _) => HookPoint::Prerouting,
        (1, _) => HookPoint::Input,
        (2, _) => HookPoint::Forward,
        (3, _) => HookPoint::Output,
        (4, _) => HookPoint::Postrouting,
        (other, _) => HookPoint::Other(other),
    }
}

pub(super) fn rule(w: &mut Writer, table: &TableId, chain: &str, rule: &Rule) {
    header(w, table.family);
    w.str(1, &table.name).str(2, chain).nest(4, |w| compile::rule(w, rule));
    if let Some(comment) = &rule.comment {
        let mut text = comment.as_bytes().to_vec();
        text.truncate(usize::from(u8::MAX) - 1);
        text.push(0);
        let mut user = vec![RULE_COMMENT, u8::try_from(text.len()).unwrap_or(u8::MAX)];
        user.extend_from_slice(&text);
        w.bytes(7, &user);
    }
}

pub(super) fn read_rule(message: Message<'_>) -> Option<(TableId, String, Rule)> {
    let family = TableFamily::read(*message.body.first()?);
    let a = Attributes::after(message.body, HEADER);
    let mut rule = lift::rule(a.inside(4));
    if let (Some(seen), Some(handle)) = (&mut rule.seen, a.find(3).and_then(be64)) {
        seen.handle = handle;
    }
    if let Some([RULE_COMMENT, length, text @ ..]) = a.find(7) {
        rule.comment = text.get(..usize::from(*length)).and_then(str);
    }
    Some((TableId { family, name: a.find(1).and_then(str)? }, a.find(2).and_then(str)?, rule))
}

pub(super) fn set(w: &mut Writer, table: &TableId, name: &str, set: &Set, id: u32) {
    let concatenated = set.intervals && set.key.len() > 1;
    let mut flags = if set.intervals { SET_INTERVAL } else { 0 };
    flags |= if concatenated { SET_CONCAT } else { 0 };
    flags |= if set.leads_to == LeadsTo::Nothing { 0 } else { SET_MAP };
    header(w, table.family);
    w.str(1, &table.name).str(2, name).be32(3, flags);
    w.be32(4, Datatype::pack(&set.key)).be32(5, length(&set.key));
    match &set.leads_to {
        LeadsTo::Nothing => {}
        LeadsTo::Values(data) => {
            w.be32(6, Datatype::pack(data)).be32(7, length(data));
        }
        LeadsTo::Verdict => {
            w.be32(6, TYPE_VERDICT);
        }
    }
    w.be32(10, id).bytes(13, &byte_orders(set));
    if concatenated {
        w.nest(9, |w| {
            w.nest(2, |w| {
                for field in &set.key {
                    w.nest(1, |w| {
                        w.be32(1, u32::try_from(field.length()).unwrap_or(0));
                    });
                }
            });
        });
    }
}

/// What `nft` needs to print numbers right; the kernel keeps it and does not look.
fn byte_orders(set: &Set) -> Vec<u8> {
    const KEY: u8 = 0;
    const DATA: u8 = 1;
    const HOST: u32 = 1;
    const NETWORK: u32 = 2;
    let data = match &set.leads_to {
        LeadsTo::Values(fields) => fields.as_slice(),
        LeadsTo::Nothing | LeadsTo::Verdict => &[],
    };
    let mut user = Vec::new();
    for (what, fields) in [(KEY, set.key.as_slice()), (DATA, data)] {
        // A concatenation has no order of its own, its fields have.
        if let [only] = fields {
            let order = if *only == Datatype::Mark { HOST } else { NETWORK };
            user.extend_from_slice(&[what, 4]);
            user.extend_from_slice(&order.to_ne_bytes());
        }
    }
    user
}

fn length(fields: &[Datatype]) -> u32 {
    u32::try_from(total(fields)).unwrap_or(0)
}

/// Anonymous sets belong to the one rule that uses them.
pub(super) fn read_set(message: Message<'_>) -> Option<(TableId, String, Set)> {
    let family = TableFamily::read(*message.body.first()?);
    let a = Attributes::after(message.body, HEADER);
    let number = |kind| a.find(kind).and_then(be32).unwrap_or(0);
    let flags = number(3);
    if flags & SET_ANONYMOUS != 0 {
        return None;
    }
    let leads_to = match (flags & SET_MAP != 0, number(6)) {
        (false, _) => LeadsTo::Nothing,
        (true, TYPE_VERDICT) => LeadsTo::Verdict,
        (true, packed) => LeadsTo::Values(Datatype::unpack(packed, number(7) as usize)),
    };
    let set = Set {
        key: Datatype::unpack(number(4), number(5) as usize),
        leads_to,
        intervals: flags & SET_INTERVAL != 0,
        elements: BTreeMap::new(),
    };
    Some((TableId { family, name: a.find(1).and_then(str)? }, a.find(2).and_then(str)?, set))
}

/// One element; an interval of a single field is two to the kernel, its first value and the one after its last.
pub(super) fn element(w: &mut Writer, set: &Set, key: &Key, data: Option<&Data>) {
    let value = |w: &mut Writer, kind, bytes: &[u8]| {
        w.nest(kind, |w| {
            w.bytes(vm::VALUE, bytes);
        });
    };
    w.nest(1, |w| {
        value(w, 1, &join(&key.from));
        if let (Some(to), true) = (&key.to, set.key.len() > 1) {
            value(w, 10, &join(to));
        }
        match data {
            Some(Data::Values(values)) => value(w, 2, &join(values)),
            Some(Data::Verdict(verdict)) => {
                w.nest(2, |w| compile::verdict(w, verdict));
            }
            Some(Data::None) | None => {}
        }
    });
    if let (Some(to), [_]) = (&key.to, set.key.as_slice())
        && let Some(after) = successor(&join(to))
    {
        w.nest(1, |w| {
            value(w, 1, &after);
            w.be32(3, INTERVAL_END);
        });
    }
}

/// The next value in network byte order; none after the last.
fn successor(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    for byte in bytes.iter_mut().rev() {
        let (next, overflow) = byte.overflowing_add(1);
        *byte = next;
        if !overflow {
            return Some(bytes);
        }
    }
    None
}

fn predecessor(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for byte in bytes.iter_mut().rev() {
        let (previous, underflow) = byte.overflowing_sub(1);
        *byte = previous;
        if !underflow {
            break;
        }
    }
    bytes
}

/// An element as the kernel has it.
#[derive(Debug)]
pub(super) struct RawElement {
    key: Vec<u8>,
    end: Option<Vec<u8>>,
    is_end: bool,
    data: Data,
}

pub(super) fn read_elements(message: Message<'_>, set: &Set, found: &mut Vec<RawElement>) {
    for (_, element) in Attributes::after(message.body, HEADER).inside(3) {
        let a = Attributes(element);
        let value = |kind| a.inside(kind).find(vm::VALUE).map(<[u8]>::to_vec);
        let data = match &set.leads_to {
            LeadsTo::Nothing => Some(Data::None),
            LeadsTo::Values(fields) => value(2).and_then(|b| split(fields, &b)).map(Data::Values),
            LeadsTo::Verdict => read_verdict(a.inside(2)).map(Data::Verdict),
        };
        let Some(key) = value(1) else { continue };
        let is_end = a.find(3).and_then(be32).unwrap_or(0) & INTERVAL_END != 0;
        found.push(RawElement { key, end: value(10), is_end, data: data.unwrap_or(Data::None) });
    }
}

/// Puts intervals of a single field together again.
pub(super) fn assemble(set: &Set, mut raw: Vec<RawElement>) -> BTreeMap<Key, Data> {
    let values = |bytes: &[u8]| split(&set.key, bytes);
    if !set.intervals || set.key.len() > 1 {
        return raw
            .into_iter()
            .filter_map(|e| {
                let to = match (&e.end, set.intervals) {
                    (Some(end), true) => Some(values(end)?),
                    (None, true) => Some(values(&e.key)?),
                    (_, false) => None,
                };
                Some((Key { from: values(&e.key)?, to }, e.data))
            })
            .collect();
    }
    // An end comes before the start that may follow at the same value.
    raw.sort_by(|a, b| a.key.cmp(&b.key).then(b.is_end.cmp(&a.is_end)));
    let mut found = BTreeMap::new();
    let mut raw = raw.into_iter().peekable();
    while let Some(start) = raw.next() {
        if start.is_end {
            continue;
        }
        let last = raw.peek().map_or_else(|| vec![0xff; start.key.len()], |next| predecessor(&next.key));
        if let (Some(from), Some(to)) = (values(&start.key), values(&last)) {
            found.insert(Key { from, to: Some(to) }, start.data);
        }
    }
    found
}

pub(super) fn read_verdict(data: Attributes<'_>) -> Option<Verdict> {
    let verdict = data.inside(vm::VERDICT);
    let code = verdict.find(vm::VERDICT_CODE).and_then(be32)?.cast_signed();
    vm::read_verdict(code, verdict.find(vm::VERDICT_CHAIN).and_then(str))
}

/// What a set can take.
pub(super) fn misfit(set: &Set) -> Option<&Key> {
    set.elements
        .iter()
        .find(|(k, d)| !k.fits(&set.key, set.intervals) || !d.fits(&set.leads_to))
        .map(|(k, _)| k)
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |values: &[Value]| values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" . ");
        match &self.to {
            None => f.write_str(&text(&self.from)),
            Some(to) => write!(f, "{} to {}", text(&self.from), text(to)),
        }
    }
}
