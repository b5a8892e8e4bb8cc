//! What was measured, as text, and what it comes to.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::anyhow;
use netferry_lab::meter::{Lap, Limits, Report};

use super::seconds;
use crate::exit::Failure;
use crate::output;

/// Nothing may be lost, and nothing may stand still for as long as people notice.
const LIMITS: Limits = Limits { lost: 0, gap: Some(Duration::from_secs(1)) };

/// How it stands in the current lap.
pub(super) fn row(report: &Report, what: &str) -> String {
    let lap = report.laps.last().cloned().unwrap_or_default();
    format!(
        "  {:>4} s  {what:<36} {:>7} sent  {} lost  longest gap {:.0} ms\n",
        report.elapsed_ms / 1000,
        lap.sent,
        lap.lost,
        lap.longest_gap_ms
    )
}

/// A line for each lap.
pub(super) fn table(laps: &[Lap]) -> String {
    let width = laps.iter().map(|lap| lap.name.len()).max().unwrap_or_default();
    let mut text = format!("{:width$}     SENT   LOST  LONGEST GAP  LONGEST TCP STALL\n", "");
    for lap in laps {
        let Lap { name, sent, lost, longest_gap_ms, longest_stall_ms } = lap;
        let (gap, stall) = (format!("{longest_gap_ms:.0} ms"), format!("{longest_stall_ms:.0} ms"));
        let _ = writeln!(text, "{name:width$}  {sent:>7}  {lost:>5}  {gap:>11}  {stall:>17}");
    }
    text
}

/// What was measured, all in all.
#[derive(Debug, Default)]
pub(super) struct Told {
    laps: Vec<Lap>,
    flows: u64,
    pub(super) problems: Vec<String>,
}

impl Told {
    pub(super) fn measured(&mut self, report: &Report) {
        self.laps.extend(report.laps.iter().cloned());
        self.flows = report.totals.flows;
        self.problems.extend(report.verdict(LIMITS).problems);
    }

    /// Tells it, and fails if it is not as it should be.
    pub(super) fn judge(&self, took: Duration) -> Result<(), Failure> {
        let sent: u64 = self.laps.iter().map(|lap| lap.sent).sum();
        let lost: u64 = self.laps.iter().map(|lap| lap.lost).sum();
        let stall = self.laps.iter().map(|lap| lap.longest_stall_ms).fold(0.0, f64::max);
        let verdict = if self.problems.is_empty() { "passed" } else { "failed" };
        output::print(&format!(
            "\nWhat you saw\n{}\n\
             \x20 packets    {sent} sent on {} flows, {lost} lost (0 allowed)\n\
             \x20 TCP        stood still for {stall:.0} ms at most (less than 1 s allowed)\n\
             \x20 took       {}\n\
             \x20 left over  nothing: the lab's processes, namespaces and files are gone\n\
             \x20 verdict    {verdict}\n",
            table(&self.laps),
            self.flows,
            seconds(took),
        ))?;
        let Some(first) = self.problems.first() else { return Ok(()) };
        let more = self.problems.len() - 1;
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        Err(Failure::Failed(anyhow!("{first}{more}")))
    }
}
