//! What needs no lab: every state of a small cluster, and thousands of simulated changes. They are tests of other crates,
//! run here with more patience, and what they have to say is kept.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use futures::FutureExt;

use crate::Scenario;
use crate::notes::Notes;

pub(crate) const MODEL: Scenario = Scenario {
    name: "model",
    shows: "Every state that three nodes and an operator can reach keeps its promises, with more going wrong at once than \
            in `make test`.",
    run: |notes| {
        async { tests(notes, &["-p", "netferry-core", "--test", "model"], &[("NETFERRY_SOAK", "1")]) }
            .boxed_local()
    },
};

/// Ten thousand altogether; a part fits into less than an hour of two processors.
pub(crate) const SIMULATION: [Scenario; 4] = [
    Scenario {
        name: "simulation-1",
        shows: BY_CHANCE,
        run: |notes| simulate(notes, "seed=1 seeds=2500 nodes=6").boxed_local(),
    },
    Scenario {
        name: "simulation-2",
        shows: BY_CHANCE,
        run: |notes| simulate(notes, "seed=2501 seeds=2500 nodes=6").boxed_local(),
    },
    Scenario {
        name: "simulation-3",
        shows: BY_CHANCE,
        run: |notes| simulate(notes, "seed=5001 seeds=2500 nodes=6").boxed_local(),
    },
    Scenario {
        name: "simulation-4",
        shows: BY_CHANCE,
        run: |notes| simulate(notes, "seed=7501 seeds=2500 nodes=6").boxed_local(),
    },
];

const BY_CHANCE: &str = "Ten thousand changes, a quarter of them here, by the operator and the API server that ship, in \
    virtual time, with whatever can happen by chance: nothing that is sent is too large for anybody, no more nodes are away \
    than may be, and everything arrives.";

pub(crate) const SIMULATION_LARGE: Scenario = Scenario {
    name: "simulation-large",
    shows: "The same with two hundred machines each, few times.",
    run: |notes| simulate(notes, "seed=10001 seeds=20 nodes=200").boxed_local(),
};

async fn simulate(notes: &mut Notes, which: &str) -> anyhow::Result<()> {
    tests(notes, &["-p", "netferry-operator", "--test", "simulation"], &[("NETFERRY_SIMULATE", which)])
}

pub(crate) const EVERY_STEP: Scenario = Scenario {
    name: "every-step",
    shows: "On every way a change can go (up, down, cancelled, turned around) operator, API server, agent, `host-init` and a \
            node's power end once at each single step: it arrives all the same, and no promise is broken.",
    run: |notes| {
        let only = ["-p", "netferry-operator", "--test", "change", "--", "whatever_ends_at_whichever_step"];
        async move { tests(notes, &only, &[("NETFERRY_SOAK", "1")]) }.boxed_local()
    },
};

/// Runs tests; a line of theirs that is an item of a list is kept.
fn tests(notes: &mut Notes, which: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    // What built this suite builds them.
    let cargo = std::env::var_os("CARGO").context("CARGO is not set: run this through `make soak`")?;
    let (before, after) = which.split_at(which.iter().position(|word| *word == "--").unwrap_or(which.len()));
    let mut command = Command::new(cargo);
    // What cargo says to this program of its own package would be heard by build scripts of dependencies, which would
    // then be built anew each time, and with them everything.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).arg("test").args(before);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.args(["--", "--nocapture"]).args(after.iter().skip(1)).envs(environment.iter().copied());
    let mut running = command.stderr(Stdio::piped()).spawn().context("starting the tests")?;
    let said = running.stderr.take().context("what they say")?;
    for line in BufReader::new(said).lines() {
        let line = line.context("reading what they say")?;
        if line.starts_with("- ") {
            notes.line(line);
        } else {
            notes.progress(line);
        }
    }
    let status = running.wait().context("waiting for the tests")?;
    if !status.success() {
        bail!("they ended with {status}");
    }
    Ok(())
}
