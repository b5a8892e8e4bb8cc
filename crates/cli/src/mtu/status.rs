//! `netferry mtu status`

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::Args;
use kube::Client;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_core::mtu::plan::{SpecEdit, missing};
use netferry_core::mtu::probe::judge::judge;
use netferry_core::mtu::record::Ends;
use netferry_core::mtu::status::Phase;
use netferry_core::rollout::progress::{Progress, progress};
use netferry_core::size::Envelope;
use netferry_translate::mtu::printed_edit;
use serde::Serialize;
use serde_json::{Value, json};

use super::seen::{Seen, SeenNode};
use crate::args::Format;
use crate::exit::Failure;
use crate::output::{self, Paint};

/// What the operator waits for that is an administrator's to do.
const AWAITED: [&str; 2] = ["AwaitingFinish", "AwaitingRemoval"];

/// Say how far a change of MTU is: phase, conditions, every node
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry mtu status
  netferry mtu status -o json | jq -r .phase")]
pub(super) struct StatusArgs {}

/// How far a change is.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) phase: &'static str,
    /// The pods' MTU that is published.
    pub(super) mtu: u32,
    pub(super) epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<Change>,
    pub(super) conditions: Vec<Condition>,
    /// Ways on which packets are lost that the change needs.
    pub(super) losses: Vec<String>,
    /// The edit of the operator's `Network` that is waited for, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) edit: Option<Value>,
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub(super) network: From,
    pub(super) machine: From,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct From {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl std::convert::From<Ends> for From {
    fn from(Ends { from, to }: Ends) -> From {
        From { from: from.bytes(), to: to.bytes() }
    }
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) pool: Option<String>,
    /// Where it is on its way; nothing where it was never told to go anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<String>,
    /// Whether it is where it is told to be; if not, why.
    pub(super) arrived: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    pub(super) pods: Option<Sizes>,
    pub(super) host: Option<Sizes>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sizes {
    pub(super) mtu: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) routable_mtu: Option<u32>,
}

impl std::convert::From<Envelope> for Sizes {
    fn from(envelope: Envelope) -> Sizes {
        let routable_mtu = envelope.pin().map(|pin| pin.bytes());
        Sizes { mtu: envelope.carries().bytes(), routable_mtu }
    }
}

impl Sizes {
    fn shown(sizes: Option<&Sizes>) -> String {
        match sizes {
            None => "-".into(),
            Some(Sizes { mtu, routable_mtu: None }) => mtu.to_string(),
            Some(Sizes { mtu, routable_mtu: Some(routes) }) => format!("{mtu} (routes {routes})"),
        }
    }
}

impl Status {
    pub(super) fn of(seen: &Seen) -> Status {
        let record = &seen.record;
        let absent = missing(&record.rendering(), &seen.facts());
        let why =
            |name: &str| absent.iter().find(|one| one.node.as_str() == name).map(|one| one.why.to_string());
        let nodes: Vec<Node> = seen.nodes.values().map(|node| node_status(seen, node, why)).collect();
        let arrived = absent.is_empty() && !nodes.is_empty();
        let ours = |kind: &str| MtuConditionType::named(kind).is_some();
        let conditions = seen.network.status.iter().flat_map(|status| &status.conditions);
        let conditions = conditions.filter(|one| ours(&one.type_)).map(|one| Condition {
            kind: one.type_.clone(),
            status: one.status.clone(),
            reason: one.reason.clone().unwrap_or_default(),
            message: one.message.clone().unwrap_or_default(),
        });
        let (uids, reports) = seen.reports();
        let probes = judge(record, &uids, &reports);
        let mut status = Status {
            phase: Phase::of(record, arrived).name(),
            mtu: record.published().bytes(),
            epoch: record.epoch,
            change: record
                .change
                .map(|change| Change { network: change.network.into(), machine: change.host.into() }),
            conditions: conditions.collect(),
            losses: probes.failed.iter().chain(&probes.losing).map(ToString::to_string).collect(),
            edit: None,
            nodes,
        };
        let awaited = status.held().is_some_and(|held| AWAITED.contains(&held.reason.as_str()));
        let finish = || printed_edit(&SpecEdit::Finish(record.published()), &seen.network.spec);
        status.edit = awaited.then(|| json!({ "spec": finish() }));
        status
    }

    fn holding(&self, kind: MtuConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|one| one.kind == kind.as_str() && one.status == "True")
    }

    /// What is refused, if something is.
    pub(super) fn refused(&self) -> Option<&str> {
        self.holding(MtuConditionType::Refused).map(|one| one.message.as_str())
    }

    /// What it waits for that does not come by itself.
    pub(super) fn held(&self) -> Option<&Condition> {
        self.holding(MtuConditionType::Held)
    }

    /// What the operator says of the change while it is under way.
    pub(super) fn in_progress(&self) -> Option<&Condition> {
        self.holding(MtuConditionType::InProgress)
    }

    /// How to make the edit that is waited for.
    pub(super) fn go_on(&self) -> Option<String> {
        let edit = self.edit.as_ref()?;
        Some(format!("kubectl patch network.operator.openshift.io cluster --type merge -p '{edit}'"))
    }

    /// Which nodes are where they are told to be.
    pub(super) fn there(&self) -> BTreeSet<String> {
        self.nodes.iter().filter(|node| node.arrived).map(|node| node.name.clone()).collect()
    }

    /// In one line.
    pub(super) fn summary(&self) -> String {
        let arrived = self.nodes.iter().filter(|node| node.arrived).count();
        match &self.change {
            None => format!("no change is under way; the MTU of pods is {}", self.mtu),
            Some(Change { network, machine }) => format!(
                "pods {} to {}, hosts {} to {}: {}, {arrived} of {} nodes there",
                network.from,
                network.to,
                machine.from,
                machine.to,
                self.phase,
                self.nodes.len()
            ),
        }
    }

    fn table(&self, paint: Paint) -> String {
        let mut text = format!("{}\n", paint.bold(&self.summary()));
        for Condition { kind, status, reason, message } in &self.conditions {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{kind:20} {status:5}  {reason}: {message}");
        }
        if let Some(command) = self.go_on() {
            let _ = writeln!(text, "go on with: {command}");
        }
        let rows: Vec<[String; 6]> = self.nodes.iter().map(Node::row).collect();
        let head = ["NODE", "POOL", "PROGRESS", "PODS", "HOST", ""].map(str::to_owned);
        let width =
            |column: usize| rows.iter().chain([&head]).map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..5).map(width).collect();
        text.push('\n');
        for row in [&head].into_iter().chain(&rows) {
            let cells: Vec<String> = row
                .iter()
                .zip(widths.iter().chain([&0]))
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        }
        text
    }
}

impl Node {
    fn row(&self) -> [String; 6] {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let (pods, host) = (Sizes::shown(self.pods.as_ref()), Sizes::shown(self.host.as_ref()));
        let why = self.why.clone().unwrap_or_default();
        [self.name.clone(), known(&self.pool), known(&self.progress), pods, host, why]
    }
}

fn node_status(seen: &Seen, node: &SeenNode, why: impl Fn(&str) -> Option<String>) -> Node {
    let machine = &node.machine;
    let pool = seen.pools.iter().find(|pool| Some(&pool.pool.name) == node.pool.as_ref());
    let progress = pool.map_or(Progress::Waiting, |pool| {
        progress(&pool.pool, &machine.node, machine.asked.as_ref(), machine.fulfilled.as_ref())
    });
    let name = machine.node.name.to_string();
    // Nobody has to arrive anywhere where nothing was ever told.
    let told = seen.record.change.is_some() || node.pool.is_some();
    let why = node.wrong.clone().or_else(|| why(&name)).filter(|_| told);
    let observed = node.facts.observed;
    Node {
        arrived: why.is_none(),
        progress: told.then(|| progress.to_string()),
        pool: node.pool.clone(),
        why,
        pods: observed.and_then(|observed| observed.network).map(Sizes::from),
        host: observed.map(|observed| observed.host.into()),
        name,
    }
}

/// Whether no change is under way, and none is asked for.
pub(super) fn ended(seen: &Seen) -> bool {
    let asked = seen.network.spec.migration.as_ref().and_then(|migration| migration.mtu.as_ref());
    seen.record.change.is_none() && asked.is_none()
}

pub(super) async fn show(client: &Client, namespace: &str, format: Format) -> Result<(), Failure> {
    let status = Status::of(&Seen::read(client, namespace).await?);
    output::answer(format, &status, |paint| status.table(paint))
}
