//! One connection, from the first byte to the last.
//!
//! ```text
//! Greeting ─schema, _Server─▶ Loading ─rows─▶ Following
//! ```

use super::error::SessionError;
use super::frame::Framer;
use super::layout::Layout;
use super::message::{self, Message, RpcError};
use super::server::{self, Databases};
use super::update::Update;
use crate::error::shortened;
use crate::schema::Schema;
use crate::spec::Spec;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Monitor id of our monitor.
const MONITOR: &str = "netferry";

/// How a session behaves.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Silence after which we ask whether the server is still there; the same again without an answer,
    /// and the connection is given up.
    pub probe: Duration,
    /// Talk only to the leader of a cluster.
    pub leader_only: bool,
    /// Longest message accepted. An initial load is one message.
    pub max_message: usize,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { probe: Duration::from_secs(10), leader_only: false, max_message: 1 << 30 }
    }
}

/// Where an earlier connection ended, to go on from there.
#[derive(Debug, Clone)]
pub struct Resume {
    /// The last transaction whose update was applied.
    pub transaction: Uuid,
    /// The schema then. Under another one the same transaction would be shown differently.
    pub schema: Arc<Schema>,
}

/// What comes out of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The rows. The session is ready for calls.
    Loaded {
        /// All rows there are (true), or what changed since the transaction to resume from (false).
        whole: bool,
        /// The rows or changes.
        update: Update,
        /// The transaction they are as of, if the server keeps a history.
        transaction: Option<Uuid>,
    },
    /// A transaction's changes.
    Updated {
        /// The changes.
        update: Update,
        /// The transaction, if the server keeps a history.
        transaction: Option<Uuid>,
    },
    /// The answer to a [`Session::call`].
    Reply {
        /// What `call` returned.
        id: u64,
        /// The answer.
        result: Result<Value, RpcError>,
    },
    /// A lock was won or lost.
    Lock {
        /// Its name.
        name: String,
        /// Do we hold it now?
        held: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    ChangeAware,
    Server,
    Schema,
    Monitor(Monitor),
    Probe,
    Lock(String),
    Caller,
}

/// The kinds of monitor, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Monitor {
    CondSince,
    Cond,
    Plain,
}

impl Monitor {
    fn method(self) -> &'static str {
        match self {
            Monitor::CondSince => "monitor_cond_since",
            Monitor::Cond => "monitor_cond",
            Monitor::Plain => "monitor",
        }
    }

    fn older(self) -> Option<Monitor> {
        match self {
            Monitor::CondSince => Some(Monitor::Cond),
            Monitor::Cond => Some(Monitor::Plain),
            Monitor::Plain => None,
        }
    }
}

#[derive(Debug)]
enum State {
    Greeting { server_answered: bool, schema: Option<Arc<Schema>> },
    Loading { layout: Arc<Layout> },
    Following { layout: Arc<Layout> },
}

/// One connection's protocol.
#[derive(Debug)]
pub struct Session {
    spec: Arc<Spec>,
    options: SessionOptions,
    resume: Option<Resume>,
    framer: Framer,
    out: Vec<u8>,
    events: VecDeque<Event>,
    asked: BTreeMap<u64, Asked>,
    next_id: u64,
    state: State,
    databases: Databases,
    heard: Instant,
    probed: bool,
}

impl Session {
    /// A connection that was just made: asks for the schema and goes on from there by itself.
    pub fn new(spec: Arc<Spec>, options: SessionOptions, resume: Option<Resume>, now: Instant) -> Session {
        let mut session = Session {
            framer: Framer::new(options.max_message),
            spec,
            options,
            resume,
            out: Vec::new(),
            events: VecDeque::new(),
            asked: BTreeMap::new(),
            next_id: 1,
            state: State::Greeting { server_answered: false, schema: None },
            databases: Databases::default(),
            heard: now,
            probed: false,
        };
        // Without it a server that gains or loses a database drops every connection.
        session.ask(Asked::ChangeAware, "set_db_change_aware", &json!([true]));
        session.ask(Asked::Server, "monitor", &server::monitor_params());
        let database = json!([session.spec.database]);
        session.ask(Asked::Schema, "get_schema", &database);
        session
    }

    /// Are the rows loaded, so that calls make sense?
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Following { .. })
    }

    /// The layout of rows, once known.
    pub fn layout(&self) -> Option<&Arc<Layout>> {
        match &self.state {
            State::Greeting { .. } => None,
            State::Loading { layout } | State::Following { layout } => Some(layout),
        }
    }

    /// Bytes to send; the caller removes what it has sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// The next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`tick`](Session::tick) wants to be called.
    pub fn deadline(&self) -> Instant {
        self.heard + self.options.probe * if self.probed { 2 } else { 1 }
    }

    /// Time has passed: asks a silent server for a sign of life, gives up one that gave none.
    pub fn tick(&mut self, now: Instant) -> Result<(), SessionError> {
        if now < self.deadline() {
            return Ok(());
        }
        if self.probed {
            return Err(SessionError::Silent(now - self.heard));
        }
        self.probed = true;
        self.ask(Asked::Probe, "echo", &json!([]));
        Ok(())
    }

    /// Calls a method; its answer comes as [`Event::Reply`] with the id returned here.
    pub fn call(&mut self, method: &str, params: &Value) -> u64 {
        self.ask(Asked::Caller, method, params)
    }

    /// Asks for a lock, to wait for it or to take it from whoever holds it.
    pub fn lock(&mut self, name: &str, steal: bool) {
        self.ask(Asked::Lock(name.to_owned()), if steal { "steal" } else { "lock" }, &json!([name]));
    }

    /// Gives a lock back.
    pub fn unlock(&mut self, name: &str) {
        // Nobody waits for the answer; an unknown id is as good as none.
        self.ask(Asked::Probe, "unlock", &json!([name]));
        self.events.push_back(Event::Lock { name: name.to_owned(), held: false });
    }

    /// Bytes came. An error ends the session.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) -> Result<(), SessionError> {
        self.heard = now;
        self.probed = false;
        self.framer.push(bytes);
        while let Some(text) = self.framer.next()? {
            match Message::parse(&text)? {
                Message::Request { id, method, params } if method == "echo" => {
                    self.out.extend(message::reply(id, Value::Array(params)));
                }
                Message::Request { id, .. } => self.out.extend(message::error_reply(id, "unknown method")),
                Message::Notification { method, params } => self.notified(&method, &params)?,
                // An answer to nothing we asked says nothing.
                Message::Reply { id, result } => {
                    if let Some(id) = id.as_u64()
                        && let Some(asked) = self.asked.remove(&id)
                    {
                        self.answered(id, asked, result)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, asked: Asked, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, asked);
        self.out.extend(message::request(id, method, params));
        id
    }

    fn answered(
        &mut self,
        id: u64,
        asked: Asked,
        result: Result<Value, RpcError>,
    ) -> Result<(), SessionError> {
        match asked {
            Asked::ChangeAware | Asked::Probe => Ok(()),
            Asked::Server => {
                // A server without `_Server` is old, not wrong.
                if let Ok(rows) = &result {
                    self.databases.update(rows);
                    self.databases.judge(&self.spec.database, self.options.leader_only)?;
                }
                if let State::Greeting { server_answered, .. } = &mut self.state {
                    *server_answered = true;
                }
                self.greeted()
            }
            Asked::Schema => {
                let value = result.map_err(|source| match source.error.as_str() {
                    "unknown database" => SessionError::NoDatabase { database: self.spec.database.clone() },
                    _ => SessionError::Denied { method: "get_schema", source },
                })?;
                let parsed = Arc::new(Schema::parse(&value)?);
                if let State::Greeting { schema, .. } = &mut self.state {
                    *schema = Some(parsed);
                }
                self.greeted()
            }
            Asked::Monitor(kind) => self.loaded(kind, result),
            Asked::Lock(name) => {
                let method = "lock";
                let value = result.map_err(|source| SessionError::Denied { method, source })?;
                let held = value
                    .get("locked")
                    .and_then(Value::as_bool)
                    .ok_or_else(|| SessionError::Nonsense { method, text: shortened(&value.to_string()) })?;
                self.events.push_back(Event::Lock { name, held });
                Ok(())
            }
            Asked::Caller => {
                self.events.push_back(Event::Reply { id, result });
                Ok(())
            }
        }
    }

    fn greeted(&mut self) -> Result<(), SessionError> {
        let State::Greeting { server_answered: true, schema: Some(schema) } = &self.state else {
            return Ok(());
        };
        let layout = Arc::new(Layout::new(&self.spec, Arc::clone(schema))?);
        if self.resume.as_ref().is_some_and(|r| r.schema != layout.schema) {
            self.resume = None;
        }
        self.state = State::Loading { layout: Arc::clone(&layout) };
        self.monitor(&layout, Monitor::CondSince)
    }

    fn monitor(&mut self, layout: &Layout, kind: Monitor) -> Result<(), SessionError> {
        let requests = layout.monitor_requests(kind != Monitor::Plain)?;
        let mut params = vec![json!(self.spec.database), json!(MONITOR), requests];
        if kind == Monitor::CondSince {
            params.push(json!(self.resume.as_ref().map_or(Uuid::nil(), |r| r.transaction)));
        }
        self.ask(Asked::Monitor(kind), kind.method(), &Value::Array(params));
        Ok(())
    }

    fn loaded(&mut self, kind: Monitor, result: Result<Value, RpcError>) -> Result<(), SessionError> {
        let State::Loading { layout } = &self.state else { return Ok(()) };
        let layout = Arc::clone(layout);
        let result = match (result, kind.older()) {
            (Ok(result), _) => result,
            (Err(error), Some(older)) if error.is_unknown_method() => return self.monitor(&layout, older),
            (Err(source), _) => return Err(SessionError::Denied { method: kind.method(), source }),
        };
        let nonsense =
            || SessionError::Nonsense { method: kind.method(), text: shortened(&result.to_string()) };
        let (found, transaction, rows) = match kind {
            Monitor::CondSince => match result.as_array().map(Vec::as_slice) {
                Some([Value::Bool(found), id, rows]) => {
                    (*found, Some(transaction_id(id).ok_or_else(nonsense)?), rows)
                }
                Some(_) | None => return Err(nonsense()),
            },
            Monitor::Cond | Monitor::Plain => (false, None, &result),
        };
        let update = layout.read_update(rows, kind == Monitor::Plain)?;
        let whole = !(found && self.resume.is_some());
        self.events.push_back(Event::Loaded { whole, update, transaction: transaction.and_then(known) });
        self.state = State::Following { layout };
        Ok(())
    }

    fn notified(&mut self, method: &str, params: &[Value]) -> Result<(), SessionError> {
        let database = || self.spec.database.clone();
        match (method, params) {
            ("update", [id, rows]) if id == server::MONITOR => {
                self.databases.update(rows);
                self.databases.judge(&self.spec.database, self.options.leader_only)
            }
            ("update" | "update2", [id, rows]) if id == MONITOR => {
                self.updated(rows, method == "update", None)
            }
            ("update3", [id, transaction, rows]) if id == MONITOR => {
                let transaction = transaction_id(transaction).ok_or_else(|| SessionError::Nonsense {
                    method: "update3",
                    text: shortened(&transaction.to_string()),
                })?;
                self.updated(rows, false, known(transaction))
            }
            ("locked" | "stolen", [Value::String(name)]) => {
                self.events.push_back(Event::Lock { name: name.clone(), held: method == "locked" });
                Ok(())
            }
            ("monitor_canceled", [id]) if id == MONITOR => {
                Err(SessionError::MonitorEnded { database: database() })
            }
            // Newer servers may tell more than we know of.
            _ => Ok(()),
        }
    }

    fn updated(&mut self, rows: &Value, first: bool, transaction: Option<Uuid>) -> Result<(), SessionError> {
        let State::Following { layout } = &self.state else {
            return Err(SessionError::Nonsense {
                method: "monitor",
                text: "an update before the rows".into(),
            });
        };
        let update = layout.read_update(rows, first)?;
        self.events.push_back(Event::Updated { update, transaction });
        Ok(())
    }
}

fn transaction_id(value: &Value) -> Option<Uuid> {
    value.as_str().and_then(|s| Uuid::parse_str(s).ok())
}

/// All zeros is how a server without history says so.
fn known(transaction: Uuid) -> Option<Uuid> {
    (!transaction.is_nil()).then_some(transaction)
}
