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
        let limits = part.limits().map(|one| Limits { lost: one.lost.saturating_mul(each), ..one });
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
    judge(notes, "API gone", &report, Part::ApiServer.limits());
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

fn judge(notes: &mut Notes, what: &str, report: &Report, limits: Option<Limits>) {
    let Some(limits) = limits else { return };
    let problems = report.verdict(limits).problems;
    if let Some(first) = problems.first() {
        notes.problem(format!("{what}: {first} (and {} more)", problems.len() - 1));
    }
}
