//! What is new of a change since it was last looked at.

use std::collections::{BTreeMap, BTreeSet};

use super::status::{Condition, Node, Status};

/// What was told already, and what may explain the end.
#[derive(Default)]
pub(super) struct News {
    going: Option<u32>,
    nodes: BTreeMap<String, String>,
    held: Option<(String, String)>,
    losses: BTreeSet<String>,
    /// The last losses there were.
    lost: BTreeSet<String>,
    /// What the operator last said of it while it was under way.
    said: Option<String>,
}

impl News {
    /// Lines about what is new of a change that was to go to `goal`.
    pub(super) fn of(&mut self, status: &Status, goal: Option<u32>) -> Vec<String> {
        let mut lines = Vec::new();
        let going = status.change.as_ref().map(|_| status.mtu);
        if let Some(to) = going.filter(|_| self.going != going) {
            let turned = if goal.is_some_and(|goal| goal != to) { "turned around, " } else { "" };
            lines.push(format!("{turned}goes to {to}"));
            self.going = going;
        }
        for Node { name, progress, .. } in &status.nodes {
            let Some(progress) = progress else { continue };
            if self.nodes.insert(name.clone(), progress.clone()).as_ref() != Some(progress) {
                lines.push(format!("{name} {progress}"));
            }
        }
        let losses: BTreeSet<String> = status.losses.iter().cloned().collect();
        lines.extend(losses.difference(&self.losses).map(|loss| format!("packets are lost {loss}")));
        if losses.is_empty() && !self.losses.is_empty() {
            lines.push("packets are lost no longer".into());
        }
        if !losses.is_empty() {
            self.lost.clone_from(&losses);
        }
        self.losses = losses;
        let held = status.held().map(|Condition { reason, message, .. }| (reason.clone(), message.clone()));
        if held != self.held {
            lines.push(match &held {
                Some((reason, message)) => format!("waits ({reason}): {message}"),
                None => "goes on".into(),
            });
            lines.extend(status.go_on().map(|command| format!("go on with: {command}")));
            self.held = held;
        }
        self.said = status.in_progress().map(|one| one.message.clone()).or(self.said.take());
        lines.into_iter().map(|line| format!("{:15} {line}\n", status.phase)).collect()
    }

    /// Why it did not end where it was to, as far as is known.
    pub(super) fn why(&self) -> String {
        if !self.lost.is_empty() {
            let lost: Vec<&str> = self.lost.iter().map(String::as_str).collect();
            return format!("packets were lost {}", lost.join(", "));
        }
        match &self.said {
            Some(said) => format!("it was turned around; the operator said last: {said}"),
            None => "it was turned around".into(),
        }
    }
}
