//! What switches of the fabric lose: packets larger than it carries, and those that faults ask for.

use netferry_kernel::nft::{
    Base, Chain, Compare, HookKind, HookPoint, Meta, Payload, Rule, Source, Table, TableFamily,
};
use netferry_kernel::{IfName, Kernel, Mark, Objects};

use crate::error::{During, Result};
use crate::protocol::Fault;

/// Makes the switches' rules what the faults ask for, and lets them carry `mtu`. `port` is where somebody is plugged in on a
/// network, if they are.
pub(super) fn settle(
    switches: &Kernel,
    mtu: u32,
    faults: &[Fault],
    port: impl Fn(&str, u8) -> Option<IfName>,
) -> Result<()> {
    let rules: Vec<Rule> =
        too_large(mtu).into_iter().chain(faults.iter().flat_map(|fault| rules(fault, &port))).collect();
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

/// By the length that the packet itself says, which unlike the kernel's can be compared: its first byte comes first.
fn too_large(mtu: u32) -> [Rule; 2] {
    /// The length of an IPv6 packet leaves out its first header.
    const HEADER: u32 = 40;
    let length = |ether_type: [u8; 2], offset, most: u32| {
        let length = Source::Payload(Payload { base: Base::Network, offset, length: 2 });
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        let rule = Rule::new().matches(Source::Meta(Meta::EtherType), Compare::Equal, ether_type);
        rule.matches(length, Compare::Greater, most.to_be_bytes()).drop()
    };
    [length([0x08, 0x00], 2, mtu), length([0x86, 0xdd], 4, mtu.saturating_sub(HEADER))]
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
