//! Reading the ruleset, and committing to it.

use std::collections::BTreeMap;

use nix::errno::Errno;

use super::message::{self, kind};
use super::{
    Change, Changes, Data, HookPoint, Key, Ruleset, Set, Table, TableFamily, TableFlags, TableId, diff,
};
use crate::error::{Attempt, Error, Result};
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::objects::Objects;
use crate::wire::attribute::be32;
use crate::wire::{Attributes, Batch, Socket, flag};

/// Elements per message: an attribute is at most 64 KiB long, and one element at most some 200 bytes.
const ELEMENTS: usize = 256;
/// How often a reading that others keep disturbing is begun again.
const PATIENCE: usize = 16;
const NAME_LENGTH: usize = 255;

/// See [`Kernel::nft`].
#[derive(Debug)]
pub struct Nft<'k>(pub(crate) &'k Kernel);

impl Nft<'_> {
    /// The number of the ruleset's current state.
    pub fn generation(&self) -> Result<u32> {
        generation(&mut self.0.netfilter_socket())
    }

    /// The tables of one name, in every family; those of others are not read.
    pub fn observe_named(&self, name: &str) -> Result<Ruleset> {
        self.observe_where(&|table: &TableId| table.name == name)
    }

    /// The chains at one point of a packet's way, of every owner, with their rules; but for their switches nothing else of
    /// their tables is read, however much that is.
    pub fn observe_at(&self, point: HookPoint) -> Result<Ruleset> {
        let mut socket = self.0.netfilter_socket();
        for _ in 0..PATIENCE {
            let before = generation(&mut socket)?;
            let tables = match read_chains_at(&mut socket, point) {
                Err(error) if error.errno() == Some(Errno::ENOENT) => continue,
                other => other?,
            };
            if generation(&mut socket)? == before {
                return Ok(Ruleset { generation: before, tables });
            }
        }
        Err(Error::refused(Attempt::Reading, "a ruleset that does not hold still", Errno::EAGAIN))
    }

    fn observe_where(&self, wanted: &dyn Fn(&TableId) -> bool) -> Result<Ruleset> {
        let mut socket = self.0.netfilter_socket();
        for _ in 0..PATIENCE {
            let before = generation(&mut socket)?;
            let tables = match read_tables(&mut socket, wanted) {
                // What was listed a moment ago is gone: begin again.
                Err(error) if error.errno() == Some(Errno::ENOENT) => continue,
                other => other?,
            };
            if generation(&mut socket)? == before {
                return Ok(Ruleset { generation: before, tables });
            }
        }
        Err(Error::refused(Attempt::Reading, "a ruleset that does not hold still", Errno::EAGAIN))
    }
}

impl Objects for Nft<'_> {
    type Want = [Table];
    type State = Ruleset;
    type Changes = Changes;

    fn observe(&self) -> Result<Ruleset> {
        self.observe_where(&|_| true)
    }

    fn diff(want: &[Table], have: &Ruleset, mark: &Mark) -> Changes {
        diff(want, have, mark)
    }

    /// All or nothing, and only if the ruleset is still the one the changes were planned for.
    fn apply(&self, changes: &Changes) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        let subsystem = |w: &mut crate::wire::Writer| {
            w.raw(&[0, 0, 0, 10]);
        };
        batch.push(kind::BATCH_BEGIN, 0, Attempt::Committing, "a transaction", |w| {
            subsystem(w);
            w.be32(1, changes.generation);
        });
        for (number, step) in changes.steps.iter().enumerate() {
            check(step)?;
            write(&mut batch, step, u32::try_from(number).unwrap_or(u32::MAX));
        }
        batch.push(kind::BATCH_END, 0, Attempt::Committing, "a transaction", subsystem);
        self.0.netfilter_socket().commit(&mut batch).map_err(|(position, fault)| {
            if fault.errno == Errno::ERESTART {
                let planned = changes.generation;
                return Error::Stale { object: format!("{} changes", changes.steps.len()), planned };
            }
            match position.and_then(|p| batch.entries.get(p)) {
                Some(entry) => fault.of(entry.attempt, &entry.object),
                None => fault.of(Attempt::Committing, format!("{} changes", changes.steps.len())),
            }
        })
    }

    /// Reads only our tables; when somebody else was faster, reads and plans again.
    fn converge(&self, want: &[Table], mark: &Mark) -> Result<Changes> {
        let mut tries = 0;
        loop {
            let changes = diff(want, &self.observe_named(&mark.nft_table)?, mark);
            match self.apply(&changes) {
                Ok(()) => return Ok(changes),
                Err(Error::Stale { .. }) if tries < PATIENCE => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

fn generation(socket: &mut Socket) -> Result<u32> {
    socket.ask(
        kind::GET_GENERATION,
        "the ruleset's generation",
        |w| message::header(w, TableFamily::Other(0)),
        |m| Attributes::after(m.body, message::HEADER).find(1).and_then(be32),
    )
}

fn read_chains_at(socket: &mut Socket, point: HookPoint) -> Result<Vec<Table>> {
    let any = |w: &mut crate::wire::Writer| message::header(w, TableFamily::Other(0));
    let flags = socket.dump(kind::GET_TABLE, "tables", any, |m, f| f.extend(message::read_table(m)))?;
    let flags: BTreeMap<TableId, TableFlags> = flags.into_iter().collect();
    let found = socket.dump(kind::GET_CHAIN, "chains", any, |m, f| f.extend(message::read_chain(m)))?;
    let mut tables: BTreeMap<TableId, Table> = BTreeMap::new();
    for (id, name, chain) in found {
        if chain.hook.as_ref().is_some_and(|hook| hook.point == point) {
            let flags = flags.get(&id).copied().unwrap_or_default();
            let table =
                tables.entry(id.clone()).or_insert_with(|| Table { flags, ..Table::new(id.family, id.name) });
            table.chains.insert(name, chain);
        }
    }
    for (id, table) in &mut tables {
        for (name, chain) in &mut table.chains {
            let object = format!("rules of {id} {name}");
            let of_chain = |w: &mut crate::wire::Writer| {
                message::header(w, id.family);
                w.str(1, &id.name).str(2, name);
            };
            let rules =
                socket.dump(kind::GET_RULE, &object, of_chain, |m, f| f.extend(message::read_rule(m)))?;
            // Kernels that know no filter by chain give all of the table.
            chain.rules.extend(rules.into_iter().filter(|(_, of, _)| of == name).map(|(_, _, rule)| rule));
        }
    }
    Ok(tables.into_values().collect())
}

fn read_tables(socket: &mut Socket, wanted: &dyn Fn(&TableId) -> bool) -> Result<Vec<Table>> {
    let any = |w: &mut crate::wire::Writer| message::header(w, TableFamily::Other(0));
    let found = socket.dump(kind::GET_TABLE, "tables", any, |m, f| f.extend(message::read_table(m)))?;
    let mut tables: BTreeMap<TableId, Table> = found
        .into_iter()
        .filter(|(id, _)| wanted(id))
        .map(|(id, flags)| (id.clone(), Table { flags, ..Table::new(id.family, id.name) }))
        .collect();
    for (id, name, chain) in
        socket.dump(kind::GET_CHAIN, "chains", any, |m, f| f.extend(message::read_chain(m)))?
    {
        if let Some(table) = tables.get_mut(&id) {
            table.chains.insert(name, chain);
        }
    }
    for (id, table) in &mut tables {
        let ours = |w: &mut crate::wire::Writer| {
            message::header(w, id.family);
            w.str(1, &id.name);
        };
        for (_, chain, rule) in socket.dump(kind::GET_RULE, &format!("rules of {id}"), ours, |m, f| {
            f.extend(message::read_rule(m));
        })? {
            if let Some(chain) = table.chains.get_mut(&chain) {
                chain.rules.push(rule);
            }
        }
        for (_, name, set) in socket.dump(kind::GET_SET, &format!("sets of {id}"), ours, |m, f| {
            f.extend(message::read_set(m));
        })? {
            let elements = read_elements(socket, id, &name, &set)?;
            table.sets.insert(name, Set { elements, ..set });
        }
    }
    Ok(tables.into_values().collect())
}

/// The elements of one set. A hash that grows, which it does for a while after many were added, is walked from
/// the start again, and where the answer takes several messages the kernel then repeats some elements and leaves
/// out others, without marking the dump as interrupted. Such an answer counts only when the next one is the same.
fn read_elements(socket: &mut Socket, id: &TableId, name: &str, set: &Set) -> Result<BTreeMap<Key, Data>> {
    let object = format!("elements of {id} {name}");
    let mut last = None;
    for _ in 0..PATIENCE {
        let messages = socket.dump(
            kind::GET_ELEMENTS,
            &object,
            |w| {
                message::header(w, id.family);
                w.str(1, &id.name).str(2, name);
            },
            |m, messages| {
                let mut found = Vec::new();
                message::read_elements(m, set, &mut found);
                messages.push(found);
            },
        )?;
        let whole = messages.len() < 2;
        let elements = message::assemble(set, messages.into_iter().flatten().collect());
        if whole || last.as_ref() == Some(&elements) {
            return Ok(elements);
        }
        last = Some(elements);
    }
    Err(Error::refused(Attempt::Reading, object, Errno::EAGAIN))
}

/// What the kernel would take and make something else of.
fn check(step: &Change) -> Result<()> {
    let name = |name: &str, what: &str| {
        let bad = name.is_empty() || name.len() > NAME_LENGTH || name.contains('\0');
        if bad { Err(Error::invalid(format!("{what} {name:?}"), "is not a name")) } else { Ok(()) }
    };
    match step {
        Change::NewTable(table, _) => name(&table.name, "table"),
        Change::NewChain { name: chain, .. } => name(chain, "chain"),
        Change::NewSet { name: set, .. } => name(set, "set"),
        Change::AddElements { table, name, set } => match message::misfit(set) {
            Some(key) => {
                Err(Error::invalid(format!("element {key} of {table} {name}"), "does not fit the set"))
            }
            None => Ok(()),
        },
        Change::NewRule { chain, rule, .. } | Change::FirstRule { chain, rule, .. } => {
            let unknown = rule.statements.iter().any(|s| matches!(s, super::Statement::Unknown(_)));
            if unknown {
                return Err(Error::invalid(
                    format!("rule of {chain}"),
                    "has a statement this crate cannot write",
                ));
            }
            Ok(())
        }
        Change::DelTable(_)
        | Change::DelRule { .. }
        | Change::DelElements { .. }
        | Change::DelChain(..)
        | Change::DelSet(..) => Ok(()),
    }
}

fn write(batch: &mut Batch, step: &Change, number: u32) {
    let create = flag::CREATE | flag::EXCLUSIVE;
    match step {
        Change::NewTable(table, flags) => {
            batch.push(kind::NEW_TABLE, create, Attempt::Adding, format!("table {table}"), |w| {
                message::table(w, table, Some(*flags));
            });
        }
        Change::DelTable(table) => {
            batch.push(kind::DEL_TABLE, 0, Attempt::Removing, format!("table {table}"), |w| {
                message::table(w, table, None);
            });
        }
        Change::DelRule { table, chain, handle } => {
            let object = format!("rule {handle} of {table} {chain}");
            batch.push(kind::DEL_RULE, 0, Attempt::Removing, object, |w| {
                message::header(w, table.family);
                w.str(1, &table.name).str(2, chain).be64(3, *handle);
            });
        }
        Change::DelChain(table, name) => {
            batch.push(kind::DEL_CHAIN, 0, Attempt::Removing, format!("chain {table} {name}"), |w| {
                message::header(w, table.family);
                w.str(1, &table.name).str(3, name);
            });
        }
        Change::DelSet(table, name) => {
            batch.push(kind::DEL_SET, 0, Attempt::Removing, format!("set {table} {name}"), |w| {
                message::header(w, table.family);
                w.str(1, &table.name).str(2, name);
            });
        }
        Change::NewSet { table, name, set } => {
            batch.push(kind::NEW_SET, create, Attempt::Adding, format!("set {table} {name}"), |w| {
                message::set(w, table, name, set, number);
            });
        }
        Change::NewChain { table, name, hook } => {
            let object = format!("chain {table} {name}");
            batch.push(kind::NEW_CHAIN, flag::CREATE, Attempt::Adding, object, |w| {
                message::chain(w, table, name, hook.as_ref());
            });
        }
        Change::AddElements { table, name, set } => {
            elements(batch, (kind::NEW_ELEMENTS, create, Attempt::Adding), (table, name, set));
        }
        Change::DelElements { table, name, set } => {
            elements(batch, (kind::DEL_ELEMENTS, 0, Attempt::Removing), (table, name, set));
        }
        Change::FirstRule { table, chain, rule } => {
            let object = format!("rule of {table} {chain}");
            batch.push(kind::NEW_RULE, flag::CREATE, Attempt::Adding, object, |w| {
                message::rule(w, table, chain, rule);
            });
        }
        Change::NewRule { table, chain, rule } => {
            let flags = flag::CREATE | flag::APPEND;
            batch.push(kind::NEW_RULE, flags, Attempt::Adding, format!("rule of {table} {chain}"), |w| {
                message::rule(w, table, chain, rule);
            });
        }
    }
}

fn elements(batch: &mut Batch, how: (u16, u16, Attempt), what: (&TableId, &str, &Set)) {
    let (message_kind, flags, attempt) = how;
    let (table, name, set) = what;
    let all: Vec<(&Key, &Data)> = set.elements.iter().collect();
    for some in all.chunks(ELEMENTS) {
        let object = format!("{} elements of {table} {name}", some.len());
        batch.push(message_kind, flags, attempt, object, |w| {
            message::header(w, table.family);
            w.str(1, &table.name).str(2, name).nest(3, |w| {
                for (key, data) in some {
                    let data = (attempt == Attempt::Adding).then_some(*data);
                    message::element(w, set, key, data);
                }
            });
        });
    }
}
