//! The process that is a lab: the ancestor of everything in it.
//!
//! It is the first process of its process namespace, so the kernel ends every other one with it; and what it and they
//! mount is in mount namespaces that go with them. Nothing has to be undone for a lab to be gone but its directory, and
//! the room a large one takes in the machine's table of neighbours.

mod bootstrap;
mod control;
mod fabric;
mod faults;
mod identity;
mod kube;
mod machine;
mod relay;
mod serve;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use netferry_kernel::Namespace;
use nix::mount::{MsFlags, mount};
use tokio::sync::{Semaphore, mpsc, watch};

use self::control::Control;
use self::fabric::Fabric;
use self::machine::{Machine, Rack};
use crate::children::Children;
use crate::error::{During, LabError, Result};
use crate::neighbours;
use crate::node::{Spec, disk};
use crate::options::{ControlPlane, Lifetime, Name, NewNode, Options, Role};
use crate::protocol::{Fault, Stage, Status, Waiting, WayThere};
use crate::state::State;

pub(crate) use control::write_private;
pub use fabric::interface;

/// As many nodes boot at a time; what a boot waits for is mostly a processor, and more would wait for each other.
const BOOT_AT_ONCE: usize = 8;

/// What the lab's process is at when it is to end takes this long at most.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// Runs a lab until it is ended. The calling process must be single-threaded and the first of its process namespace.
pub fn run(directory: &Path) -> Result<()> {
    let state = State::at(directory);
    wait_for_go()?;
    let options = state.options()?;
    // The terminal it was started from may close, and an interrupt there is not meant for it.
    nix::unistd::setsid().during("leaving the terminal")?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).during("keeping mounts to ourselves")?;
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), plain, None::<&str>).during("mounting /proc")?;
    let _lock = state.lock()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().during("starting the runtime")?;
    let tied = options.lifetime == Lifetime::OfCaller;
    let ended = runtime.block_on(async {
        let cluster = Arc::new(Cluster::new(state.clone(), options)?);
        let children = cluster.rack.children.clone();
        let work = async {
            let (served, ()) = tokio::join!(serve::serve(cluster.clone()), cluster.clone().come_up());
            served
        };
        tokio::select! {
            served = work => served,
            buried = children.bury_orphans() => buried.during("seeing orphans off"),
            () = leash(tied) => Ok(()),
        }
    });
    // Whoever takes a lab down removes its directory; if nobody is left, that is us.
    if tied && ended.is_ok() {
        // First: its tasks would boot the nodes again that are about to be killed, and those would go on writing.
        runtime.shutdown_timeout(STOPS_WITHIN);
        kill_everything();
        // They are mounted where we are, and nobody else sees that; a file that is mounted on cannot be removed.
        for name in fabric::NAMESPACES {
            Namespace::unbind(state.namespace(name)).during(format!("removing the {name} namespace"))?;
        }
        let given_back = neighbours::give_back(&state);
        state.remove().and(given_back)?;
    }
    ended
}

/// The line that says that whoever started us can find us.
fn wait_for_go() -> Result<()> {
    let mut word = [0; 3];
    std::io::stdin().lock().read_exact(&mut word).during("waiting to be told to go on")
}

/// Returns when the process that holds the other end of our input is gone; never if that does not matter.
async fn leash(tied: bool) {
    if !tied {
        return std::future::pending().await;
    }
    let (gone, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = gone.send(());
    });
    let _ = told.await;
}

/// Ends every other process of our process namespace, and waits for that.
fn kill_everything() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    while nix::sys::wait::waitpid(None, None).is_ok() {}
}

/// A lab.
struct Cluster {
    state: State,
    options: Options,
    rack: Arc<Rack>,
    nodes: Mutex<BTreeMap<Name, Arc<Machine>>>,
    control: tokio::sync::RwLock<Option<Control>>,
    began: Instant,
    /// What the lab itself is at, and since when; or why it cannot go on.
    doing: watch::Sender<Doing>,
}

#[derive(Clone, Debug)]
enum Doing {
    Work { what: &'static str, since: Instant },
    Idle,
    Failed(String),
}

impl Cluster {
    fn new(state: State, options: Options) -> Result<Cluster> {
        let fabric = Fabric::new(&state, &options)?;
        let rack = Rack {
            fabric: Mutex::new(fabric),
            children: Children::default(),
            program: options.program.clone(),
            booting: Arc::new(Semaphore::new(BOOT_AT_ONCE)),
            restarts: options.restarts,
        };
        let (doing, _) = watch::channel(Doing::Work { what: "the API server", since: Instant::now() });
        Ok(Cluster {
            state,
            options,
            rack: Arc::new(rack),
            nodes: Mutex::new(BTreeMap::new()),
            control: tokio::sync::RwLock::new(None),
            began: Instant::now(),
            doing,
        })
    }

    /// Everything the options ask for, in order. What fails stays visible in the status; the lab can be asked and ended.
    async fn come_up(self: Arc<Self>) {
        match self.try_to_come_up().await {
            Ok(()) => self.doing.send_replace(Doing::Idle),
            Err(error) => {
                tracing::error!(error = error.chain(), "the lab did not come up");
                self.doing.send_replace(Doing::Failed(error.chain()))
            }
        };
    }

    async fn try_to_come_up(self: &Arc<Self>) -> Result<()> {
        let network = self.fabric(|fabric| fabric.control());
        let control = Control::start(&self.options, &self.state, network, &self.rack.children).await?;
        let client = control.client().await?;
        *self.control.write().await = Some(control);
        self.at("what a new cluster starts with");
        bootstrap::furnish(&client, &self.options).await?;
        if self.options.control_plane == ControlPlane::Embedded {
            tokio::spawn(crate::controllers::run(client.clone(), Default::default()));
        }
        if let Some(control) = self.control.write().await.as_mut() {
            control.give_accounts(&self.options.control_plane).await?;
            if self.options.parts.operator && !self.options.solo() {
                control.start_operator()?;
            }
        }
        for number in 1..=self.options.nodes {
            let role = if number == 1 { Role::ControlPlane } else { Role::Worker };
            self.add_node(NewNode { role, ..NewNode::default() }).await?;
        }
        Ok(())
    }

    fn at(&self, what: &'static str) {
        self.doing.send_replace(Doing::Work { what, since: Instant::now() });
    }

    async fn add_node(&self, new: NewNode) -> Result<Name> {
        let kubeconfigs = self.control.read().await.as_ref().and_then(Control::for_a_node);
        let Some((kubelet, mut agent)) = kubeconfigs else {
            return Err(LabError::Refused("the API server is not there yet; try again in a moment".into()));
        };
        let mut nodes = self.nodes();
        let number = (1..).find(|n| nodes.values().all(|node| node.spec.number != *n)).unwrap_or(u16::MAX);
        if number > Options::MOST_NODES {
            return Err(LabError::Refused(format!("a lab has at most {} nodes", Options::MOST_NODES)));
        }
        let name = new.name.clone().unwrap_or_else(|| machine::free_name(number));
        if nodes.contains_key(&name) {
            return Err(LabError::Refused(format!("there is a node {name} already; give another name")));
        }
        if let Err(error) = neighbours::make_room(&self.state, &self.options, nodes.len() + 1) {
            // It may have room enough, or somebody outside makes some; a lab that nobody can start helps nobody.
            tracing::warn!(error = error.chain(), nodes = nodes.len() + 1, "nodes may not find each other");
        }
        let spec = Spec::new(&self.options, self.state.node(&name), name.clone(), number, &new);
        disk::make(&spec)?;
        disk::write_kubeconfig(&spec, crate::node::KUBELET, &kubelet)?;
        if self.options.solo() {
            // It does an operator's work too.
            agent.clone_from(&kubelet);
        }
        disk::write_kubeconfig(&spec, crate::node::AGENT, &agent)?;
        let addresses = self.options.families.node(0, number);
        nodes.insert(name.clone(), Arc::new(Machine::start(spec, addresses, self.rack.clone())));
        Ok(name)
    }

    async fn remove_node(&self, name: &str) -> Result<()> {
        let machine = self.node(name)?;
        machine.off(false, false).await?;
        self.nodes().remove(&machine.spec.name);
        self.fabric(|fabric| fabric.forget(name))?;
        let directory = machine.spec.directory.clone();
        std::fs::remove_dir_all(&directory).during(format!("removing {}", directory.display()))?;
        match self.control.read().await.as_ref() {
            Some(control) => bootstrap::forget_node(&control.client().await?, name).await,
            None => Ok(()),
        }
    }

    fn harm(&self, fault: Fault) -> Result<()> {
        let known = |name: &str| self.node(name).is_ok();
        self.fabric(|fabric| fabric.harm(plainly(fault), known))
    }

    fn heal(&self, fault: Option<Fault>) -> Result<()> {
        self.fabric(|fabric| fabric.heal(fault.map(plainly).as_ref()))
    }

    async fn way(&self, target: &str) -> Result<WayThere> {
        let mut there = crate::enter::Way::default();
        if fabric::NAMESPACES.contains(&target) {
            there.network = Some(self.state.namespace(target));
            return Ok(WayThere { way: there });
        }
        if let Ok(machine) = self.node(target) {
            let off =
                || LabError::Refused(format!("{target} is off; netferry lab reboot {target} starts it"));
            there.through.push(machine.seen().pid.ok_or_else(off)?);
            return Ok(WayThere { way: there });
        }
        let machines: Vec<Arc<Machine>> = self.nodes().values().cloned().collect();
        let answers = futures::future::join_all(machines.iter().map(|machine| async move {
            let pid = machine.seen().pid?;
            Some((pid, machine.pod(target).await?.ok()?))
        }));
        let mut found: Vec<_> = answers.await.into_iter().flatten().collect();
        match (found.pop(), found.is_empty()) {
            (Some((node, pod)), true) => {
                there.through.push(node);
                there.through.extend(pod);
                Ok(WayThere { way: there })
            }
            (Some(_), false) => Err(LabError::Refused(format!(
                "there is more than one pod {target}; name it as NAMESPACE/NAME"
            ))),
            (None, _) => Err(LabError::Refused(format!(
                "{target}: no node and no running pod of this lab; netferry lab status lists nodes, kubectl get pods -A pods"
            ))),
        }
    }

    fn node(&self, name: &str) -> Result<Arc<Machine>> {
        let known = name.parse::<Name>().ok().and_then(|name| self.nodes().get(&name).cloned());
        known.ok_or_else(|| {
            LabError::Refused(format!("{name}: not a node of this lab; netferry lab status lists them"))
        })
    }

    async fn status(&self) -> Status {
        let mut nodes: Vec<_> = self.nodes().values().map(|machine| machine.status()).collect();
        nodes.sort_by_key(|node| node.number);
        let control = self.control.read().await;
        let waiting = self.waiting();
        Status {
            name: self.options.name.clone(),
            ready: waiting.is_empty(),
            seconds: self.began.elapsed().as_secs_f64(),
            control_plane: match &self.options.control_plane {
                ControlPlane::Embedded => "embedded".into(),
                ControlPlane::Kube { .. } => "kube".into(),
            },
            server: control.as_ref().map(|control| format!("https://{}", control.relay)),
            kubeconfig: self.state.kubeconfig(),
            directory: self.state.path().to_owned(),
            programs: control.as_ref().map(Control::programs).unwrap_or_default(),
            nodes,
            faults: self.fabric(|fabric| fabric.faults().to_vec()),
            waiting,
        }
    }

    /// What is not as it shall be yet.
    fn waiting(&self) -> Vec<Waiting> {
        let mut waiting = vec![];
        match &*self.doing.borrow() {
            Doing::Work { what, since } => waiting.push(Waiting {
                what: (*what).to_owned(),
                seconds: since.elapsed().as_secs_f64(),
                last: None,
            }),
            Doing::Failed(why) => waiting.push(Waiting {
                what: "nothing: the lab cannot come up".into(),
                seconds: self.began.elapsed().as_secs_f64(),
                last: Some(why.clone()),
            }),
            Doing::Idle => {}
        }
        // Without an agent there is no pod network, and a node is as far as it will get once it is known.
        let enough = if self.options.parts.agent { Stage::Ready } else { Stage::NotReady };
        for machine in self.nodes().values() {
            let seen = machine.seen();
            if seen.stage < enough {
                waiting.push(Waiting {
                    what: format!("{} ({})", machine.spec.name, seen.stage),
                    seconds: seen.since.elapsed().as_secs_f64(),
                    last: seen.note,
                });
            }
        }
        waiting
    }

    /// Waits until nothing is waited for.
    async fn ready(&self, patience: Duration, tell: mpsc::UnboundedSender<Vec<Waiting>>) -> Result<Status> {
        let deadline = Instant::now() + patience;
        let mut told = Instant::now();
        loop {
            if let Doing::Failed(why) = &*self.doing.borrow() {
                return Err(LabError::failed("bringing the lab up", why.clone()));
            }
            let waiting = self.waiting();
            let Some(first) = waiting.first() else { return Ok(self.status().await) };
            if Instant::now() > deadline {
                let more = waiting.len() - 1;
                let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
                let last = first.last.as_ref().map(|last| format!(" [{last}]")).unwrap_or_default();
                let waiting_for = format!("{}{last}{rest}", first.what);
                return Err(LabError::TimedOut { waiting_for, within: patience });
            }
            if told.elapsed() >= Duration::from_secs(1) {
                told = Instant::now();
                let _ = tell.send(waiting);
            }
            self.changed(Duration::from_millis(200)).await;
        }
    }

    /// Something changed, or some time passed.
    async fn changed(&self, at_most: Duration) {
        let mut doing = self.doing.subscribe();
        let mut nodes: Vec<_> = self.nodes().values().map(|machine| machine.changes()).collect();
        let mut any: Vec<BoxFuture<'_, _>> = nodes.iter_mut().map(|node| node.changed().boxed()).collect();
        any.push(doing.changed().boxed());
        let _ = tokio::time::timeout(at_most, futures::future::select_all(any)).await;
    }

    fn nodes(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, Arc<Machine>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fabric<T>(&self, job: impl FnOnce(&mut Fabric) -> T) -> T {
        job(&mut self.rack.fabric.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// People say `api` and `outside` where the fabric has the control plane and the router.
fn plainly(fault: Fault) -> Fault {
    let plain = |end: String| match end.as_str() {
        "api" => "control".to_owned(),
        "outside" => "router".to_owned(),
        _ => end,
    };
    match fault {
        Fault::Cut { end, network } => Fault::Cut { end: plain(end), network },
        Fault::Part { a, b, network } => Fault::Part { a: plain(a), b: plain(b), network },
        Fault::Lose { end, peer, network, of_a_million } => {
            Fault::Lose { end: plain(end), peer: peer.map(plain), network, of_a_million }
        }
    }
}
