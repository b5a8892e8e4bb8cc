//! Services in every family, under both control planes.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt;
use netferry_lab::service_table::{Scenario as Story, Table, raise, scenarios};
use netferry_lab::{ControlPlane, Families, Lab, Options};

use crate::Scenario;
use crate::bench::options;
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "services",
    shows: "Every feature of Services is probed with real connections, in each family and in both, with the embedded \
            and the real control plane; no request is lost while backends come and go, again and again.",
    run: |notes| run(notes).boxed_local(),
};

const PATIENCE: Duration = Duration::from_secs(300);
const AT_ONCE: usize = 4;
/// So often backends come and go in each lab.
const ROUNDS: usize = 10;

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let all = scenarios()?;
    let real = || netferry_testkit::assets().map(|assets| ControlPlane::Kube { assets });
    let real = real().map_err(|missing| anyhow::anyhow!("{missing}"))?;
    notes.line("| families | control plane | scenarios | questions | requests under change | lost | took |");
    notes.line("| --- | --- | --- | --- | --- | --- | --- |");
    for (families, control_plane) in [
        (Families::V4, ControlPlane::Embedded),
        (Families::V6, ControlPlane::Embedded),
        (Families::Dual, ControlPlane::Embedded),
        (Families::Dual, real),
    ] {
        let plane = match control_plane {
            ControlPlane::Embedded => "embedded",
            ControlPlane::Kube { .. } => "kube",
        };
        let began = Instant::now();
        let lab = Lab::up(&Options { families, control_plane, ..options(3) })?;
        lab.wait_ready(PATIENCE, |_| {})?;
        let table = raise(&lab, "services", PATIENCE).await.context("starting the usual pods")?;
        let mut sum = Sum::default();
        play(notes, &table, &all, AT_ONCE, PATIENCE, &mut sum).await;
        let busy: Vec<Story> = all.iter().filter(|story| !story.load.is_empty()).cloned().collect();
        for round in 1..=ROUNDS {
            notes.progress(format!("{families:?} {plane}: round {round} of {ROUNDS}"));
            play(notes, &table, &busy, AT_ONCE, PATIENCE, &mut sum).await;
        }
        let Sum { scenarios, questions, requests, lost } = sum;
        let took = began.elapsed().as_secs();
        notes.line(format!(
            "| {families:?} | {plane} | {scenarios} | {questions} | {requests} | {lost} | {took} s |"
        ));
    }
    Ok(())
}

/// What came of scenarios that were played.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) scenarios: usize,
    pub(crate) questions: usize,
    pub(crate) requests: u64,
    pub(crate) lost: u64,
}

pub(crate) async fn play(
    notes: &mut Notes,
    table: &Table<'_>,
    stories: &[Story],
    at_once: usize,
    patience: Duration,
    sum: &mut Sum,
) {
    for (_, told) in table.run_all(stories, at_once, patience).await {
        match told {
            Ok(told) => {
                sum.scenarios += 1;
                sum.questions += told.questions;
                sum.requests += told.requests;
            }
            Err(error) => {
                if let netferry_lab::service_table::LiveError::Lost { lost, .. } = &error {
                    sum.lost += lost;
                }
                notes.problem(error.to_string());
            }
        }
    }
}
