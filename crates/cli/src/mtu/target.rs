//! Where a change shall lead, as it is said on the command line.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use netferry_core::mtu::check::{Asked, AskedChange, AskedEnds, Hosts, Plugin, Refusal, hosts_for};
use netferry_core::mtu::record::Record;

use crate::exit::Failure;
use crate::time;

#[derive(Debug, Args)]
pub(super) struct Target {
    /// The MTU pods shall have
    #[arg(long, value_name = "BYTES")]
    pub(super) to: u32,
    /// The MTU hosts shall have; without it, what they have, or what pods need with the plugin's headers if that is more
    #[arg(long, value_name = "BYTES")]
    host_to: Option<u32>,
    /// The MTU hosts have now, where they differ or have not all said it: a change that is cancelled takes them back to it
    #[arg(long, value_name = "BYTES")]
    pub(super) host_from: Option<u32>,
    /// How long a node takes to restart, for the estimate
    #[arg(long, value_name = "TIME", value_parser = time::read, default_value = "2m")]
    pub(super) restart: Duration,
    /// Find out beforehand whether the wire carries what hosts shall have: links carry it for a moment, and nobody sends
    /// more than today. Cards whose driver restarts when its size changes are away while it does
    #[arg(long)]
    pub(super) probe_underlay: bool,
    /// Go on in spite of this finding; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) accept: Vec<String>,
}

impl Target {
    /// What is asked of a cluster that this is applied to.
    pub(super) fn asked(&self, record: &Record, plugin: Plugin, hosts: &Hosts) -> Asked {
        let ends = |from, to| Some(AskedEnds { from, to: Some(to) });
        let host_to = self.host_to.unwrap_or_else(|| hosts_for(plugin, self.to, hosts));
        let network = ends(Some(record.mtu.bytes()), self.to);
        let machine = ends(self.host_from, host_to);
        Asked { mtu: None, migration: Some(AskedChange { network, machine }) }
    }
}

/// What is said to whoever asked for what is refused: why, and the option where the operator would name a field.
pub(super) fn refused(refusals: &[Refusal]) -> Failure {
    let said = |refusal: &Refusal| {
        let asks = matches!(refusal, Refusal::HostUnknown(_) | Refusal::HostsDiffer(_));
        format!("{refusal}{}", if asks { " (--host-from)" } else { "" })
    };
    let said: Vec<String> = refusals.iter().map(said).collect();
    Failure::Refused(anyhow!("{}", said.join("; ")))
}
