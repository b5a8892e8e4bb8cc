//! One daemon: found, started, watched.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use netferry_ovs::tables::southbound::{self, SbGlobal};
use netferry_ovs::unixctl::Control;
use netferry_ovs::{Client, Options, Spec};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::database::{Database, DatabaseError};
use crate::config::Paths;
use crate::on_host::Host;

/// How long a daemon may take to detach: it does so when it can be talked to.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How often a daemon's sockets are tried, for what no closed connection tells: a socket that was removed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Why a daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A directory of its is missing and cannot be made.
    #[error("making the directory {}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The program cannot be run.
    #[error("running {program}; is its package installed?")]
    Run {
        /// The program.
        program: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It ended instead of detaching.
    #[error("{daemon} did not start: {said}")]
    Refused {
        /// The daemon.
        daemon: String,
        /// What it said.
        said: String,
    },
    /// It started, and nobody answers.
    #[error("{daemon} was started and does not answer in {}", run.display())]
    Silent {
        /// The daemon.
        daemon: String,
        /// Where its sockets should be.
        run: PathBuf,
    },
    /// Its database cannot be made.
    #[error("preparing the database of {daemon}")]
    Database {
        /// The daemon.
        daemon: String,
        /// Why not.
        #[source]
        source: DatabaseError,
    },
}

/// A daemon: what it is started with and where it is found.
#[derive(Clone, Debug)]
pub struct Daemon {
    program: &'static str,
    name: String,
    arguments: Vec<String>,
    run: PathBuf,
    ovs_run: PathBuf,
    log: PathBuf,
    socket: Option<PathBuf>,
    database: Option<Database>,
    /// The southbound database, if it ends by a fault of its own where that is empty.
    needs_global: Option<PathBuf>,
}

impl Daemon {
    pub(super) fn new(program: &'static str, name: &str, paths: &Paths, log: &str) -> Daemon {
        Daemon {
            program,
            name: name.to_owned(),
            arguments: Vec::new(),
            run: paths.ovn_run.clone(),
            ovs_run: paths.ovs_run.clone(),
            log: paths.ovn_log.join(log),
            socket: None,
            database: None,
            needs_global: None,
        }
    }

    pub(super) fn argument(mut self, argument: impl Into<String>) -> Daemon {
        self.arguments.push(argument.into());
        self
    }

    pub(super) fn listening_at(mut self, socket: PathBuf) -> Daemon {
        self.socket = Some(socket);
        self
    }

    pub(super) fn keeping(mut self, database: Database) -> Daemon {
        self.database = Some(database);
        self
    }

    pub(super) fn once_filled(mut self, southbound: PathBuf) -> Daemon {
        self.needs_global = Some(southbound);
        self
    }

    /// Its name: that of its pidfile and control socket.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its process is noted.
    pub fn pidfile(&self) -> PathBuf {
        self.run.join(format!("{}.pid", self.name))
    }

    /// The daemon as it runs: adopted if it does, started if it does not.
    pub async fn ensure(&self) -> Result<Running, StartError> {
        if let Some(running) = self.adopt().await {
            tracing::info!(daemon = self.name, "runs already");
            return Ok(running);
        }
        if let Some(database) = &self.database {
            database.prepare().await.map_err(|source| self.unprepared(source))?;
        }
        self.end_what_cannot_be_reached().await;
        if let Some(southbound) = &self.needs_global {
            filled(southbound).await;
        }
        if let Err(error) = self.start().await {
            let Some(database) = &self.database else { return Err(error) };
            // The file is what most likely keeps it. Putting it aside loses nothing that is not made anew from the
            // cluster, and it stays for whoever wants to look.
            tracing::error!(daemon = self.name, error = &error as &dyn std::error::Error, "does not start");
            if !database.put_aside().await.map_err(|source| self.unprepared(source))? {
                return Err(error);
            }
            self.start().await?;
        }
        tracing::info!(daemon = self.name, "started");
        self.adopt()
            .await
            .ok_or_else(|| StartError::Silent { daemon: self.name.clone(), run: self.run.clone() })
    }

    fn unprepared(&self, source: DatabaseError) -> StartError {
        StartError::Database { daemon: self.name.clone(), source }
    }

    /// The running daemon, if all its sockets answer.
    async fn adopt(&self) -> Option<Running> {
        if let Some(socket) = &self.socket {
            UnixStream::connect(socket).await.ok()?;
        }
        let control = Control::find(&self.run, &self.name).await.ok()?;
        let held = UnixStream::connect(control.socket()).await.ok()?;
        Some(Running {
            held,
            sockets: self.socket.iter().cloned().chain([control.socket().into()]).collect(),
        })
    }

    /// A process that holds the pidfile but cannot be talked to, because its sockets were removed, keeps its successor
    /// from starting.
    async fn end_what_cannot_be_reached(&self) {
        let Some(pid) = self.pid() else { return };
        tracing::warn!(daemon = self.name, pid, "runs and cannot be reached; ending it");
        if kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok() {
            for _ in 0..200 {
                if self.pid().is_none() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// The process its pidfile names, if that is this program: numbers are used again.
    fn pid(&self) -> Option<i32> {
        let pid: i32 = std::fs::read_to_string(self.pidfile()).ok()?.trim().parse().ok()?;
        let program =
            std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("cmdline")).ok()?;
        let program = program.split('\0').next()?;
        Path::new(program).file_name().is_some_and(|name| name == self.program).then_some(pid)
    }

    async fn start(&self) -> Result<(), StartError> {
        let mut command = Command::new(self.program);
        command
            .args(&self.arguments)
            .arg(format!("--pidfile={}", self.pidfile().display()))
            .arg(format!("--log-file={}", self.log.display()))
            .args(["-vconsole:off", "--detach", "--no-chdir"])
            .env("OVN_RUNDIR", &self.run)
            .env("OVS_RUNDIR", &self.ovs_run);
        let done = tokio::time::timeout(START_WITHIN, Host::default().output(command)).await;
        let failed = |source| StartError::Run { program: self.program.to_owned(), source };
        let done = done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(failed)?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        let said =
            if said.is_empty() { format!("{}; see {}", done.status, self.log.display()) } else { said };
        Err(StartError::Refused { daemon: self.name.clone(), said })
    }
}

/// Waits until `ovn-northd` has made the southbound database's first row, for as long as that can take: a daemon that
/// would end without it is started again anyway.
async fn filled(southbound: &Path) {
    let Ok(remote) = format!("unix:{}", southbound.display()).parse() else { return };
    let row = async {
        let spec = Spec::new(southbound::DATABASE).table::<SbGlobal>();
        let client = Client::connect(spec, vec![remote], Options::default()).await.ok()?;
        client.until(|rows| rows.single::<SbGlobal>().ok().flatten()).await;
        Some(())
    };
    if !matches!(tokio::time::timeout(START_WITHIN, row).await, Ok(Some(()))) {
        tracing::warn!("the southbound database has no global row; is ovn-northd running?");
    }
}

/// A daemon that was seen to run.
#[derive(Debug)]
pub struct Running {
    held: UnixStream,
    sockets: Vec<PathBuf>,
}

impl Running {
    /// Waits until it has ended, or cannot be reached any more.
    pub async fn ended(&mut self) {
        let mut rest = [0; 64];
        loop {
            tokio::select! {
                // The end of the process closes the connection.
                read = self.held.read(&mut rest) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                },
                () = tokio::time::sleep(LOOK_EVERY) => {
                    for socket in &self.sockets {
                        if UnixStream::connect(socket).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }
}
