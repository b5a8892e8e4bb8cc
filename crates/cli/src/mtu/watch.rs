//! `netferry mtu watch`

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use kube::Client;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::news::News;
use super::plan::paces;
use super::seen::Seen;
use super::status::{Status, ended};
use super::tempo::{Tempo, about};
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
/// Prints a line whenever a node moves on, packets are lost, or it waits for something that does not come by itself; and
/// how far it is, what is lost and how long it may still take. With -o json, the whole status as one line whenever it
/// changes.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 when the change has ended where it was going when the watch began, 1 if it was turned around meanwhile,
3 if what is asked is refused, 4 after --timeout; the change goes on then.

Examples:
  netferry mtu watch
  netferry mtu watch --timeout 30m -o json")]
pub(super) struct WatchArgs {
    /// Stop watching after so long
    #[arg(long, value_name = "TIME", value_parser = time::read)]
    timeout: Option<Duration>,
}

/// What is followed.
pub(super) struct Followed {
    /// Until when at most.
    pub(super) timeout: Option<Duration>,
    /// The MTU it shall end at; where nobody says so, the one it goes to when it is first seen.
    pub(super) to: Option<u32>,
    /// What was refused before the change was asked for, which the operator may not have taken back yet.
    pub(super) refused: Option<String>,
}

/// A status, as a line of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Now<'a> {
    #[serde(flatten)]
    status: &'a Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
}

pub(super) async fn watch(
    client: &Client,
    namespace: &str,
    args: &WatchArgs,
    format: Format,
) -> Result<(), Failure> {
    let what = Followed { timeout: args.timeout, to: None, refused: None };
    follow(client, namespace, &what, format).await
}

/// Follows a change until it has ended, or is refused.
pub(super) async fn follow(
    client: &Client,
    namespace: &str,
    what: &Followed,
    format: Format,
) -> Result<(), Failure> {
    let (timeout, mut goal, refused) = (what.timeout, what.to, what.refused.as_deref());
    let began = Instant::now();
    let (mut line, mut news, mut tempo) = (Line::new(), News::default(), Tempo::new());
    let (mut last, mut answered) = (None, None);
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
        if !ended(&seen) {
            goal = goal.or_else(|| Some(asked_for(&seen).unwrap_or(status.mtu)));
        }
        let left = tempo.left(Instant::now(), &seen.record, &status.there(), &paces(&seen));
        let left = left.filter(|_| status.held().is_none());
        if last.as_ref() != Some(&status) {
            // Also where nobody reads it: it is what explains the end.
            let news = news.of(&status, goal);
            line.clear();
            match format {
                Format::Table => output::print(&news.concat())?,
                Format::Json | Format::Yaml => {
                    let now = Now { status: &status, seconds_left: left.map(|left| left.as_secs()) };
                    let text = serde_json::to_string(&now).context("writing the status as JSON")?;
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
            let said = outcome(goal, &status, &news)?;
            return match format {
                Format::Table => output::print(&format!("{said}\n")),
                Format::Json | Format::Yaml => Ok(()),
            };
        }
        line.show_since(&progress(&status, left), seconds(began));
        give_up_after(timeout, began, &line, &format!("still under way: {}", status.summary()))?;
        last = Some(status);
        sleep(EVERY).await;
    }
}

/// What is said at the end of a change that was to end at `goal`; nothing was under way where there is none.
fn outcome(goal: Option<u32>, status: &Status, news: &News) -> Result<String, Failure> {
    match (goal, status.mtu) {
        (None, _) => Ok(status.summary()),
        (Some(goal), mtu) if goal == mtu => Ok(format!("the change has ended; the MTU of pods is {mtu}")),
        (Some(goal), mtu) => {
            let why = news.why();
            Err(Failure::Failed(anyhow!("the change went back: the MTU of pods is {mtu}, not {goal}; {why}")))
        }
    }
}

/// The pods' MTU that is asked for, which what is applied follows.
fn asked_for(seen: &Seen) -> Option<u32> {
    seen.network.spec.migration.as_ref()?.mtu.as_ref()?.network.as_ref()?.to
}

/// How far it is, in one line.
fn progress(status: &Status, left: Option<Duration>) -> String {
    let lost = match status.losses.len() {
        0 => "no losses seen".into(),
        1 => "packets are lost on one way".into(),
        ways => format!("packets are lost on {ways} ways"),
    };
    let left = left.map(|left| format!(", {}", about(left))).unwrap_or_default();
    format!("{}, {lost}{left}", status.summary())
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
