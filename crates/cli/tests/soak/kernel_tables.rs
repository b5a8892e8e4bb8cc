//! The tables of policies and of Services where the kernel moves the packets.
//!
//! Most clusters' kernels do, and the switch then follows other code than the one labs have on a kernel without its datapath.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::FutureExt;
use netferry_lab::{Families, Lab, Options};

use crate::Scenario;
use crate::bench::options;
use crate::kernel_lab::{ON_ITS_KERNEL, machine, stripped};
use crate::notes::Notes;
use crate::{policies, services};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kernel-tables",
    shows: "In a virtual machine with Debian's kernel, whose datapath moves the packets of a lab of three nodes with both \
            families: every policy scenario by truth table, and every feature of Services by real connections.",
    run: |notes| async { run(notes) }.boxed_local(),
};

/// What is run inside the machine: this suite itself, which is asked by the name for it.
pub(crate) const INSIDE: Scenario = Scenario {
    name: "inside-kernel-tables",
    shows: "What kernel-tables does inside its machine.",
    run: |notes| inside(notes).boxed_local(),
};

/// Of an emulated processor, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);
/// Of what is waited for inside.
const PATIENCE_INSIDE: Duration = Duration::from_secs(2400);
/// From a policy in the API to every node's datapath, on that processor.
const IN_FORCE: Duration = Duration::from_secs(600);
/// How many scenarios of Services are played at once: a request that takes its time is a request that is lost.
const AT_ONCE: usize = 1;

const LINE: &str = "inside: ";
const PROBLEM: &str = "inside wrong: ";

fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let suite = stripped(&std::env::current_exe().context("finding this suite")?, place.path())?;
    let program = Path::new(env!("CARGO_BIN_EXE_netferry"));
    let machine = machine(place.path())?
        .with("/opt/netferry/suite", suite)
        // It looks for the programs where they were built.
        .with(program, place.path().join("netferry"))
        .with(program.with_file_name("netferry-cni"), program.with_file_name("netferry-cni"));
    let script = format!("{ON_ITS_KERNEL}/opt/netferry/suite {}\n", INSIDE.name);
    let said = machine.run(&script, PATIENCE)?;
    let told = |prefix: &'static str| said.lines().filter_map(move |line| line.strip_prefix(prefix));
    told(LINE).for_each(|line| notes.line(line));
    told(PROBLEM).for_each(|problem| notes.problem(problem));
    ensure!(told(LINE).next().is_some(), "it said nothing: {said}");
    Ok(())
}

/// Says what came of it, for who asked outside.
pub(crate) fn say(notes: &Notes) {
    notes.lines.iter().for_each(|line| println!("{LINE}{line}"));
    notes.problems.iter().for_each(|problem| println!("{PROBLEM}{}", problem.replace('\n', "; ")));
}

async fn inside(notes: &mut Notes) -> anyhow::Result<()> {
    let lab = Lab::up(&Options { families: Families::Dual, ..options(3) })?;
    lab.wait_ready(PATIENCE_INSIDE, |_| {})?;
    let said = lab.exec("node-1", "ovs-appctl", &["dpif/show"])?;
    ensure!(said.stdout.starts_with(b"system@"), "the kernel does not move the packets");
    let all = netferry_lab::policy_table::scenarios()?;
    let table = netferry_lab::policy_table::raise(&lab, "policy-", PATIENCE_INSIDE).await?;
    policies::tables(notes, &lab, &table, &all, "policies", IN_FORCE).await?;
    let all = netferry_lab::service_table::scenarios()?;
    let table = netferry_lab::service_table::raise(&lab, "services", PATIENCE_INSIDE).await?;
    let mut sum = services::Sum::default();
    services::play(notes, &table, &all, AT_ONCE, PATIENCE_INSIDE, &mut sum).await;
    let services::Sum { scenarios, questions, requests, lost } = sum;
    notes.line(format!(
        "- Services: {scenarios} of {} scenarios with {questions} questions; {requests} requests while backends come and go, {lost} lost",
        all.len()
    ));
    Ok(())
}
