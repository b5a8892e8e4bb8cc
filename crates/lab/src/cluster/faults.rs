//! Faults of the fabric that a rule of its switches makes.

use netferry_kernel::nft::{Chain, Compare, HookKind, HookPoint, Meta, Rule, Source, Table, TableFamily};
use netferry_kernel::{IfName, Kernel, Mark, Objects};

use crate::error::{During, Result};
use crate::protocol::Fault;

/// Makes the switches' rules what the faults ask for. `port` is where somebody is plugged in on a network, if they are.
pub(super) fn settle(
    switches: &Kernel,
    faults: &[Fault],
    port: impl Fn(&str, u8) -> Option<IfName>,
) -> Result<()> {
    let rules: Vec<Rule> = faults.iter().flat_map(|fault| rules(fault, &port)).collect();
    let table = Table::new(TableFamily::Bridge, Mark::default().nft_table)
        .chain("forward", Chain::at(HookKind::Filter, HookPoint::Forward, 0, rules));
    let nft = switches.nft();
    nft.converge(&[table], &Mark::default()).during("setting the switches' rules")?;
    Ok(())
}

fn rules(fault: &Fault, port: &impl Fn(&str, u8) -> Option<IfName>) -> Vec<Rule> {
    match fault {
        // The port is switched off.
        Fault::Cut { .. } => vec![],
        Fault::Part { a, b, network } => match (port(a, *network), port(b, *network)) {
            (Some(a), Some(b)) => between(&a, &b).map(Rule::drop).into(),
            (None, _) | (_, None) => vec![],
        },
        Fault::Lose { end, peer, network, of_a_million } => {
            let Some(end) = port(end, *network) else { return vec![] };
            let both = match peer {
                None => [Rule::new().iifname(&end), Rule::new().oifname(&end)],
                Some(peer) => match port(peer, *network) {
                    Some(peer) => between(&end, &peer),
                    None => return vec![],
                },
            };
            both.map(|rule| sometimes(rule, *of_a_million).drop()).into()
        }
    }
}

fn between(a: &IfName, b: &IfName) -> [Rule; 2] {
    [Rule::new().iifname(a).oifname(b), Rule::new().iifname(b).oifname(a)]
}

fn sometimes(rule: Rule, of_a_million: u32) -> Rule {
    if of_a_million >= 1_000_000 {
        return rule;
    }
    let below = u64::from(of_a_million) * (u64::from(u32::MAX) + 1) / 1_000_000;
    let below = u32::try_from(below).unwrap_or(u32::MAX);
    // Comparisons by size are made byte by byte, the most significant first.
    rule.matches(Source::Meta(Meta::Random), Compare::Less, below.to_be_bytes())
}
