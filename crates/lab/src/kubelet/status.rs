//! What is said of a pod: from what is known of its containers to its status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::containers::{Seen, State};

/// What is known of a pod.
pub(super) struct Known<'a> {
    pub(super) pod: &'a Pod,
    pub(super) host: &'a [String],
    pub(super) addresses: &'a [String],
    pub(super) started: Timestamp,
    /// Containers that have to end before the others start, and what is known of them.
    pub(super) init: Vec<(&'a Container, Option<Seen>)>,
    pub(super) containers: Vec<(&'a Container, Option<Seen>)>,
    /// Why there is no network yet.
    pub(super) trouble: Option<String>,
}

impl Known<'_> {
    /// Where the pod is in its life.
    pub(super) fn phase(&self) -> &'static str {
        let ended = |seen: &Option<Seen>| match seen.as_ref().map(|seen| &seen.state) {
            Some(State::Terminated { code, .. }) => Some(*code),
            Some(State::Waiting { .. } | State::Running { .. }) | None => None,
        };
        if self.init.iter().any(|(_, seen)| ended(seen).is_some_and(|code| code != 0)) {
            return "Failed";
        }
        let codes: Vec<Option<i32>> = self.containers.iter().map(|(_, seen)| ended(seen)).collect();
        if !codes.is_empty() && codes.iter().all(Option::is_some) {
            return if codes.iter().flatten().all(|code| *code == 0) { "Succeeded" } else { "Failed" };
        }
        let started = self.containers.iter().any(|(_, seen)| {
            seen.as_ref()
                .is_some_and(|seen| !matches!(seen.state, State::Waiting { reason: "ContainerCreating", .. }))
        });
        // A pod that ran goes on running in another life of its machine: it is never pending again.
        let ran = self.pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if started || ran { "Running" } else { "Pending" }
    }

    fn is_ready(&self) -> bool {
        !self.containers.is_empty()
            && self.containers.iter().all(|(_, seen)| {
                seen.as_ref().is_some_and(|seen| seen.ready && matches!(seen.state, State::Running { .. }))
            })
    }

    fn passes_gates(&self) -> bool {
        let gates = self.pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
        let conditions = self.pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        gates.into_iter().flatten().all(|gate| {
            let mut all = conditions.into_iter().flatten();
            all.any(|condition| condition.type_ == gate.condition_type && condition.status == "True")
        })
    }

    /// The status to say. Times of conditions that stay as they were stay as well.
    pub(super) fn status(&self) -> Value {
        let phase = self.phase();
        let over = matches!(phase, "Succeeded" | "Failed");
        let reason = if over { Some("PodCompleted") } else { None };
        let initialized = self.init.iter().all(|(_, seen)| {
            seen.as_ref().is_some_and(|seen| matches!(seen.state, State::Terminated { code: 0, .. }))
        });
        let ready = self.is_ready();
        let conditions = json!([
            self.condition("PodReadyToStartContainers", !self.addresses.is_empty(), None),
            self.condition("Initialized", initialized, None),
            self.condition("ContainersReady", ready, reason),
            self.condition("Ready", ready && self.passes_gates(), reason),
        ]);
        let ips = |of: &[String]| of.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
        let mut status = json!({
            "phase": phase,
            "conditions": conditions,
            "hostIP": self.host.first(),
            "hostIPs": ips(self.host),
            "startTime": self.started,
            "containerStatuses": self.containers.iter().map(|(c, seen)| self.container(c, seen.as_ref())).collect::<Vec<_>>(),
        });
        if !self.init.is_empty() {
            let all: Vec<_> = self.init.iter().map(|(c, seen)| self.container(c, seen.as_ref())).collect();
            status["initContainerStatuses"] = json!(all);
        }
        if !self.addresses.is_empty() {
            status["podIP"] = json!(self.addresses.first());
            status["podIPs"] = json!(ips(self.addresses));
        }
        status
    }

    fn condition(&self, kind: &str, holds: bool, reason: Option<&str>) -> Value {
        let status = if holds { "True" } else { "False" };
        let conditions = self.pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let before = conditions.into_iter().flatten().find(|c| c.type_ == kind && c.status == status);
        let since = before
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map_or_else(|| json!(Timestamp::now()), |time| json!(time));
        let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
        if let (false, Some(reason)) = (holds, reason) {
            condition["reason"] = json!(reason);
        }
        condition
    }

    fn container(&self, container: &Container, seen: Option<&Seen>) -> Value {
        let waiting =
            State::Waiting { reason: "ContainerCreating", message: self.trouble.clone().unwrap_or_default() };
        let state = seen.map_or(&waiting, |seen| &seen.state);
        let running = matches!(state, State::Running { .. });
        json!({
            "name": container.name,
            "image": container.image.clone().unwrap_or_default(),
            "imageID": "",
            "ready": seen.is_some_and(|seen| seen.ready) && running,
            "started": running,
            "restartCount": seen.map_or(0, |seen| seen.restarts),
            "state": written(state),
            "lastState": seen.and_then(|seen| seen.last.as_ref()).map_or_else(|| json!({}), written),
        })
    }
}

fn written(state: &State) -> Value {
    match state {
        State::Waiting { reason, message } if message.is_empty() => json!({"waiting": {"reason": reason}}),
        State::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        State::Running { since, .. } => json!({"running": {"startedAt": since}}),
        State::Terminated { code, signal, from, to, words } => {
            let reason = if *code == 0 { "Completed" } else { "Error" };
            let mut ended = json!({"exitCode": code, "reason": reason, "startedAt": from, "finishedAt": to});
            if let Some(signal) = signal {
                ended["signal"] = json!(signal);
            }
            if !words.is_empty() {
                ended["message"] = json!(words);
            }
            json!({"terminated": ended})
        }
    }
}
