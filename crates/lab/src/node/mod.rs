//! A node: the first process of a machine made of namespaces.
//!
//! It sets up the machine's file system, starts its network service, its switch and our programs in the order a real
//! machine would, sees orphans off, and stands in for the kubelet. What it says and is told goes over its standard
//! output and input, a JSON value per line.

pub(crate) mod disk;
mod root;
mod spec;
mod switch;

use std::convert::Infallible;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

pub use spec::{Interface, Spec};

use crate::children::Children;
use crate::error::{During, LabError, Result};
use crate::kubelet::Kubelet;
use crate::program::{Program, Service};
use crate::protocol::Stage;

const IFUP: &str = "/sbin/ifup";
/// What the kubelet's stand-in uses.
pub(crate) const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
/// What the agent uses.
pub(crate) const AGENT: &str = "/etc/netferry/kubeconfig";
/// How long what runs at a shutdown may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// Between two attempts at something a boot cannot go on without.
const AGAIN: Duration = Duration::from_millis(500);

/// What a node says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// It got this far.
    Stage(Stage),
    /// What keeps it from getting further.
    Note(Option<String>),
    /// So many pods run.
    Pods(usize),
    /// Somebody on it asks for a restart.
    AsksRestart,
    /// The answer to [`Order::Pod`].
    Pod {
        /// The pod asked for.
        pod: String,
        /// The process to follow into it, or why there is none.
        found: std::result::Result<Vec<i32>, String>,
    },
}

/// What a node is told, after its [`Spec`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Which process leads into a pod?
    Pod {
        /// Its name, alone or after its namespace and a slash.
        pod: String,
    },
    /// End in an orderly way.
    Shutdown,
}

/// Where a node's reports go.
#[derive(Clone, Debug, Default)]
pub struct Reporter(Arc<Mutex<()>>);

impl Reporter {
    /// Says something.
    pub fn say(&self, report: &Report) {
        let _whole_lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        // The lab's process reads for as long as it lives, and nothing here outlives it.
        let _ = serde_json::to_writer(&mut out, report)
            .map_err(std::io::Error::other)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
    }
}

/// Runs a node until it is shut down. The calling process must be single-threaded and the first of its process
/// namespace.
pub fn run() -> Result<()> {
    let spec: Spec = serde_json::from_str(&first_line()?).during("reading what this node is")?;
    let reporter = Reporter::default();
    reporter.say(&Report::Stage(Stage::Booting));
    root::enter(&spec)?;
    nix::unistd::sethostname(spec.name.as_str()).during("setting the host name")?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().during("starting the runtime")?;
    runtime.block_on(async {
        let children = Children::default();
        tokio::select! {
            ended = live(&spec, &reporter, &children) => ended,
            buried = children.bury_orphans() => buried.during("seeing orphans off"),
        }
    })
}

/// Not a byte more than the line: what follows is for whoever reads next.
fn first_line() -> Result<String> {
    let mut line = vec![];
    let mut input = std::io::stdin().lock();
    let mut byte = [0];
    while byte != *b"\n" {
        input.read_exact(&mut byte).during("reading what this node is")?;
        line.extend(byte);
    }
    String::from_utf8(line).during("reading what this node is")
}

async fn live(spec: &Spec, reporter: &Reporter, children: &Children) -> Result<()> {
    let stage = |stage| reporter.say(&Report::Stage(stage));
    let restart = signal(SignalKind::interrupt()).during("listening for a restart")?;
    if spec.parts.host_init {
        insist(reporter, "netferry host-init --files", async || {
            let program = Program::new(spec.program_inside(), "/var/log/netferry/host-init.log");
            once(program.named("netferry host-init").args(["host-init", "--files"]), children).await
        })
        .await;
    }
    stage(Stage::Interfaces);
    insist(reporter, "bringing up the interfaces", async || {
        once(Program::new(IFUP, "/var/log/ifup.log").args(["-a"]), children).await
    })
    .await;
    stage(Stage::Switch);
    let mut services = switch::start(children, reporter, spec.crowded).await?;
    if spec.parts.host_init {
        stage(Stage::HostInit);
        insist(reporter, "netferry host-init", async || {
            let program = Program::new(spec.program_inside(), "/var/log/netferry/host-init.log");
            once(program.named("netferry host-init").args(["host-init"]), children).await
        })
        .await;
    }
    stage(Stage::Registering);
    if spec.parts.agent {
        let program = Program::new(spec.program_inside(), "/var/log/netferry/agent.log").named("agent");
        let command = if spec.solo { "solo" } else { "agent" };
        let node = spec.name.as_str();
        let arguments = ["--kubeconfig", AGENT, command, "--node", node, "--listen", "0.0.0.0:9645"];
        services.push(program.args(arguments).env("NODE_NAME", spec.name.as_str()).supervise(children));
    }
    let kubelet = Kubelet::start(spec, Path::new(KUBELET), children, reporter).await?;
    tokio::select! {
        told = obey(&kubelet, reporter) => told?,
        never = pass_on(restart, reporter) => match never {},
    }
    shut_down(kubelet, services).await;
    Ok(())
}

/// What Ctrl-Alt-Del is on a machine: whoever is on it asks for a restart. The lab decides when.
async fn pass_on(mut asked: SignalStream, reporter: &Reporter) -> Infallible {
    loop {
        match asked.recv().await {
            Some(()) => reporter.say(&Report::AsksRestart),
            None => std::future::pending().await,
        }
    }
}

/// Does what it is told until it is told to shut down.
async fn obey(kubelet: &Kubelet, reporter: &Reporter) -> Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.during("reading orders")? {
        match serde_json::from_str(&line).during("understanding an order")? {
            Order::Pod { pod } => {
                let found = kubelet.process_of(&pod);
                reporter.say(&Report::Pod { pod, found });
            }
            Order::Shutdown => return Ok(()),
        }
    }
    Err(LabError::failed("reading orders", "the lab's process is gone"))
}

/// Pods first, then what they rest on, each in the reverse order of its start.
async fn shut_down(kubelet: Kubelet, mut services: Vec<Service>) {
    kubelet.shut_down(GRACE).await;
    while let Some(service) = services.pop() {
        service.end(GRACE).await;
    }
    // Daemons that nobody here started themselves. This process is spared by the kernel.
    let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
    let alone = async {
        while std::fs::read_dir("/proc").is_ok_and(|all| {
            all.flatten().any(|entry| {
                let pid = entry.file_name().to_string_lossy().parse::<i32>();
                pid.is_ok_and(|pid| pid != 1 && crate::state::started(pid).is_some())
            })
        }) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(GRACE, alone).await;
}

/// Runs a program to its end; an end that is not a success is an error with the last thing it said.
async fn once(program: Program, children: &Children) -> Result<()> {
    let status = program.run(children).await.during(format!("starting {}", program.path.display()))?;
    if status.success() {
        return Ok(());
    }
    let said = std::fs::read_to_string(&program.log).unwrap_or_default();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(LabError::failed(format!("{} ({status})", program.name), last))
}

/// Tries until it works, and says why it does not.
pub(crate) async fn insist(reporter: &Reporter, what: &str, mut attempt: impl AsyncFnMut() -> Result<()>) {
    while let Err(error) = attempt().await {
        tracing::warn!(error = error.chain(), "{what}");
        reporter.say(&Report::Note(Some(error.chain())));
        tokio::time::sleep(AGAIN).await;
    }
    reporter.say(&Report::Note(None));
}
