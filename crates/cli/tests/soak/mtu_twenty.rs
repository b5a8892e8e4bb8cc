//! Twenty nodes change their MTU, and how long each takes.

use std::time::{Duration, Instant};

use futures::FutureExt;
use netferry_lab::escort::Escort;
use netferry_lab::paths::{Selection, in_lab};
use netferry_lab::{Families, Name, Options};
use netferry_testkit::page::goal;

use crate::Scenario;
use crate::bench::{PATIENCE, options, up};
use crate::change::{LARGE, SMALL, between_nodes, measured, with_room, wrong};
use crate::moves::Moves;
use crate::mtu::{head, rows};
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "mtu-20-nodes",
    shows: "Twenty nodes go from 1400 to 8900, one at a time and each of them twice: nothing is lost on paths of nodes that \
            stay. How long a node takes, with what, and beside a restart that nobody orchestrates.",
    run: |notes| run(notes).boxed_local(),
};

const NODES: u16 = 20;
/// Restarts without a change, to compare with.
const BARE: usize = 5;
/// Of the time of bare restarts; measured, and no reason to fail.
const GOAL: f64 = 10.0;

/// One restart during the change.
struct Restart {
    phase: String,
    began: Instant,
    ended: Instant,
}

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let lab = up(&with_room(Options { families: Families::V4, ..options(NODES) }));
    let sites = in_lab::sites(&lab, PATIENCE, |_| {}).await?;
    // Few of each: twenty nodes share the processors with what measures them.
    let selection = Selection { rate: Some(5), ..between_nodes() };
    let mut escort = Escort::start(&lab, sites, &selection, PATIENCE)?;
    let mut bare = Vec::new();
    for node in lab.status()?.nodes.into_iter().take(BARE) {
        let began = Instant::now();
        escort.restart(&node.name)?;
        bare.push(began.elapsed());
        notes.progress(format!("{} restarted in {:.1} s", node.name, began.elapsed().as_secs_f64()));
    }
    let (_, sites) = escort.finish()?;
    let mut restarts: Vec<Restart> = Vec::new();
    let moves = Moves::follow(&lab).await?;
    let restart = |phase: &str, escort: &mut Escort<'_>, node: &Name| {
        moves.asks(node.as_str());
        let began = Instant::now();
        escort.restart(node)?;
        restarts.push(Restart { phase: phase.to_owned(), began, ended: Instant::now() });
        notes.progress(format!("{phase}: {node}, {} restarts so far", restarts.len()));
        Ok(())
    };
    let (report, back) = measured(&lab, sites, &selection, (SMALL, LARGE), restart)?;
    head(notes);
    rows(notes, &report);
    times(notes, &mut bare, &restarts);
    steps(notes, moves.times());
    for problem in wrong(&lab, &back, &report, LARGE)? {
        notes.problem(problem);
    }
    if restarts.len() != usize::from(NODES) * 2 {
        notes.problem(format!("{} restarts instead of two of every node", restarts.len()));
    }
    Ok(())
}

/// How long nodes took: to restart, and from one restart to the next.
fn times(notes: &mut Notes, bare: &mut [Duration], restarts: &[Restart]) {
    let same_phase = restarts.windows(2).filter(|pair| pair[0].phase == pair[1].phase);
    let mut between: Vec<Duration> = same_phase.map(|pair| pair[1].began - pair[0].ended).collect();
    let mut away: Vec<Duration> = restarts.iter().map(|restart| restart.ended - restart.began).collect();
    let [bare, away, between] = [bare, &mut away, &mut between].map(typical);
    let over = ((away + between) / bare - 1.0) * 100.0;
    notes.line("");
    notes.line("| typically | |");
    notes.line("| --- | --- |");
    notes.line(format!("| a restart without a change, until every path is answered again | {bare:.1} s |"));
    notes.line(format!("| a restart during the change | {away:.1} s |"));
    notes.line(format!(
        "| from one node's return to the next one's restart: let in, cordon, drain, write | {between:.1} s |"
    ));
    notes.line(format!("| a node, of a phase | {:.1} s |", away + between));
    notes.line("");
    let text = format!("a node, of a phase, over a bare restart below {GOAL} % more: {over:.0} %");
    notes.line(goal(&text, over < GOAL).trim_end());
}

/// Where the time of a node goes.
fn steps(notes: &mut Notes, times: Vec<(&'static str, Vec<Duration>)>) {
    notes.line("");
    notes.line("| what a node is waited for, as its object in the API shows it | typically | nodes seen |");
    notes.line("| --- | --- | --- |");
    for (what, mut times) in times {
        notes.line(format!("| {what} | {:.1} s | {} |", typical(&mut times), times.len()));
    }
}

/// The median, in seconds.
fn typical(times: &mut [Duration]) -> f64 {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64()
}
