//! Watching: a position in a table's history that moves on.
//!
//! A watch buffers next to nothing. It holds the revision it has told its client about and reads on from there,
//! a few changes at a time, when the client is ready for more; so a slow client holds up nobody. When the history
//! has moved past its position it is told so (410, as an event) and ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::read::Selection;
use crate::http::present::{Form, Presenter};
use crate::query::ListOptions;
use crate::resource::Resource;
use crate::server::Core;
use crate::status::ApiError;
use crate::store::{Change, Event, Signal, Stored, Table};

/// How often a client that asked for bookmarks hears of the current revision.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watch sends its last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch lasts when the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);

/// How many changes are made ready at once: what a client that stopped reading can make the server hold.
const AHEAD: usize = 16;

/// The annotation that marks the end of the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub(crate) struct Watch {
    core: Arc<Core>,
    resource: Arc<Resource>,
    selection: Selection,
    presenter: Presenter,
    position: u64,
    /// The state at the start, as far as it has not been sent: shared with the store while nothing changes.
    state: std::vec::IntoIter<Arc<Stored>>,
    ready: VecDeque<Bytes>,
    changed: tokio::sync::watch::Receiver<Signal>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    over: bool,
    /// `sendInitialEvents`: a bookmark says where the state ends.
    streams_list: bool,
    /// A streaming list of a revision still to come: waited for until then, at most.
    awaited: Option<(u64, Instant)>,
    /// The first bookmark of a watch that began with the state says that the state has been sent.
    ends_initial: bool,
}

/// Changes to tell, and the revision everything is told up to then, unless there are more.
type Unheard = (Vec<Arc<Event>>, Option<u64>);

/// How long a streaming list waits for a revision still to come.
const AWAITED_FOR: Duration = Duration::from_secs(3);

/// Opens a watch. The first events are chosen here, under one lock with the subscription, so that nothing falls between.
pub(crate) fn open(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    selection: Selection,
    options: &ListOptions,
    form: Form,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, ApiError> {
    let now = Instant::now();
    let lasts = options.timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let mut state = core.lock();
    let current = state.store.revision();
    let table = state.store.table_mut(&resource.store_name());
    let mut watch = Watch {
        core: core.clone(),
        resource: resource.clone(),
        selection,
        presenter: Presenter::new(resource.clone(), form),
        position: current,
        state: Vec::new().into_iter(),
        ready: VecDeque::new(),
        changed: table.subscribe(),
        bookmarks: options.bookmarks,
        next_bookmark: now + lasts.saturating_sub(BOOKMARK_BEFORE_END).min(BOOKMARK_EVERY),
        ends: now + lasts,
        over: false,
        streams_list: options.initial_events == Some(true),
        awaited: None,
        ends_initial: false,
    };
    let from_the_state = match options.initial_events {
        Some(wanted) => wanted,
        None => options.revision.unwrap_or_default() == 0,
    };
    watch.ends_initial = from_the_state && options.initial_events.is_none();
    if core.faults.expires_watch(resource) {
        watch.position = options.revision.unwrap_or_default();
        watch.refuse_position(current);
    } else if let Some(asked) =
        options.revision.filter(|asked| options.initial_events == Some(true) && *asked > current)
    {
        watch.awaited = Some((asked, now + AWAITED_FOR));
    } else if from_the_state {
        watch.send_state(table, current);
    } else if let Some(revision) = options.revision.filter(|revision| *revision > 0) {
        watch.position = revision;
        if let Err(floor) = table.since(revision).map(|_| ()) {
            watch.refuse_position(floor);
        }
    }
    drop(state);
    Ok(futures::stream::unfold(watch, |mut watch| async move {
        let frame = watch.next().await?;
        Some((frame, watch))
    }))
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(stored) = self.state.next() {
                return Some(self.presenter.event("ADDED", &stored, self.core.clock.now()));
            }
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.over {
                return None;
            }
            let now = Instant::now();
            if now >= self.ends {
                self.over = true;
                continue;
            }
            self.changed.mark_unchanged();
            if let Some((asked, until)) = self.awaited {
                self.wait_for(asked, until).await;
                continue;
            }
            let told = self.read_on();
            if let Some(revision) = told.filter(|_| self.bookmarks && now >= self.next_bookmark) {
                self.bookmark(revision, now);
            }
            if !self.ready.is_empty() || self.over {
                continue;
            }
            let wake = if self.bookmarks { self.next_bookmark.min(self.ends) } else { self.ends };
            tokio::select! {
                // In this order: a simulation must take the same branch every time.
                biased;
                // The sender goes with its table, after its last word.
                changed = self.changed.changed() => self.over = changed.is_err(),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Sends the state as if everything had just been added, and the bookmark that ends a streaming list.
    fn send_state(&mut self, table: &Table, current: u64) {
        let selected: Vec<Arc<Stored>> = table
            .in_namespace(&self.selection.namespace)
            .filter(|stored| self.selection.matches(stored))
            .cloned()
            .collect();
        self.state = selected.into_iter();
        if self.streams_list && self.bookmarks {
            let frame = self.bookmark_frame(current, true);
            self.ready.push_back(frame);
        }
        self.position = current;
    }

    /// Waits for a revision; when it does not come in time the watch ends with 504.
    async fn wait_for(&mut self, asked: u64, until: Instant) {
        let current = self.core.lock().store.revision();
        if current >= asked {
            self.awaited = None;
            let core = self.core.clone();
            let state = core.lock();
            match state.store.table(&self.resource.store_name()) {
                Some(table) => self.send_state(table, state.store.revision()),
                None => self.over = true,
            }
            return;
        }
        if Instant::now() >= until {
            self.ready.push_back(error_frame(&ApiError::revision_too_large(asked, current)));
            self.over = true;
            return;
        }
        tokio::select! {
            biased;
            changed = self.changed.changed() => self.over = changed.is_err(),
            () = tokio::time::sleep_until(until.min(self.ends)) => {}
        }
    }

    /// A bookmark promises that everything up to it has been sent.
    fn bookmark(&mut self, revision: u64, now: Instant) {
        self.position = revision;
        let ends_initial = std::mem::take(&mut self.ends_initial);
        let frame = self.bookmark_frame(revision, ends_initial);
        self.ready.push_back(frame);
        let before_end = self.ends - BOOKMARK_BEFORE_END;
        let regular = now + BOOKMARK_EVERY;
        self.next_bookmark = if before_end > now { regular.min(before_end) } else { regular };
    }

    /// Turns what happened since the position into frames, a few at a time. Gives the revision everything is told
    /// up to, unless there is more.
    fn read_on(&mut self) -> Option<u64> {
        let core = self.core.clone();
        let (events, current) = match self.last_words() {
            Some(events) => (events, None),
            None => match self.unheard() {
                Some(Ok(found)) => found,
                Some(Err(floor)) => {
                    self.refuse_position(floor);
                    return None;
                }
                // The table went while we waited for the lock: what it said last came after we asked.
                None => (self.last_words().unwrap_or_default(), None),
            },
        };
        let now = core.clock.now();
        for event in events {
            self.position = event.revision();
            let Some(frame) = self.frame(&event, now) else { continue };
            for _ in 0..core.faults.event_copies(&self.resource, &event) {
                self.ready.push_back(frame.clone());
            }
            if core.faults.cuts_watch(&self.resource, &event) {
                self.over = true;
                return None;
            }
        }
        current
    }

    /// What a table that is gone had still to say, a few changes at a time; the watch is over after the last.
    fn last_words(&mut self) -> Option<Vec<Arc<Event>>> {
        let last = self.changed.borrow().farewell.clone()?;
        let unheard = last.iter().filter(|event| event.revision() > self.position);
        let events: Vec<Arc<Event>> = unheard.take(AHEAD).cloned().collect();
        self.over = events.len() < AHEAD;
        Some(events)
    }

    /// The next changes of the table, and the present revision when these are all; nothing when the table is gone.
    fn unheard(&self) -> Option<Result<Unheard, u64>> {
        let state = self.core.lock();
        let table = state.store.table(&self.resource.store_name())?;
        let found = table.resume(self.position).map(|events| events.take(AHEAD).cloned().collect::<Vec<_>>());
        Some(found.map(|events| {
            let current = (events.len() < AHEAD).then(|| state.store.revision());
            (events, current)
        }))
    }

    /// What the change means to this watch: an object that leaves the selection is deleted, one that enters it added.
    fn frame(&mut self, event: &Event, now: jiff::Timestamp) -> Option<Bytes> {
        let after = event.change != Change::Deleted && self.selection.matches(&event.object);
        let before = event.before.as_ref().is_some_and(|before| self.selection.matches(before));
        match (before, after) {
            (false, true) => Some(self.presenter.event("ADDED", &event.object, now)),
            (true, true) => Some(self.presenter.event("MODIFIED", &event.object, now)),
            (true, false) if event.change == Change::Deleted => {
                Some(self.presenter.event("DELETED", &event.object, now))
            }
            (true, false) => {
                let before = event.before.as_ref()?;
                let left = at_revision(before, event.revision());
                Some(self.presenter.event("DELETED", &left, now))
            }
            (false, false) => None,
        }
    }

    fn bookmark_frame(&self, revision: u64, ends_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        self.presenter.bookmark(metadata)
    }

    fn refuse_position(&mut self, floor: u64) {
        let error = ApiError::expired(format!("too old resource version: {} ({})", self.position, floor));
        self.ready.push_back(error_frame(&error));
        self.over = true;
    }
}

/// The last selected state of an object, under the revision at which it left the selection.
fn at_revision(stored: &Stored, revision: u64) -> Stored {
    let mut object = stored.object();
    object["metadata"]["resourceVersion"] = Value::String(revision.to_string());
    Stored {
        key: stored.key.clone(),
        revision,
        json: serde_json::to_vec(&object).expect("a JSON value can be printed").into(),
        uid: stored.uid.clone(),
        labels: stored.labels.clone(),
        fields: stored.fields.clone(),
        owners: stored.owners.clone(),
    }
}

fn error_frame(error: &ApiError) -> Bytes {
    let mut frame = serde_json::to_vec(&json!({"type": "ERROR", "object": error.to_status()}))
        .expect("a status can be printed");
    frame.push(b'\n');
    frame.into()
}
