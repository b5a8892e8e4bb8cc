//! A pod's containers: started, restarted, ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use netferry_kernel::Namespace;
use nix::sched::CloneFlags;
use nix::sys::signal::Signal;
use tokio::sync::watch;

use super::probe;
use crate::children::{Children, Place};
use crate::container::LastWords;
use crate::node::Spec;
use crate::program::Program;

/// Where kubelets find containers' last words; emptied when the machine boots.
const LAST_WORDS: &str = "/run/kubelet/last-words";
/// As much as a kubelet takes of them.
const MOST_WORDS: usize = 4096;
/// As much as it takes of a log instead.
const MOST_OF_LOG: usize = 2048;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A container that ran for this long was fine; its next crash begins the pauses anew.
const STEADY_AFTER: Duration = Duration::from_secs(60);

/// How a container is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Not started yet, or about to be started again.
    Waiting { reason: &'static str, message: String },
    /// It runs.
    Running { pid: i32, since: Timestamp },
    /// It ended and stays so.
    Terminated { code: i32, signal: Option<i32>, from: Timestamp, to: Timestamp, words: String },
}

/// What is known of a container.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) state: State,
    /// How it ended the time before.
    pub(super) last: Option<State>,
    pub(super) ready: bool,
    pub(super) restarts: i32,
}

/// One container of a pod, kept as its pod's restart policy says.
pub(super) struct Running {
    pub(super) name: String,
    seen: Arc<Mutex<Seen>>,
    ending: watch::Sender<Option<Duration>>,
    task: tokio::task::JoinHandle<()>,
}

/// When a container that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    pub(super) fn of(pod: &Pod) -> Restart {
        match pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => Restart::Never,
            Some("OnFailure") => Restart::OnFailure,
            Some(_) | None => Restart::Always,
        }
    }

    fn again(self, code: i32) -> bool {
        match self {
            Restart::Always => true,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        }
    }
}

/// What a container is started with.
pub(super) struct Start<'a> {
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    pub(super) restart: Restart,
    /// How often it was started before.
    pub(super) restarts: i32,
    /// None on the host's own network.
    pub(super) network: Option<Arc<Namespace>>,
    pub(super) addresses: &'a [String],
    pub(super) spec: &'a Spec,
    pub(super) children: &'a Children,
    pub(super) changed: watch::Sender<u64>,
}

impl Start<'_> {
    /// Starts it and keeps it.
    pub(super) fn run(self) -> Running {
        let waiting = State::Waiting { reason: "ContainerCreating", message: String::new() };
        let seen = Seen { state: waiting, last: None, ready: false, restarts: self.restarts };
        let seen = Arc::new(Mutex::new(seen));
        let (ending, told) = watch::channel(None);
        let words = last_words(self.pod, self.container);
        let keeper = Keeper {
            program: self.program(words.as_ref()),
            words,
            log_speaks: self.container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"),
            restart: self.restart,
            children: self.children.clone(),
            seen: seen.clone(),
            changed: self.changed.clone(),
            told,
            probes: probe::Probes::of(self.container, self.addresses, self.spec, self.children),
            pre_stop: pre_stop(self.container),
        };
        Running { name: self.container.name.clone(), seen, ending, task: tokio::spawn(keeper.keep()) }
    }

    fn program(&self, words: Option<&LastWords>) -> Program {
        let meta = &self.pod.metadata;
        let (namespace, name) =
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let uid = meta.uid.clone().unwrap_or_default();
        let log =
            PathBuf::from(format!("/var/log/pods/{namespace}_{name}_{uid}/{}.log", self.container.name));
        let program = self.spec.program_inside();
        let mut arguments = vec!["lab-container".to_owned()];
        let mut fresh = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
        if self.network.is_some() {
            fresh |= CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC;
            let hostname = self.pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
            arguments.push(format!("--hostname={}", hostname.unwrap_or_else(|| name.clone())));
        }
        if let Some(LastWords { file, path }) = words {
            arguments.push(format!("--last-words={}", file.display()));
            arguments.push(format!("--last-words-at={}", path.display()));
        }
        arguments.push("--".into());
        let written = self.container.command.clone().unwrap_or_default();
        if written.is_empty() {
            // An image would say what to run. Here it is a program that answers.
            arguments.extend([program.display().to_string(), "lab-pod".into()]);
        }
        arguments.extend(written);
        arguments.extend(self.container.args.clone().unwrap_or_default());
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/netferry/bin";
        let mut made = Program::new(program, log)
            .named(format!("{namespace}/{name}/{}", self.container.name))
            .args(arguments)
            .env("PATH", path)
            .env("HOSTNAME", name)
            .at(Place { network: self.network.clone(), fresh });
        let ports: Vec<String> =
            self.container.ports.iter().flatten().map(|port| port.container_port.to_string()).collect();
        if !ports.is_empty() {
            made = made.env("PORTS", ports.join(","));
        }
        for variable in self.container.env.iter().flatten() {
            made = made.env(variable.name.clone(), self.value(variable));
        }
        made
    }

    fn value(&self, variable: &EnvVar) -> String {
        let meta = &self.pod.metadata;
        let field = variable.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
        let found = match field.map(|field| field.field_path.as_str()) {
            None => variable.value.clone(),
            Some("metadata.name") => meta.name.clone(),
            Some("metadata.namespace") => meta.namespace.clone(),
            Some("metadata.uid") => meta.uid.clone(),
            Some("spec.nodeName") => Some(self.spec.name.to_string()),
            Some("status.hostIP") => self.spec.addresses().next().map(|address| address.to_string()),
            Some("status.podIP") => self.addresses.first().cloned(),
            Some("status.podIPs") => Some(self.addresses.join(",")),
            Some(_) => None,
        };
        found.unwrap_or_default()
    }
}

/// Where a container leaves its last words, if it says where. What is below `/dev` is the machine's own, and by default it
/// would be there: a lab does not write to it.
fn last_words(pod: &Pod, container: &Container) -> Option<LastWords> {
    let path = container.termination_message_path.as_ref().filter(|path| !path.starts_with("/dev/"))?;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let file = format!("{LAST_WORDS}/{uid}/{}", container.name).into();
    Some(LastWords { file, path: path.into() })
}

/// Takes what a container said, as much as is told of it; nothing where it may say nothing.
fn said(words: Option<&LastWords>) -> String {
    let Some(LastWords { file, .. }) = words else { return String::new() };
    let bytes = std::fs::read(file).unwrap_or_default();
    // What is left of it goes with the machine's next boot.
    let _ = std::fs::remove_file(file);
    let _ = file.parent().map(std::fs::remove_dir);
    String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_WORDS)]).into_owned()
}

/// What a container does before it is told to end, as far as a lab needs it.
#[derive(Clone, Debug)]
enum PreStop {
    Nothing,
    Sleep(Duration),
    Exec(Vec<String>),
}

fn pre_stop(container: &Container) -> PreStop {
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    match hook {
        Some(hook) => match (&hook.sleep, &hook.exec) {
            (Some(sleep), _) => PreStop::Sleep(Duration::from_secs(sleep.seconds.unsigned_abs())),
            (None, Some(exec)) => PreStop::Exec(exec.command.clone().unwrap_or_default()),
            (None, None) => PreStop::Nothing,
        },
        None => PreStop::Nothing,
    }
}

impl Running {
    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its process, while it runs.
    pub(super) fn pid(&self) -> Option<i32> {
        match self.seen().state {
            State::Running { pid, .. } => Some(pid),
            State::Waiting { .. } | State::Terminated { .. } => None,
        }
    }

    /// Whether it ended for good.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished() || matches!(self.seen().state, State::Terminated { .. })
    }

    /// Tells it to end within some time. A shorter time may be given later.
    pub(super) fn end(&self, grace: Duration) {
        self.ending.send_if_modified(|current| {
            let sooner = current.is_none_or(|current| grace < current);
            if sooner {
                *current = Some(grace);
            }
            sooner
        });
    }

    /// Waits until it is ended for good, after [`Running::end`].
    pub(super) async fn gone(&mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Keeper {
    program: Program,
    words: Option<LastWords>,
    /// Whether the end of its log tells why it failed.
    log_speaks: bool,
    restart: Restart,
    children: Children,
    seen: Arc<Mutex<Seen>>,
    changed: watch::Sender<u64>,
    told: watch::Receiver<Option<Duration>>,
    probes: probe::Probes,
    pre_stop: PreStop,
}

impl Keeper {
    async fn keep(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let from = Timestamp::now();
            let (code, signal, told) = match self.spawn() {
                Ok(child) => {
                    let pid = child.pid();
                    self.now(|seen| seen.state = State::Running { pid, since: from });
                    self.live(child).await
                }
                Err(error) => {
                    tracing::warn!(container = self.program.name, %error, "not started");
                    (128, None, false)
                }
            };
            let words = self.last_words(code);
            let over = State::Terminated { code, signal, from, to: Timestamp::now(), words };
            if told || !self.restart.again(code) {
                self.now(|seen| (seen.state, seen.ready) = (over, false));
                return;
            }
            if began.elapsed() > STEADY_AFTER {
                pause = FIRST_PAUSE;
            }
            let message = format!("back-off {:.1} s restarting failed container", pause.as_secs_f32());
            self.now(|seen| {
                seen.state = State::Waiting { reason: "CrashLoopBackOff", message };
                seen.last = Some(over.clone());
                seen.ready = false;
                seen.restarts += 1;
            });
            if tokio::time::timeout(pause, self.told.changed()).await.is_ok() {
                self.now(|seen| seen.state = over);
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Starts it, with nothing said yet.
    fn spawn(&self) -> io::Result<crate::children::Waited> {
        if let Some(LastWords { file, .. }) = &self.words {
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(file, "")?;
        }
        self.program.spawn(&self.children)
    }

    /// What it said at its end; where it failed without a word and its pod wants that, the end of its log.
    fn last_words(&self, code: i32) -> String {
        let words = said(self.words.as_ref());
        if !words.is_empty() || code == 0 || !self.log_speaks {
            return words;
        }
        let log = std::fs::read(&self.program.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(MOST_OF_LOG)..]).into_owned()
    }

    /// From its start to its end: how it ended, and whether it was told to.
    async fn live(&mut self, mut child: crate::children::Waited) -> (i32, Option<i32>, bool) {
        let pid = child.pid();
        let (seen, changed) = (self.seen.clone(), self.changed.clone());
        let watching = self.probes.watch(pid, move |ready| note(&seen, &changed, |seen| seen.ready = ready));
        tokio::pin!(watching);
        let mut watched = true;
        let mut last_words: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        let mut killed_at: Option<tokio::time::Instant> = None;
        let ended = loop {
            tokio::select! {
                ended = child.wait() => break ended,
                // Goes on while it ends: what still serves is still ready.
                () = &mut watching, if watched => {
                    watched = false;
                    tracing::warn!(container = self.program.name, "its liveness probe fails");
                    child.signal(Signal::SIGKILL);
                }
                changed = self.told.changed() => {
                    if changed.is_err() {
                        // Nobody is left to tell.
                        child.signal(Signal::SIGKILL);
                        break child.wait().await;
                    }
                    if killed_at.is_none() {
                        last_words = Some(Box::pin(self.pre_stop.clone().run(pid, self.children.clone())));
                    }
                    let grace = self.told.borrow().unwrap_or_default();
                    killed_at = Some(tokio::time::Instant::now() + grace);
                }
                () = async { if let Some(words) = &mut last_words { words.await } }, if last_words.is_some() => {
                    last_words = None;
                    child.signal(Signal::SIGTERM);
                }
                () = tokio::time::sleep_until(killed_at.unwrap_or_else(tokio::time::Instant::now)),
                    if killed_at.is_some() => {
                    child.signal(Signal::SIGKILL);
                    break child.wait().await;
                }
            }
        };
        let told = killed_at.is_some();
        match ended {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => (code, None, told),
                (None, Some(signal)) => (128 + signal, Some(signal), told),
                (None, None) => (255, None, told),
            },
            Err(_) => (255, None, told),
        }
    }

    fn now(&self, change: impl FnOnce(&mut Seen)) {
        note(&self.seen, &self.changed, change);
    }
}

fn note(seen: &Mutex<Seen>, changed: &watch::Sender<u64>, change: impl FnOnce(&mut Seen)) {
    let mut now = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let before = now.clone();
    change(&mut now);
    if before != *now {
        changed.send_modify(|count| *count += 1);
    }
}

impl PreStop {
    async fn run(self, pid: i32, children: Children) {
        match self {
            PreStop::Nothing => {}
            PreStop::Sleep(time) => tokio::time::sleep(time).await,
            PreStop::Exec(command) => {
                probe::exec(&command, pid, &children).await;
            }
        }
    }
}
