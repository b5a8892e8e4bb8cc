//! From statements to the kernel's instructions.
//!
//! Every statement loads what it needs from the first register on, so that what is lifted back
//! (see [`super::lift`]) can tell where a statement begins.

use super::vm::{self, register};
use super::{NatTo, Rule, Settable, Source, Statement, Verdict};
use crate::wire::{Writer, aligned};

/// Writes a rule's expressions.
pub(super) fn rule(w: &mut Writer, rule: &Rule) {
    for statement in &rule.statements {
        compile(w, statement);
    }
}

fn expression(w: &mut Writer, name: &str, data: impl FnOnce(&mut Writer)) {
    w.nest(vm::LIST_ELEMENT, |w| {
        w.str(vm::NAME, name).nest(vm::DATA, data);
    });
}

fn bytes(w: &mut Writer, kind: u16, value: &[u8]) {
    w.nest(kind, |w| {
        w.bytes(vm::VALUE, value);
    });
}

pub(super) fn verdict(w: &mut Writer, verdict: &Verdict) {
    let (code, chain) = vm::verdict_number(verdict);
    w.nest(vm::VERDICT, |w| {
        w.bytes(vm::VERDICT_CODE, &code.to_be_bytes());
        if let Some(chain) = chain {
            w.str(vm::VERDICT_CHAIN, chain);
        }
    });
}

fn compile(w: &mut Writer, statement: &Statement) {
    match statement {
        Statement::Match { source, compare, value } => {
            load(w, source, 0);
            expression(w, "cmp", |w| {
                w.be32(1, register(0)).be32(2, vm::COMPARE.of(*compare));
                bytes(w, 3, value);
            });
        }
        Statement::Range { source, from, to, negated } => {
            load(w, source, 0);
            expression(w, "range", |w| {
                w.be32(1, register(0)).be32(2, u32::from(*negated));
                bytes(w, 3, from);
                bytes(w, 4, to);
            });
        }
        Statement::InSet { key, set, negated } => {
            load_key(w, key);
            expression(w, "lookup", |w| {
                w.str(1, set).be32(2, register(0));
                if *negated {
                    w.be32(5, 1);
                }
            });
        }
        Statement::VerdictMap { key, map } => {
            load_key(w, key);
            expression(w, "lookup", |w| {
                w.str(1, map).be32(2, register(0)).be32(3, vm::VERDICT_REGISTER);
            });
        }
        Statement::Set { to, from } => {
            load(w, from, 0);
            let (name, key, source_register) = match to {
                Settable::Mark => ("meta", vm::META.of(super::Meta::Mark), 3),
                Settable::Trace => ("meta", vm::META_TRACE, 3),
                Settable::CtMark => ("ct", vm::CT.of(super::Ct::Mark), 4),
            };
            expression(w, name, |w| {
                w.be32(2, key).be32(source_register, register(0));
            });
        }
        Statement::Counter => expression(w, "counter", |w| {
            w.be64(1, 0).be64(2, 0);
        }),
        Statement::Limit(limit) => expression(w, "limit", |w| {
            w.be64(1, limit.rate).be64(2, u64::from(vm::UNIT.of(limit.unit)));
            w.be32(3, limit.burst).be32(4, 0).be32(5, u32::from(limit.over));
        }),
        Statement::Nat { kind, family, to, flags } => {
            let port = nat_target(w, to, aligned(usize::from(family.bits() / 8)) / 4);
            expression(w, "nat", |w| {
                w.be32(1, u32::from(*kind == super::NatKind::Destination));
                w.be32(2, u32::from(family.number())).be32(3, register(0)).be32(4, register(0));
                if let Some(port) = port {
                    w.be32(5, register(port)).be32(6, register(port));
                }
                if vm::nat_flags(*flags) != 0 {
                    w.be32(7, vm::nat_flags(*flags));
                }
            });
        }
        Statement::Masquerade(flags) => expression(w, "masq", |w| {
            if vm::nat_flags(*flags) != 0 {
                w.be32(1, vm::nat_flags(*flags));
            }
        }),
        Statement::Redirect(port) => {
            if let Some(port) = port {
                load(w, port, 0);
            }
            expression(w, "redir", |w| {
                if port.is_some() {
                    w.be32(1, register(0)).be32(2, register(0));
                }
            });
        }
        Statement::Notrack => expression(w, "notrack", |_| {}),
        Statement::Reject(reject) => {
            let (kind, code) = vm::reject_numbers(*reject);
            expression(w, "reject", |w| {
                w.be32(1, kind).u8(2, code);
            });
        }
        Statement::Verdict(verdict_) => expression(w, "immediate", |w| {
            w.be32(1, vm::VERDICT_REGISTER).nest(2, |w| verdict(w, verdict_));
        }),
        // The kernel answers to an unknown name with ENOENT; diffs never contain these.
        Statement::Unknown(name) => expression(w, name, |_| {}),
    }
}

/// Loads the target of a translation; answers the register of the port, if there is one.
fn nat_target(w: &mut Writer, to: &NatTo, after_address: usize) -> Option<usize> {
    match to {
        NatTo::Address(address) => {
            load(w, address, 0);
            None
        }
        NatTo::AddressPort(address, port) => {
            load(w, address, 0);
            load(w, port, after_address);
            Some(after_address)
        }
        NatTo::MappedAddressPort { key, map } => {
            load(w, &Source::Map { key: key.clone(), map: map.clone() }, 0);
            Some(after_address)
        }
    }
}

fn load_key(w: &mut Writer, key: &[Source]) {
    let mut unit = 0;
    for source in key {
        load(w, source, unit);
        unit += vm::units(vm::width(source));
    }
}

fn load(w: &mut Writer, source: &Source, unit: usize) {
    let to = register(unit);
    match source {
        Source::Meta(meta) => expression(w, "meta", |w| {
            w.be32(1, to).be32(2, vm::META.of(*meta));
        }),
        Source::Ct(ct) => expression(w, "ct", |w| {
            w.be32(1, to).be32(2, vm::CT.of(*ct));
        }),
        Source::Fib(fib) => expression(w, "fib", |w| {
            let mut flags = if fib.source { vm::FIB_SOURCE } else { vm::FIB_DESTINATION };
            flags |= if fib.mark { vm::FIB_MARK } else { 0 };
            flags |= if fib.iif { vm::FIB_IIF } else { 0 };
            w.be32(1, to).be32(2, vm::FIB_RESULT.of(fib.result)).be32(3, flags);
        }),
        Source::Payload(payload) => expression(w, "payload", |w| {
            w.be32(1, to).be32(2, vm::BASE.of(payload.base));
            w.be32(3, payload.offset).be32(4, payload.length);
        }),
        Source::Literal(value) => expression(w, "immediate", |w| {
            w.be32(1, to);
            bytes(w, 2, value);
        }),
        Source::Bits { of, mask, xor } => {
            load(w, of, unit);
            expression(w, "bitwise", |w| {
                w.be32(1, to).be32(2, to).be32(3, u32::try_from(mask.len()).unwrap_or(0));
                bytes(w, 4, mask);
                bytes(w, 5, xor);
            });
        }
        Source::Map { key, map } => {
            load_key(w, key);
            expression(w, "lookup", |w| {
                w.str(1, map).be32(2, register(0)).be32(3, to);
            });
        }
    }
}
