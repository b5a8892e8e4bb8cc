//! Every part of a cluster is killed, again and again, while packets flow on every kind of path.

use std::time::{Duration, Instant};

use futures::FutureExt;
use netferry_lab::kills::{self, Killed, Part};
use netferry_lab::meter::{Limits, Report};
use netferry_lab::{Families, Options};

use crate::Scenario;
use crate::bench::{PATIENCE, options, ran, until};
use crate::notes::Notes;
use crate::stage::Stage;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kills",
    shows: "Three nodes with both families and full-size packets on every kind of path: whatever is killed, packets \
            arrive, and afterwards new pods and changed policies work.",
    run: |notes| of_many(notes).boxed_local(),
};

pub(crate) const SINGLE: Scenario = Scenario {
    name: "single-node-kills",
    shows: "One machine whose agent is its operator too: the same, and it comes back by itself when its power fails while \
            the API is away.",
    run: |notes| of_one(notes).boxed_local(),
};

/// How often a part is killed.
fn times(part: Part) -> usize {
    match part {
        Part::Agent => 50,
        Part::Operator | Part::ApiServer => 10,
        Part::Northd | Part::Northbound | Part::Southbound | Part::SwitchDatabase | Part::Controller => 9,
        Part::Switch => 3,
    }
}

/// A service manager lets what ends again and again wait; what ran for this long is back at once.
const STEADY: Duration = Duration::from_secs(11);
const API_GONE_FOR: Duration = Duration::from_secs(60);

async fn of_many(notes: &mut Notes) -> anyhow::Result<()> {
    let stage = Stage::new(&Options { families: Families::Dual, ..options(3) }, None).await;
    kill_all(notes, &stage, &Part::ALL);
    Ok(())
}

async fn of_one(notes: &mut Notes) -> anyhow::Result<()> {
    let options = Options { families: Families::Dual, single_node: true, ..options(1) };
    let stage = Stage::new(&options, None).await;
    let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| *part != Part::Operator).collect();
    kill_all(notes, &stage, &parts);

    let node = stage.nodes[0].as_str();
    in_any_order(notes, &stage, &parts);
    kills::take_api_away(&stage.lab).expect("the API goes");
    let began = Instant::now();
    stage.lab.power_cut(node).expect("the power fails");
    // What it knew is enough for everything but pods, of which a kubelet hears from the API.
    until("the machine is back, without the API", || {
        ran(&stage.lab, node, &["sh", "-c", "ip addr show dev ovn-k8s-mp0 && nft list table inet netferry"])
            .status
            .success()
    });
    notes.line("");
    notes.line(format!(
        "Its power failed while the API was away: the host's part was back after {:.0} s, without the API.",
        began.elapsed().as_secs_f32()
    ));
    kills::bring_api_back(&stage.lab).expect("the API comes back");
    stage.converges();
    Ok(())
}

/// Everything is killed before anything is back, in orders nobody chose; at last the power fails behind it. The second
/// time there is no API.
fn in_any_order(notes: &mut Notes, stage: &Stage, parts: &[Part]) {
    for (stride, without_api, power) in [(3, false, false), (5, true, false), (7, false, true)] {
        let parts = parts.iter().filter(|part| !without_api || **part != Part::ApiServer);
        let parts: Vec<Part> = parts.copied().collect();
        if without_api {
            kills::take_api_away(&stage.lab).expect("the API goes");
        }
        let order = (0..parts.len()).map(|turn| parts[turn * stride % parts.len()]);
        let order: Vec<Part> = order.collect();
        let killed: Vec<Killed> = order.iter().map(|part| killed(stage, *part)).collect();
        if power {
            stage.lab.power_cut(stage.nodes[0].as_str()).expect("the power fails");
        } else {
            for one in killed {
                one.replaced(&stage.lab, PATIENCE).unwrap_or_else(|error| panic!("{}", error.chain()));
            }
        }
        if without_api {
            kills::bring_api_back(&stage.lab).expect("the API comes back");
        }
        stage.converges();
        let order: Vec<&str> = order.into_iter().map(Part::word).collect();
        let more = match (without_api, power) {
            (true, _) => ", without the API",
            (_, true) => ", then the power",
            (false, false) => "",
        };
        notes.line("");
        notes.line(format!("All at once, in this order: {}{more}. Everything came back.", order.join(", ")));
    }
}

/// Kills one that may just be on its way back from the end of another.
fn killed(stage: &Stage, part: Part) -> Killed {
    let place = &part.places(&stage.nodes)[0];
    let mut done = None;
    until(&format!("there is a {} to kill", part.word()), || {
        done = part.kill(&stage.lab, place).ok();
        done.is_some()
    });
    done.expect("it was killed")
}

fn kill_all(notes: &mut Notes, stage: &Stage, parts: &[Part]) {
    notes.line("| killed | times | back after, at most | sent | lost | longest gap |");
    notes.line("| --- | --- | --- | --- | --- | --- |");
    for part in parts.iter().copied() {
        let places = part.places(&stage.nodes);
        let (count, mut slowest) = (times(part), Duration::ZERO);
        let report = stage.measured(|meter| {
            for place in places.iter().cycle().take(count) {
                slowest = slowest.max(stage.kill(part, place));
                stage.pass(meter);
                if places.len() == 1 && packets_wait_for(part) {
                    std::thread::sleep(STEADY);
                }
            }
        });
        let back = format!("{:.1} s", slowest.as_secs_f32());
        row(notes, part.word(), count, &back, &report);
        // What one may cost is allowed each time.
        let each = u64::try_from(count).unwrap_or(1);
        let one = part.limits().unwrap_or_else(|| absence(&report, slowest));
        let limits = Limits { lost: one.lost.saturating_mul(each), ..one };
        judge(notes, part.word(), &report, limits);
        stage.converges();
    }

    let mut away = Duration::ZERO;
    let report = stage.measured(|_| {
        let began = Instant::now();
        kills::take_api_away(&stage.lab).expect("the API goes");
        for node in &stage.nodes {
            stage.kill(Part::Agent, node.as_str());
        }
        std::thread::sleep(API_GONE_FOR.saturating_sub(began.elapsed()));
        kills::bring_api_back(&stage.lab).expect("the API comes back");
        away = began.elapsed();
    });
    let back = format!("gone for {:.0} s", away.as_secs_f32());
    row(notes, "API, and every agent while it is gone", 1, &back, &report);
    judge(notes, "API gone", &report, Part::ApiServer.limits().expect("it carries no packets"));
    stage.converges();
    notes.line("");
    notes.line(
        "Where the kernel has no datapath for the switch, as here, it stands still while its database is away: that is \
         the gap, and its sockets hold what comes meanwhile. Of the switch itself, what flows while it is away is lost.",
    );
}

fn packets_wait_for(part: Part) -> bool {
    matches!(part, Part::SwitchDatabase | Part::Switch)
}

fn row(notes: &mut Notes, what: &str, count: usize, back: &str, report: &Report) {
    let totals = &report.totals;
    notes.line(format!(
        "| {what} | {count} | {back} | {} | {} | {:.0} ms |",
        totals.sent, totals.lost, totals.longest_gap_ms
    ));
}

/// What the absence of something that carries packets may cost: those that come meanwhile, and until its flows are
/// back. A stream waits twice as long before each time it tries again, so its last wait is as long as all before it.
fn absence(report: &Report, away: Duration) -> Limits {
    let a_second = report.totals.sent as f64 * 1000.0 / report.elapsed_ms as f64;
    let until_flows_are_back = away + Duration::from_secs(1);
    let lost = a_second * until_flows_are_back.as_secs_f64();
    Limits { lost: lost as u64, gap: Some(until_flows_are_back * 2 + Duration::from_millis(500)) }
}

fn judge(notes: &mut Notes, what: &str, report: &Report, limits: Limits) {
    let problems = report.verdict(limits).problems;
    if let Some(first) = problems.first() {
        notes.problem(format!("{what}: {first} (and {} more)", problems.len() - 1));
    }
}
