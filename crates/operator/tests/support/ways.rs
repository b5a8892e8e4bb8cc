//! What machines find when they try the ways between them, by the ledger that ships.

use std::collections::BTreeMap;
use std::time::Duration;

use netferry_core::mtu::boot::Booted;
use netferry_core::name::NodeName;
use netferry_core::probe::ledger::{Aim, Answers, Ledger};
use netferry_core::probe::{All, Loss, Narrow, Report, Roll, Way};

use super::machine::Seen;

/// What trying the ways to all others comes to on this machine.
pub(crate) fn found(seen: &Seen, name: &str, booted: &Booted) -> Report {
    let all = seen.known.values().all(|(_, epoch)| *epoch == Some(booted.epoch));
    let names: Vec<(NodeName, &String)> =
        seen.known.iter().map(|(name, (uid, _))| (node_name(name), uid)).collect();
    let roll = all.then(|| Roll::of(names.iter().map(|(name, uid)| (name, uid.as_str()))));
    let all = roll.map(|roll| All { roll, widths: BTreeMap::new() });
    let narrow = seen.narrow.iter().filter(|(from, _, _)| from == name).filter_map(|(_, to, passes)| {
        let tried = seen.serving.get(to)?.1.carries().min(booted.host.carries());
        (tried > *passes).then_some(Narrow {
            to: node_name(to),
            way: way("hosts-ipv4"),
            tried,
            passes: *passes,
        })
    });
    let lossy = seen.lossy.iter().filter(|(from, _, _)| from == name);
    let losses = lossy.flat_map(|(_, to, lost)| losses(booted, to, *lost));
    Report { epoch: booted.epoch, all, narrow: narrow.collect(), losses: losses.collect() }
}

/// What the ledger says of a way on which so many of the last twenty trials were lost.
fn losses(booted: &Booted, to: &str, lost: u32) -> Vec<Loss> {
    let (to, way, mut ledger) = (node_name(to), way("pods-ipv4"), Ledger::default());
    let network = booted.network.expect("it serves pods");
    let aim = Aim { size: network.carries(), usual: network.sends() };
    for trial in 0..20 {
        let size = ledger.next(&to, way, aim);
        // Were it the large ones, the way would be too narrow.
        ledger.enter(&to, way, size, Answers { small: trial >= lost, large: true }, Duration::ZERO);
    }
    ledger.losses(Duration::ZERO).collect()
}

fn way(word: &str) -> Way {
    Way::named(word).expect("it is a way")
}

fn node_name(name: &str) -> NodeName {
    NodeName::new(name).expect("a machine's name is a node's")
}
