//! `netferry mtu verify`

use std::fmt::Write;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use kube::Client;
use netferry_core::mtu::probe::verify::{Row, Wrong, verify as compare};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::seen::Seen;
use super::watch::EVERY;
use crate::args::Format;
use crate::exit::Failure;
use crate::output::{self, Paint};
use crate::time;

/// Compare the MTU that is configured with what really gets through between nodes
///
/// Nodes try each other all the time, with packets that nobody may cut up, between their hosts and through the pod
/// network, in every family they have. This shows what they found.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 1 if something is not as it is configured, less gets through than nodes send, or packets are lost.

Examples:
  netferry mtu verify
  netferry mtu verify --wait 1m -o json | jq .problems")]
pub(super) struct VerifyArgs {
    /// Wait for so long until all is as it should be
    #[arg(long, value_name = "TIME", value_parser = time::read)]
    wait: Option<Duration>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    /// The pods' MTU that every node is to hold.
    mtu: u32,
    ways: Vec<Way>,
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
            problems: wrongs.iter().map(Wrong::to_string).collect(),
        }
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
    let verdict = loop {
        let verdict = Verdict::of(&Seen::read(client, namespace).await?);
        if verdict.problems.is_empty() || Instant::now() >= end {
            break verdict;
        }
        sleep(EVERY).await;
    };
    output::answer(format, &verdict, |paint| verdict.table(paint))?;
    match verdict.problems.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::Failed(anyhow!("{one}"))),
        [first, rest @ ..] => Err(Failure::Failed(anyhow!("{first}; and {} more", rest.len()))),
    }
}
