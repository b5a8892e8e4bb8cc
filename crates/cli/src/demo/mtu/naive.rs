//! The wrong way: one node after the other is given the new sizes at once, so that nodes at the old and at the new size
//! send to each other.
//!
//! Nobody asks the operator: the file that every node boots by is written by hand, with the new sizes for interfaces and
//! routes alike. Where the operator was ever asked for a change, it has written down what goes with the cluster, and nodes
//! that were given something else serve no pods.

use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use netferry_core::mtu::file::PATH;
use netferry_lab::escort::Escort;
use netferry_lab::paths::Selection;
use netferry_lab::{Lab, Name};

use super::super::ground::PATIENCE;
use super::told::{row, table};
use super::{LARGE, SMALL, Sizes, Stage, seconds, title};
use crate::exit::Failure;
use crate::output;

/// How long a path that stays silent after a restart is tried before it is counted all the same.
const TRIED_FOR: Duration = Duration::from_secs(5);
/// How long nodes of both sizes stand beside each other before the next one restarts.
const BESIDE: Duration = Duration::from_secs(3);

pub(super) fn run(stage: Stage) -> Result<(), Failure> {
    let Stage { lab, sites, began, .. } = stage;
    let nodes: Vec<Name> = lab.status()?.nodes.into_iter().map(|node| node.name).collect();
    let mut escort = Escort::start(&lab, sites, &Selection::default(), PATIENCE)?.despite_silence(TRIED_FOR);
    for (number, (from, to)) in (2..).zip([(SMALL, LARGE), (LARGE, SMALL)]) {
        title(&format!("{number}. {} to {}, in one phase", from.pods, to.pods))?;
        for node in &nodes {
            tell(&lab, node, to)?;
            escort.lap(format!("{node} at {}", to.pods))?;
            escort.restart(node)?;
            thread::sleep(BESIDE);
            let report = escort.meter().snapshot().context("asking the meter")?;
            output::print(&row(&report, &format!("{node} restarted at {}", to.pods)))?;
        }
        escort.lap(format!("all at {}", to.pods))?;
        thread::sleep(BESIDE);
    }

    let (report, _) = escort.finish()?;
    lab.down()?;
    title("What that lost")?;
    let totals = &report.totals;
    output::print(&format!(
        "{}\n{} of {} packets were lost, in {}. In two phases none are: netferry demo mtu\n",
        table(&report.laps),
        totals.lost,
        totals.sent,
        seconds(began.elapsed()),
    ))?;
    if totals.lost == 0 {
        return Err(Failure::Failed(anyhow!("nothing was lost, so nodes were not at different sizes")));
    }
    Ok(())
}

/// Tells a node its sizes for the next boot, as a person would: by hand, and routes as large as interfaces.
fn tell(lab: &Lab, node: &Name, sizes: Sizes) -> Result<(), Failure> {
    let Sizes { host, pods } = sizes;
    let script = format!(
        "mkdir -p $(dirname {PATH}) && printf 'TARGET_MTU={host}\\nMTU={host}\\nROUTABLE_MTU={host}\\nCNI_MTU={pods}\\n' > {PATH}"
    );
    let done = lab.exec(node.as_str(), "sh", &["-c", &script])?;
    if done.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Failure::Failed(anyhow!("writing {PATH} on {node}: {why}")))
}
