//! A hundred nodes.

use std::time::{Duration, Instant};

use futures::FutureExt;
use netferry_lab::{Fault, Lab, NewNode};

use crate::Scenario;
use crate::bench::options;
use crate::goals::{Measured, goals};
use crate::notes::Notes;
use crate::processes::Cost;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "hundred-nodes",
    shows: "A lab of a hundred nodes comes up and becomes ready again while nodes come, go, reboot and lose their \
            power, their cables and the API.",
    run: |notes| run(notes).boxed_local(),
};

/// What is measured; each is twice the one before, so that a cost per node that grows shows.
const SIZES: [u16; 3] = [25, 50, 100];
/// Everything may take this long, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(900);
/// As many faults, unless `SOAK_ROUNDS` says otherwise.
const ROUNDS: u32 = 8;
/// What the kernel allows all labs of the machine together; a large lab raises it while it runs.
const NEIGHBOURS: &str = "/proc/sys/net/ipv4/neigh/default/gc_thresh3";

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let neighbours = std::fs::read_to_string(NEIGHBOURS)?;
    notes.line("| nodes | ready after | memory | per node | processor time | per node |");
    notes.line("| --- | --- | --- | --- | --- | --- |");
    let mut largest = None;
    let mut measured = Vec::new();
    for nodes in SIZES {
        drop(largest.take());
        let (lab, took) = up(notes, nodes)?;
        let cost = Cost::below(lab.state().runner()?.pid);
        let each = f64::from(nodes);
        notes.line(format!(
            "| {nodes} | {:.1} s | {} MiB | {:.1} MiB | {:.0} s | {:.2} s |",
            took.as_secs_f64(),
            cost.mebibytes(),
            cost.mebibytes() as f64 / each,
            cost.busy.as_secs_f64(),
            cost.busy.as_secs_f64() / each,
        ));
        largest = Some(lab);
        measured.push(Measured { nodes, took, memory: cost.memory, busy: cost.busy });
    }
    notes.line("");
    if let [least, .., most] = measured.as_slice() {
        goals(least, most).into_iter().for_each(|goal| notes.line(goal));
    }
    if let Some(lab) = largest {
        faults(notes, &lab, SIZES[SIZES.len() - 1])?;
        lab.down()?;
    }
    let after = std::fs::read_to_string(NEIGHBOURS)?;
    anyhow::ensure!(after == neighbours, "{NEIGHBOURS} was {neighbours:?} before and is {after:?} now");
    Ok(())
}

fn up(notes: &Notes, nodes: u16) -> anyhow::Result<(Lab, Duration)> {
    let began = Instant::now();
    let lab = Lab::up(&options(nodes))?;
    ready(notes, &lab)?;
    Ok((lab, began.elapsed()))
}

fn ready(notes: &Notes, lab: &Lab) -> anyhow::Result<()> {
    let mut seconds = 0;
    lab.wait_ready(PATIENCE, |waiting| {
        seconds += 1;
        if seconds % 10 == 0 {
            let first = waiting.first().map_or("", |waiting| waiting.what.as_str());
            notes.progress(format!("waits for {} things, {first} among them", waiting.len()));
        }
    })?;
    Ok(())
}

/// Harms one node after the other, and has one come and one go each time.
fn faults(notes: &mut Notes, lab: &Lab, nodes: u16) -> anyhow::Result<()> {
    let rounds = std::env::var("SOAK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let before = Cost::below(lab.state().runner()?.pid);
    let mut slowest =
        [("reboot", 0.0_f64), ("power cut", 0.0), ("cable pulled", 0.0), ("API out of reach", 0.0)];
    for round in 0..rounds {
        // Steps that share no divisor with the number of nodes reach all of them.
        let node = format!("node-{}", u64::from(round) * 37 % u64::from(nodes) + 1);
        let kind = (round % 4) as usize;
        let network = 0;
        let fault = match kind {
            0 => lab.reboot(&node).map(|()| None),
            1 => lab.power_cut(&node).map(|()| None),
            2 => Ok(Some((Fault::Cut { end: node.clone(), network }, 5))),
            _ => Ok(Some((Fault::Part { a: node.clone(), b: "api".to_owned(), network }, 20))),
        }?;
        if let Some((fault, seconds)) = fault {
            lab.harm(fault.clone())?;
            std::thread::sleep(Duration::from_secs(seconds));
            lab.heal(Some(fault))?;
        }
        let began = Instant::now();
        let more = lab.add_node(NewNode::default())?;
        ready(notes, lab)?;
        let took = began.elapsed().as_secs_f64();
        lab.remove_node(more.as_str())?;
        slowest[kind].1 = slowest[kind].1.max(took);
        let what = slowest[kind].0;
        notes.progress(format!("round {} of {rounds}: {what}, {node}: ready after {took:.1} s", round + 1));
    }
    let worst = slowest.map(|(what, seconds)| format!("{what} {seconds:.1} s")).join(", ");
    notes.line(format!(
        "- {rounds} faults, with a node more and a node less each: slowest to be ready after: {worst}"
    ));
    let after = Cost::below(lab.state().runner()?.pid);
    notes.line(format!(
        "- memory before the faults {} MiB, after {} MiB",
        before.mebibytes(),
        after.mebibytes()
    ));
    Ok(())
}
