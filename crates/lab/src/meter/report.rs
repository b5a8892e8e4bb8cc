//! What a meter found, for people and programs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::programs::probe::Silence;

/// What a meter found, or has found so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// When the meter started.
    pub started: Timestamp,
    /// For how long it has run, in milliseconds. Gaps count from the same start.
    pub elapsed_ms: u64,
    /// Whether it still runs: then what is less than a second old and missing is not called lost.
    pub running: bool,
    /// Each flow.
    pub flows: Vec<FlowReport>,
    /// All of them.
    pub totals: Totals,
    /// What became of the flows from one [`super::Running::lap`] to the next; without any, empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub laps: Vec<Lap>,
    /// Packets that had arrived and were dropped because the meter did not read them in time. They are counted as
    /// lost above, and the network is innocent of them.
    pub overruns: u64,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// What kind of path it is on.
    pub kind: String,
    /// `udp`, `tcp`, `icmp`, `tcp-requests`, `udp-requests`.
    pub traffic: String,
    /// 4 or 6.
    pub family: u8,
    /// Where it starts.
    pub from: String,
    /// Where it is sent.
    pub to: String,
    /// Whether it is paused, because a place it needs is away.
    pub paused: bool,
    /// From its start to the other side. Of echo requests and requests, there and back.
    pub forward: Direction,
    /// From the other side back, where the meter answers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward: Option<Direction>,
    /// Its connections, if it is a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Its answers, if it is made of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Answers>,
    /// What its sockets complained of, and how often. An EMSGSIZE that was followed by a smaller packet is here too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// One direction of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Direction {
    /// Numbers used.
    pub sent: u64,
    /// Of those, how many came at least once.
    pub received: u64,
    /// Of those sent, how many did not.
    pub lost: u64,
    /// Sent less than a second ago and not there yet.
    pub under_way: u64,
    /// Came once more.
    pub duplicated: u64,
    /// Came after one with a higher number.
    pub reordered: u64,
    /// Of those lost, how many the sender's own kernel refused.
    pub refused: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// The longest time in which something was sent and nothing came.
    pub longest_gap_ms: f64,
    /// Each gap worth listing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Gaps beyond those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gaps_not_listed: u64,
    /// The largest packet sent, in bytes of IP.
    pub largest_sent: u32,
    /// The largest packet that came, in bytes of IP.
    pub largest_passed: u32,
    /// The first ranges of numbers that never came, both ends included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<(u64, u64)>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A time in which something was sent and nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// When it began, in milliseconds since the meter started.
    pub began_ms: f64,
    /// How long it was.
    pub length_ms: f64,
}

/// The connections of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stream {
    /// Connections made. The first is not a reconnect.
    pub connections: u64,
    /// Connections that broke: reset, timed out, closed by the other side.
    pub broken: u64,
    /// Handshakes that failed.
    pub failed_connects: u64,
    /// Bytes of payload in a full segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
}

/// The answers to requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// Requests that failed, by why.
    pub failed: BTreeMap<Silence, u64>,
    /// Answers, by who gave them.
    pub answered_by: BTreeMap<String, u64>,
    /// Answers, by the address the answering side saw.
    pub seen_from: BTreeMap<IpAddr, u64>,
    /// The slowest answer.
    pub slowest_ms: f64,
}

/// Sums over flows, both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Flows.
    pub flows: u64,
    /// Packets, records and requests.
    pub sent: u64,
    /// Of those, how many came.
    pub received: u64,
    /// Lost, and requests that failed.
    pub lost: u64,
    /// Came once more.
    pub duplicated: u64,
    /// Came late.
    pub reordered: u64,
    /// Connections that broke.
    pub broken: u64,
    /// The longest gap of any flow.
    pub longest_gap_ms: f64,
}

/// A stretch of time, all flows and directions together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lap {
    /// How it was called.
    pub name: String,
    /// Packets and records that were sent in it.
    pub sent: u64,
    /// Of those, how many never came.
    pub lost: u64,
    /// The longest gap that ended in it.
    pub longest_gap_ms: f64,
    /// The same of TCP streams alone: how long the worst of them stood still.
    pub longest_stall_ms: f64,
}

/// What is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many may be lost or fail, of all flows together.
    pub lost: u64,
    /// How long a gap may be.
    pub gap: Option<Duration>,
}

impl Limits {
    /// Nothing may be lost; gaps are not judged.
    pub const NONE_LOST: Limits = Limits { lost: 0, gap: None };
}

/// What a report comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether all is as it should be.
    pub passed: bool,
    /// What is not.
    pub problems: Vec<String>,
}

impl Direction {
    fn add_to(&self, totals: &mut Totals) {
        totals.sent += self.sent;
        totals.received += self.received;
        totals.lost += self.lost;
        totals.duplicated += self.duplicated;
        totals.reordered += self.reordered;
        totals.longest_gap_ms = totals.longest_gap_ms.max(self.longest_gap_ms);
    }
}

impl FlowReport {
    /// Lost both ways.
    pub fn lost(&self) -> u64 {
        self.directions().map(|direction| direction.lost).sum()
    }

    /// The longest gap either way.
    pub fn longest_gap_ms(&self) -> f64 {
        self.directions().map(|direction| direction.longest_gap_ms).fold(0.0, f64::max)
    }

    /// One or two.
    pub fn directions(&self) -> impl Iterator<Item = &Direction> {
        std::iter::once(&self.forward).chain(&self.backward)
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let name = format!("{} ({} IPv{})", self.name, self.traffic, self.family);
        let ways = [("", Some(&self.forward)), (" back", self.backward.as_ref())];
        for (way, direction) in ways.into_iter().filter_map(|(way, d)| d.map(|d| (way, d))) {
            if direction.received == 0 && !self.paused {
                problems.push(format!("{name}: nothing came{way}, of {} sent", direction.sent));
            } else if direction.lost > 0 {
                problems.push(format!("{name}: {} of {} lost{way}", direction.lost, direction.sent));
            }
            if direction.duplicated > 0 {
                problems.push(format!("{name}: {} came{way} more than once", direction.duplicated));
            }
            if direction.received > 0 && direction.largest_passed < direction.largest_sent {
                problems.push(format!(
                    "{name}: packets of {} bytes were sent{way}, and none above {} came",
                    direction.largest_sent, direction.largest_passed
                ));
            }
        }
        if let Some(stream) = self.stream.as_ref().filter(|stream| stream.broken > 0) {
            problems.push(format!("{name}: the connection broke {} times", stream.broken));
        }
        problems
    }
}

impl Report {
    /// Sums up.
    pub fn sum<'a>(flows: impl IntoIterator<Item = &'a FlowReport>) -> Totals {
        let mut totals = Totals::default();
        for flow in flows {
            totals.flows += 1;
            totals.broken += flow.stream.as_ref().map_or(0, |stream| stream.broken);
            for direction in flow.directions() {
                direction.add_to(&mut totals);
            }
        }
        totals
    }

    /// A flow by its name.
    pub fn flow(&self, name: &str) -> Option<&FlowReport> {
        self.flows.iter().find(|flow| flow.name == name)
    }

    /// Judges it. Whoever allows some loss allows what comes with it: duplicates and broken connections are judged
    /// only where none is allowed.
    pub fn verdict(&self, limits: Limits) -> Verdict {
        let mut problems = Vec::new();
        if self.flows.is_empty() {
            problems.push("nothing was measured: there are no flows".to_owned());
        }
        for flow in &self.flows {
            let silent = flow.directions().any(|direction| direction.received == 0) && !flow.paused;
            if limits.lost == 0 || silent {
                problems.extend(flow.problems());
            }
            if let Some(limit) = limits.gap
                && flow.longest_gap_ms() > limit.as_secs_f64() * 1000.0
            {
                problems.push(format!(
                    "{} ({} IPv{}): a gap of {:.0} ms, where {} ms are allowed",
                    flow.name,
                    flow.traffic,
                    flow.family,
                    flow.longest_gap_ms(),
                    limit.as_millis()
                ));
            }
        }
        if limits.lost > 0 && self.totals.lost > limits.lost {
            problems.push(format!("{} lost, where {} are allowed", self.totals.lost, limits.lost));
        }
        if self.overruns > 0 {
            problems.push(format!(
                "{} packets arrived and were not read in time: the machine is too busy to measure",
                self.overruns
            ));
        }
        Verdict { passed: problems.is_empty(), problems }
    }
}
