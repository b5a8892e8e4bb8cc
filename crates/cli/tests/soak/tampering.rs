//! Everything of ours on a node is deleted by hand, one thing after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;

use crate::Scenario;
use crate::notes::Notes;
use crate::tampering_ground::{Ground, Outcome};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "tampering",
    shows: "Every row, route, address, neighbour, setting and rule of ours on a running node is deleted or changed by \
            hand, one after the other, and is put back exactly as it was.",
    run: |notes| run(notes).boxed_local(),
};

/// What is not back by then is given up.
const PATIENCE: Duration = Duration::from_secs(20);

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let mut ground = Ground::new();
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut held, mut changed) = (0, 0);
    // What stays changed would be in the way of what is deleted afterwards.
    let mut harms = ground.harms();
    harms.sort_by_key(|harm| !harm.is_loss());
    let all = harms.len();
    for (number, harm) in harms.into_iter().enumerate() {
        match ground.suffer(&harm, PATIENCE) {
            Outcome::Repaired(after) => {
                if harm.is_loss() {
                    times.entry(harm.kind).or_default().push(after.as_secs_f64() * 1000.0);
                } else {
                    changed += 1;
                }
            }
            Outcome::Refused(_) | Outcome::Gone => held += 1,
            Outcome::Left(what) => {
                let what: String = what.chars().take(300).collect();
                notes.problem(format!("{}: not as it was after {} s: {what}", harm.what, PATIENCE.as_secs()));
                ground.settle();
            }
        }
        if number % 20 == 0 {
            notes.progress(format!("{number} of {all} done"));
        }
    }
    notes.line("| deleted | things | typically back after | at most |");
    notes.line("| --- | --- | --- | --- |");
    let mut whole: Vec<f64> = times.values().flatten().copied().collect();
    for (kind, mut times) in times {
        let (middle, worst) = spread(&mut times);
        notes.line(format!(
            "| {} | {} | {middle:.0} ms | {worst:.0} ms |",
            kind.trim_end_matches(" deleted"),
            times.len()
        ));
    }
    let (middle, worst) = spread(&mut whole);
    notes.line(format!("| all | {} | {middle:.0} ms | {worst:.0} ms |", whole.len()));
    notes.line("");
    notes.line(format!("- {changed} more were changed by hand and put back"));
    notes.line(format!(
        "- {held} could not be done: the database does not allow it, or the thing went with another"
    ));
    if middle > 1000.0 {
        notes.problem(format!("typically {middle:.0} ms, where a second is promised"));
    }
    Ok(())
}

/// The middle one and the largest.
fn spread(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    let middle = times.get(times.len() / 2).copied().unwrap_or(0.0);
    (middle, times.last().copied().unwrap_or(0.0))
}
