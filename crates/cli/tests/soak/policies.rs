//! Every policy scenario there is.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt;
use netferry_lab::policy_table::live::{LiveError, Table};
use netferry_lab::policy_table::{FROM_OUTSIDE, Scenario as PolicyScenario, gather, raise, scenarios};
use netferry_lab::{Families, Lab, Options};

use crate::Scenario;
use crate::bench::{options, up};
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "policy-table",
    shows: "NetworkPolicy by truth table, after the method of Kubernetes' own suite: nine pods of three namespaces on \
            three nodes, and then all on one, ask each other on every port, by every protocol, in both families, while \
            one policy scenario follows the other; and from outside through a port of every node.",
    run: |notes| run(notes).boxed_local(),
};

/// Everything may take this long, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(300);
/// From a policy in the API to every node's datapath.
const IN_FORCE: Duration = Duration::from_secs(60);

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let all = scenarios()?;
    let lab = up(&Options { families: Families::Dual, ..options(3) });
    let table = raise(&lab, "policy-", PATIENCE).await?;
    tables(notes, &lab, &table, &all, "on three nodes", IN_FORCE).await?;
    from_outside(notes, &lab, &table, &all).await?;
    stood(notes, &lab)?;
    lab.down()?;

    // Dealt out in turn, two pods of one namespace never share a node.
    let lab = up(&Options { families: Families::Dual, ..options(1) });
    let table = raise(&lab, "policy-", PATIENCE).await?;
    tables(notes, &lab, &table, &all, "on one node", IN_FORCE).await?;
    stood(notes, &lab)
}

/// Asks every cell in every scenario.
pub(crate) async fn tables(
    notes: &mut Notes,
    lab: &Lab,
    table: &Table,
    all: &[PolicyScenario],
    dealt: &str,
    in_force: Duration,
) -> anyhow::Result<()> {
    let (mut steps, mut slowest) = (0, (Duration::ZERO, String::new()));
    let before = notes.problems.len();
    for scenario in all {
        let began = Instant::now();
        match table.run(scenario, in_force).await {
            Ok(()) => notes.progress(format!("{:>5.1} s  {}", began.elapsed().as_secs_f32(), scenario.title)),
            Err(error @ LiveError::Wrong { .. }) => {
                let into = format!("policies-{}-{}", std::process::id(), notes.problems.len());
                let kept = gather(lab, &Path::new(env!("CARGO_TARGET_TMPDIR")).join(into))?;
                notes.problem(format!("{error}\nwhat the nodes knew is in {}", kept.display()));
            }
            Err(error) => return Err(error.into()),
        }
        steps += scenario.steps.len();
        let each = began.elapsed() / u32::try_from(scenario.steps.len()).unwrap_or(1).max(1);
        slowest = slowest.max((each, scenario.title.clone()));
    }
    notes.line(format!(
        "- {dealt}: {} scenarios with {steps} tables of {} cells each; wrong: {}",
        all.len(),
        netferry_lab::policy_table::cells(&[false, true]).len(),
        notes.problems.len() - before,
    ));
    notes.line(format!(
        "- slowest from policies in the API to a table that is right, with the asking itself: {:.1} s ({})",
        slowest.0.as_secs_f32(),
        slowest.1
    ));
    Ok(())
}

/// Through a port of every node, to pods of that node and of others.
async fn from_outside(
    notes: &mut Notes,
    lab: &Lab,
    table: &Table,
    all: &[PolicyScenario],
) -> anyhow::Result<()> {
    let doors = table.doors(lab).await?;
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
    Ok(())
}

/// No switch was killed by its own assertions.
fn stood(notes: &mut Notes, lab: &Lab) -> anyhow::Result<()> {
    let ended = ended(lab)?;
    notes.line(format!("- switches that ended by themselves: {ended}"));
    if ended > 0 {
        notes.problem("a switch ended by itself");
    }
    Ok(())
}

fn ended(lab: &Lab) -> anyhow::Result<usize> {
    let mut times = 0;
    for node in lab.status()?.nodes {
        let count =
            "grep -c 'killed (Aborted)\\|assertion .* failed' /var/log/openvswitch/ovs-vswitchd.log || true";
        let said = lab.exec(node.name.as_str(), "sh", &["-c", count])?;
        times += String::from_utf8_lossy(&said.stdout).trim().parse::<usize>().unwrap_or(0);
    }
    Ok(times)
}
