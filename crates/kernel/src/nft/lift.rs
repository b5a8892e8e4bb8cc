//! From the kernel's instructions back to statements, by running them on registers that hold where their content
//! came from instead of the content.

use super::rule::Count;
use super::vm;
use super::{Fib, Limit, NatKind, NatTo, Payload, Rule, Seen, Settable, Source, Statement};
use crate::family::Family;
use crate::wire::Attributes;
use crate::wire::attribute::{be32, be64, str, u8};

/// A rule's expressions, as statements. What is not understood becomes [`Statement::Unknown`].
pub(super) fn rule(expressions: Attributes<'_>) -> Rule {
    let mut machine = Machine::default();
    for (_, expression) in expressions {
        let expression = Attributes(expression);
        let name = expression.find(vm::NAME).and_then(str).unwrap_or_default();
        if machine.run(&name, expression.inside(vm::DATA)).is_none() {
            machine.statements.push(Statement::Unknown(name));
        }
    }
    Rule {
        statements: machine.statements,
        comment: machine.comment,
        seen: Some(Seen { handle: 0, counts: machine.counts }),
    }
}

#[derive(Default)]
struct Machine {
    registers: [Option<Source>; vm::UNITS],
    statements: Vec<Statement>,
    counts: Vec<Count>,
    comment: Option<String>,
}

impl Machine {
    /// `None` if the expression is not understood.
    fn run(&mut self, name: &str, a: Attributes<'_>) -> Option<()> {
        let number = |kind| a.find(kind).and_then(be32);
        let value = |kind| a.inside(kind).find(vm::VALUE).map(<[u8]>::to_vec);
        match name {
            "meta" if number(3).is_some() => {
                let from = self.held(number(3)?)?;
                let to = match number(2)? {
                    vm::META_TRACE => Settable::Trace,
                    key if vm::META.read(key) == Some(super::Meta::Mark) => Settable::Mark,
                    _ => return None,
                };
                self.statements.push(Statement::Set { to, from });
            }
            "meta" => self.load(number(1)?, Source::Meta(vm::META.read(number(2)?)?))?,
            "ct" if number(4).is_some() => {
                let from = self.held(number(4)?)?;
                (vm::CT.read(number(2)?)? == super::Ct::Mark).then_some(())?;
                self.statements.push(Statement::Set { to: Settable::CtMark, from });
            }
            "ct" => self.load(number(1)?, Source::Ct(vm::CT.read(number(2)?)?))?,
            "fib" => {
                let flags = number(3)?;
                let known = vm::FIB_SOURCE | vm::FIB_DESTINATION | vm::FIB_MARK | vm::FIB_IIF;
                (flags & !known == 0).then_some(())?;
                let fib = Fib {
                    source: flags & vm::FIB_SOURCE != 0,
                    mark: flags & vm::FIB_MARK != 0,
                    iif: flags & vm::FIB_IIF != 0,
                    result: vm::FIB_RESULT.read(number(2)?)?,
                };
                self.load(number(1)?, Source::Fib(fib))?;
            }
            "payload" => {
                let base = vm::BASE.read(number(2)?)?;
                let payload = Payload { base, offset: number(3)?, length: number(4)? };
                self.load(number(1)?, Source::Payload(payload))?;
            }
            "immediate" if number(1)? == vm::VERDICT_REGISTER => {
                let verdict = super::message::read_verdict(a.inside(2))?;
                self.statements.push(Statement::Verdict(verdict));
            }
            "immediate" => self.load(number(1)?, Source::Literal(value(2)?))?,
            "bitwise" => {
                let of = Box::new(self.held(number(1)?)?);
                self.put(number(2)?, Source::Bits { of, mask: value(4)?, xor: value(5)? })?;
            }
            "cmp" => {
                let source = self.held(number(1)?)?;
                let compare = vm::COMPARE.read(number(2)?)?;
                self.statements.push(Statement::Match { source, compare, value: value(3)? });
            }
            "range" => {
                let source = self.held(number(1)?)?;
                let (from, to, negated) = (value(3)?, value(4)?, number(2)? == 1);
                self.statements.push(Statement::Range { source, from, to, negated });
            }
            "lookup" => self.lookup(a)?,
            "counter" => {
                let count = |kind| a.find(kind).and_then(be64).unwrap_or(0);
                self.counts.push(Count { bytes: count(1), packets: count(2) });
                self.statements.push(Statement::Counter);
            }
            "limit" => {
                (number(4).unwrap_or(0) == 0).then_some(())?;
                let seconds = u32::try_from(a.find(2).and_then(be64)?).ok()?;
                self.statements.push(Statement::Limit(Limit {
                    rate: a.find(1).and_then(be64)?,
                    unit: vm::UNIT.read(seconds)?,
                    burst: number(3).unwrap_or(0),
                    over: number(5).unwrap_or(0) & 1 != 0,
                }));
            }
            "nat" => self.nat(a)?,
            "masq" if number(2).is_none() => {
                let flags = vm::read_nat_flags(number(1).unwrap_or(0));
                self.statements.push(Statement::Masquerade(flags));
            }
            "redir" => {
                let port = number(1).map(|register| self.held(register));
                let port = match port {
                    Some(held) => Some(held?),
                    None => None,
                };
                self.statements.push(Statement::Redirect(port));
            }
            // A comment of ours that went through `iptables-save` and `iptables-restore`.
            "match" if a.find(1).and_then(str).as_deref() == Some("comment") => {
                let text = a.find(3)?.split(|byte| *byte == 0).next()?;
                self.comment = Some(std::str::from_utf8(text).ok()?.to_owned());
            }
            "notrack" => self.statements.push(Statement::Notrack),
            "reject" => {
                let code = a.find(2).and_then(u8).unwrap_or(0);
                self.statements.push(Statement::Reject(vm::read_reject(number(1)?, code)?));
            }
            _ => return None,
        }
        Some(())
    }

    fn lookup(&mut self, a: Attributes<'_>) -> Option<()> {
        let number = |kind| a.find(kind).and_then(be32);
        let set = a.find(1).and_then(str)?;
        let key = self.key(number(2)?)?;
        match number(3) {
            None => {
                let negated = number(5).unwrap_or(0) & 1 != 0;
                self.statements.push(Statement::InSet { key, set, negated });
            }
            Some(vm::VERDICT_REGISTER) => self.statements.push(Statement::VerdictMap { key, map: set }),
            Some(to) => self.load(to, Source::Map { key, map: set })?,
        }
        Some(())
    }

    fn nat(&mut self, a: Attributes<'_>) -> Option<()> {
        let number = |kind| a.find(kind).and_then(be32);
        let family = Family::read(u8::try_from(number(2)?).ok()?)?;
        let address = number(3)?;
        let target = self.held(address)?;
        let to = match (number(5), target) {
            (None, address) => NatTo::Address(address),
            // The port is the rest of what the map gave, unless something else was loaded there.
            (Some(port), Source::Map { key, map }) if self.held(port).is_none() => {
                NatTo::MappedAddressPort { key, map }
            }
            (Some(port), address) => NatTo::AddressPort(address, self.held(port)?),
        };
        self.statements.push(Statement::Nat {
            kind: if number(1)? == 0 { NatKind::Source } else { NatKind::Destination },
            family,
            to,
            flags: vm::read_nat_flags(number(7).unwrap_or(0)),
        });
        Some(())
    }

    fn held(&self, register: u32) -> Option<Source> {
        self.registers.get(vm::unit(register)?)?.clone()
    }

    /// A key is what was loaded from its first register on without a gap.
    fn key(&self, register: u32) -> Option<Vec<Source>> {
        let mut unit = vm::unit(register)?;
        let mut key = Vec::new();
        while let Some(Some(source)) = self.registers.get(unit) {
            unit += vm::units(vm::width(source));
            key.push(source.clone());
        }
        (!key.is_empty()).then_some(key)
    }

    /// A load into the first register begins a statement: what was there before is done with.
    fn load(&mut self, register: u32, source: Source) -> Option<()> {
        if vm::unit(register)? == 0 {
            self.registers = Default::default();
        }
        self.put(register, source)
    }

    fn put(&mut self, register: u32, source: Source) -> Option<()> {
        *self.registers.get_mut(vm::unit(register)?)? = Some(source);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;

    #[test]
    fn a_comment_that_iptables_restored_is_a_comment() {
        let mut information = [0; 256];
        information[..8].copy_from_slice(b"netferry");
        let mut w = Writer::default();
        let mut expression = |name: &str, data: &dyn Fn(&mut Writer)| {
            w.nest(1, |w| {
                w.str(vm::NAME, name).nest(vm::DATA, data);
            });
        };
        expression("match", &|w| {
            w.str(1, "comment").be32(2, 0).bytes(3, &information);
        });
        expression("match", &|w| {
            w.str(1, "conntrack").be32(2, 3).bytes(3, &information);
        });
        let read = rule(Attributes(&w.buffer));
        assert_eq!(read.comment.as_deref(), Some("netferry"));
        assert_eq!(read.statements, [Statement::Unknown("match".to_owned())]);
    }
}
