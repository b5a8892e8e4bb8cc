//! Keeps a connection: connects, feeds the protocol, tries again.

use super::remote::{Remote, Stream};
use super::{CallError, Command, LinkError, Options, Shared, Status};
use crate::protocol::{Event, Layout, Resume, Session};
use crate::spec::Spec;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

type Answer = oneshot::Sender<Result<serde_json::Value, CallError>>;

/// Keeps a [`Client`](super::Client)'s connection while its [`run`](Driver::run) is polled.
#[derive(Debug)]
pub struct Driver {
    spec: Arc<Spec>,
    remotes: Vec<Remote>,
    options: Options,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    gone: watch::Receiver<()>,
    resume: Option<Resume>,
    locks: BTreeMap<String, watch::Sender<bool>>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Command::Call { method, .. } => write!(f, "Call({method})"),
            Command::Lock { name, .. } => write!(f, "Lock({name})"),
        }
    }
}

/// Calls that wait for their answers; lost with the connection.
#[derive(Default)]
struct Calls(BTreeMap<u64, (String, Answer)>);

impl Drop for Calls {
    fn drop(&mut self) {
        for (method, answer) in std::mem::take(&mut self.0).into_values() {
            // Nobody listening is fine.
            let _ = answer.send(Err(CallError::Lost { method }));
        }
    }
}

impl Driver {
    pub(super) fn new(
        spec: Arc<Spec>,
        remotes: Vec<Remote>,
        options: Options,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
        gone: watch::Receiver<()>,
    ) -> Driver {
        let (resume, locks) = (None, BTreeMap::new());
        Driver { spec, remotes, options, shared, commands, gone, resume, locks }
    }

    /// Connects, follows, connects again, until the last handle on the client is dropped.
    pub async fn run(mut self) {
        let mut gone = self.gone.clone();
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            // Nothing is ever sent: it only changes by ending.
            _ = gone.changed() => {}
            () = self.drive() => {}
        }
        shared.status.send_replace(Status::Ended);
    }

    async fn drive(&mut self) {
        let mut failures: u32 = 0;
        loop {
            for at in 0..self.remotes.len() {
                let remote = self.remotes[at].clone();
                let why = Arc::new(self.attend(&remote).await);
                let followed =
                    self.shared.status.send_replace(Status::Away { why: Arc::clone(&why) }).is_following();
                self.locks.values().for_each(|held| {
                    held.send_replace(false);
                });
                if followed {
                    failures = 0;
                }
                tracing::debug!(%remote, error = &*why as &dyn std::error::Error, "not connected");
            }
            failures = failures.saturating_add(1);
            let seed = Uuid::new_v4().as_u64_pair().0;
            tokio::time::sleep(self.options.backoff.delay(failures, seed)).await;
        }
    }

    /// One connection, from beginning to end.
    async fn attend(&mut self, remote: &Remote) -> LinkError {
        let connecting = tokio::time::timeout(self.options.connect_timeout, remote.connect());
        let stream = match connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => stream,
            Err(source) => return LinkError::Connect { remote: remote.clone(), source },
        };
        match self.follow(remote, stream).await {
            Ok(never) => match never {},
            Err(why) => why,
        }
    }

    async fn follow(
        &mut self,
        remote: &Remote,
        stream: Box<dyn Stream>,
    ) -> Result<std::convert::Infallible, LinkError> {
        let session_failed = |source| LinkError::Session { remote: remote.clone(), source };
        let io_failed = |source| LinkError::Io { remote: remote.clone(), source };
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (spec, options) = (Arc::clone(&self.spec), self.options.session.clone());
        let mut session = Session::new(spec, options, self.resume.clone(), Instant::now());
        let shared = Arc::clone(&self.shared);
        let mut calls = Calls::default();
        let mut received = vec![0; 64 * 1024];
        let (mut sending, mut sent) = (Vec::new(), 0);
        loop {
            while let Some(event) = session.event() {
                let layout = Arc::clone(session.layout().expect("events come after the schema"));
                let loaded = matches!(event, Event::Loaded { .. });
                if let Err(source) = self.take(event, &layout, &mut calls) {
                    self.resume = None;
                    return Err(LinkError::Inconsistent { remote: remote.clone(), source });
                }
                if loaded {
                    self.locks.keys().for_each(|name| session.lock(name, false));
                    self.shared.status.send_replace(Status::Following);
                    tracing::debug!(%remote, database = self.spec.database, "following");
                }
            }
            if sent == sending.len() {
                (sending, sent) = (std::mem::take(session.output()), 0);
            }
            let deadline = session.deadline();
            tokio::select! {
                read = reader.read(&mut received) => match read.map_err(io_failed)? {
                    0 => return Err(LinkError::Ended { remote: remote.clone() }),
                    n => session.receive(&received[..n], Instant::now()).map_err(session_failed)?,
                },
                written = writer.write(&sending[sent..]), if sent < sending.len() => {
                    match written.map_err(io_failed)? {
                        0 => return Err(io_failed(io::ErrorKind::WriteZero.into())),
                        n => sent += n,
                    }
                }
                () = tokio::time::sleep_until(deadline.into()) => {
                    session.tick(Instant::now()).map_err(session_failed)?;
                }
                () = shared.lock_dropped.notified() => self.locks.retain(|name, held| {
                    if held.is_closed() {
                        session.unlock(name);
                    }
                    !held.is_closed()
                }),
                // Only while a reply can be expected: what is not sent yet survives a lost connection.
                Some(command) = self.commands.recv(), if session.is_ready() => {
                    self.obey(command, &mut session, &mut calls);
                }
            }
        }
    }

    fn obey(&mut self, command: Command, session: &mut Session, calls: &mut Calls) {
        match command {
            Command::Call { method, params, answer } => {
                let id = session.call(&method, &params);
                calls.0.insert(id, (method, answer));
            }
            Command::Lock { name, steal, held } => {
                // The server refuses a second request for a lock on one connection.
                if self.locks.contains_key(&name) {
                    session.unlock(&name);
                }
                session.lock(&name, steal);
                self.locks.insert(name, held);
            }
        }
    }

    fn take(
        &mut self,
        event: Event,
        layout: &Arc<Layout>,
        calls: &mut Calls,
    ) -> Result<(), crate::copy::Inconsistent> {
        match event {
            Event::Loaded { whole, update, transaction } => {
                self.apply(layout, whole, update, transaction)?;
            }
            Event::Updated { update, transaction } => self.apply(layout, false, update, transaction)?,
            Event::Reply { id, result } => {
                if let Some((method, answer)) = calls.0.remove(&id) {
                    // Nobody listening is fine.
                    let _ = answer.send(result.map_err(|source| CallError::Refused { method, source }));
                }
            }
            Event::Lock { name, held } => {
                if let Some(lock) = self.locks.get(&name) {
                    lock.send_replace(held);
                }
            }
        }
        Ok(())
    }

    /// The copy and the place to resume from change together: one without the other would lose an update
    /// or apply it twice.
    fn apply(
        &mut self,
        layout: &Arc<Layout>,
        whole: bool,
        update: crate::protocol::Update,
        transaction: Option<Uuid>,
    ) -> Result<(), crate::copy::Inconsistent> {
        let sequence = {
            let mut replica = self.shared.replica();
            replica.apply(layout, whole, update)?;
            replica.snapshot().sequence()
        };
        let schema = &layout.schema;
        self.resume = transaction.map(|transaction| Resume { transaction, schema: Arc::clone(schema) });
        self.shared.sequence.send_replace(sequence);
        Ok(())
    }
}

impl Status {
    fn is_following(&self) -> bool {
        matches!(self, Status::Following)
    }
}
