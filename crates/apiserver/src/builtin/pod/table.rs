//! A pod's row: what its containers are up to, in one word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::access::{flag, items, number, present, text};
use super::super::duration::since;
use super::super::table::{self, AGE, NAME, columns, or};
use crate::resource::Column;

pub(super) fn pod_columns() -> Vec<Column> {
    columns(&[
        NAME,
        ("Ready", "string", 0, "How many containers are ready, of how many."),
        ("Status", "string", 0, "What the containers are doing."),
        ("Restarts", "string", 0, "How often containers were restarted, and when last."),
        AGE,
        ("IP", "string", 1, "The pod's address."),
        ("Node", "string", 1, "The node it runs on."),
        ("Nominated Node", "string", 1, "The node where others are making room for it."),
        ("Readiness Gates", "string", 1, "How many of its extra conditions hold."),
    ])
}

pub(super) fn pod_cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match &summary.last_restart {
        Some(last) if summary.restarts > 0 => {
            format!("{} ({} ago)", summary.restarts, since(&json!(last), now))
        }
        Some(_) | None => summary.restarts.to_string(),
    };
    vec![
        table::name(pod),
        json!(format!("{}/{}", summary.ready, summary.containers)),
        json!(summary.reason),
        json!(restarts),
        table::age(pod, now),
        json!(or(text(pod, "/status/podIPs/0/ip"), "<none>")),
        json!(or(text(pod, "/spec/nodeName"), "<none>")),
        json!(or(text(pod, "/status/nominatedNodeName"), "<none>")),
        json!(gates(pod)),
    ]
}

/// What a client shows beside a pod that has run its course.
pub(super) fn row_conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

struct Summary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<String>,
}

/// The number of restarts of some containers, and the last of them.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<String>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += number(status, "/restartCount");
        // Times are all printed the same way, so the later one is the greater text.
        let finished = text(status, "/lastState/terminated/finishedAt");
        if !finished.is_empty() && self.last.as_deref().is_none_or(|last| last < finished) {
            self.last = Some(finished.to_owned());
        }
    }
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let phase = text(pod, "/status/phase");
        let mut reason = or(text(pod, "/status/reason"), phase).to_owned();
        let gated =
            |c: &&Value| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated";
        if items(pod, "/status/conditions").iter().any(|c| gated(&c)) {
            reason = "SchedulingGated".to_owned();
        }
        let sidecars = items(pod, "/spec/initContainers").iter().filter(|c| is_sidecar(c)).count();
        let mut summary = Summary {
            reason,
            ready: 0,
            containers: items(pod, "/spec/containers").len() + sidecars,
            restarts: 0,
            last_restart: None,
        };
        let initialising = summary.initialise(pod);
        if !initialising || condition(pod, "Initialized") {
            summary.run(pod);
        }
        let deleting = present(pod, "/metadata/deletionTimestamp");
        if deleting && text(pod, "/status/reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if deleting && !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
        summary
    }

    /// Looks at the init containers; whether one of them is still to finish.
    fn initialise(&mut self, pod: &Value) -> bool {
        let specs = items(pod, "/spec/initContainers");
        let mut restarts = Restarts::default();
        let mut waits = None;
        for (at, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            restarts.add(status);
            let sidecar = specs.iter().any(|c| c["name"] == status["name"] && is_sidecar(c));
            let terminated = status.pointer("/state/terminated").filter(|t| !t.is_null());
            let waiting = text(status, "/state/waiting/reason");
            if terminated.is_some_and(|t| number(t, "/exitCode") == 0) {
                continue;
            }
            if sidecar && flag(status, "/started") {
                self.ready += usize::from(flag(status, "/ready"));
                continue;
            }
            waits = Some(match terminated {
                Some(terminated) => format!("Init:{}", ended(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{at}/{}", specs.len()),
            });
            break;
        }
        self.restarts = restarts.count;
        self.last_restart = restarts.last;
        let initialising = waits.is_some();
        if let Some(reason) = waits {
            self.reason = reason;
        }
        initialising
    }

    /// Looks at the containers proper; sidecars keep counting.
    fn run(&mut self, pod: &Value) {
        let mut restarts = Restarts::default();
        for status in items(pod, "/status/initContainerStatuses") {
            let specs = items(pod, "/spec/initContainers");
            if specs.iter().any(|c| c["name"] == status["name"] && is_sidecar(c)) {
                restarts.add(status);
            }
        }
        let mut running = false;
        for status in items(pod, "/status/containerStatuses").iter().rev() {
            restarts.add(status);
            let waiting = text(status, "/state/waiting/reason");
            let terminated = status.pointer("/state/terminated").filter(|t| !t.is_null());
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(terminated) = terminated {
                self.reason = ended(terminated);
            } else if flag(status, "/ready") && present(status, "/state/running") {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            self.reason = if condition(pod, "Ready") { "Running" } else { "NotReady" }.to_owned();
        }
        self.restarts = restarts.count;
        self.last_restart = restarts.last;
    }
}

/// Why a container ended: its reason, else its signal, else its exit code.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

fn condition(pod: &Value, kind: &str) -> bool {
    items(pod, "/status/conditions").iter().any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
}

fn gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|g| condition(pod, text(g, "/conditionType"))).count();
    format!("{open}/{}", gates.len())
}
