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
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Within which the operator has looked at what is asked.
const JUDGED: Duration = Duration::from_secs(15);
/// For how long the API may answer nothing: longer than a machine of the control plane takes to restart.
const UNANSWERED: Duration = Duration::from_secs(1800);

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
    follow(client, namespace, args.timeout, None, format).await
}

/// Follows a change until it has ended, or is refused. `refused` is what was refused before the change was asked for, which
/// the operator may not have taken back yet.
pub(super) async fn follow(
    client: &Client,
    namespace: &str,
    timeout: Option<Duration>,
    refused: Option<&str>,
    format: Format,
) -> Result<(), Failure> {
    let began = Instant::now();
    let (mut line, mut last, mut known) = (Line::new(), None, BTreeMap::new());
    let mut answered = None;
    loop {
        let seen = match (Seen::read(client, namespace).await, answered) {
            (Ok(seen), _) => seen,
            // A node of the control plane may be restarting.
            (Err(failure), Some(last)) if passes(&failure) && Instant::now() < last + UNANSWERED => {
                line.show_since(&format!("the API does not answer: {}", failure.cause()), seconds(began));
                give_up_after(timeout, began, &line, "the API does not answer")?;
                sleep(EVERY).await;
                continue;
            }
            (Err(failure), _) => {
                line.clear();
                return Err(failure);
            }
        };
        answered = Some(Instant::now());
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
        let old = |now: &&str| Some(*now) == refused && began.elapsed() < JUDGED;
        if let Some(refused) = status.refused().filter(|now| !old(now)) {
            line.clear();
            return Err(Failure::Refused(anyhow!("{refused}")));
        }
        if ended(&seen) {
            line.clear();
            return match format {
                Format::Table => output::print(&format!("{}\n", status.summary())),
                Format::Json | Format::Yaml => Ok(()),
            };
        }
        line.show_since(&status.summary(), seconds(began));
        give_up_after(timeout, began, &line, &format!("still under way: {}", status.summary()))?;
        last = Some(status);
        sleep(EVERY).await;
    }
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

fn give_up_after(timeout: Option<Duration>, began: Instant, line: &Line, why: &str) -> Result<(), Failure> {
    if timeout.is_none_or(|limit| began.elapsed() < limit) {
        return Ok(());
    }
    line.clear();
    Err(Failure::TimedOut(anyhow!("{why}")))
}

/// Whether a failure to read the cluster is one that passes: nobody answered, or the server is busy or restarting.
fn passes(failure: &Failure) -> bool {
    match failure {
        Failure::TimedOut(_) => true,
        Failure::Refused(_) => false,
        Failure::Failed(error) => error.chain().filter_map(|cause| cause.downcast_ref()).any(|error| {
            matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_))
                || matches!(error, kube::Error::Api(status) if matches!(status.code, 429 | 500..))
        }),
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

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use kube::core::Status as Answer;

    use super::*;

    #[test]
    fn a_server_that_restarts_is_waited_for_and_one_that_says_no_is_not() {
        let api = |code: u16| {
            let answer = Answer::failure("no", "because").with_code(code);
            let failed: Result<(), _> = Err(kube::Error::Api(answer.boxed()));
            Failure::Failed(failed.context("listing nodes").unwrap_err())
        };
        for (code, shall) in [(401, false), (403, false), (404, false), (429, true), (500, true), (503, true)]
        {
            assert_eq!(passes(&api(code)), shall, "{code}");
        }
        let gone: Result<(), _> = Err(kube::Error::Service("connection refused".into()));
        assert!(passes(&Failure::Failed(gone.context("listing nodes").unwrap_err())));
        assert!(passes(&Failure::TimedOut(anyhow!("no answer within 30 s"))));
        assert!(!passes(&Failure::Failed(anyhow!("ConfigMap netferry/applied-cluster, mtu: there is none"))));
    }
}
