//! From accounts to a report.

use std::time::Duration;

use jiff::Timestamp;

use super::Traffic;
use super::driver::{Engine, Running};
use super::ground::Ground;
use super::report::{Answers, Direction, FlowReport, Gap, Lap, Report, Stream};
use super::tally::{self, At, Tally};

/// Ranges of missing numbers that are listed.
const RANGES: usize = 16;

pub(super) fn report<'a>(
    flows: impl IntoIterator<Item = &'a mut Running>,
    laps: &[String],
    ground: &Ground,
    running: bool,
) -> Report {
    let now = ground.now();
    let mut laps: Vec<Lap> = laps.iter().map(|name| Lap { name: name.clone(), ..Lap::default() }).collect();
    let flows: Vec<FlowReport> = flows
        .into_iter()
        .map(|flow| {
            let report = flow_report(flow, now, running);
            add_laps(&mut laps, flow, now);
            report
        })
        .collect();
    Report {
        started: Timestamp::now() - now,
        elapsed_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        running,
        totals: Report::sum(&flows),
        flows,
        laps,
        overruns: ground.overruns.values().map(|count| u64::from(*count)).sum(),
    }
}

fn flow_report(running: &mut Running, now: At, live: bool) -> FlowReport {
    let answered = match running.flow.traffic {
        Traffic::Udp(_) | Traffic::Tcp { .. } => true,
        Traffic::Icmp(_) | Traffic::TcpRequests { .. } | Traffic::UdpRequests { .. } => false,
    };
    let mut forward = direction(&mut running.forward, now, live);
    let mut stream = None;
    let mut requests = None;
    match &running.engine {
        Engine::Datagrams(_) => {}
        Engine::Stream(sender) => {
            stream = Some(Stream {
                connections: sender.connections,
                broken: sender.broken,
                failed_connects: sender.failed,
                mss: sender.segment,
            });
        }
        Engine::Requests(answers) => {
            // A request is known to have failed the moment it does, not a second later.
            forward.lost = answers.failed();
            forward.under_way = forward.sent - forward.received - forward.lost;
            requests = Some(Answers {
                failed: answers.silences.clone(),
                answered_by: answers.answered_by.clone(),
                seen_from: answers.seen_from.clone(),
                slowest_ms: ms(answers.slowest),
            });
        }
    }
    let flow = &running.flow;
    FlowReport {
        name: flow.name.clone(),
        kind: flow.kind.clone(),
        traffic: flow.traffic.word().to_owned(),
        family: if flow.to.is_ipv4() { 4 } else { 6 },
        from: flow.from.name.clone(),
        to: flow.to.to_string(),
        paused: running.paused,
        forward,
        backward: answered.then(|| direction(&mut running.backward, now, live)),
        stream,
        requests,
        errors: running.errors.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect(),
    }
}

/// Adds what a flow did in each lap. What was before the first is nobody's.
fn add_laps(laps: &mut [Lap], running: &Running, now: At) {
    let stream = matches!(running.flow.traffic, Traffic::Tcp { .. });
    for tally in [&running.forward, &running.backward] {
        // From the end: a flow that was added later has not been there for all of them.
        for (lap, (sent, own)) in laps.iter_mut().rev().zip(tally.laps(now).into_iter().rev()) {
            lap.sent += sent;
            lap.lost += own.lost;
            lap.longest_gap_ms = lap.longest_gap_ms.max(ms(own.longest));
            if stream {
                lap.longest_stall_ms = lap.longest_stall_ms.max(ms(own.longest));
            }
        }
    }
}

fn direction(tally: &mut Tally, now: At, live: bool) -> Direction {
    let lost = tally.lost(now);
    Direction {
        sent: tally.sent,
        received: tally.received,
        lost,
        under_way: tally.missing() - lost,
        duplicated: tally.duplicated,
        reordered: tally.reordered,
        refused: tally.refused,
        bytes: tally.bytes,
        longest_gap_ms: tally.longest(now).map_or(0.0, |gap| ms(gap.length)),
        gaps: tally.gaps.iter().map(gap).collect(),
        gaps_not_listed: tally.gaps_more,
        largest_sent: tally.largest_sent,
        largest_passed: tally.largest_passed,
        // Looking through every number is too much for a glance.
        missing: if live { Vec::new() } else { tally.missing_ranges(RANGES) },
    }
}

fn gap(gap: &tally::Gap) -> Gap {
    Gap { began_ms: ms(gap.began), length_ms: ms(gap.length) }
}

/// Milliseconds to the microsecond: more digits would be noise.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
