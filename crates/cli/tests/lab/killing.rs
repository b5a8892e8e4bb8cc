//! Parts of a cluster are killed while packets flow on every kind of path.

use std::time::{Duration, Instant};

use netferry_lab::kills::{self, Part};
use netferry_lab::meter::{Limits, Report};

use crate::bench::{self, said};
use crate::footprint::Footprint;
use crate::stage::{SOME, Stage};

/// Of every flow. Together they are some hundred a second through each switch, so that every outage is met by one of
/// them; more would overflow its sockets whenever other tests keep it from the processor for a moment.
const RATE: u32 = 2;

/// Fails with the whole report, and when gaps were.
fn judge(stage: &Stage, what: &str, report: &Report, limits: Limits) {
    let verdict = report.verdict(limits);
    if verdict.passed {
        return;
    }
    let ways = report.flows.iter().flat_map(|flow| flow.directions());
    let mut gaps: Vec<String> = ways
        .flat_map(|way| &way.gaps)
        .map(|gap| format!("{:.1} s for {:.1} s", gap.began_ms / 1000.0, gap.length_ms / 1000.0))
        .collect();
    gaps.sort();
    gaps.dedup();
    let waits: Vec<String> = stage.nodes.iter().map(|node| stage.waits(node.as_str())).collect();
    panic!(
        "{report}\n{what}\ngaps at {gaps:?}\nswitches that had to wait for a processor:\n{}",
        waits.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_any_part_of_a_cluster_loses_no_packet_and_everything_converges() {
    let stage = Stage::new(&bench::options(2), Some(RATE)).await;
    let one = stage.nodes[0].as_str();
    let strict: Vec<Part> =
        Part::ALL.into_iter().filter(|part| part.limits().is_some_and(|limits| limits.lost == 0)).collect();
    assert_eq!(strict.len(), 7, "{strict:?}");
    let mut log = String::new();
    let daemons = || said(&stage.lab, one, &["sh", "-c", "cat /run/ovn/*.pid"]);
    let before = daemons();
    assert_eq!(before.lines().count(), 4, "{before}");
    let report = stage.measured(|meter| {
        let mut at = |what: &str| {
            let now = meter.snapshot().expect("a snapshot").elapsed_ms;
            log += &format!("at {:.1} s: {what} is killed\n", now as f64 / 1000.0);
        };
        for part in strict {
            let place = if part.on_nodes() { one } else { "control" };
            at(part.word());
            stage.kill(part, place);
            if part == Part::Agent {
                assert_eq!(daemons(), before, "the zone's daemons outlive the agent's process group");
            }
            stage.pass(meter);
        }
        at("the API, for ten seconds, and then the agent,");
        kills::take_api_away(&stage.lab).expect("the API goes");
        let until = Instant::now() + Duration::from_secs(10);
        // An agent that starts without the API leaves everything as it is.
        stage.kill(Part::Agent, one);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        kills::bring_api_back(&stage.lab).expect("the API comes back");
    });
    judge(&stage, &log, &report, Part::Agent.limits().expect("limits"));

    let report = stage.measured(|_| _ = stage.kill(Part::Controller, one));
    judge(&stage, Part::Controller.word(), &report, Part::Controller.limits().expect("limits"));

    // Without a switch nothing passes its node; all of it comes back by itself.
    stage.kill(Part::Switch, one);
    let report = stage.measured(|_| {});
    let dead = report.flows.iter().filter(|flow| flow.directions().any(|way| way.received < SOME));
    let dead: Vec<&str> = dead.map(|flow| flow.name.as_str()).collect();
    assert!(dead.is_empty(), "flows that did not come back after the switch was killed: {dead:?}");
    stage.converges();

    let made = Footprint::of(&stage.lab);
    stage.lab.down().expect("down");
    assert_eq!(made.left(), Vec::<String>::new());
}
