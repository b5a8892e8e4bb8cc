//! `netferry mtu watch`

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use kube::Client;
use tokio::time::{Instant, sleep};

use super::seen::Seen;
use super::status::{Node, Status, ended};
use crate::args::Format;
use crate::exit::Failure;
use crate::line::Line;
use crate::{output, time};

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);

/// Follow a change of MTU until it has ended
///
/// Prints a line whenever a node moves on; with -o json, the whole status as one line whenever it changes.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 when the change has ended, 3 if what is asked is refused, 4 after --timeout; the change goes on.

Examples:
  netferry mtu watch
  netferry mtu watch --timeout 30m -o json")]
pub(super) struct WatchArgs {
    /// Stop watching after so long
    #[arg(long, value_name = "TIME", value_parser = time::read)]
    timeout: Option<Duration>,
}

pub(super) async fn watch(
    client: &Client,
    namespace: &str,
    args: &WatchArgs,
    format: Format,
) -> Result<(), Failure> {
    follow(client, namespace, args.timeout, format).await
}

/// Follows a change until it has ended, or is refused.
pub(super) async fn follow(
    client: &Client,
    namespace: &str,
    timeout: Option<Duration>,
    format: Format,
) -> Result<(), Failure> {
    let began = Instant::now();
    let (mut line, mut last, mut known) = (Line::new(), None, BTreeMap::new());
    loop {
        let seen = Seen::read(client, namespace).await?;
        let status = Status::of(&seen);
        if last.as_ref() != Some(&status) {
            match format {
                Format::Table => told(&status, &mut known, &line)?,
                Format::Json | Format::Yaml => {
                    line.clear();
                    let text = serde_json::to_string(&status).context("writing the status as JSON")?;
                    output::print(&(text + "\n"))?;
                }
            }
        }
        if let Some(refused) = status.refused() {
            line.clear();
            return Err(Failure::Refused(anyhow!("{refused}")));
        }
        if ended(&seen) && seen.network.spec.migration.as_ref().is_none_or(|asked| asked.mtu.is_none()) {
            line.clear();
            return match format {
                Format::Table => output::print(&format!("{}\n", status.summary())),
                Format::Json | Format::Yaml => Ok(()),
            };
        }
        line.show_since(&status.summary(), began.elapsed().as_secs_f64());
        if timeout.is_some_and(|limit| began.elapsed() >= limit) {
            line.clear();
            return Err(Failure::TimedOut(anyhow!("still under way: {}", status.summary())));
        }
        last = Some(status);
        sleep(EVERY).await;
    }
}

/// Says which nodes moved on since they were known.
fn told(status: &Status, known: &mut BTreeMap<String, String>, line: &Line) -> Result<(), Failure> {
    for Node { name, progress, .. } in &status.nodes {
        let Some(progress) = progress else { continue };
        if known.insert(name.clone(), progress.clone()).as_ref() != Some(progress) {
            line.clear();
            output::print(&format!("{:12} {name} {progress}\n", status.phase))?;
        }
    }
    Ok(())
}
