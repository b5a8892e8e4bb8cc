//! `netferry mtu verify`

use std::fmt::Write;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use kube::Client;
use netferry_core::mtu::paths::judge::{Measured, judge};
use netferry_core::mtu::probe::verify::{Row, Wrong, verify as compare};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::paths::show::{Path, table};
use super::paths::{self, PathsArgs};
use super::seen::Seen;
use super::watch::EVERY;
use crate::args::Format;
use crate::exit::Failure;
use crate::output::{self, Paint};
use crate::time;

/// Compare the MTU that is configured with what really gets through, on every kind of path
///
/// Nodes try each other all the time, with packets that nobody may cut up, between their hosts and through the pod
/// network, in every family they have: that is shown first. Then pods are put on every node, in a namespace of their own,
/// and measure from pods and hosts to pods, hosts, Services and ports of nodes, there and back, what is sent and how much
/// of it arrives. They are removed again, however it ends.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 1 if something is not as it is configured, less gets through than is sent, or packets are lost; 4 if pods that
measure did not start in time.

Examples:
  netferry mtu verify
  netferry mtu verify --outside 192.0.2.1
  netferry mtu verify --reported --wait 1m -o json | jq .problems")]
pub(super) struct VerifyArgs {
    /// Wait for so long until all that nodes found out by themselves is as it should be
    #[arg(long, value_name = "TIME", value_parser = time::read)]
    wait: Option<Duration>,
    #[command(flatten)]
    paths: PathsArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    /// The pods' MTU that every node is to hold.
    mtu: u32,
    ways: Vec<Way>,
    paths: Vec<Path>,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Way {
    node: String,
    way: &'static str,
    configured: u32,
    uses: u32,
    passes: u32,
}

impl Verdict {
    fn of(seen: &Seen) -> Verdict {
        let (rows, wrongs) = compare(&seen.record, &seen.known());
        Verdict {
            mtu: seen.record.anchor().0.bytes(),
            ways: rows.into_iter().map(Way::of).collect(),
            paths: Vec::new(),
            problems: wrongs.iter().map(Wrong::to_string).collect(),
        }
    }

    fn add(&mut self, seen: &Seen, measured: &[Measured]) {
        self.problems
            .extend(measured.iter().flat_map(|one| judge(&seen.record, one)).map(|wrong| wrong.to_string()));
        self.paths.extend(measured.iter().map(|one| Path::of(&seen.record, one)));
    }

    fn table(&self, paint: Paint) -> String {
        let wide = self.ways.iter().map(|way| way.node.len()).max().unwrap_or(0).max("NODE".len());
        let head =
            format!("{:wide$}  {:10}  {:>10}  {:>5}  {:>6}", "NODE", "WAY", "CONFIGURED", "USES", "PASSES");
        let mut text = format!("{}\n", paint.bold(&head));
        // Writing to a String cannot fail.
        for Way { node, way, configured, uses, passes } in &self.ways {
            let _ = writeln!(text, "{node:wide$}  {way:10}  {configured:>10}  {uses:>5}  {passes:>6}");
        }
        if !self.paths.is_empty() {
            let _ = write!(text, "\n{}", table(&self.paths, paint));
        }
        for problem in &self.problems {
            let _ = writeln!(text, "{}", paint.red(problem));
        }
        text
    }
}

impl Way {
    fn of(row: Row) -> Way {
        Way {
            node: row.node.to_string(),
            way: row.way.name(),
            configured: row.configured.bytes(),
            uses: row.uses.bytes(),
            passes: row.passes.bytes(),
        }
    }
}

pub(super) async fn verify(
    client: &Client,
    namespace: &str,
    args: &VerifyArgs,
    format: Format,
) -> Result<(), Failure> {
    let end = Instant::now() + args.wait.unwrap_or_default();
    let (seen, mut verdict) = loop {
        let seen = Seen::read(client, namespace).await?;
        let verdict = Verdict::of(&seen);
        if verdict.problems.is_empty() || Instant::now() >= end {
            break (seen, verdict);
        }
        sleep(EVERY).await;
    };
    if args.paths.wanted() {
        let (up, away): (Vec<_>, Vec<_>) = seen.nodes.iter().partition(|(_, node)| node.machine.node.is_up());
        let away =
            away.into_iter().map(|(name, _)| format!("node {name} is not ready: no path of it is measured"));
        verdict.problems.extend(away);
        let nodes = up.into_iter().map(|(name, _)| name.clone()).collect();
        let pods = seen.record.anchor().0;
        let measured = paths::measure(client, namespace, nodes, pods, &args.paths).await?;
        verdict.add(&seen, &measured);
    }
    output::answer(format, &verdict, |paint| verdict.table(paint))?;
    match verdict.problems.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::Failed(anyhow!("{one}"))),
        [first, rest @ ..] => Err(Failure::Failed(anyhow!("{first}; and {} more", rest.len()))),
    }
}
