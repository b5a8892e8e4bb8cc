//! The MTU of a lab changes where the kernel moves the packets: its tunnels learn sizes that a switch that moves packets
//! itself never hears of.

use anyhow::Context;
use futures::FutureExt;

use crate::Scenario;
use crate::kernel_lab::{ON_ITS_KERNEL, PATIENCE, machine};
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kernel-mtu",
    shows: "The MTU of a lab of two nodes with both families goes up and down again in a virtual machine with Debian's kernel, \
            whose datapath moves the packets: nothing is lost on any kind of path, none left out in either family, and every \
            path carries its size after each.",
    run: |notes| async { run(notes) }.boxed_local(),
};

/// How it ends is judged from what it says: how long anything takes on an emulated processor says nothing.
const SCRIPT: &str = "/opt/netferry/netferry demo mtu --nodes 2 --family dual 2>&1 || true\n";
/// Twice: up, and down again.
const VERIFIED: &str = "  verified: all ";

fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let script = format!("{ON_ITS_KERNEL}{SCRIPT}");
    let said = machine(place.path())?.run(&script, PATIENCE)?;
    let packets = said.lines().find_map(|line| line.trim().strip_prefix("packets"));
    let packets = packets.with_context(|| format!("it did not come to its end: {said}"))?;
    notes.line("```text");
    for line in said.lines().skip_while(|line| !line.contains("What you saw")).skip(1) {
        notes.line(line);
    }
    notes.line("```");
    if let Some(left_out) = said.lines().find(|line| line.contains("not measured")) {
        notes.problem(format!("not every path was measured: {}", left_out.trim()));
    }
    if !packets.contains(" flows, 0 lost") {
        notes.problem(format!("packets were lost: {}", packets.trim()));
    }
    let verified = said.lines().filter(|line| line.starts_with(VERIFIED)).count();
    if verified != 2 {
        notes.problem(format!("every path carried its size {verified} times, and not twice: {said}"));
    }
    Ok(())
}
