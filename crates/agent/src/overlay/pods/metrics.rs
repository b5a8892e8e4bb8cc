//! What the CNI server measures.

use std::time::Duration;

use netferry_cni::Ask;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds in seconds: an ADD takes some 20 ms alone and is given up after a minute.
const BOUNDS: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Requests of the CNI plugin. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    seconds: Family<Timed, Histogram>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let histogram: fn() -> Histogram = || Histogram::new(BOUNDS);
        Metrics { requests: Family::default(), seconds: Family::new_with_constructor(histogram) }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Request {
    command: Command,
    result: Outcome,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Timed {
    command: Command,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, EncodeLabelValue)]
enum Command {
    Add,
    Del,
    Check,
    Status,
    Gc,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, EncodeLabelValue)]
enum Outcome {
    Done,
    Refused,
}

impl From<&Ask> for Command {
    fn from(ask: &Ask) -> Command {
        match ask {
            Ask::Add { .. } => Command::Add,
            Ask::Del { .. } => Command::Del,
            Ask::Check { .. } => Command::Check,
            Ask::Status => Command::Status,
            Ask::Gc { .. } => Command::Gc,
        }
    }
}

/// A request being measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured(Command);

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        let requests = "Requests of the CNI plugin, by command and result";
        registry.register("netferry_cni_requests", requests, metrics.requests.clone());
        let seconds = "Time from a request of the CNI plugin to its answer";
        registry.register("netferry_cni_request_seconds", seconds, metrics.seconds.clone());
        metrics
    }

    pub(super) fn begin(ask: &Ask) -> Measured {
        Measured(ask.into())
    }

    pub(super) fn end(&self, Measured(command): Measured, took: Duration, done: bool) {
        let result = if done { Outcome::Done } else { Outcome::Refused };
        self.requests.get_or_create(&Request { command, result }).inc();
        self.seconds.get_or_create(&Timed { command }).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn requests_are_counted_by_command_and_result() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let status = Metrics::begin(&Ask::Status);
        metrics.end(status, Duration::from_millis(20), true);
        metrics.end(status, Duration::from_secs(2), false);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"netferry_cni_requests_total{command="Status",result="Done"} 1"#,
            r#"netferry_cni_requests_total{command="Status",result="Refused"} 1"#,
            r#"netferry_cni_request_seconds_bucket{le="0.025",command="Status"} 1"#,
            r#"netferry_cni_request_seconds_count{command="Status"} 2"#,
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
