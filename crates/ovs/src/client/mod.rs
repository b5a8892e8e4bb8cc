//! The client: a handle that many tasks share, and the driver that keeps the connection.

mod backoff;
mod drive;
mod lock;
mod remote;
mod settle;

pub use backoff::Backoff;
pub use drive::Driver;
pub use lock::Lock;
pub use remote::{NotARemote, Remote};
pub use settle::SettleError;

use crate::copy::{Inconsistent, Replica, Snapshot, Watcher};
use crate::count;
use crate::protocol::{RpcError, SessionError, SessionOptions};
use crate::spec::Spec;
use crate::transaction::{Outcome, Transaction, TransactionError};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of each connection.
    pub session: SessionOptions,
    /// Between attempts to connect.
    pub backoff: Backoff,
    /// For one attempt to connect.
    pub connect_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            session: SessionOptions::default(),
            backoff: Backoff::default(),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No connection came about.
    #[error("connecting to {remote}")]
    Connect {
        /// To where.
        remote: Remote,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It broke.
    #[error("talking to {remote}")]
    Io {
        /// To whom.
        remote: Remote,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The other side ended it.
    #[error("{remote} closed the connection")]
    Ended {
        /// Who.
        remote: Remote,
    },
    /// The other side said something that ends it.
    #[error("talking OVSDB to {remote}")]
    Session {
        /// To whom.
        remote: Remote,
        /// What was wrong.
        #[source]
        source: SessionError,
    },
    /// What was said does not fit what was said before.
    #[error("following the database at {remote}")]
    Inconsistent {
        /// Who said it.
        remote: Remote,
        /// What does not fit.
        #[source]
        source: Inconsistent,
    },
}

impl LinkError {
    /// Will it not get better by itself? The client goes on trying: the server may be upgraded.
    pub fn is_refusal(&self) -> bool {
        matches!(self, LinkError::Session { source, .. } if source.is_refusal())
    }
}

/// How the connection stands.
#[derive(Debug, Clone)]
pub enum Status {
    /// Not connected yet.
    Connecting,
    /// The copy follows the server.
    Following,
    /// The connection was lost or never came about; the copy is as of then.
    Away {
        /// Why, the last time.
        why: Arc<LinkError>,
    },
    /// The driver is gone.
    Ended,
}

/// Why a call or transaction brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server refused it; nothing happened.
    #[error("calling {method}")]
    Refused {
        /// The method.
        method: String,
        /// The server's words.
        #[source]
        source: RpcError,
    },
    /// The transaction was not carried out; nothing happened.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The connection was lost before the answer came. **It may or may not have happened**: once
    /// connected again the copy shows which.
    #[error("the connection was lost before the answer to {method} came")]
    Lost {
        /// The method.
        method: String,
    },
    /// The driver is gone.
    #[error("the client was stopped before {method} could be sent")]
    Stopped {
        /// The method.
        method: String,
    },
}

pub(crate) enum Command {
    Call { method: String, params: Value, answer: oneshot::Sender<Result<Value, CallError>> },
    Lock { name: String, steal: bool, held: watch::Sender<bool> },
}

#[derive(Debug)]
struct Shared {
    database: String,
    replica: Mutex<Replica>,
    sequence: watch::Sender<u64>,
    status: watch::Sender<Status>,
    /// Some [`Lock`] was dropped.
    lock_dropped: Notify,
    settling: tokio::sync::Mutex<()>,
}

impl Shared {
    fn replica(&self) -> MutexGuard<'_, Replica> {
        // A panic while holding it is in our own code under test; the copy itself is changed last.
        self.replica.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle on the copy of a database and the connection that feeds it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    _alive: Arc<watch::Sender<()>>,
}

impl Client {
    /// A client and the driver that must be run for it. The remotes are tried in turn. The driver ends
    /// when the last handle is dropped.
    pub fn new(spec: Spec, remotes: Vec<Remote>, options: Options) -> (Client, Driver) {
        let (commands, receiver) = mpsc::channel(64);
        let (alive, gone) = watch::channel(());
        let shared = Arc::new(Shared {
            database: spec.database.clone(),
            replica: Mutex::new(Replica::new(&spec)),
            sequence: watch::Sender::new(0),
            status: watch::Sender::new(Status::Connecting),
            lock_dropped: Notify::new(),
            settling: tokio::sync::Mutex::new(()),
        });
        let driver = Driver::new(Arc::new(spec), remotes, options, Arc::clone(&shared), receiver, gone);
        (Client { shared, commands, _alive: Arc::new(alive) }, driver)
    }

    /// [`new`](Client::new), with the driver running as a task, and the rows loaded; or why a server was
    /// refused. Waits for a server that is not there yet.
    pub async fn connect(
        spec: Spec,
        remotes: Vec<Remote>,
        options: Options,
    ) -> Result<Client, Arc<LinkError>> {
        let (client, driver) = Client::new(spec, remotes, options);
        tokio::spawn(driver.run());
        client.ready().await?;
        Ok(client)
    }

    /// Waits until the copy follows the server. Fails only if a server was refused.
    pub async fn ready(&self) -> Result<(), Arc<LinkError>> {
        let mut status = self.shared.status.subscribe();
        loop {
            match &*status.borrow_and_update() {
                Status::Following => return Ok(()),
                Status::Away { why } if why.is_refusal() => return Err(Arc::clone(why)),
                Status::Connecting | Status::Away { .. } | Status::Ended => {}
            }
            if status.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// How the connection stands, to follow.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// The copy as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.replica().snapshot()
    }

    /// Waits until the copy is such that `look` finds something in it.
    pub async fn until<T>(&self, mut look: impl FnMut(&Snapshot) -> Option<T>) -> T {
        let mut sequence = self.shared.sequence.subscribe();
        loop {
            sequence.borrow_and_update();
            // The snapshot ends here: held any longer it would make the next update copy its tables.
            if let Some(found) = look(&self.snapshot()) {
                return found;
            }
            if sequence.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Watches tables (all, if none is named). The first batch holds the rows there are now; from then on
    /// every row's net change, across lost connections too.
    pub fn watch(&self, tables: &[&str]) -> Watcher {
        self.shared.replica().watch(tables)
    }

    /// Calls a method of the server.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let answer = self.send(method, params).await?;
        answer.await.unwrap_or_else(|_| Err(CallError::Lost { method: method.to_owned() }))
    }

    /// Carries out a transaction. Waits for a connection if there is none; returns when the copy shows
    /// what it did.
    ///
    /// The server sends a transaction's update before its answer, and both are taken in that order. Rows
    /// that a conditional monitor leaves out never show.
    pub async fn transact(&self, transaction: &Transaction) -> Result<Outcome, CallError> {
        self.submit(transaction).await?.finished().await
    }

    /// Sends a transaction without waiting for what becomes of it.
    pub async fn submit<'t>(&self, transaction: &'t Transaction) -> Result<Submitted<'t>, CallError> {
        let params = transaction.to_wire(&self.shared.database).map_err(TransactionError::from)?;
        count::sent(transaction.operations().len());
        let answer = self.send("transact", params).await?;
        Ok(Submitted { transaction, answer })
    }

    /// Asks for a lock and keeps asking across lost connections; it is given back when the handle is
    /// dropped. With `steal`, whoever holds it loses it now.
    pub async fn lock(&self, name: &str, steal: bool) -> Result<Lock, CallError> {
        let (sender, held) = watch::channel(false);
        let command = Command::Lock { name: name.to_owned(), steal, held: sender };
        self.command(command, if steal { "steal" } else { "lock" }).await?;
        Ok(Lock::new(name.to_owned(), held, self.clone()))
    }

    async fn send(
        &self,
        method: &str,
        params: Value,
    ) -> Result<oneshot::Receiver<Result<Value, CallError>>, CallError> {
        let (answer, receiver) = oneshot::channel();
        self.command(Command::Call { method: method.to_owned(), params, answer }, method).await?;
        Ok(receiver)
    }

    async fn command(&self, command: Command, method: &str) -> Result<(), CallError> {
        self.commands.send(command).await.map_err(|_| CallError::Stopped { method: method.to_owned() })
    }
}

/// A transaction on its way.
#[derive(Debug)]
pub struct Submitted<'t> {
    transaction: &'t Transaction,
    answer: oneshot::Receiver<Result<Value, CallError>>,
}

impl Submitted<'_> {
    /// What became of it; the copy shows it by then.
    pub async fn finished(self) -> Result<Outcome, CallError> {
        let method = || "transact".to_owned();
        let reply = self.answer.await.unwrap_or_else(|_| Err(CallError::Lost { method: method() }));
        match reply {
            Ok(value) => Ok(self.transaction.read_reply(&value)?),
            Err(CallError::Refused { source, .. }) => Err(TransactionError::Denied { source }.into()),
            Err(other) => Err(other),
        }
    }
}
