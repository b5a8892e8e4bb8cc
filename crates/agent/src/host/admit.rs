//! Letting the overlay's packets pass where somebody else's filter would drop them.
//!
//! A packet passes a hook only if every chain there lets it pass; what one drops no other can take back. Where a
//! container engine, a firewall or an administrator has forwarded packets dropped unless allowed, the allowance has to
//! stand in *that* chain. It carries our mark as its comment, comes back when it is removed, and goes when the chain
//! does not drop any more, or with us.
//!
//! Chains of the older packet filter (`iptables-legacy`) are not part of nftables and cannot be reached here.

use netferry_kernel::nft::{
    Chain, Change, Changes, HookKind, HookPoint, Policy, Rule, Ruleset, Statement, TableFamily, TableId,
    Verdict,
};
use netferry_kernel::{Error, Kernel, Mark, Objects, Result};

use super::guard;

/// The comment of our rules in chains of others.
pub const COMMENT: &str = "netferry";

/// How often to begin again when somebody else changed the same chain at the same moment.
const PATIENCE: usize = 16;

/// Has these rules, and no others of ours, in every chain of others that drops what is forwarded. Answers how many
/// changes that took.
pub fn converge(kernel: &Kernel, rules: &[Rule]) -> Result<usize> {
    let nft = kernel.nft();
    let mut tries = 0;
    loop {
        let changes = diff(rules, &nft.observe_at(HookPoint::Forward)?);
        match nft.apply(&changes) {
            Ok(()) => return Ok(changes.steps.len()),
            Err(Error::Stale { .. }) if tries < PATIENCE => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// What must be done so. Pure.
pub fn diff(rules: &[Rule], have: &Ruleset) -> Changes {
    let rules: Vec<Rule> = rules.iter().map(|rule| rule.clone().comment(COMMENT)).collect();
    let mut changes = Changes { generation: have.generation, ..Changes::default() };
    for table in have.tables.iter().filter(|table| is_foreign(table.family, &table.name)) {
        let id = TableId { family: table.family, name: table.name.clone() };
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

/// May a change of this table be one of such a chain?
pub fn is_foreign(family: TableFamily, name: &str) -> bool {
    let routed = matches!(family, TableFamily::Inet | TableFamily::Ip | TableFamily::Ip6);
    routed && name != Mark::default().nft_table && name != guard::TABLE
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
