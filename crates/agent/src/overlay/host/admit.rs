//! Letting the overlay's packets pass where somebody else's filter would drop them.
//!
//! A packet passes a hook only if every chain there lets it pass; what one drops no other can take back. Where a
//! container engine, a firewall or an administrator has forwarded packets dropped unless allowed, the allowance has to
//! stand in *that* chain. It carries our mark as its comment, comes back when it is removed, and goes when the chain
//! does not drop any more, or with us.
//!
//! Chains of the older packet filter (`iptables-legacy`) are not part of nftables and cannot be reached here. Neither can
//! a table that belongs to a running program (`flags owner`, as firewalld's on newer systems): the kernel lets nobody
//! else write into it, and one rule for it would have the whole transaction refused. Such tables are left to their
//! owners, and named.

use std::collections::BTreeSet;

use netferry_kernel::nft::{
    Chain, Change, Changes, HookKind, HookPoint, Policy, Rule, Ruleset, Statement, Table, TableFamily,
    TableId, Verdict,
};
use netferry_kernel::{Error, Kernel, Mark, Objects, Result};

use crate::ownership::GUARD_TABLE;

/// The comment of our rules in chains of others.
pub const COMMENT: &str = "netferry";

/// How often to begin again when somebody else changed the same chain at the same moment.
const PATIENCE: usize = 16;

/// What became of the chains of others.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Done {
    /// How many changes it took.
    pub steps: usize,
    /// Tables with a chain that drops what is forwarded, which only their owners can change.
    pub closed: BTreeSet<TableId>,
}

/// Has these rules, and no others of ours, in every chain of others that drops what is forwarded and can be changed.
pub fn converge(kernel: &Kernel, rules: &[Rule]) -> Result<Done> {
    let nft = kernel.nft();
    let mut tries = 0;
    loop {
        let have = nft.observe_at(HookPoint::Forward)?;
        let changes = diff(rules, &have);
        match nft.apply(&changes) {
            Ok(()) => return Ok(Done { steps: changes.steps.len(), closed: closed(&have) }),
            Err(Error::Stale { .. }) if tries < PATIENCE => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// What must be done so. Pure.
pub fn diff(rules: &[Rule], have: &Ruleset) -> Changes {
    let rules: Vec<Rule> = rules.iter().map(|rule| rule.clone().comment(COMMENT)).collect();
    let mut changes = Changes { generation: have.generation, ..Changes::default() };
    for table in foreign(have).filter(|table| !table.flags.owner) {
        let id = id(table);
        for (name, chain) in &table.chains {
            let wanted: &[Rule] = if drops(chain) { &rules } else { &[] };
            let ours = || chain.rules.iter().filter(is_marked);
            let in_time = chain.rules.iter().take_while(|rule| !ends(rule)).filter(is_marked);
            if in_time.eq(wanted) && ours().count() == wanted.len() {
                continue;
            }
            for rule in ours() {
                let handle = rule.seen.as_ref().map_or(0, |seen| seen.handle);
                changes.steps.push(Change::DelRule { table: id.clone(), chain: name.clone(), handle });
            }
            // Each goes before all others, so the last comes first.
            changes.steps.extend(wanted.iter().rev().map(|rule| Change::FirstRule {
                table: id.clone(),
                chain: name.clone(),
                rule: rule.clone(),
            }));
        }
    }
    changes
}

/// Tables that drop what is forwarded and that nobody but their owner can change. Pure.
fn closed(have: &Ruleset) -> BTreeSet<TableId> {
    let owned = foreign(have).filter(|table| table.flags.owner);
    owned.filter(|table| table.chains.values().any(drops)).map(id).collect()
}

fn foreign(have: &Ruleset) -> impl Iterator<Item = &Table> {
    have.tables.iter().filter(|table| is_foreign(table.family, &table.name))
}

fn id(table: &Table) -> TableId {
    TableId { family: table.family, name: table.name.clone() }
}

/// May a change of this table be one of such a chain?
pub fn is_foreign(family: TableFamily, name: &str) -> bool {
    let routed = matches!(family, TableFamily::Inet | TableFamily::Ip | TableFamily::Ip6);
    routed && name != Mark::default().nft_table && name != GUARD_TABLE
}

fn is_marked(rule: &&Rule) -> bool {
    rule.comment.as_deref() == Some(COMMENT)
}

/// Does what reaches the end of the chain end there? Rules that drop something are somebody's decision about that.
fn drops(chain: &Chain) -> bool {
    let hook = chain.hook.as_ref();
    hook.is_some_and(|hook| hook.kind == HookKind::Filter)
        && (hook.is_some_and(|hook| hook.policy == Policy::Drop) || chain.rules.iter().any(ends))
}

/// Is this where every packet that comes so far ends?
fn ends(rule: &Rule) -> bool {
    let mut statements = rule.statements.iter().filter(|s| !matches!(s, Statement::Counter));
    let only = statements.next();
    let end = matches!(only, Some(Statement::Verdict(Verdict::Drop) | Statement::Reject(_)));
    end && statements.next().is_none()
}
