//! What takes too long for every change: large labs, whole matrices of faults. `make soak` runs it, for hours, and
//! writes down in `docs/soak.md` what came of it; `make soak SCENARIOS="a b"` runs these alone. Needs root.
//!
//! A scenario is a file: a [`Scenario`] with an async function that notes its numbers. What it finds wrong is a
//! problem; an error or a panic is one too, and the scenarios after it run all the same.

#[path = "../lab/bench.rs"]
mod bench;
#[path = "../lab/change.rs"]
mod change;
mod clusters;
mod goals;
mod hosts;
mod kernel_datapath;
mod kernel_lab;
mod kernel_mtu;
mod kernel_tables;
mod kills;
#[path = "../lab/kubectl.rs"]
mod kubectl;
mod large;
mod moves;
mod mtu;
mod mtu_cancelled;
mod mtu_kills;
mod mtu_twenty;
mod notes;
#[path = "../lab/one_machine.rs"]
mod one_machine;
mod paths;
mod policies;
mod processes;
mod proofs;
mod report;
mod services;
mod single_node;
mod solo;
#[path = "../lab/stage.rs"]
mod stage;
mod tampering;
#[path = "../lab/tampering/mod.rs"]
mod tampering_ground;
mod underlay;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use notes::Notes;

/// Something to see a cluster through.
struct Scenario {
    /// How it is asked for.
    name: &'static str,
    /// What it shows, as a sentence.
    shows: &'static str,
    run: for<'a> fn(&'a mut Notes) -> LocalBoxFuture<'a, anyhow::Result<()>>,
}

/// In the order they run.
const SCENARIOS: &[&Scenario] = &[
    &kills::SCENARIO,
    &kills::SINGLE,
    &single_node::SCENARIO,
    &kernel_datapath::SCENARIO,
    &kernel_lab::SCENARIO,
    &kernel_mtu::SCENARIO,
    &kernel_tables::SCENARIO,
    &hosts::SCENARIO,
    &solo::SYSTEMD,
    &solo::NO_IPV6,
    &tampering::SCENARIO,
    &policies::SCENARIO,
    &services::SCENARIO,
    &paths::DUAL,
    &paths::FOUR,
    &paths::SIX,
    &paths::KUBE,
    &paths::TEN,
    &mtu::FOUR,
    &mtu::SIX,
    &mtu::DUAL,
    &mtu::KUBE,
    &mtu::NAIVE,
    &mtu_kills::SCENARIO,
    &mtu_kills::KUBE,
    &mtu_cancelled::SCENARIO,
    &mtu_cancelled::KUBE,
    &mtu_twenty::SCENARIO,
    &underlay::SCENARIO,
    &underlay::KUBE,
    &large::SCENARIO,
    &proofs::MODEL,
    &proofs::SIMULATION[0],
    &proofs::SIMULATION[1],
    &proofs::SIMULATION[2],
    &proofs::SIMULATION[3],
    &proofs::SIMULATION_LARGE,
    &proofs::EVERY_STEP,
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted == [kernel_tables::INSIDE.name] {
        kernel_tables::say(&run(&kernel_tables::INSIDE).0);
        return ExitCode::SUCCESS;
    }
    let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        eprintln!("soak: there is no scenario {unknown:?}; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    let chosen = SCENARIOS
        .iter()
        .filter(|scenario| wanted.is_empty() || wanted.iter().any(|name| name == scenario.name));
    let mut failed = vec![];
    for scenario in chosen {
        println!("soak: {}: {}", scenario.name, scenario.shows);
        let (notes, took) = run(scenario);
        let section = report::Section {
            name: scenario.name,
            shows: scenario.shows,
            command: command(scenario.name),
            setting: report::Setting::here(),
            took,
            lines: &notes.lines,
            problems: &notes.problems,
        };
        if let Err(error) = report::put(&path(), &names, &section) {
            // The numbers are on the terminal; an hour of measuring must not end as a success nobody can read.
            eprintln!("soak: writing {}: {error}", path().display());
            failed.push(scenario.name);
        } else if !notes.problems.is_empty() {
            failed.push(scenario.name);
        }
    }
    if failed.is_empty() {
        println!("soak: all of it held; docs/soak.md has the numbers");
        return ExitCode::SUCCESS;
    }
    eprintln!("soak: failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// What ran it: what is not optimised is not what `make soak` measures.
fn command(name: &str) -> String {
    if cfg!(debug_assertions) {
        format!("cargo test -p netferry-cli --test soak -- {name}")
    } else {
        format!("make soak SCENARIOS={name}")
    }
}

/// Runs one to its end, whatever that is.
fn run(scenario: &Scenario) -> (Notes, std::time::Duration) {
    let began = Instant::now();
    let mut notes = Notes::new(scenario.name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let ended = runtime.block_on(AssertUnwindSafe((scenario.run)(&mut notes)).catch_unwind());
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => notes.problem(format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
            notes.problem(text.to_owned());
        }
    }
    (notes, began.elapsed())
}

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/soak.md")
}
