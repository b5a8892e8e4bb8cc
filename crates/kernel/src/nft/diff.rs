//! From tables as they are to tables as they shall be, in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Chain, Data, Hook, Key, NatTo, Rule, Ruleset, Set, Source, Statement, Table, TableFlags, TableId, Verdict,
};
use crate::mark::Mark;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A table, empty.
    NewTable(TableId, TableFlags),
    /// A table and all in it.
    DelTable(TableId),
    /// One rule.
    DelRule {
        /// Of which table.
        table: TableId,
        /// Of which chain.
        chain: String,
        /// The kernel's number for it.
        handle: u64,
    },
    /// Elements of a set or map.
    DelElements {
        /// Of which table.
        table: TableId,
        /// Of which set.
        name: String,
        /// What the set is like, and the elements.
        set: Set,
    },
    /// A chain.
    DelChain(TableId, String),
    /// A set or map.
    DelSet(TableId, String),
    /// A set or map, without its elements.
    NewSet {
        /// Of which table.
        table: TableId,
        /// Its name.
        name: String,
        /// What it is like.
        set: Set,
    },
    /// A chain without its rules; one that is there gets the policy.
    NewChain {
        /// Of which table.
        table: TableId,
        /// Its name.
        name: String,
        /// Where it is attached.
        hook: Option<Hook>,
    },
    /// Elements of a set or map.
    AddElements {
        /// Of which table.
        table: TableId,
        /// Of which set.
        name: String,
        /// What the set is like, and the elements.
        set: Set,
    },
    /// A rule before all others of a chain. For chains of others: the diff never makes it.
    FirstRule {
        /// Of which table.
        table: TableId,
        /// Of which chain.
        chain: String,
        /// What it says.
        rule: Rule,
    },
    /// A rule at the end of a chain.
    NewRule {
        /// Of which table.
        table: TableId,
        /// Of which chain.
        chain: String,
        /// What it says.
        rule: Rule,
    },
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Changes {
    /// The generation it was planned for.
    pub generation: u32,
    /// What to do, in order, all or nothing.
    pub steps: Vec<Change>,
    /// Wanted tables whose name is not our mark's. Left alone: nothing would ever remove them.
    pub unmarked: Vec<TableId>,
}

impl Changes {
    /// Is there nothing to do?
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The difference between tables wanted and tables there.
///
/// # Guarantees
///
/// Only tables with our name are touched. Within them, rules up to the first that differs stay (with their
/// counters), elements are added and removed one by one, and a set or chain is made again only if it cannot be
/// changed. `diff(want, want)` is empty.
pub fn diff(want: &[Table], have: &Ruleset, mark: &Mark) -> Changes {
    let there: BTreeMap<TableId, &Table> =
        have.tables.iter().filter(|t| t.name == mark.nft_table).map(|t| (t.id(), t)).collect();
    let wanted: BTreeMap<TableId, &Table> = want.iter().map(|t| (t.id(), t)).collect();
    let mut changes = Changes { generation: have.generation, ..Changes::default() };
    for id in there.keys().filter(|id| !wanted.contains_key(id)) {
        changes.steps.push(Change::DelTable(id.clone()));
    }
    for (id, want) in wanted {
        match there.get(&id) {
            _ if id.name != mark.nft_table => changes.unmarked.push(id),
            Some(have) if have.flags == want.flags => Plan::new(id, want, have).steps(&mut changes.steps),
            replaced => {
                changes.steps.extend(replaced.map(|_| Change::DelTable(id.clone())));
                changes.steps.push(Change::NewTable(id.clone(), want.flags));
                let empty = Table::new(id.family, id.name.clone());
                Plan::new(id, want, &empty).steps(&mut changes.steps);
            }
        }
    }
    changes
}

/// One table's part.
struct Plan<'t> {
    id: TableId,
    want: &'t Table,
    have: &'t Table,
    /// Chains and sets that go, for good or to be made again: nothing that stays may point to them.
    gone_chains: BTreeSet<&'t str>,
    gone_sets: BTreeSet<&'t str>,
}

impl<'t> Plan<'t> {
    fn new(id: TableId, want: &'t Table, have: &'t Table) -> Plan<'t> {
        let chain_stays =
            |name: &str, chain: &Chain| want.chains.get(name).is_some_and(|w| same_place(w, chain));
        let set_stays = |name: &str, set: &Set| want.sets.get(name).is_some_and(|w| w.same_shape(set));
        let gone_chains =
            have.chains.iter().filter(|(n, c)| !chain_stays(n, c)).map(|(n, _)| n.as_str()).collect();
        let gone_sets = have.sets.iter().filter(|(n, s)| !set_stays(n, s)).map(|(n, _)| n.as_str()).collect();
        Plan { id, want, have, gone_chains, gone_sets }
    }

    /// What points comes off before what it points to goes, and on after what it points to came.
    fn steps(&self, steps: &mut Vec<Change>) {
        let table = || self.id.clone();
        for (name, chain) in &self.have.chains {
            for rule in chain.rules.iter().skip(self.kept_rules(name)) {
                let handle = rule.seen.as_ref().map_or(0, |s| s.handle);
                steps.push(Change::DelRule { table: table(), chain: name.clone(), handle });
            }
        }
        for (name, have) in &self.have.sets {
            let keep = |key: &Key, data: &Data| {
                self.want.sets.get(name).is_some_and(|w| w.elements.get(key) == Some(data))
                    && !self.leads_to_gone(data)
            };
            // A set that goes takes its elements along, but a verdict in it would hold its chain.
            let drops = |k: &Key, d: &Data| {
                !keep(k, d) && (!self.gone_sets.contains(name.as_str()) || matches!(d, Data::Verdict(_)))
            };
            if let Some(set) = part(have, drops) {
                steps.push(Change::DelElements { table: table(), name: name.clone(), set });
            }
        }
        steps.extend(self.gone_chains.iter().map(|name| Change::DelChain(table(), (*name).to_owned())));
        steps.extend(self.gone_sets.iter().map(|name| Change::DelSet(table(), (*name).to_owned())));
        for (name, set) in self.want.sets.iter().filter(|(n, _)| self.set_is_new(n)) {
            let set = Set { elements: BTreeMap::new(), ..set.clone() };
            steps.push(Change::NewSet { table: table(), name: name.clone(), set });
        }
        for (name, chain) in &self.want.chains {
            let policy = |c: &Chain| c.hook.as_ref().map(|h| h.policy);
            let stays = self.have.chains.get(name).filter(|_| !self.chain_is_new(name));
            if stays.is_none_or(|have| policy(have) != policy(chain)) {
                steps.push(Change::NewChain { table: table(), name: name.clone(), hook: chain.hook.clone() });
            }
        }
        for (name, want) in &self.want.sets {
            let have = self.have.sets.get(name).filter(|_| !self.set_is_new(name));
            let missing = |key: &Key, data: &Data| {
                have.is_none_or(|h| h.elements.get(key) != Some(data)) || self.leads_to_gone(data)
            };
            if let Some(set) = part(want, missing) {
                steps.push(Change::AddElements { table: table(), name: name.clone(), set });
            }
        }
        for (name, chain) in &self.want.chains {
            for rule in chain.rules.iter().skip(self.kept_rules(name)) {
                let rule = Rule { seen: None, ..rule.clone() };
                steps.push(Change::NewRule { table: table(), chain: name.clone(), rule });
            }
        }
    }

    fn chain_is_new(&self, name: &str) -> bool {
        !self.have.chains.contains_key(name) || self.gone_chains.contains(name)
    }

    fn set_is_new(&self, name: &str) -> bool {
        !self.have.sets.contains_key(name) || self.gone_sets.contains(name)
    }

    /// How many rules at the beginning of a chain stay as they are.
    fn kept_rules(&self, chain: &str) -> usize {
        if self.chain_is_new(chain) {
            return 0;
        }
        let (Some(want), Some(have)) = (self.want.chains.get(chain), self.have.chains.get(chain)) else {
            return 0;
        };
        let stays = |(want, have): &(&Rule, &Rule)| want == have && !self.points_to_gone(have);
        want.rules.iter().zip(&have.rules).take_while(stays).count()
    }

    fn points_to_gone(&self, rule: &Rule) -> bool {
        let mut gone = false;
        for statement in &rule.statements {
            references(statement, &mut |reference| {
                gone |= match reference {
                    Reference::Chain(name) => self.gone_chains.contains(name),
                    Reference::Set(name) => self.gone_sets.contains(name),
                }
            });
        }
        gone
    }

    fn leads_to_gone(&self, data: &Data) -> bool {
        match data {
            Data::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => {
                self.gone_chains.contains(chain.as_str())
            }
            Data::Verdict(Verdict::Accept | Verdict::Drop | Verdict::Continue | Verdict::Return)
            | Data::None
            | Data::Values(_) => false,
        }
    }
}

/// A set with only some of its elements; none if there are none.
fn part(set: &Set, pick: impl Fn(&Key, &Data) -> bool) -> Option<Set> {
    let picked = set.elements.iter().filter(|(k, d)| pick(k, d));
    let elements: BTreeMap<Key, Data> = picked.map(|(k, d)| (k.clone(), d.clone())).collect();
    (!elements.is_empty()).then(|| Set { elements, ..shape(set) })
}

fn shape(set: &Set) -> Set {
    Set {
        key: set.key.clone(),
        leads_to: set.leads_to.clone(),
        intervals: set.intervals,
        elements: BTreeMap::new(),
    }
}

/// Everything but the policy is fixed at birth.
fn same_place(a: &Chain, b: &Chain) -> bool {
    let place = |c: &Chain| c.hook.clone().map(|h| Hook { policy: super::Policy::Accept, ..h });
    place(a) == place(b)
}

pub(super) enum Reference<'s> {
    Chain(&'s str),
    Set(&'s str),
}

pub(super) fn references<'s>(statement: &'s Statement, tell: &mut impl FnMut(Reference<'s>)) {
    match statement {
        Statement::Match { source, .. } | Statement::Range { source, .. } => within(source, tell),
        Statement::Set { from, .. } => within(from, tell),
        Statement::InSet { key, set: name, .. } | Statement::VerdictMap { key, map: name } => {
            tell(Reference::Set(name));
            key.iter().for_each(|source| within(source, tell));
        }
        Statement::Nat { to, .. } => match to {
            NatTo::Address(address) => within(address, tell),
            NatTo::AddressPort(address, port) => {
                within(address, tell);
                within(port, tell);
            }
            NatTo::MappedAddressPort { key, map } => {
                tell(Reference::Set(map));
                key.iter().for_each(|source| within(source, tell));
            }
        },
        Statement::Redirect(port) => port.iter().for_each(|source| within(source, tell)),
        Statement::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => tell(Reference::Chain(chain)),
        Statement::Verdict(Verdict::Accept | Verdict::Drop | Verdict::Continue | Verdict::Return)
        | Statement::Counter
        | Statement::Limit(_)
        | Statement::Masquerade(_)
        | Statement::Notrack
        | Statement::Reject(_)
        | Statement::Unknown(_) => {}
    }
}

fn within<'s>(source: &'s Source, tell: &mut impl FnMut(Reference<'s>)) {
    match source {
        Source::Map { key, map } => {
            tell(Reference::Set(map));
            key.iter().for_each(|source| within(source, tell));
        }
        Source::Bits { of, .. } => within(of, tell),
        Source::Meta(_) | Source::Ct(_) | Source::Fib(_) | Source::Payload(_) | Source::Literal(_) => {}
    }
}
