//! `netferry mtu plan` and `netferry mtu apply`

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use kube::{Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::{MtuOnLoss, MtuUnattended};
use netferry_core::mtu::check::{Fleet, read};
use netferry_core::mtu::equipment::Equipped;
use netferry_core::mtu::outline::{Outline, Pace, outline, stale};
use netferry_core::mtu::plan::{SpecEdit, hosts};
use netferry_core::mtu::preflight::{Finding, still_noted};
use netferry_core::mtu::record::Change;
use netferry_translate::mtu::printed_edit;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::against;
use super::edit::{TRIES, edit, overtaken};
use super::kept::Kept;
use super::preflight::findings;
use super::seen::{Seen, network};
use super::status::Status;
use super::target::{Target, refused};
use super::unserved;
use super::watch::{EVERY, Followed, follow};
use crate::args::Format;
use crate::exit::Failure;
use crate::output::{self, Paint};

/// Show what a change would do to every node, and what speaks against it; change nothing
///
/// With --probe-underlay links carry more for a moment, and then what they did.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 3 if it would be refused. What speaks against it is part of the plan, which is printed all the same.

Examples:
  netferry mtu plan --to 8900 --host-to 9000
  netferry mtu plan --to 8900 --host-to 9000 --probe-underlay
  netferry mtu plan --to 8900 --host-to 9000 --host-from 1500
  netferry mtu plan --to 8900 --host-to 9000 -o json > plan.json")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    target: Target,
}

/// Begin a change of MTU, if nothing speaks against it
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 3 if it is refused, or the cluster is no longer as it was when the plan was made; nothing was changed then.
With --wait, 1 if the change does not end at --to: it was turned around, by itself or by somebody.

Examples:
  netferry mtu apply --to 8900 --host-to 9000 --unattended --wait
  netferry mtu apply --to 8900 --host-to 9000 --plan plan.json
  netferry mtu apply --to 8900 --host-to 9000 --accept Budget/shop/web")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    target: Target,
    /// A plan made with `netferry mtu plan -o json`: refuse if the cluster has drifted from it, or --probe-underlay found
    /// something then and was not given again
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Begin phase two without asking, once every node was observed in phase one
    #[arg(long)]
    unattended: bool,
    /// What to do when packets are lost; without it, turn around if the new size does not get through, else pause
    #[arg(long, value_enum)]
    on_loss: Option<OnLoss>,
    /// Follow the change until it has ended
    #[arg(long)]
    wait: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLoss {
    /// Take no further node
    Pause,
    /// Turn around
    Reverse,
}

/// A change that would be accepted, as it would go.
struct Plan {
    seen: Seen,
    change: Change,
    outline: Outline,
    findings: Vec<Finding>,
}

/// Nodes try each other within moments of coming up; a plan that is made in such a moment waits for it.
const TRYING: Duration = Duration::from_secs(30);

async fn make(client: &Client, namespace: &str, target: &Target) -> Result<Plan, Failure> {
    let end = Instant::now() + TRYING;
    loop {
        let plan = made(client, namespace, target).await?;
        let untried = plan.findings.iter().any(|finding| matches!(finding, Finding::Untried(_)));
        if !untried || Instant::now() >= end {
            return Ok(plan);
        }
        sleep(EVERY).await;
    }
}

async fn made(client: &Client, namespace: &str, target: &Target) -> Result<Plan, Failure> {
    let network = network(client).await?;
    unserved::refuse(&network)?;
    let seen = Seen::beside(network, client, namespace).await?;
    if let Some(running) = seen.record.change {
        let (from, to) = (running.network.from, running.network.to);
        return Err(Failure::Refused(anyhow!(
            "the MTU is being changed from {from} to {to}; let it end (netferry mtu watch), or take it back \
             (netferry mtu cancel)"
        )));
    }
    let facts = seen.facts();
    let hosts = hosts(&facts);
    // What hosts are able to do is a finding of its own, with a name.
    let fleet = Fleet { hosts: &hosts, equipped: &Equipped::new() };
    let asked = target.asked(&seen.record, seen.cluster.plugin, &hosts);
    let wanted = read(&seen.cluster, &seen.record, fleet, &asked).map_err(|all| refused(&all))?;
    let change = wanted.change.ok_or_else(|| anyhow!("nothing would change"))?;
    let observed: BTreeMap<_, _> = facts.iter().map(|(name, node)| (name.clone(), node.observed)).collect();
    let pools: Vec<Pace> = paces(&seen);
    let outline = outline(&seen.record, change, &observed, &pools, target.restart);
    let findings = findings(client, &seen, &change).await?;
    Ok(Plan { seen, change, outline, findings })
}

/// How fast pools go; the nodes of no pool, one at a time.
pub(super) fn paces(seen: &Seen) -> Vec<Pace> {
    let of = |name: Option<&str>| -> Vec<_> {
        let members = seen.nodes.iter().filter(|(_, node)| node.pool.as_deref() == name);
        members.map(|(name, _)| name.clone()).collect()
    };
    let pools = seen.pools.iter().map(|pool| {
        let nodes = of(Some(&pool.pool.name));
        Pace { at_once: pool.pool.limit(nodes.len()), nodes }
    });
    pools.chain([Pace { nodes: of(None), at_once: 1 }]).collect()
}

pub(super) async fn plan(
    client: &Client,
    namespace: &str,
    args: &PlanArgs,
    format: Format,
) -> Result<(), Failure> {
    let mut plan = make(client, namespace, &args.target).await?;
    if args.target.probe_underlay {
        plan.findings.extend(underlay(client, &plan).await?);
    }
    let kept = Kept::new(&plan.seen.record, &plan.outline, &plan.findings);
    output::answer(format, &kept, |paint| table(&plan, &args.target.accept, paint))?;
    against::foretell(plan.findings, &args.target.accept)
}

/// Tries what the wire carries, unless what was found already has to be mended first.
async fn underlay(client: &Client, plan: &Plan) -> Result<Vec<Finding>, Failure> {
    match plan.findings.iter().all(Finding::may_be_accepted) {
        true => super::underlay::probe(client, &plan.change.host, plan.seen.facts().into_keys()).await,
        false => Ok(Vec::new()),
    }
}

fn table(plan: &Plan, accept: &[String], paint: Paint) -> String {
    let Outline { change, phases, estimate, .. } = &plan.outline;
    let mut text = format!(
        "pods {} to {}, hosts {} to {}: {} restarts, about {} min\n",
        change.network.from,
        change.network.to,
        change.host.from,
        change.host.to,
        plan.outline.restarts(),
        estimate.as_secs().div_ceil(60)
    );
    // Writing to a String cannot fail.
    for (at, phase) in phases.iter().enumerate() {
        let _ = writeln!(text, "\n{}", paint.bold(&format!("phase {}", ["one", "two"][at.min(1)])));
        let width = phase.nodes.keys().map(|name| name.as_str().len()).max().unwrap_or(0);
        for (name, node) in &phase.nodes {
            let restarts = if node.restarts { "restarts" } else { "stays up" };
            let (pods, host) = (node.pods, node.host);
            let name = name.as_str();
            let _ = writeln!(
                text,
                "{name:width$}  {restarts}  pods {} -> {}, host {} -> {}",
                pods.0, pods.1, host.0, host.1
            );
        }
    }
    for finding in &plan.findings {
        let name = finding.name();
        let how = match (finding.may_be_accepted(), accept.contains(&name)) {
            (true, true) => paint.yellow("accepted:"),
            (true, false) => paint.yellow("accept with"),
            (false, _) => paint.red("mend"),
        };
        let _ = writeln!(text, "\n{finding}\n  {how} {name}");
    }
    text
}

pub(super) async fn apply(
    client: &Client,
    namespace: &str,
    args: &ApplyArgs,
    format: Format,
) -> Result<(), Failure> {
    let kept = args.plan.as_deref().map(load).transpose()?;
    let made = async || {
        let plan = make(client, namespace, &args.target).await?;
        kept.as_ref().map_or(Ok(()), |kept| holds(kept, &plan, args))?;
        Ok::<Plan, Failure>(plan)
    };
    // It takes minutes, so what else speaks against the change is looked at after it.
    let tried = match args.target.probe_underlay {
        true => Some(underlay(client, &made().await?).await?),
        false => None,
    };
    for _ in 0..TRIES {
        let mut plan = made().await?;
        plan.findings.extend(tried.iter().flatten().cloned());
        let noted = kept.as_ref().map(Kept::noted).unwrap_or_default();
        plan.findings.extend(still_noted(noted, tried.is_some()));
        let patch = patch(&plan, args);
        let (refused, paused) = (Status::of(&plan.seen).refused().map(str::to_owned), plan.seen.paused());
        against::refuse(plan.findings, &args.target.accept)?;
        if edit(client, &patch).await? {
            return match (args.wait, paused) {
                (true, _) => {
                    let what = Followed { timeout: None, to: Some(args.target.to), refused };
                    follow(client, namespace, &what, format).await
                }
                (false, true) => {
                    output::print("asked for, but paused: no node is taken until netferry mtu resume\n")
                }
                (false, false) => output::print("asked for; follow it with netferry mtu watch\n"),
            };
        }
    }
    Err(overtaken())
}

/// Refuses a plan that was kept if the cluster has drifted from it.
fn holds(kept: &Kept, plan: &Plan, args: &ApplyArgs) -> Result<(), Failure> {
    let drifted = stale(&kept.outline(args.target.restart)?, &plan.outline);
    if drifted.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = drifted.iter().map(ToString::to_string).collect();
    Err(Failure::Refused(anyhow!("the plan no longer holds: {}", said.join("; "))))
}

/// The edit that asks for it.
fn patch(plan: &Plan, args: &ApplyArgs) -> Value {
    let Change { network, host, .. } = plan.change;
    let machine_from = args.target.host_from.map(|_| host.from);
    let ask = SpecEdit::Migrate { from: network.from, to: network.to, machine_from, machine_to: host.to };
    let on_loss = args.on_loss.map(|on_loss| match on_loss {
        OnLoss::Pause => MtuOnLoss::Pause.to_string(),
        OnLoss::Reverse => MtuOnLoss::Reverse.to_string(),
    });
    let unattended = args.unattended.then(|| MtuUnattended::from(true).to_string());
    json!({
        "metadata": {
            // For the version this was decided for: nobody edited it meanwhile.
            "resourceVersion": plan.seen.network.resource_version(),
            "annotations": { MtuUnattended::KEY: unattended, MtuOnLoss::KEY: on_loss },
        },
        "spec": printed_edit(&ask, &plan.seen.network.spec),
    })
}

fn load(path: &Path) -> Result<Kept, Failure> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the plan {}", path.display()))?;
    Ok(serde_json::from_str(&text).with_context(|| format!("the plan {}", path.display()))?)
}
