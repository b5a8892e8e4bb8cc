//! Every kind of path, in clusters of every kind.

use std::time::{Duration, Instant};

use futures::FutureExt;
use netferry_lab::meter::{Limits, Meter};
use netferry_lab::paths::{Kind, Selection, carried, flows, in_lab, preflight, wrong_sizes};
use netferry_lab::{Families, Options};

use crate::Scenario;
use crate::bench::{options, up};
use crate::clusters;
use crate::notes::Notes;

pub(crate) const DUAL: Scenario = Scenario {
    name: "paths-dual",
    shows: "Nothing is lost on any kind of path of three nodes with IPv4 and IPv6, by UDP, TCP and ICMP, at any size up \
            to the MTU.",
    run: |notes| run(notes, clusters::of(Families::Dual)).boxed_local(),
};

pub(crate) const FOUR: Scenario = Scenario {
    name: "paths-v4",
    shows: "The same with IPv4 alone.",
    run: |notes| run(notes, clusters::of(Families::V4)).boxed_local(),
};

pub(crate) const SIX: Scenario = Scenario {
    name: "paths-v6",
    shows: "The same with IPv6 alone.",
    run: |notes| run(notes, clusters::of(Families::V6)).boxed_local(),
};

pub(crate) const KUBE: Scenario = Scenario {
    name: "paths-kube",
    shows: "The same under the real control plane, with operator and agents in the roles they are deployed with.",
    run: |notes| async { run(notes, clusters::under_kube()?).await }.boxed_local(),
};

pub(crate) const TEN: Scenario = Scenario {
    name: "paths-10-nodes",
    shows: "The same with ten nodes, hosts and pods across of every pair of them.",
    run: |notes| run(notes, Options { families: Families::Dual, ..options(10) }).boxed_local(),
};

/// Everything may take this long, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long is measured.
const MEASURED: Duration = Duration::from_secs(60);

async fn run(notes: &mut Notes, options: Options) -> anyhow::Result<()> {
    let began = Instant::now();
    let lab = up(&options);
    notes.line(format!("- {} nodes, ready after {:.1} s", options.nodes, began.elapsed().as_secs_f32()));
    let sites = in_lab::sites(&lab, PATIENCE, |_| {}).await?;
    let flows = flows(&sites, &Selection::of_every_size());
    for kind in Kind::ALL.into_iter().filter(|kind| !flows.iter().any(|flow| flow.kind == kind.word())) {
        notes.problem(format!("no flow of kind {kind}"));
    }
    for silent in preflight(&flows, PATIENCE, |_| {})? {
        notes.problem(format!("{}: {}", silent.flow, silent.why));
    }
    let count = flows.len();
    let meter = Meter::start(flows)?;
    tokio::time::sleep(MEASURED).await;
    let report = meter.finish(Duration::from_secs(5))?;
    let directions = || report.flows.iter().flat_map(|flow| flow.directions());
    let sent: u64 = directions().map(|direction| direction.sent).sum();
    let lost: u64 = directions().map(|direction| direction.lost).sum();
    notes.line(format!("- {count} flows for {} s: {sent} packets, {lost} lost", MEASURED.as_secs()));
    if !report.verdict(Limits::NONE_LOST).passed {
        notes.problem(format!("{report}"));
    }
    let carried = carried(&lab, &sites, PATIENCE)?;
    let wrong = wrong_sizes(&carried, options.host_mtu(), options.pod_mtu());
    notes.line(format!(
        "- {} flows at full size, {} between hosts and {} between pods: {} of another",
        carried.flows.len(),
        options.host_mtu(),
        options.pod_mtu(),
        wrong.len()
    ));
    wrong.into_iter().for_each(|wrong| notes.problem(wrong));
    Ok(())
}
