//! Every policy scenario there is.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt;
use netferry_lab::policy_table::live::LiveError;
use netferry_lab::policy_table::{FROM_OUTSIDE, gather, raise, scenarios};
use netferry_lab::{Families, Options};

use crate::Scenario;
use crate::bench::{options, up};
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "policy-table",
    shows: "NetworkPolicy by truth table, after the method of Kubernetes' own suite: nine pods of three namespaces on \
            three nodes ask each other on every port, by every protocol, in both families, while one policy scenario \
            follows the other; and from outside through a port of every node.",
    run: |notes| run(notes).boxed_local(),
};

/// Everything may take this long, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(300);
/// From a policy in the API to every node's datapath.
const IN_FORCE: Duration = Duration::from_secs(60);

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let lab = up(&Options { families: Families::Dual, ..options(3) });
    let table = raise(&lab, "policy-", PATIENCE).await?;
    let all = scenarios()?;
    let (mut steps, mut slowest) = (0, (Duration::ZERO, String::new()));
    for scenario in &all {
        let began = Instant::now();
        match table.run(scenario, IN_FORCE).await {
            Ok(()) => notes.progress(format!("{:>5.1} s  {}", began.elapsed().as_secs_f32(), scenario.title)),
            Err(error @ LiveError::Wrong { .. }) => {
                let into = format!("policies-{}-{}", std::process::id(), notes.problems.len());
                let kept = gather(&lab, &Path::new(env!("CARGO_TARGET_TMPDIR")).join(into))?;
                notes.problem(format!("{error}\nwhat the nodes knew is in {}", kept.display()));
            }
            Err(error) => return Err(error.into()),
        }
        steps += scenario.steps.len();
        let each = began.elapsed() / u32::try_from(scenario.steps.len()).unwrap_or(1).max(1);
        slowest = slowest.max((each, scenario.title.clone()));
    }
    notes.line(format!(
        "- {} scenarios with {steps} tables of {} cells each; wrong: {}",
        all.len(),
        netferry_lab::policy_table::cells(&[false, true]).len(),
        notes.problems.len(),
    ));
    notes.line(format!(
        "- slowest from policies in the API to a table that is right, with the asking itself: {:.1} s ({})",
        slowest.0.as_secs_f32(),
        slowest.1
    ));
    let doors = table.doors(&lab).await?;
    for (title, open) in FROM_OUTSIDE {
        let scenario = all.iter().find(|scenario| scenario.title == title);
        table.run(scenario.context("a scenario has another title")?, IN_FORCE).await?;
        let wrong = doors.until(open, IN_FORCE).await?;
        notes.line(format!(
            "- from outside, {title}: {} ports of nodes, {} of them to be open, {} not as they should be",
            doors.all.len(),
            doors.all.iter().filter(|door| open(door)).count(),
            wrong.len()
        ));
        for door in wrong {
            notes.problem(format!("{title}: {door} is not as it should be"));
        }
    }
    let ended = ended(&lab)?;
    notes.line(format!("- switches that ended by themselves: {ended}"));
    if ended > 0 {
        notes.problem("a switch ended by itself");
    }
    Ok(())
}

/// How often a switch of the lab was killed by its own assertions.
fn ended(lab: &netferry_lab::Lab) -> anyhow::Result<usize> {
    let mut times = 0;
    for node in lab.status()?.nodes {
        let count =
            "grep -c 'killed (Aborted)\\|assertion .* failed' /var/log/openvswitch/ovs-vswitchd.log || true";
        let said = lab.exec(node.name.as_str(), "sh", &["-c", count])?;
        times += String::from_utf8_lossy(&said.stdout).trim().parse::<usize>().unwrap_or(0);
    }
    Ok(times)
}
