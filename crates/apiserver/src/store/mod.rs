//! The objects, their one revision counter, and the history watches are served from.
//!
//! Everything is in memory, kept as the JSON bytes that go to clients, so that a read, a list and the
//! hundredth watcher of a change cost a copy and not an encoding. A change is applied, numbered, logged
//! (when a log is kept) and remembered in its table's history in one step under the caller's lock.
//!
//! Watchers own nothing here: each has a position in the history and asks for what came after it. A
//! watcher that falls behind the history is told that its position expired, so no reader, however
//! slow, can make the server hold more than [`HISTORY`] changes per table.

mod log;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::watch;

pub use log::LogError;
use log::{Log, Record};

/// How many changes of one table are remembered. A watcher further behind than this is cut off and lists
/// again; 8192 is a few seconds of the fastest write storm this server has been seen to take.
pub const HISTORY: usize = 8192;

/// Where an object lives inside its table: namespace (empty for cluster-scoped ones) and name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Key {
    /// Namespace, or empty.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// A key from its parts.
    pub fn new(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// An object as stored.
#[derive(Debug)]
pub struct Stored {
    /// Its place.
    pub key: Key,
    /// The revision of its last change.
    pub revision: u64,
    /// The whole object in JSON, `metadata.resourceVersion` included.
    pub json: Bytes,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`, for selectors.
    pub labels: Map<String, Value>,
    /// Values for field selectors.
    pub fields: Vec<(&'static str, String)>,
    /// The uids of its owners.
    pub owners: Vec<String>,
}

impl Stored {
    /// The object, parsed.
    pub fn object(&self) -> Value {
        serde_json::from_slice(&self.json).expect("what is stored was printed by us")
    }
}

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is new.
    Added,
    /// It was replaced.
    Modified,
    /// It is gone; the event carries its last state under the revision of its deletion.
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// The object after the change (before it, for a deletion).
    pub object: Arc<Stored>,
    /// The object before the change.
    pub before: Option<Arc<Stored>>,
}

impl Event {
    /// The revision this change made.
    pub fn revision(&self) -> u64 {
        self.object.revision
    }
}

/// What the watchers of a table hear.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    /// The revision of the last change.
    pub revision: u64,
    /// The table is gone, and this is what its history held: the last changes have not reached everybody yet.
    pub farewell: Option<Arc<[Arc<Event>]>>,
}

/// The objects of one kind.
pub struct Table {
    objects: BTreeMap<Key, Arc<Stored>>,
    history: VecDeque<Arc<Event>>,
    /// Positions below this one are no longer served.
    floor: u64,
    /// The newest change that was forgotten. It may lie below the floor: a watcher that has heard of it has
    /// missed nothing and goes on, though nobody may begin there any more.
    forgotten: u64,
    changed: watch::Sender<Signal>,
}

impl Table {
    fn new(floor: u64) -> Table {
        Table {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            floor,
            forgotten: 0,
            changed: watch::Sender::new(Signal { revision: floor, farewell: None }),
        }
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// All objects in key order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values()
    }

    /// All objects of one namespace in name order; of every namespace when it is empty.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Stored>> {
        let from = Key::new(namespace, "");
        self.objects
            .range(from..)
            .map(|(_, stored)| stored)
            .take_while(move |stored| namespace.is_empty() || stored.key.namespace == namespace)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The changes after `revision`, oldest first; `Err` with the oldest servable position when some are forgotten.
    pub fn since(&self, revision: u64) -> Result<impl Iterator<Item = &Arc<Event>>, u64> {
        if revision < self.floor {
            return Err(self.floor);
        }
        Ok(self.after(revision))
    }

    /// The changes after a position that was served from the start: only a change it has not heard of ends it.
    pub fn resume(&self, position: u64) -> Result<impl Iterator<Item = &Arc<Event>>, u64> {
        if position < self.forgotten {
            return Err(self.floor);
        }
        Ok(self.after(position))
    }

    fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Event>> {
        let from = self.history.partition_point(|event| event.revision() <= revision);
        self.history.range(from..)
    }

    /// The objects as they were at `revision`: today's, with the later changes taken back.
    pub fn as_of(&self, revision: u64) -> Result<BTreeMap<Key, Arc<Stored>>, u64> {
        if revision < self.floor {
            return Err(self.floor);
        }
        let mut objects = self.objects.clone();
        for event in self.history.iter().rev().take_while(|event| event.revision() > revision) {
            match &event.before {
                Some(before) => objects.insert(before.key.clone(), before.clone()),
                None => objects.remove(&event.object.key),
            };
        }
        Ok(objects)
    }

    /// Wakes whenever the table changes, and once more when it goes.
    pub fn subscribe(&self) -> watch::Receiver<Signal> {
        self.changed.subscribe()
    }

    /// Makes every position up to `revision` expire for those who would begin there. Watches that have not heard
    /// of everything up to it end with 410.
    pub fn forget_until(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
        while self.history.front().is_some_and(|event| event.revision() <= self.floor) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.history.pop_front() {
            self.forgotten = oldest.revision();
            self.floor = self.floor.max(self.forgotten);
        }
    }

    fn remember(&mut self, event: Event) -> Arc<Event> {
        let event = Arc::new(event);
        self.history.push_back(event.clone());
        if self.history.len() > HISTORY {
            self.forget_oldest();
        }
        self.changed.send_modify(|signal| signal.revision = event.revision());
        event
    }
}

/// What the store reads out of an object besides its bytes: the caller knows the kind, the store does not.
pub type Fields = Vec<(&'static str, String)>;

/// All tables, one revision counter, and the log.
pub struct Store {
    revision: u64,
    tables: BTreeMap<String, Table>,
    /// Which objects name a uid among their owners.
    dependents: BTreeMap<String, BTreeMap<(String, Key), ()>>,
    /// Which object has a uid.
    by_uid: BTreeMap<String, (String, Key)>,
    log: Option<Log>,
}

impl Store {
    /// An empty store that keeps nothing on disk.
    pub fn in_memory() -> Store {
        Store {
            revision: 0,
            tables: BTreeMap::new(),
            dependents: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            log: None,
        }
    }

    /// A store that appends every change to the file at `path`, starting with what the file holds.
    ///
    /// `fields` gives the selector fields of an object of a table; they are derived, so the log does not hold them.
    pub fn open(path: &Path, fields: impl Fn(&str, &Value) -> Fields) -> Result<Store, LogError> {
        let mut store = Store::in_memory();
        let log = Log::open(path, |record| store.replay(record, &fields))?;
        store.log = Some(log);
        let revision = store.revision;
        for table in store.tables.values_mut() {
            // The log holds states, not the changes between them: a watch may resume only from here.
            table.floor = revision;
            table.changed.send_modify(|signal| signal.revision = revision);
        }
        Ok(store)
    }

    fn replay(&mut self, record: Record, fields: &impl Fn(&str, &Value) -> Fields) {
        match record {
            Record::Revision { revision } => self.revision = self.revision.max(revision),
            Record::Put { revision, table, object } => {
                self.revision = self.revision.max(revision);
                let derived = fields(&table, &object);
                let stored = Arc::new(stored(&object, revision, derived));
                let before = self.table_mut(&table).objects.insert(stored.key.clone(), stored.clone());
                if let Some(before) = before {
                    self.unindex(&table, &before);
                }
                self.index(&table, &stored);
            }
            Record::Delete { revision, table, namespace, name } => {
                self.revision = self.revision.max(revision);
                if let Some(old) = self.table_mut(&table).objects.remove(&Key { namespace, name }) {
                    self.unindex(&table, &old);
                }
            }
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The table of that name; made when it is not there yet.
    pub fn table_mut(&mut self, name: &str) -> &mut Table {
        let floor = self.revision;
        self.tables.entry(name.to_owned()).or_insert_with(|| Table::new(floor))
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    /// All tables by name.
    pub fn tables(&self) -> impl Iterator<Item = (&String, &Table)> {
        self.tables.iter()
    }

    /// One object.
    pub fn get(&self, table: &str, key: &Key) -> Option<&Arc<Stored>> {
        self.tables.get(table)?.objects.get(key)
    }

    /// The place of the object with that uid.
    pub fn find_uid(&self, uid: &str) -> Option<(String, Key)> {
        self.by_uid.get(uid).cloned()
    }

    /// The places of the objects that name `uid` as an owner, in a fixed order.
    pub fn dependents_of(&self, uid: &str) -> Vec<(String, Key)> {
        self.dependents.get(uid).map(|set| set.keys().cloned().collect()).unwrap_or_default()
    }

    /// Stores an object under the next revision, which is written into its metadata.
    ///
    /// The log comes first: when it cannot be written nothing else happens, so what a reader has seen is
    /// what a restart finds.
    pub fn put(&mut self, table: &str, mut object: Value, fields: Fields) -> Result<Arc<Event>, LogError> {
        let revision = self.revision + 1;
        set_revision(&mut object, revision);
        let new = stored(&object, revision, fields);
        if let Some(log) = &mut self.log {
            log.put(revision, table, &new.json)?;
        }
        self.revision = revision;
        let new = Arc::new(new);
        let before = self.table_mut(table).objects.insert(new.key.clone(), new.clone());
        if let Some(before) = &before {
            self.unindex(table, before);
        }
        self.index(table, &new);
        let change = if before.is_some() { Change::Modified } else { Change::Added };
        Ok(self.table_mut(table).remember(Event { change, object: new, before }))
    }

    /// Removes an object. Its last state is remembered under the revision of the deletion.
    pub fn delete(&mut self, table: &str, key: &Key) -> Result<Option<Arc<Event>>, LogError> {
        let Some(before) = self.get(table, key).cloned() else { return Ok(None) };
        let revision = self.revision + 1;
        if let Some(log) = &mut self.log {
            log.delete(revision, table, key)?;
        }
        self.revision = revision;
        let mut object = before.object();
        set_revision(&mut object, revision);
        let last = Arc::new(stored(&object, revision, before.fields.clone()));
        self.table_mut(table).objects.remove(key);
        self.unindex(table, &before);
        Ok(Some(self.table_mut(table).remember(Event {
            change: Change::Deleted,
            object: last,
            before: Some(before),
        })))
    }

    /// Makes every position up to `revision` expire, in all tables.
    pub fn forget_until(&mut self, revision: u64) {
        for table in self.tables.values_mut() {
            table.forget_until(revision);
        }
    }

    /// Removes a table that no resource serves any more. Its watchers end once they have heard of its last changes.
    pub fn drop_table(&mut self, name: &str) {
        if let Some(table) = self.tables.remove(name) {
            let last = table.history.iter().cloned().collect();
            table.changed.send_modify(|signal| signal.farewell = Some(last));
            for stored in table.objects.values() {
                self.unindex(name, stored);
            }
        }
    }

    /// Derives the selector fields of a table again, after its kind became known.
    pub fn refresh_fields(&mut self, table: &str, fields: impl Fn(&Value) -> Fields) {
        let Some(table) = self.tables.get_mut(table) else { return };
        for stored in table.objects.values_mut() {
            let derived = fields(&stored.object());
            if derived != stored.fields {
                *stored = Arc::new(Stored {
                    key: stored.key.clone(),
                    revision: stored.revision,
                    json: stored.json.clone(),
                    uid: stored.uid.clone(),
                    labels: stored.labels.clone(),
                    fields: derived,
                    owners: stored.owners.clone(),
                });
            }
        }
    }

    fn index(&mut self, table: &str, stored: &Stored) {
        if !stored.uid.is_empty() {
            self.by_uid.insert(stored.uid.clone(), (table.to_owned(), stored.key.clone()));
        }
        for owner in &stored.owners {
            self.dependents
                .entry(owner.clone())
                .or_default()
                .insert((table.to_owned(), stored.key.clone()), ());
        }
    }

    fn unindex(&mut self, table: &str, stored: &Stored) {
        self.by_uid.remove(&stored.uid);
        for owner in &stored.owners {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(&(table.to_owned(), stored.key.clone()));
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }
}

fn set_revision(object: &mut Value, revision: u64) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
    }
}

fn stored(object: &Value, revision: u64, fields: Fields) -> Stored {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let text =
        |key: &str| metadata.and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned();
    let labels =
        metadata.and_then(|m| m.get("labels")).and_then(Value::as_object).cloned().unwrap_or_default();
    let owners = metadata
        .and_then(|m| m.get("ownerReferences"))
        .and_then(Value::as_array)
        .map(|owners| {
            owners.iter().filter_map(|owner| owner.get("uid")?.as_str().map(str::to_owned)).collect()
        })
        .unwrap_or_default();
    let json = serde_json::to_vec(object).expect("a JSON value can be printed");
    Stored {
        key: Key { namespace: text("namespace"), name: text("name") },
        revision,
        json: json.into(),
        uid: text("uid"),
        labels,
        fields,
        owners,
    }
}
