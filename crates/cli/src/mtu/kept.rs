//! A plan that is kept in a file: what was shown, and what it was made from.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use netferry_core::mtu::outline::{Outline, outline};
use netferry_core::mtu::plan::Observed;
use netferry_core::mtu::preflight::{Finding, Noted};
use netferry_core::mtu::record::{Change, Ends, Record, Stage};
use netferry_core::name::NodeName;
use netferry_core::size::{Envelope, Mtu};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The form this program writes and reads.
const VERSION: u32 = 1;

/// A plan, as a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kept {
    version: u32,
    /// The epoch it was made at.
    epoch: u64,
    network: FromTo,
    machine: FromTo,
    restarts: usize,
    estimate_seconds: u64,
    /// Every node: before, in phase one, in phase two.
    nodes: BTreeMap<String, Vec<Runs>>,
    findings: Vec<Found>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct FromTo {
    from: u32,
    to: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Runs {
    pods: Sizes,
    host: Sizes,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sizes {
    mtu: u32,
    routable_mtu: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Found {
    name: String,
    message: String,
    acceptable: bool,
    /// Whether only a trial of the wire finds it.
    trial: bool,
}

impl Sizes {
    fn of(envelope: Envelope) -> Sizes {
        Sizes { mtu: envelope.carries().bytes(), routable_mtu: envelope.sends().bytes() }
    }

    fn envelope(self) -> Result<Envelope, Failure> {
        let size = |bytes| Mtu::new(bytes).context("a size in the plan");
        Ok(Envelope::spanning(size(self.mtu)?, size(self.routable_mtu)?))
    }
}

impl FromTo {
    fn of(ends: Ends) -> FromTo {
        FromTo { from: ends.from.bytes(), to: ends.to.bytes() }
    }

    fn ends(self) -> Result<Ends, Failure> {
        let size = |bytes| Mtu::new(bytes).context("a size in the plan");
        Ok(Ends { from: size(self.from)?, to: size(self.to)? })
    }
}

impl Kept {
    pub(super) fn new(record: &Record, outline: &Outline, findings: &[Finding]) -> Kept {
        let mut nodes: BTreeMap<String, Vec<Runs>> = BTreeMap::new();
        for (at, phase) in outline.phases.iter().enumerate() {
            for (name, node) in &phase.nodes {
                let runs = |pods, host| Runs { pods: Sizes::of(pods), host: Sizes::of(host) };
                let steps = nodes.entry(name.to_string()).or_default();
                if at == 0 {
                    steps.push(runs(node.pods.0, node.host.0));
                }
                steps.push(runs(node.pods.1, node.host.1));
            }
        }
        let findings = findings.iter().map(|finding| Found {
            name: finding.name(),
            message: finding.to_string(),
            acceptable: finding.may_be_accepted(),
            trial: finding.is_by_trial(),
        });
        Kept {
            version: VERSION,
            epoch: record.epoch,
            network: FromTo::of(outline.change.network),
            machine: FromTo::of(outline.change.host),
            restarts: outline.restarts(),
            estimate_seconds: outline.estimate.as_secs(),
            nodes,
            findings: findings.collect(),
        }
    }

    /// What spoke against it when it was made.
    pub(super) fn noted(&self) -> Vec<Noted> {
        let noted = |found: &Found| Noted {
            name: found.name.clone(),
            said: found.message.clone(),
            acceptable: found.acceptable,
            by_trial: found.trial,
        };
        self.findings.iter().map(noted).collect()
    }

    /// The outline it was made from.
    pub(super) fn outline(&self, restart: Duration) -> Result<Outline, Failure> {
        if self.version != VERSION {
            let version = self.version;
            let wrong = anyhow::anyhow!("the plan has version {version}, this program understands {VERSION}");
            return Err(Failure::Refused(wrong));
        }
        let (network, host) = (self.network.ends()?, self.machine.ends()?);
        let change = Change { network, host, stage: Stage::Spreading { finish: false }, back: false };
        let record = Record { epoch: self.epoch, ..Record::settled(network.from) };
        let mut nodes = BTreeMap::new();
        for (name, runs) in &self.nodes {
            let name = NodeName::new(name.clone()).context("a node in the plan")?;
            let observed = match runs.first() {
                None => None,
                Some(Runs { pods, host }) => Some(Observed {
                    epoch: self.epoch,
                    network: Some(pods.envelope()?),
                    host: host.envelope()?,
                }),
            };
            nodes.insert(name, observed);
        }
        Ok(outline(&record, change, &nodes, &[], restart))
    }
}
