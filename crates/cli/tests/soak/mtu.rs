//! The MTU of a running cluster goes up and down, in clusters of every kind.

use std::process::Command;

use futures::FutureExt;
use netferry_lab::escort::Escort;
use netferry_lab::meter::Report;
use netferry_lab::paths::{Selection, in_lab};
use netferry_lab::{Families, Name, Options};

use crate::Scenario;
use crate::bench::{PATIENCE, up};
use crate::change::{LARGE, SMALL, measured, verified, with_room, wrong};
use crate::clusters;
use crate::notes::Notes;

pub(crate) const FOUR: Scenario = Scenario {
    name: "mtu-v4",
    shows: "Pods go from 1400 to 8900 and back, hosts from 1500 to 9000, unattended, every node restarting twice each \
            way; nothing is lost on any path but those of the node that restarts, and afterwards every path carries \
            its size.",
    run: |notes| run(notes, clusters::of(Families::V4)).boxed_local(),
};

pub(crate) const SIX: Scenario = Scenario {
    name: "mtu-v6",
    shows: "The same with IPv6 alone. Left out is the outside's way to a pod through the port of another node: see \
            `docs/guide/mtu.md`.",
    run: |notes| run(notes, clusters::of(Families::V6)).boxed_local(),
};

pub(crate) const DUAL: Scenario = Scenario {
    name: "mtu-dual",
    shows: "The same with both families; the way that is left out with IPv6 is measured with IPv4.",
    run: |notes| run(notes, clusters::of(Families::Dual)).boxed_local(),
};

pub(crate) const KUBE: Scenario = Scenario {
    name: "mtu-kube",
    shows: "The same under the real control plane, with operator and agents in the roles they are deployed with.",
    run: |notes| async { run(notes, clusters::under_kube()?).await }.boxed_local(),
};

pub(crate) const NAIVE: Scenario = Scenario {
    name: "mtu-naive",
    shows: "One node after the other given its new size in a single phase loses packets: what the two phases are for.",
    run: |notes| async { naive(notes) }.boxed_local(),
};

async fn run(notes: &mut Notes, options: Options) -> anyhow::Result<()> {
    let families = options.families;
    let selection = Selection::while_the_mtu_changes(families, in_lab::datapath()?);
    let lab = up(&with_room(options));
    let mut sites = in_lab::sites(&lab, PATIENCE, |_| {}).await?;
    head(notes);
    let mut told = Vec::new();
    for way in [(SMALL, LARGE), (LARGE, SMALL)] {
        let restart = |_: &str, escort: &mut Escort<'_>, node: &Name| escort.restart(node);
        let (report, back) = measured(&lab, sites, &selection, way, restart)?;
        rows(notes, &report);
        for problem in wrong(&lab, &back, &report, way.1)? {
            notes.problem(problem);
        }
        let (paths, problems) = verified(&lab, families);
        for problem in problems {
            notes.problem(problem);
        }
        told.push(format!(
            "- at {}: `netferry mtu verify` measured {} paths from pods that were put there for it",
            way.1.pods,
            paths.as_array().map_or(0, Vec::len)
        ));
        sites = back;
    }
    notes.line("");
    for line in told {
        notes.line(line);
    }
    Ok(())
}

pub(crate) fn head(notes: &mut Notes) {
    notes.line("| | sent | lost | longest gap | longest TCP stall |");
    notes.line("| --- | --- | --- | --- | --- |");
}

/// A row for each phase.
pub(crate) fn rows(notes: &mut Notes, report: &Report) {
    for lap in &report.laps {
        notes.line(format!(
            "| {} | {} | {} | {:.0} ms | {:.0} ms |",
            lap.name, lap.sent, lap.lost, lap.longest_gap_ms, lap.longest_stall_ms
        ));
    }
}

fn naive(notes: &mut Notes) -> anyhow::Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_netferry")).args(["demo", "mtu", "--naive"]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        notes.problem(format!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    }
    notes.line("```text");
    for line in said.lines().skip_while(|line| !line.contains("SENT")) {
        notes.line(line);
    }
    notes.line("```");
    Ok(())
}
