//! Child processes of the first process of a process namespace.
//!
//! Such a process is also given every orphan, and must see them off when they end, or their ids are never free again.
//! Waiting for any child would take away what those who started a program wait for, so each child that somebody here
//! waits for is on a list.

use std::collections::BTreeSet;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use netferry_kernel::Namespace;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The children somebody waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    waited_for: Arc<Mutex<BTreeSet<i32>>>,
}

/// A child somebody waits for.
#[derive(Debug)]
pub(crate) struct Waited {
    child: Child,
    pid: i32,
    children: Children,
}

impl Children {
    /// Starts a program on this thread, in this thread's namespaces. It is killed when the value is dropped.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Waited> {
        // Held across the start: a program that ends at once must not be taken for an orphan.
        let mut list = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        list.insert(pid);
        Ok(Waited { child, pid, children: self.clone() })
    }

    /// Sees orphans off, for ever.
    pub(crate) async fn bury_orphans(&self) -> io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        loop {
            if self.bury_once() {
                // Somebody's child is at the head of the queue and hides what is behind it. Its owner has been told.
                tokio::time::sleep(Duration::from_millis(20)).await;
            } else {
                ended.recv().await;
            }
        }
    }

    /// Answers whether there may be more behind what it must not touch.
    fn bury_once(&self) -> bool {
        loop {
            let list = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
            let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            let pid = match waitid(Id::All, look) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => pid,
                Ok(_) | Err(_) => return false,
            };
            if list.contains(&pid.as_raw()) {
                return true;
            }
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }
}

impl Waited {
    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The pipes, where there are some.
    pub(crate) fn pipes(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Sends a signal; that it has ended already is fine.
    pub(crate) fn signal(&self, which: Signal) {
        if self.child.id().is_some() {
            let _ = kill(Pid::from_raw(self.pid), which);
        }
    }

    /// Asks it to end, and makes it end after a while.
    pub(crate) async fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::SIGTERM);
        match tokio::time::timeout(grace, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.signal(Signal::SIGKILL);
                self.child.wait().await
            }
        }
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        let mut list = self.children.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        // One that still runs is killed with the value and becomes an orphan to bury.
        list.remove(&self.pid);
    }
}

/// Where a program is started.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// In which network; ours if none.
    pub network: Option<Arc<Namespace>>,
    /// In which further namespaces that are made for it.
    pub fresh: CloneFlags,
}

impl Default for Place {
    fn default() -> Place {
        Place { network: None, fresh: CloneFlags::empty() }
    }
}

impl Place {
    /// In somebody's network.
    pub(crate) fn network(network: Arc<Namespace>) -> Place {
        Place { network: Some(network), fresh: CloneFlags::empty() }
    }

    /// Starts a program there, from a thread of its own: what it enters it does not come back from.
    pub(crate) fn spawn(&self, children: &Children, command: &mut Command) -> io::Result<Waited> {
        let runtime = tokio::runtime::Handle::current();
        std::thread::scope(|scope| {
            let inside = || {
                // The program's pipes and its end are watched by our runtime.
                let _runtime = runtime.enter();
                if let Some(network) = &self.network {
                    network.enter().map_err(io::Error::other)?;
                }
                if !self.fresh.is_empty() {
                    unshare(self.fresh)?;
                }
                children.spawn(command)
            };
            let thread = std::thread::Builder::new().name("start".into()).spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
