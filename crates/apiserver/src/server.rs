//! The server itself: its settings, its state under one lock, and the reactions that follow every change.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::Value;

use crate::auth::Secret;
use crate::builtin;
use crate::catalog::Catalog;
use crate::clock::{Clock, Ids};
use crate::faults::Faults;
use crate::react;
use crate::registry::holdings::Holdings;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Event, Fields, Key, LogError, Store};

/// What the caller may choose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where changes are logged; in memory only when absent.
    pub data: Option<PathBuf>,
    /// The ranges Service addresses come from, one per family, the first one preferred.
    pub service_ranges: Vec<IpNet>,
    /// The ports NodePort Services get.
    pub node_ports: RangeInclusive<u16>,
    /// Makes uids, generated names and everything else drawn by chance repeatable.
    pub seed: Option<u64>,
    /// How long a deleted namespace stays before its content goes. On a real cluster that takes seconds, and scripts
    /// that delete a namespace and then what was in it rely on it. In process, where no listener keeps the time, it
    /// shows at the first call after that.
    pub namespace_lingers: Duration,
    /// What service account tokens are signed with; drawn when absent.
    pub secret: Option<Secret>,
    /// What the clock reads at the start; the machine's time when absent.
    pub origin: Option<Timestamp>,
    /// How long a client may leave what it asked for unread before its connection is ended.
    pub stalled_after: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            data: None,
            service_ranges: vec![
                "10.96.0.0/16".parse().expect("a literal prefix"),
                "fd00:96::/112".parse().expect("a literal prefix"),
            ],
            node_ports: 30000..=32767,
            seed: None,
            namespace_lingers: Duration::ZERO,
            secret: None,
            origin: None,
            stalled_after: Duration::from_secs(60),
        }
    }
}

/// A running API server: a value to call, without a socket of its own (see [`crate::serve`] for that).
///
/// Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    state: Mutex<State>,
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    pub(crate) settings: Settings,
    pub(crate) faults: Faults,
    /// What service account tokens are signed with.
    pub(crate) secret: Secret,
}

/// Everything that changes, under one lock: a write reads, decides, stores and reacts without anybody in
/// between, so that what the reactions (garbage collection, namespace termination, budgets) see is what was written.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) catalog: Arc<Catalog>,
    /// Changes whose consequences are still to be drawn.
    unsettled: VecDeque<(String, Arc<Event>)>,
    /// Changes whose consequences could not be drawn; the next write tries again.
    postponed: Vec<(String, Arc<Event>)>,
    /// When something comes about that only time brings, at the earliest.
    pub(crate) due: Option<Timestamp>,
    /// What Services hold that others cannot have.
    pub(crate) holdings: Holdings,
}

impl ApiServer {
    /// Opens the server: reads the data file when there is one, and makes what every cluster starts with.
    pub fn open(settings: Settings) -> Result<ApiServer, LogError> {
        let mut resources = builtin::resources();
        resources.push(crate::crd::definition_resource());
        let catalog = Catalog::of(resources);
        let store = match &settings.data {
            None => Store::in_memory(),
            Some(path) => Store::open(path, |table, object| fields_of(&catalog, table, object))?,
        };
        let ids = Ids::new(settings.seed);
        let secret = settings.secret.clone().unwrap_or_else(|| Secret::drawn(&ids));
        let clock = match settings.origin {
            Some(origin) => Clock::starting_at(origin),
            None => Clock::of_the_machine(),
        };
        let core = Core {
            state: Mutex::new(State {
                store,
                catalog: Arc::new(catalog),
                unsettled: VecDeque::new(),
                postponed: Vec::new(),
                due: None,
                holdings: Holdings::default(),
            }),
            clock,
            ids,
            settings,
            faults: Faults::default(),
            secret,
        };
        react::bootstrap(&core)?;
        Ok(ApiServer { core: Arc::new(core) })
    }

    /// Faults to inject, for simulations.
    pub fn faults(&self) -> &Faults {
        &self.core.faults
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.core.lock().store.revision()
    }

    /// Makes every watch position up to the present expire, as a compaction does on a real server. Watches that
    /// have heard of everything go on.
    pub fn forget_history(&self) {
        let mut state = self.core.lock();
        let revision = state.store.revision();
        state.store.forget_until(revision);
    }
}

impl Core {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held left the state between two changes at worst: each change is one call.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs one write to its end: the change itself and everything that follows from it.
    pub(crate) fn write<T>(
        &self,
        act: impl FnOnce(&mut State) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut state = self.lock();
        let result = act(&mut state);
        self.settle(&mut state);
        result
    }

    /// Draws the consequences of what was changed, and those of earlier changes that could not be drawn then.
    pub(crate) fn settle(&self, state: &mut State) {
        let postponed = std::mem::take(&mut state.postponed);
        state.unsettled.extend(postponed);
        while let Some((table, event)) = state.unsettled.pop_front() {
            if !react::after(self, state, &table, &event) {
                // The disk was full, most likely. A client sees a thing that has not happened yet.
                state.postponed.push((table, event));
            }
        }
    }
}

impl State {
    /// Has the reactions look again at that time.
    pub(crate) fn remind(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Stores an object (in its storage version) and queues the reactions to the change.
    pub(crate) fn put(&mut self, table: &str, object: Value) -> Result<Arc<Event>, ApiError> {
        let fields = fields_of(&self.catalog, table, &object);
        let event = self.store.put(table, object, fields).map_err(|error| unwritten(&error))?;
        self.unsettled.push_back((table.to_owned(), event.clone()));
        Ok(event)
    }

    /// Removes an object and queues the reactions.
    pub(crate) fn remove(&mut self, table: &str, key: &Key) -> Result<Option<Arc<Event>>, ApiError> {
        let event = self.store.delete(table, key).map_err(|error| unwritten(&error))?;
        if let Some(event) = &event {
            self.unsettled.push_back((table.to_owned(), event.clone()));
        }
        Ok(event)
    }

    /// One object, parsed.
    pub(crate) fn object(&self, table: &str, key: &Key) -> Option<Value> {
        self.store.get(table, key).map(|stored| stored.object())
    }

    /// The resource an owner reference or an involved object names.
    pub(crate) fn resource_of(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = crate::object::split_api_version(api_version);
        self.catalog.by_kind(group, version, kind).cloned()
    }
}

fn unwritten(error: &LogError) -> ApiError {
    tracing::error!(%error, "a change was refused because it could not be logged");
    let mut chain = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        chain.push_str(": ");
        chain.push_str(&cause.to_string());
        source = cause.source();
    }
    ApiError::internal(chain)
}

pub(crate) fn fields_of(catalog: &Catalog, table: &str, object: &Value) -> Fields {
    catalog.of_table(table).map(|resource| resource.behaviour.selectable(object)).unwrap_or_default()
}
