//! Waiting until every flow is answered once.

use std::time::{Duration, Instant};

use crate::meter::{Flow, FlowReport, Meter, MeterError, Report};

/// A flow that nobody answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Which flow.
    pub flow: String,
    /// What it is known by: sent, received, and what its sockets complained of.
    pub why: String,
}

/// Sends a little on every flow until each has been answered both ways, or the patience ends; tells those that were not.
///
/// A Service takes a moment from its object to the datapath of every node; a neighbour that is not known yet costs the
/// packets that wait for it. None of that is loss on a path that is there.
pub fn preflight(
    flows: &[Flow],
    patience: Duration,
    progress: impl FnMut(&Report),
) -> Result<Vec<Silent>, MeterError> {
    Ok(silent(&tried(flows, patience, progress)?))
}

/// The same, and tells all that was seen.
pub(super) fn tried(
    flows: &[Flow],
    patience: Duration,
    mut progress: impl FnMut(&Report),
) -> Result<Report, MeterError> {
    let gentle = flows.iter().map(|flow| flow.clone().at_rate(5)).collect();
    let meter = Meter::start(gentle)?;
    let end = Instant::now() + patience;
    let last = loop {
        let report = meter.snapshot()?;
        progress(&report);
        if report.flows.iter().all(answered) || Instant::now() >= end {
            break report;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    // Stragglers of this meter would be strays to the next one.
    meter.finish(Duration::from_secs(1))?;
    Ok(last)
}

/// The flows of a report that nobody answered.
pub fn silent(report: &Report) -> Vec<Silent> {
    report.flows.iter().filter(|flow| !answered(flow)).map(Silent::of).collect()
}

fn answered(flow: &FlowReport) -> bool {
    flow.directions().all(|direction| direction.received > 0)
}

impl Silent {
    fn of(flow: &FlowReport) -> Silent {
        let mut why: Vec<String> =
            vec![format!("{} sent, {} came", flow.forward.sent, flow.forward.received)];
        why.extend(
            flow.backward.iter().map(|back| format!("{} sent back, {} came", back.sent, back.received)),
        );
        why.extend(flow.errors.iter().map(|(what, count)| format!("{what} {count}×")));
        Silent {
            flow: format!("{} ({} IPv{}, {})", flow.name, flow.traffic, flow.family, flow.kind),
            why: why.join("; "),
        }
    }
}
