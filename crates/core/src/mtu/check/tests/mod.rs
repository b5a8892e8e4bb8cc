mod edits;
mod equipment;
mod numbers;

use super::*;
use crate::fixtures::mtu;
use crate::mtu::equipment::Equipped;
use crate::mtu::record::{Change, Record, Stage};
use crate::name::NodeName;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

const OVN: Plugin = Plugin::OvnKubernetes(Transport::Geneve);

fn asked(from: Option<u32>, to: Option<u32>, machine: Option<u32>) -> Asked {
    let network = Some(AskedEnds { from, to });
    let machine = Some(AskedEnds { from: None, to: machine });
    Asked { mtu: None, migration: Some(AskedChange { network, machine }) }
}

fn change(from: u32, to: u32, machine: u32) -> Asked {
    asked(Some(from), Some(to), Some(machine))
}

fn hosts(sizes: &[(&str, u32)]) -> Hosts {
    sizes.iter().map(|(name, size)| (node(name), Some(mtu(*size)))).collect()
}

/// Reads an edit where nothing is known of cards.
fn read(cluster: &Cluster, record: &Record, hosts: &Hosts, asked: &Asked) -> Result<Wanted, Vec<Refusal>> {
    super::read(cluster, record, Fleet { hosts, equipped: &Equipped::new() }, asked)
}

fn spreading(record: &Record) -> (u32, u32, u32, u32) {
    let Some(Change { network, host, stage: Stage::Spreading { finish: false }, .. }) = record.change else {
        panic!("not in phase one: {record:?}")
    };
    (network.from.bytes(), network.to.bytes(), host.from.bytes(), host.to.bytes())
}
