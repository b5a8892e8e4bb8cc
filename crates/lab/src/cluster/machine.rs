//! One node as the lab's process sees it: a machine that is on or off, and what it says about itself.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netferry_kernel::Namespace;
use nix::sched::CloneFlags;
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::fabric::{Fabric, prepare};
use crate::children::{Children, Place, Waited};
use crate::error::{During, LabError, Result};
use crate::node::{Order, Report, Spec};
use crate::options::{Name, Restarts};
use crate::protocol::{NodeStatus, Stage};

/// A shutdown that takes longer ends like one without a goodbye.
const GOODBYE_WITHIN: Duration = Duration::from_secs(30);
/// After this long a boot makes room for others, ready or not.
const BOOTS_WITHIN: Duration = Duration::from_secs(20);
/// A machine that ends by itself is started again, but not in a circle that takes all there is.
const PAUSE_AFTER_CRASH: Duration = Duration::from_secs(1);

/// The processes that lead into a pod, or why there are none.
type Found = std::result::Result<Vec<i32>, String>;
/// A pod somebody asked for, and who.
type Question = (String, oneshot::Sender<Found>);

/// What machines share.
#[derive(Debug)]
pub(super) struct Rack {
    pub(super) fabric: Mutex<Fabric>,
    pub(super) children: Children,
    pub(super) program: PathBuf,
    /// Booting costs most of what a node costs: all at once they would only be in each other's way.
    pub(super) booting: Arc<Semaphore>,
    /// When a node restarts that asks for it.
    pub(super) restarts: Restarts,
}

/// What is known of a machine.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) stage: Stage,
    pub(super) since: Instant,
    pub(super) boots: u32,
    pub(super) pods: usize,
    pub(super) note: Option<String>,
    /// Somebody on it asks for a restart.
    pub(super) asks_restart: bool,
    /// Its first process, as ours sees it.
    pub(super) pid: Option<i32>,
}

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) spec: Spec,
    pub(super) addresses: Vec<IpNet>,
    seen: watch::Receiver<Seen>,
    switch: mpsc::Sender<Switch>,
}

/// What its owner asks of a machine.
#[derive(Debug)]
enum Switch {
    /// End, with or without a goodbye, and boot again or not. Answered when it is off.
    Off { orderly: bool, again: bool, done: oneshot::Sender<()> },
    /// Ask what runs on it.
    Ask { pod: String, answer: oneshot::Sender<Found> },
}

impl Machine {
    /// Sets one up and boots it.
    pub(super) fn start(spec: Spec, addresses: Vec<IpNet>, rack: Arc<Rack>) -> Machine {
        let off = Seen {
            stage: Stage::Off,
            since: Instant::now(),
            boots: 0,
            pods: 0,
            note: None,
            asks_restart: false,
            pid: None,
        };
        let (seen, watched) = watch::channel(off);
        let (switch, orders) = mpsc::channel(16);
        let runner = Runner { spec: spec.clone(), rack, seen, orders };
        tokio::spawn(runner.run());
        Machine { spec, addresses, seen: watched, switch }
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Changes of what is known of it.
    pub(super) fn changes(&self) -> watch::Receiver<Seen> {
        let mut seen = self.seen.clone();
        // A copy remembers what the original has looked at, which is nothing: it would tell of old changes for ever.
        seen.mark_unchanged();
        seen
    }

    pub(super) async fn off(&self, orderly: bool, again: bool) -> Result<()> {
        let (done, ended) = oneshot::channel();
        let order = Switch::Off { orderly, again, done };
        let gone = || LabError::failed(format!("switching {} off", self.spec.name), "its runner is gone");
        self.switch.send(order).await.map_err(|_| gone())?;
        ended.await.map_err(|_| gone())
    }

    /// The process of a pod, as the node's first process sees it.
    pub(super) async fn pod(&self, pod: &str) -> Option<Found> {
        let (answer, answered) = oneshot::channel();
        self.switch.send(Switch::Ask { pod: pod.to_owned(), answer }).await.ok()?;
        tokio::time::timeout(Duration::from_secs(5), answered).await.ok()?.ok()
    }

    pub(super) fn status(&self) -> NodeStatus {
        let seen = self.seen();
        NodeStatus {
            name: self.spec.name.clone(),
            number: self.spec.number,
            role: self.spec.role,
            pool: self.spec.pool.clone(),
            addresses: self.addresses.clone(),
            stage: seen.stage,
            seconds: seen.since.elapsed().as_secs_f64(),
            boots: seen.boots,
            pods: seen.pods,
            note: seen.note,
            asks_restart: seen.asks_restart,
        }
    }
}

struct Runner {
    spec: Spec,
    rack: Arc<Rack>,
    seen: watch::Sender<Seen>,
    orders: mpsc::Receiver<Switch>,
}

/// How a machine came to be off, and what is next.
enum Next {
    Boot,
    StayOff,
    Gone,
}

impl Runner {
    async fn run(mut self) {
        let mut next = Next::Boot;
        loop {
            next = match next {
                Next::Boot => match self.life().await {
                    Ok(next) => next,
                    Err(error) => {
                        tracing::error!(node = %self.spec.name, error = error.chain(), "not booted");
                        self.now(|seen| seen.note = Some(error.chain()));
                        self.rest().await
                    }
                },
                Next::StayOff => match self.orders.recv().await {
                    Some(Switch::Off { again, done, .. }) => {
                        let _ = done.send(());
                        if again { Next::Boot } else { Next::StayOff }
                    }
                    Some(Switch::Ask { answer, .. }) => {
                        let _ = answer.send(Err(format!("{} is off", self.spec.name)));
                        Next::StayOff
                    }
                    None => Next::Gone,
                },
                Next::Gone => return,
            };
        }
    }

    /// The pause after a crash, unless somebody has another idea meanwhile.
    async fn rest(&mut self) -> Next {
        let until = tokio::time::sleep(PAUSE_AFTER_CRASH);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return Next::Boot,
                order = self.orders.recv() => match order {
                    Some(Switch::Off { again, done, .. }) => {
                        let _ = done.send(());
                        return if again { Next::Boot } else { Next::StayOff };
                    }
                    Some(Switch::Ask { answer, .. }) => {
                        let _ = answer.send(Err(format!("{} is off", self.spec.name)));
                    }
                    None => return Next::Gone,
                }
            }
        }
    }

    /// From boot to off.
    async fn life(&mut self) -> Result<Next> {
        self.now(|seen| (seen.stage, seen.boots, seen.note) = (Stage::Booting, seen.boots + 1, None));
        let slot = self.rack.booting.clone().acquire_owned().await.during("waiting for a turn to boot")?;
        let mut child = self.boot()?;
        self.now(|seen| seen.pid = Some(child.pid()));
        let mut slot = Some(slot);
        // A node that cannot become ready must not keep others from trying.
        let hold = tokio::time::sleep(BOOTS_WITHIN);
        tokio::pin!(hold);
        let (mut input, mut output) = match (child.pipes().stdin.take(), child.pipes().stdout.take()) {
            (Some(input), Some(output)) => (input, BufReader::new(output).lines()),
            (None, _) | (_, None) => return Err(LabError::failed("booting", "no pipes")),
        };
        say(&mut input, &self.spec).await.during(format!("telling {} what it is", self.spec.name))?;
        let mut questions: Vec<Question> = vec![];
        let next = loop {
            tokio::select! {
                ended = child.wait() => {
                    let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                    tracing::warn!(node = %self.spec.name, how, "ended by itself");
                    self.lights_out(Some(format!("its first process ended: {how}")))?;
                    break self.rest().await;
                }
                line = output.next_line() => match line {
                    Ok(Some(line)) => {
                        if self.hear(&line, &mut questions) >= self.booted() {
                            slot = None;
                        }
                        if self.seen.borrow().asks_restart && self.rack.restarts == Restarts::AtOnce {
                            tracing::info!(node = %self.spec.name, "restarts, as asked from inside");
                            self.end(&mut child, &mut input, true).await?;
                            break Next::Boot;
                        }
                    }
                    // It closed its output, so it is about to end.
                    Ok(None) | Err(_) => {
                        let _ = child.end(Duration::ZERO).await;
                    }
                },
                () = &mut hold, if slot.is_some() => slot = None,
                order = self.orders.recv() => match order {
                    None => { self.end(&mut child, &mut input, false).await?; break Next::Gone; }
                    Some(Switch::Off { orderly, again, done }) => {
                        self.end(&mut child, &mut input, orderly).await?;
                        let _ = done.send(());
                        break if again { Next::Boot } else { Next::StayOff };
                    }
                    Some(Switch::Ask { pod, answer }) => {
                        if say(&mut input, &Order::Pod { pod: pod.clone() }).await.is_ok() {
                            questions.push((pod, answer));
                        }
                    }
                }
            }
        };
        drop(slot);
        Ok(next)
    }

    /// How far a node must be for its boot to be over. Most of what it costs is what its agent does at first.
    fn booted(&self) -> Stage {
        if self.spec.parts.agent { Stage::Ready } else { Stage::Registering }
    }

    async fn end(&self, child: &mut Waited, input: &mut ChildStdin, orderly: bool) -> Result<()> {
        if orderly && say(input, &Order::Shutdown).await.is_ok() {
            let _ = tokio::time::timeout(GOODBYE_WITHIN, child.wait()).await;
        }
        child.signal(Signal::SIGKILL);
        child.wait().await.during(format!("waiting for {} to end", self.spec.name))?;
        self.lights_out(None)
    }

    fn lights_out(&self, note: Option<String>) -> Result<()> {
        self.now(|seen| {
            (seen.stage, seen.pid, seen.pods, seen.note) = (Stage::Off, None, 0, note);
            seen.asks_restart = false;
        });
        self.fabric(|fabric| fabric.unplug(self.spec.name.as_str()))
    }

    /// A network of its own, plugged in, and a first process in namespaces of its own.
    fn boot(&self) -> Result<Waited> {
        let name = &self.spec.name;
        // What is left of a life that ended badly would be in the way of this one.
        self.fabric(|fabric| fabric.unplug(name.as_str()))?;
        let network = Arc::new(Namespace::anonymous().during(format!("making a network for {name}"))?);
        prepare(&network)?;
        self.fabric(|fabric| fabric.plug(name.as_str(), self.spec.number, network.clone()))?;
        let console = self.spec.directory.join("console.log");
        let log = OpenOptions::new().create(true).append(true).open(&console);
        let log = log.during(format!("opening {}", console.display()))?;
        let fresh = CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC;
        let mut command = Command::new(&self.rack.program);
        command.arg("lab-node").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        Place { network: Some(network), fresh }
            .spawn(&self.rack.children, &mut command)
            .during(format!("starting the first process of {name}"))
    }

    /// Takes in what the node says; answers how far it is.
    fn hear(&self, line: &str, questions: &mut Vec<Question>) -> Stage {
        match serde_json::from_str(line) {
            Ok(Report::Stage(stage)) => self.now(|seen| (seen.stage, seen.note) = (stage, None)),
            Ok(Report::Note(note)) => self.now(|seen| seen.note = note),
            Ok(Report::Pods(pods)) => self.now(|seen| seen.pods = pods),
            Ok(Report::AsksRestart) => self.now(|seen| seen.asks_restart = true),
            Ok(Report::Pod { pod, found }) => {
                if let Some(at) = questions.iter().position(|(asked, _)| *asked == pod) {
                    let _ = questions.remove(at).1.send(found);
                }
            }
            Err(error) => tracing::warn!(node = %self.spec.name, line, %error, "not understood"),
        }
        self.seen.borrow().stage
    }

    fn now(&self, change: impl FnOnce(&mut Seen)) {
        self.seen.send_modify(|seen| {
            let before = seen.stage;
            change(seen);
            if before != seen.stage {
                seen.since = Instant::now();
            }
        });
    }

    fn fabric<T>(&self, job: impl FnOnce(&mut Fabric) -> Result<T>) -> Result<T> {
        job(&mut self.rack.fabric.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn say<T: serde::Serialize>(input: &mut ChildStdin, what: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    input.write_all(&line).await
}

/// The names of nodes that nobody named.
pub(super) fn free_name(number: u16) -> Name {
    format!("node-{number}").parse().expect("a number makes a name")
}
