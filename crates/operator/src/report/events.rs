//! Events: what happened, for somebody who looks at the object later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use netferry_core::error::chain;
use tracing::warn;

use super::within;
use crate::lead::Leadership;

/// The longest note the API takes in an Event, in bytes.
const LONGEST_NOTE: usize = 1024;
/// How many notes are known to have been sent: what is counted as one is what comes again within minutes.
const NOTES: usize = 256;

/// Something worth an Event.
#[derive(Clone, Debug)]
pub(crate) struct EventNote {
    about: ObjectReference,
    action: &'static str,
    reason: String,
    note: String,
    kind: EventType,
}

impl EventNote {
    /// Something that went as it should. `action` is what was being done, for machines; Events that have it, the reason
    /// and the note in common are counted as one.
    pub(crate) fn news(
        about: ObjectReference,
        action: &'static str,
        reason: &str,
        note: impl Into<String>,
    ) -> EventNote {
        EventNote { about, action, reason: reason.to_owned(), note: note.into(), kind: EventType::Normal }
    }

    /// Something that somebody should look after.
    pub(crate) fn warning(
        about: ObjectReference,
        action: &'static str,
        reason: &str,
        note: impl Into<String>,
    ) -> EventNote {
        EventNote { kind: EventType::Warning, ..EventNote::news(about, action, reason, note) }
    }

    fn key(&self) -> Key {
        (self.about.name.clone(), self.reason.clone(), self.note.clone())
    }
}

type Key = (Option<String>, String, String);

/// Sends Events for as long as this process leads.
pub(crate) struct Events {
    client: Client,
    reporter: Reporter,
    leadership: Leadership,
    /// Who counts what comes again, by its note. A recorder for all would count other numbers, and other pods in the way, as
    /// what it was told first, and show only that.
    recorders: Mutex<BTreeMap<String, Recorder>>,
    /// What was told and still holds.
    told: BTreeSet<Key>,
}

impl Events {
    pub(crate) fn new(client: &Client, leadership: &Leadership) -> Events {
        let instance = Some(format!("term-{}", leadership.term()));
        let reporter = Reporter { controller: "netferry-operator".into(), instance };
        let (client, leadership) = (client.clone(), leadership.clone());
        Events { client, reporter, leadership, recorders: Mutex::default(), told: BTreeSet::new() }
    }

    fn recorder(&self, note: &str) -> Recorder {
        // A map that somebody panicked over is as good as any: it only counts.
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        if recorders.len() >= NOTES && !recorders.contains_key(note) {
            recorders.clear();
        }
        let new = || Recorder::new(self.client.clone(), self.reporter.clone());
        recorders.entry(note.to_owned()).or_insert_with(new).clone()
    }

    /// Sends one. Whether it arrived: nothing waits for an Event, so failing is only logged.
    pub(crate) async fn send(&self, told: &EventNote) -> bool {
        let note = within(&told.note, LONGEST_NOTE);
        let recorder = self.recorder(&note);
        let event = Event {
            type_: told.kind,
            reason: told.reason.clone(),
            note: Some(note),
            action: told.action.to_owned(),
            secondary: None,
        };
        match self.leadership.act(recorder.publish(&event, &told.about)).await {
            Ok(()) => true,
            Err(error) => {
                warn!(error = %chain(&error), reason = told.reason, "cannot send an Event");
                false
            }
        }
    }

    /// Sends one about each of these that was not told yet, and forgets those that no longer hold.
    pub(crate) async fn send_new(&mut self, current: impl IntoIterator<Item = EventNote>) {
        let current: BTreeMap<Key, EventNote> = current.into_iter().map(|told| (told.key(), told)).collect();
        self.told.retain(|known| current.contains_key(known));
        for (key, told) in current {
            if self.told.contains(&key) {
                continue;
            }
            warn!(reason = told.reason, "{}", told.note);
            if self.send(&told).await {
                self.told.insert(key);
            }
        }
    }
}
