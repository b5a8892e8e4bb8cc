//! Faults on request, for simulations: what a real API server does on a bad day, at a chosen call.
//!
//! A fault is armed by the test that wants it and spent by the calls it matches. Nothing here runs by chance:
//! a seeded scheduler in the simulation decides what to arm and when.

use std::sync::Mutex;

use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::Event;

/// Which calls a fault is meant for. Empty fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The plural, as in `nodes`, or a part of it, as in `nodes/status`.
    pub resource: String,
    /// The object's name.
    pub name: String,
    /// How many matching calls pass before the fault begins.
    pub skip: u32,
    /// How many calls it hits; 0 until it is disarmed.
    pub times: u32,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The call is refused, nothing happens.
    Refuse(ApiError),
    /// The call is refused with 409, as if somebody else had written in between.
    Conflict,
    /// The write happens, but the client is told it failed.
    LoseAnswer(ApiError),
    /// A read shows the state as of that revision (a stale cache).
    Stale(u64),
    /// A watch event is not delivered.
    DropEvent,
    /// A watch event is delivered twice.
    RepeatEvent,
    /// A watch ends after an event, without a word.
    CutWatch,
    /// A watch is told that its position expired, as after a compaction, so that its client lists again.
    ExpireWatch,
}

#[derive(Debug)]
struct Armed {
    id: u64,
    calls: Calls,
    fault: Fault,
    seen: u32,
}

/// The faults that are armed.
#[derive(Debug, Default)]
pub struct Faults {
    armed: Mutex<(u64, Vec<Armed>)>,
}

impl Faults {
    /// Arms a fault; the number disarms it.
    pub fn arm(&self, calls: Calls, fault: Fault) -> u64 {
        let mut armed = self.lock();
        armed.0 += 1;
        let id = armed.0;
        armed.1.push(Armed { id, calls, fault, seen: 0 });
        id
    }

    /// How many calls a fault has met, those it let pass included; one that lets all pass only counts.
    pub fn met(&self, id: u64) -> u32 {
        self.lock().1.iter().find(|fault| fault.id == id).map_or(0, |fault| fault.seen)
    }

    /// Takes a fault back.
    pub fn disarm(&self, id: u64) {
        self.lock().1.retain(|fault| fault.id != id);
    }

    /// Takes all faults back.
    pub fn clear(&self) {
        self.lock().1.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Vec<Armed>)> {
        self.armed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Spends the first armed fault of the wanted sort that the call matches.
    fn spend(
        &self,
        verb: &str,
        resource: &str,
        name: &str,
        wanted: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        let mut armed = self.lock();
        for fault in &mut armed.1 {
            let Calls { verb: v, resource: r, name: n, skip, times } = &fault.calls;
            let matches = (v.is_empty() || v == verb)
                && (r.is_empty() || r == resource)
                && (n.is_empty() || n == name)
                && wanted(&fault.fault);
            if !matches {
                continue;
            }
            fault.seen += 1;
            if fault.seen > *skip && (*times == 0 || fault.seen <= skip + times) {
                return Some(fault.fault.clone());
            }
        }
        None
    }

    /// The refusal a call meets before it does anything. `part` is the subresource, or empty.
    pub(crate) fn refusal(
        &self,
        verb: &str,
        resource: &Resource,
        part: &str,
        name: &str,
    ) -> Option<ApiError> {
        let wanted = |f: &Fault| matches!(f, Fault::Refuse(_) | Fault::Conflict);
        let fault = self.spend(verb, &called(resource, part), name, wanted)?;
        match fault {
            Fault::Refuse(error) => Some(error),
            Fault::Conflict => Some(ApiError::conflict(
                &resource.group,
                &resource.plural,
                name,
                crate::registry::update::STALE,
            )),
            Fault::LoseAnswer(_)
            | Fault::Stale(_)
            | Fault::DropEvent
            | Fault::RepeatEvent
            | Fault::CutWatch
            | Fault::ExpireWatch => None,
        }
    }

    /// What the client hears instead of the answer to a write that happened.
    pub(crate) fn lost_answer(
        &self,
        verb: &str,
        resource: &Resource,
        part: &str,
        name: &str,
    ) -> Option<ApiError> {
        match self.spend(verb, &called(resource, part), name, |f| matches!(f, Fault::LoseAnswer(_)))? {
            Fault::LoseAnswer(error) => Some(error),
            Fault::Refuse(_)
            | Fault::Conflict
            | Fault::Stale(_)
            | Fault::DropEvent
            | Fault::RepeatEvent
            | Fault::CutWatch
            | Fault::ExpireWatch => None,
        }
    }

    /// The revision a read shows instead of the present one.
    pub(crate) fn stale_revision(&self, verb: &str, resource: &Resource, name: &str) -> Option<u64> {
        match self.spend(verb, &resource.plural, name, |f| matches!(f, Fault::Stale(_)))? {
            Fault::Stale(revision) => Some(revision),
            Fault::Refuse(_)
            | Fault::Conflict
            | Fault::LoseAnswer(_)
            | Fault::DropEvent
            | Fault::RepeatEvent
            | Fault::CutWatch
            | Fault::ExpireWatch => None,
        }
    }

    /// How often a watch delivers an event: once, unless a fault says never or twice.
    pub(crate) fn event_copies(&self, resource: &Resource, event: &Event) -> usize {
        let wanted = |f: &Fault| matches!(f, Fault::DropEvent | Fault::RepeatEvent);
        match self.spend("watch", &resource.plural, &event.object.key.name, wanted) {
            Some(Fault::DropEvent) => 0,
            Some(Fault::RepeatEvent) => 2,
            Some(
                Fault::Refuse(_)
                | Fault::Conflict
                | Fault::LoseAnswer(_)
                | Fault::Stale(_)
                | Fault::CutWatch
                | Fault::ExpireWatch,
            )
            | None => 1,
        }
    }

    /// Whether a watch that is being opened finds its position expired.
    pub(crate) fn expires_watch(&self, resource: &Resource) -> bool {
        self.spend("watch", &resource.plural, "", |f| *f == Fault::ExpireWatch).is_some()
    }

    /// Whether a watch ends with this event.
    pub(crate) fn cuts_watch(&self, resource: &Resource, event: &Event) -> bool {
        let name = &event.object.key.name;
        self.spend("watch", &resource.plural, name, |f| matches!(f, Fault::CutWatch)).is_some()
    }
}

fn called(resource: &Resource, part: &str) -> String {
    if part.is_empty() { resource.plural.clone() } else { format!("{}/{part}", resource.plural) }
}
