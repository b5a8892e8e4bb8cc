//! A program that is started again whenever it ends, as a service manager would.

use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netferry_kernel::process::before_others;
use nix::sys::signal::Signal;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot, watch};

use crate::children::{Children, Place, Waited};
use crate::protocol::ProgramStatus;

/// The first pause of most programs, and the second of those that are wanted back at once.
const SHORT_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A program that ran for this long was fine; its next end is not the sequel of the last.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// What it is called in logs and status.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What its environment has besides ours.
    pub environment: Vec<(String, String)>,
    /// Where it runs.
    pub place: Place,
    /// Where its output goes; appended.
    pub log: PathBuf,
    /// How long it may wait for a processor.
    pub urgency: Urgency,
}

/// How long a program may wait for a processor, and whoever needs it for another one of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// As others do.
    #[default]
    Usual,
    /// As others do; when it ends it is there again at once.
    BackAtOnce,
    /// It comes before everything else of the machine, and is there again at once: packets wait for it.
    First,
}

impl Program {
    /// A program in our own namespaces.
    pub(crate) fn new(path: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Program {
        let path = path.into();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Program {
            name,
            path,
            arguments: vec![],
            environment: vec![],
            place: Place::default(),
            log: log.into(),
            urgency: Urgency::Usual,
        }
    }

    /// Under another name.
    pub(crate) fn named(self, name: impl Into<String>) -> Program {
        Program { name: name.into(), ..self }
    }

    /// With arguments.
    pub(crate) fn args<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Program {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With something in its environment.
    pub(crate) fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Program {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Before others where processors are scarce: what everybody waits for must not wait for everybody.
    pub(crate) fn first(mut self) -> Program {
        let mut arguments = vec!["-n".to_owned(), "-10".to_owned(), self.path.display().to_string()];
        arguments.append(&mut self.arguments);
        Program { path: "/usr/bin/nice".into(), arguments, ..self }
    }

    /// Of this urgency.
    pub(crate) fn urgent(self, urgency: Urgency) -> Program {
        Program { urgency, ..self }
    }

    /// Somewhere else.
    pub(crate) fn at(self, place: Place) -> Program {
        Program { place, ..self }
    }

    /// Starts it once.
    pub(crate) fn spawn(&self, children: &Children) -> io::Result<Waited> {
        if let Some(directory) = self.log.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            // A group of its own: what is sent to the group of the service's process stays with it.
            .process_group(0)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if self.urgency == Urgency::First {
            before_others(command.as_std_mut());
        }
        self.place.spawn(children, &mut command)
    }

    /// Runs it to its end.
    pub(crate) async fn run(&self, children: &Children) -> io::Result<std::process::ExitStatus> {
        self.spawn(children)?.wait().await
    }

    /// Keeps it running until the service is ended or dropped.
    pub(crate) fn supervise(self, children: &Children) -> Service {
        let (noted, status) = watch::channel(ProgramStatus::default());
        let (orders, inbox) = mpsc::unbounded_channel();
        let keeper = Keeper { program: self, children: children.clone(), status: noted };
        let task = tokio::spawn(keeper.keep(inbox));
        Service { status, orders, task }
    }
}

/// A program that is kept running.
#[derive(Debug)]
pub(crate) struct Service {
    status: watch::Receiver<ProgramStatus>,
    orders: mpsc::UnboundedSender<Order>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Order {
    grace: Duration,
    done: oneshot::Sender<()>,
}

impl Service {
    /// How it is.
    pub(crate) fn status(&self) -> ProgramStatus {
        self.status.borrow().clone()
    }

    /// How it is from now on.
    pub(crate) fn follow(&self) -> watch::Receiver<ProgramStatus> {
        self.status.clone()
    }

    /// Ends it for good; after `grace` the hard way.
    pub(crate) async fn end(self, grace: Duration) {
        let (done, ended) = oneshot::channel();
        if self.orders.send(Order { grace, done }).is_ok() {
            let _ = ended.await;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Keeper {
    program: Program,
    children: Children,
    status: watch::Sender<ProgramStatus>,
}

impl Keeper {
    async fn keep(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let usual = self.program.urgency == Urgency::Usual;
        let first_pause = if usual { SHORT_PAUSE } else { Duration::ZERO };
        let mut pause = first_pause;
        loop {
            let began = Instant::now();
            let how = match self.program.spawn(&self.children) {
                Ok(mut child) => {
                    self.note(|s| (s.running, s.starts) = (true, s.starts + 1));
                    tokio::select! {
                        end = child.wait() => match end {
                            Ok(status) => status.to_string(),
                            Err(error) => error.to_string(),
                        },
                        order = orders.recv() => {
                            let Some(order) = order else { return };
                            child.signal(Signal::SIGCONT);
                            let _ = child.end(order.grace).await;
                            self.note(|s| s.running = false);
                            let _ = order.done.send(());
                            return;
                        }
                    }
                }
                Err(error) => format!("cannot be started: {error}"),
            };
            tracing::warn!(program = self.program.name, how, "ended");
            self.note(|s| (s.running, s.last_end) = (false, Some(how)));
            if began.elapsed() > STEADY_AFTER {
                pause = first_pause;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                order = orders.recv() => {
                    if let Some(order) = order {
                        let _ = order.done.send(());
                    }
                    return;
                }
            }
            pause = (pause * 2).clamp(SHORT_PAUSE, LONGEST_PAUSE);
        }
    }

    fn note(&self, change: impl FnOnce(&mut ProgramStatus)) {
        self.status.send_modify(change);
    }
}
