//! A lab where the kernel moves the packets: the same operator, agents and plugin, another datapath.
//!
//! Labs use the kernel they run on, which may have no datapath for the switch; this brings one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::FutureExt;
use netferry_lab::meter::{Limits, Report};
use netferry_testkit::vm::Machine;

use crate::Scenario;
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kernel-lab",
    shows: "A lab of two nodes with both families in a virtual machine with Debian's kernel: its datapath moves the packets, \
            no bridge is made of the uplink, and on every kind of path none is lost while the switch's database and the agent \
            of each node are killed.",
    run: |notes| async { run(notes) }.boxed_local(),
};

const SCRIPT: &str = include_str!("kernel_lab.sh");
/// The machine's own switch and OVN are not a lab's.
pub(crate) const ON_ITS_KERNEL: &str = "systemctl stop ovn-central ovn-host openvswitch-switch
modprobe openvswitch
export HOME=/root
";
/// Of an emulated processor, on a machine that has other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3600);

/// A machine with our programs in `/opt/netferry`; they are prepared in a place of the caller's.
pub(crate) fn machine(place: &Path) -> anyhow::Result<Machine> {
    let program = Path::new(env!("CARGO_BIN_EXE_netferry"));
    Ok(Machine::new()?
        .with("/opt/netferry/netferry", stripped(program, place)?)
        .with("/opt/netferry/netferry-cni", program.with_file_name("netferry-cni")))
}

/// A copy of a program without what debuggers want to know, which is most of it.
pub(crate) fn stripped(program: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let stripped = place.join(program.file_name().context("a program has a name")?);
    let made =
        Command::new("strip").arg("-o").arg(&stripped).arg(program).status().context("running strip")?;
    ensure!(made.success(), "strip ended with {made}");
    Ok(stripped)
}

fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let said = machine(place.path())?.run(&format!("{ON_ITS_KERNEL}{SCRIPT}"), PATIENCE)?;
    let told = |what: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
        line.with_context(|| format!("no {what} in {said}"))
    };
    let kills: u32 = told("kills")?.parse()?;
    let report: Report = serde_json::from_str(told("report")?)?;
    let totals = &report.totals;
    notes.line("| killed | flows | sent | lost | longest gap |");
    notes.line("| --- | --- | --- | --- | --- |");
    notes.line(format!(
        "| {kills} | {} | {} | {} | {:.0} ms |",
        totals.flows, totals.sent, totals.lost, totals.longest_gap_ms
    ));
    // A database and an agent of each node.
    if kills != 4 {
        notes.problem(format!("{kills} were killed, and not four"));
    }
    // How long anything takes on an emulated processor says nothing, so gaps are not judged.
    for problem in report.verdict(Limits::NONE_LOST).problems {
        notes.problem(problem);
    }
    Ok(())
}
