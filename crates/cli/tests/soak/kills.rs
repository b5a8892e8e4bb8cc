//! Every part of a cluster is killed, again and again, while packets flow on every kind of path.

use std::time::{Duration, Instant};

use futures::FutureExt;
use netferry_lab::kills::{self, Part};
use netferry_lab::meter::{Limits, Report};
use netferry_lab::{Families, Options};

use crate::Scenario;
use crate::bench::options;
use crate::notes::Notes;
use crate::stage::Stage;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kills",
    shows: "Three nodes with both families and full-size packets on every kind of path: whatever is killed, packets \
            arrive, and afterwards new pods and changed policies work.",
    run: |notes| run(notes).boxed_local(),
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

const API_GONE_FOR: Duration = Duration::from_secs(60);

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let stage = Stage::new(&Options { families: Families::Dual, ..options(3) }, None).await;
    notes.line("| killed | times | back after, at most | sent | lost | longest gap |");
    notes.line("| --- | --- | --- | --- | --- | --- |");
    for part in Part::ALL {
        let places = part.places(&stage.nodes);
        let (count, mut slowest) = (times(part), Duration::ZERO);
        let report = stage.measured(|meter| {
            for place in places.iter().cycle().take(count) {
                slowest = slowest.max(stage.kill(part, place));
                stage.pass(meter);
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
    Ok(())
}

fn row(notes: &mut Notes, what: &str, count: usize, back: &str, report: &Report) {
    let totals = &report.totals;
    notes.line(format!(
        "| {what} | {count} | {back} | {} | {} | {:.0} ms |",
        totals.sent, totals.lost, totals.longest_gap_ms
    ));
}

/// What the absence of something that carries packets may cost: those that come meanwhile, and until its flows are
/// back.
fn absence(report: &Report, away: Duration) -> Limits {
    let a_second = report.totals.sent as f64 * 1000.0 / report.elapsed_ms as f64;
    let lost = a_second * (away + Duration::from_secs(1)).as_secs_f64();
    Limits { lost: lost as u64, gap: Some(away + Duration::from_secs(2)) }
}

fn judge(notes: &mut Notes, what: &str, report: &Report, limits: Limits) {
    let problems = report.verdict(limits).problems;
    if let Some(first) = problems.first() {
        notes.problem(format!("{what}: {first} (and {} more)", problems.len() - 1));
    }
}
