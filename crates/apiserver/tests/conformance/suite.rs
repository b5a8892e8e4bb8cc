//! Runs the cases, several at a time, and reports.

use futures::StreamExt;

use crate::case::{Case, chosen};
use crate::golden;
use crate::run::{Outcome, run};
use crate::server::Server;

/// Most cases wait most of the time, for controllers and deadlines.
const AT_ONCE: usize = 16;
/// Enough to see what is wrong with a case; alone it shows everything.
const LINES: usize = 14;

/// Runs the chosen cases; `record` writes their answers down instead of comparing them. Returns how many failed.
pub(crate) async fn run_all(server: &dyn Server, test: &str, record: bool) -> usize {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let cases = chosen();
    let (alone, together): (Vec<_>, Vec<_>) = cases.iter().enumerate().partition(|(_, case)| case.alone);
    let one = |(index, case): (usize, &Case)| {
        let id = format!("t{}{index:03}", &nonce[..5]);
        let case = case.clone();
        async move {
            let outcome = Box::pin(run(server, &case, &id)).await;
            (index, judge(&case, &outcome, record))
        }
    };
    let mut verdicts: Vec<_> =
        futures::stream::iter(together).map(one).buffer_unordered(AT_ONCE).collect().await;
    for case in alone {
        verdicts.push(one(case).await);
    }
    verdicts.sort_by_key(|(index, _)| *index);
    let mut failed = 0;
    for (index, problems) in verdicts.iter().filter(|(_, problems)| !problems.is_empty()) {
        failed += 1;
        let case = &cases[*index];
        println!("FAILED {}: {}", case.topic, case.case);
        let shown = if cases.len() == 1 { problems.len() } else { LINES };
        problems.iter().take(shown).for_each(|line| println!("    {line}"));
        if problems.len() > shown {
            println!("    … and {} more lines", problems.len() - shown);
        }
        println!(
            "    alone: NETFERRY_CASE='{}' cargo test -p netferry-apiserver --test conformance {test}",
            case.case
        );
    }
    println!(
        "{} of {} cases {}",
        cases.len() - failed,
        cases.len(),
        if record { "recorded" } else { "agree" }
    );
    failed
}

fn judge(case: &Case, outcome: &Outcome, record: bool) -> Vec<String> {
    if record && outcome.stopped.is_none() {
        golden::write(case, &outcome.answers);
        return Vec::new();
    }
    let stopped = outcome.stopped.iter().cloned();
    let differences = if record { Vec::new() } else { golden::differences(case, &outcome.answers) };
    stopped.chain(differences).collect()
}
