//! The agent as a whole.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use netferry_api::mtu::{MtuObserved, TrialObserved};
use netferry_core::mtu::Envelope;
use netferry_core::overlay::names;
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::service::Forward;
use netferry_core::overlay::topology::Mode;
use netferry_core::overlay::zone::{Datapath, SwitchFacts};
use netferry_kernel::{IfName, Kernel};
use netferry_ovs::client::LinkError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::cluster::{self, Basis, Cache, Written};
use crate::config::Config;
use crate::host_init::{BridgeRecord, BridgeSize, InitError, Record};
use crate::machine::{Disk, StoreError};
use crate::mtu::admission::Door;
use crate::mtu::boot::Running;
use crate::mtu::host::preview::Foresight;
use crate::mtu::sizes::trial;
use crate::mtu::{fit, observed, sizes};
use crate::node::NodeFacts;
use crate::node::{self, publish};
use crate::on_host::Host;
use crate::overlay::follow::{self, Listeners, Own};
use crate::overlay::host::neighbours::TunnelNeighbours;
use crate::overlay::host::tunnel_routes;
use crate::overlay::host::ways::Ways;
use crate::overlay::ovn::daemons::{Daemons, StartError};
use crate::overlay::ovn::{Heard, Keeper, Model, News, Outlook, Requests, Stores, ZoneHandle, astray};
use crate::overlay::pods::objects::ApiPods;
use crate::overlay::pods::server::{NotListening, Server};
use crate::overlay::pods::{self, Parts, Pods, Readiness, conflist};
use crate::overlay::{forward, host, switch};
use crate::{host_init, leave, machine, probe};

/// How often what the host forwards is written to disk at most, for the next boot.
const TO_DISK_EVERY: Duration = Duration::from_secs(2);
/// How often it is written at most for the next agent of this boot.
const TO_RUN_EVERY: Duration = Duration::from_millis(100);
/// How often it is seen to that the CNI configuration is there.
const CONFIG_EVERY: Duration = Duration::from_secs(10);

/// Why an agent ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kernel does not talk to us.
    #[error("talking to the kernel; are we root?")]
    Kernel(#[source] netferry_kernel::Error),
    /// The kernel does not say whether it moves packets.
    #[error("finding out who moves packets")]
    Datapath(#[source] InitError),
    /// The zone's daemons cannot be started.
    #[error("starting the zone's daemons")]
    Daemons(#[from] StartError),
    /// A database is not one we can work with.
    #[error("opening the databases")]
    Stores(#[source] Arc<LinkError>),
    /// The switch has no identity and could not be given one.
    #[error("giving the switch its identity")]
    Identity(#[source] netferry_ovs::SettleError),
    /// A part of the agent failed, by a mistake of ours: starting anew is better than going on without it.
    #[error("a part of the agent failed; it is to be started again")]
    Part(#[source] tokio::task::JoinError),
    /// The host's files cannot be used.
    #[error("using the host's files")]
    Machine(#[source] StoreError),
    /// The plugin cannot ask us.
    #[error("opening the socket of the CNI plugin")]
    Socket(#[source] NotListening),
}

/// What the parts of an agent share.
struct Agent {
    config: Config,
    client: kube::Client,
    stores: Stores,
    datapath: Datapath,
    chassis: String,
    process: watch::Receiver<switch::Process>,
    requests: Requests,
    outlook: Outlook,
    listeners: Listeners,
    running: Running,
    disk: Arc<Disk>,
    /// What the uplink's bridge is to carry.
    bridge_size: watch::Sender<BridgeSize>,
}

/// Runs the agent of a node until it is dropped. Whatever it started or wrote stays as it is: the next one adopts it.
pub async fn run(config: Config, client: kube::Client) -> Result<(), RunError> {
    let kernel = Kernel::here().map_err(RunError::Kernel)?;
    run_on(Arc::new(kernel), config, client).await
}

/// [`run`], of the node whose network is not the one this process lives in.
pub async fn run_on(kernel: Arc<Kernel>, config: Config, client: kube::Client) -> Result<(), RunError> {
    let Daemons { parts: mut daemons } = Daemons::keep(&config.paths).await?;
    let mut connections = JoinSet::new();
    let stores = Stores::open(&config.paths, &mut connections);
    beside(serve(kernel, config, client, stores), [&mut daemons, &mut connections]).await
}

/// Does something for as long as none of these parts fails.
async fn beside<T>(
    work: impl Future<Output = Result<T, RunError>>,
    [one, other]: [&mut JoinSet<()>; 2],
) -> Result<T, RunError> {
    tokio::select! {
        done = work => done,
        failed = failed(Some(one)) => Err(RunError::Part(failed)),
        failed = failed(Some(other)) => Err(RunError::Part(failed)),
    }
}

/// Everything that stands on the daemons and the copies of their databases.
async fn serve(
    kernel: Arc<Kernel>,
    config: Config,
    client: kube::Client,
    stores: Stores,
) -> Result<(), RunError> {
    let mut cache = Cache::read(&config.paths.data);
    stores.ready().await.map_err(RunError::Stores)?;
    leave::note(&stores.switch, &config.paths.data);
    let last_known = cache.node(config.node.as_str());
    let chassis = switch::identity(&stores.switch, &last_known).await.map_err(RunError::Identity)?;
    let (handle, requests) = ZoneHandle::new();
    let (networks, mut networks_seen) = watch::channel(cache.networks.clone());
    let (own, mut own_seen) = watch::channel::<Option<Node>>(None);
    let done = done_at_this_boot(&config);
    let datapath = match config.datapath {
        Some(datapath) => datapath,
        None => switch::datapath(&kernel, done.as_ref()).map_err(RunError::Datapath)?,
    };
    let process = switch::Process::now(&config.paths.ovs_run, datapath).await;
    let (tell_process, process) = watch::channel(process);
    let outlook = Outlook::default();
    outlook.forward.send_replace(forward::newest(&config.paths.run, &config.paths.data));
    let disk = machine_of(&config).map_err(RunError::Machine)?;
    let running = Running::open(&config.paths.run);
    let listeners = Listeners { own, peers: watch::Sender::default() };
    let agent = Agent {
        config,
        client,
        stores,
        datapath,
        chassis,
        process,
        requests,
        outlook,
        listeners,
        running,
        disk,
        bridge_size: watch::Sender::default(),
    };
    let mut tasks = JoinSet::new();
    let (facts, facts_seen) = watch::channel(None);
    let foresight = Foresight {
        kernel: Arc::clone(&kernel),
        disk: Arc::clone(&agent.disk),
        run: agent.config.paths.run.clone(),
        facts: facts_seen,
    };
    let (mut served, admitted) = agent.keep_machine(&mut tasks, networks_seen.clone(), foresight.clone());
    tasks.spawn(cluster::follow_basis(agent.client.clone(), networks));
    tasks.spawn(switch::follow(agent.config.paths.ovs_run.clone(), datapath, tell_process));
    let paths = &agent.config.paths;
    for (directory, every) in [(&paths.data, TO_DISK_EVERY), (&paths.run, TO_RUN_EVERY)] {
        tasks.spawn(remember(agent.outlook.forward.subscribe(), directory.clone(), every));
    }
    if datapath == Datapath::Userspace {
        let ovs_run = agent.config.paths.ovs_run.clone();
        tasks.spawn(switch::zero_snat::forgo(agent.stores.switch.clone(), ovs_run.clone()));
        tasks.spawn(switch::packet_room::make(agent.stores.switch.clone(), ovs_run.clone()));
        tasks.spawn(switch::stale_flows::forget(ovs_run));
    }
    let (links, links_seen) = watch::channel(BTreeSet::new());
    let bridge = done.as_ref().and_then(|record| record.bridge.as_ref());
    let host = agent.keep_host(&mut tasks, &kernel, links_seen, bridge);
    let entry = (served.clone(), admitted);
    agent.tell_facts(&mut tasks, done.as_ref(), networks_seen.clone(), entry, (facts, foresight));
    agent.attach_pods(&mut tasks, handle, Arc::clone(&kernel), links, host)?;
    let mut place_seen = agent.outlook.place.subscribe();
    let mut session: Option<Session> = None;
    loop {
        let ground = Ground::known(networks_seen.borrow_and_update().as_ref(), *served.borrow_and_update());
        if let Some(ground) = ground
            && session.as_ref().is_none_or(|session| session.ground != ground)
        {
            // What was built on another ends before anything is built on this one.
            drop(session.take());
            session = Some(agent.session(ground, &cache, &kernel));
        }
        tokio::select! {
            _ = networks_seen.changed() => {}
            _ = served.changed() => {}
            _ = own_seen.changed() => {}
            _ = place_seen.changed() => {}
            failed = failed(Some(&mut tasks)) => return Err(RunError::Part(failed)),
            failed = failed(session.as_mut().map(|session| &mut session.tasks)) => {
                return Err(RunError::Part(failed));
            }
        }
        let mut now = cache.clone();
        now.networks = networks_seen.borrow().clone();
        if let Some(node) = &*own_seen.borrow_and_update() {
            now.remember(node);
        }
        if let Some(place) = &*place_seen.borrow_and_update() {
            now.remember_place(place);
        }
        if now != cache {
            if let Err(error) = now.write(&agent.config.paths.data) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "what is known of the cluster was not remembered");
            }
            cache = now;
        }
    }
}

/// What a session is built on. The ranges follow the cluster; the sizes are those of this boot, whatever is published
/// meanwhile.
#[derive(PartialEq)]
struct Ground {
    networks: Networks,
    mode: Mode,
    sizes: Envelope,
}

impl Ground {
    fn known(written: Option<&Written>, sizes: Option<Envelope>) -> Option<Ground> {
        let Basis { networks, mode, .. } = written?.basis().ok().flatten()?;
        Some(Ground { networks, mode, sizes: sizes? })
    }
}

/// Everything that is built on one ground; ends when dropped.
struct Session {
    ground: Ground,
    tasks: JoinSet<()>,
}

/// Waits for a task that fails. One that ends has nothing left to do.
async fn failed(tasks: Option<&mut JoinSet<()>>) -> tokio::task::JoinError {
    if let Some(tasks) = tasks {
        while let Some(ended) = tasks.join_next().await {
            if let Err(failed) = ended {
                return failed;
            }
        }
    }
    std::future::pending().await
}

impl Agent {
    /// Answers the CNI plugin, and says so to the runtime last of all.
    fn attach_pods(
        &self,
        tasks: &mut JoinSet<()>,
        handle: ZoneHandle,
        kernel: Arc<Kernel>,
        links: watch::Sender<BTreeSet<IfName>>,
        host: watch::Receiver<host::State>,
    ) -> Result<(), RunError> {
        let paths = &self.config.paths;
        let (objects, follow) = ApiPods::new(self.client.clone(), &self.config.node);
        let zone = self.outlook.readiness.subscribe();
        let (ready, readiness) = watch::channel(zone.borrow().clone());
        tasks.spawn(pods::ready::follow(self.stores.switch.clone(), zone, ready));
        let watched = Arc::clone(&kernel);
        tasks.spawn(async move { match pods::links::keep(watched).await {} });
        let pods = Pods::new(Parts {
            settings: pods::Settings {
                ovn_run: paths.ovn_run.clone(),
                ovs_run: Some(paths.ovs_run.clone()),
                ..pods::Settings::default()
            },
            kernel,
            switch: self.stores.switch.clone(),
            southbound: Some(self.stores.southbound.clone()),
            ports: Arc::new(handle),
            objects,
            place: self.outlook.place.subscribe(),
            readiness: readiness.clone(),
        });
        let server = Server::open(&paths.cni_socket()).map_err(RunError::Socket)?;
        let (keeper, writer) = (pods.clone(), pods.clone());
        tasks.spawn(follow);
        tasks.spawn(async move { keeper.keep(links).await });
        tasks.spawn(async move { writer.keep_annotations().await });
        tasks.spawn(server.run(pods));
        tasks.spawn(announce(readiness, host, paths.cni_config.clone(), paths.cni_socket()));
        Ok(())
    }

    /// Takes the configurations the node is told, and decides whether it serves pods, at which sizes, and as which object.
    fn keep_machine(
        &self,
        tasks: &mut JoinSet<()>,
        networks: watch::Receiver<Option<Written>>,
        foresight: Foresight,
    ) -> (watch::Receiver<Option<Envelope>>, watch::Receiver<Option<String>>) {
        let (serve, served) = watch::channel(None);
        let (admit, admitted) = watch::channel(None);
        let door = Door {
            client: self.client.clone(),
            name: self.config.node.to_string(),
            namespace: self.config.namespace.clone(),
            data: self.config.paths.data.clone(),
            run: self.config.paths.run.clone(),
            disk: Arc::clone(&self.disk),
            running: self.running.clone(),
            networks,
        };
        tasks.spawn(door.keep(serve, admit));
        let (disk, boot) = (Arc::clone(&self.disk), Arc::clone(&self.disk));
        tasks.spawn(machine::daemon::run(machine::daemon::Parts {
            nodes: Api::all(self.client.clone()),
            configs: Api::all(self.client.clone()),
            name: self.config.node.to_string(),
            disk: Arc::clone(&self.disk),
            run: self.config.paths.run.clone(),
            running: self.running.clone(),
            restart: Box::new(move || {
                let disk = Arc::clone(&disk);
                Box::pin(async move { machine::restart::restart(&disk, &Host::default()).await })
            }),
            renew_boot_loader: Box::new(move || {
                let disk = Arc::clone(&boot);
                Box::pin(async move { machine::boot_loader::renew(&disk, &Host::default()).await })
            }),
            started_with: machine::boot_loader::STARTED_WITH.into(),
            foresee: Box::new(move |file| foresight.of(file)),
        }));
        (served, admitted)
    }

    /// Keeps the kernel's side, and the uplink where host-init put it.
    fn keep_host(
        &self,
        tasks: &mut JoinSet<()>,
        kernel: &Arc<Kernel>,
        links: watch::Receiver<BTreeSet<IfName>>,
        bridge: Option<&BridgeRecord>,
    ) -> watch::Receiver<host::State> {
        let userspace = self.datapath == Datapath::Userspace;
        let uplink = bridge.filter(|_| userspace).and_then(|b| IfName::new(b.uplink.clone()).ok());
        // With the kernel's datapath there is nothing to guard.
        let guarded = if userspace { links } else { watch::channel(BTreeSet::new()).1 };
        let plan = self.outlook.host.subscribe();
        let inputs = host::Inputs {
            plan,
            guarded,
            uplink,
            resync: self.config.resync,
            run: self.config.paths.run.clone(),
        };
        let (state, seen) = watch::channel(host::State::default());
        tasks.spawn(host::run(Arc::clone(kernel), inputs, state));
        if userspace && let Some(bridge) = bridge.and_then(|b| IfName::new(b.name.clone()).ok()) {
            let ways = Ways::new(Arc::clone(kernel), &self.config.paths.ovs_run, bridge);
            tasks.spawn(async move { match ways.keep().await {} });
        }
        if let Some(bridge) = bridge {
            let (run, datapath) = (self.config.paths.run.clone(), self.datapath);
            let size = self.bridge_size.subscribe();
            let done = host_init::Done { run, datapath, bridge: bridge.clone(), size };
            tasks.spawn(host_init::keep(Arc::clone(kernel), self.stores.switch.clone(), done));
        }
        seen
    }

    /// Observes the node and tells the cluster.
    fn tell_facts(
        &self,
        tasks: &mut JoinSet<()>,
        done: Option<&Record>,
        networks: watch::Receiver<Option<Written>>,
        (served, admitted): (watch::Receiver<Option<Envelope>>, watch::Receiver<Option<String>>),
        (facts, foresight): (watch::Sender<Option<NodeFacts>>, Foresight),
    ) {
        let bridge = done.and_then(|record| record.bridge.as_ref());
        let (kernel, seen) = (&Arc::clone(&foresight.kernel), foresight.facts.clone());
        let sources = node::Sources {
            kernel: Arc::clone(kernel),
            switch: self.stores.switch.clone(),
            bridge: bridge.and_then(|bridge| IfName::new(bridge.name.clone()).ok()),
            node: self.listeners.own.subscribe(),
        };
        let (nodes, name) = (Api::<Node>::all(self.client.clone()), self.config.node.to_string());
        tasks.spawn(node::observe(sources, facts));
        let fit = fit::keep(nodes.clone(), name.clone(), seen.clone(), networks, served.clone());
        tasks.spawn(fit);
        let named = |name: &str| IfName::new(name.to_owned()).ok();
        let bridge = bridge.and_then(|bridge| named(&bridge.name).zip(named(&bridge.uplink)));
        let sized = done.and_then(|record| named(record.sized.as_ref()?));
        let (sizes, observed) = watch::channel(None);
        let (tried, trial) = watch::channel(trial::begun(&self.config.paths.run));
        let sources = observed::Sources {
            kernel: Arc::clone(kernel),
            disk: Arc::clone(&self.disk),
            bridge: bridge.clone(),
            sized: sized.clone(),
            facts: seen.clone(),
            running: self.running.subscribe(),
            pods: served,
            trial,
            foresight,
        };
        tasks.spawn(observed::observe(sources, sizes));
        let own = self.listeners.own.subscribe();
        tasks.spawn(publish::publish_sizes(nodes.clone(), name.clone(), observed.clone(), own));
        self.try_others(tasks, kernel, observed);
        let trials = trial::Parts {
            kernel: Arc::clone(kernel),
            uplinks: Vec::new(),
            bridge: bridge.clone().map(|(name, _)| trial::Bridge {
                name,
                switch: self.stores.switch.clone(),
                size: self.bridge_size.clone(),
            }),
            running: self.running.clone(),
            node: self.listeners.own.subscribe(),
            run: self.config.paths.run.clone(),
        };
        tasks.spawn(hold_sizes(trials, bridge, sized, seen.clone(), tried));
        let place = self.outlook.place.subscribe();
        tasks.spawn(publish::publish_place(
            nodes.clone(),
            name.clone(),
            place,
            self.listeners.own.subscribe(),
        ));
        tasks.spawn(publish::publish(nodes, name, seen, self.listeners.own.subscribe(), admitted));
    }

    /// Tries whether full-size packets get to the other nodes, and tells the cluster.
    fn try_others(
        &self,
        tasks: &mut JoinSet<()>,
        kernel: &Arc<Kernel>,
        sizes: watch::Receiver<Option<MtuObserved>>,
    ) {
        let parts = probe::Parts {
            kernel: Arc::clone(kernel),
            name: self.config.node.clone(),
            port: self.config.probe_port,
            peers: self.listeners.peers.subscribe(),
            sizes,
            pace: probe::Pace::default(),
        };
        let (tell, found) = watch::channel(None);
        tasks.spawn(probe::run(parts, tell));
        let (nodes, name) = (Api::<Node>::all(self.client.clone()), self.config.node.to_string());
        tasks.spawn(publish::publish_probes(nodes, name, found, self.listeners.own.subscribe()));
    }

    fn session(&self, ground: Ground, cache: &Cache, kernel: &Arc<Kernel>) -> Session {
        let me = self.config.node.clone();
        let (topology, mode) = (ground.mode.topology(), ground.mode);
        tracing::info!(node = %me, ?mode, mtu = %ground.sizes, datapath = ?self.datapath, "keeping the zone");
        let basis = Basis { networks: ground.networks.clone(), mtu: ground.sizes.carries(), mode };
        let southbound = format!("unix:{}", self.config.paths.southbound_socket().display());
        let switch::Process { has_flows, follows_routes } = *self.process.borrow();
        let facts = SwitchFacts { southbound, datapath: self.datapath, has_flows, follows_routes };
        let tunnels = topology.way_out.tunnels;
        let model = Model::new(me.clone(), basis.networks.clone(), topology, basis.mtu, facts);
        let mut model = model.sending(ground.sizes.pin());
        let own = Own { name: me.clone(), chassis: self.chassis.clone(), mode };
        if let Ok(node) = own.read(&basis.networks, &cache.node(me.as_str())) {
            model.hear(News::Node(node));
        }
        let mut tasks = JoinSet::new();
        let (heard, hearing) = mpsc::channel::<Heard>(64);
        let (outlook, requests) = (self.outlook.clone(), self.requests.clone());
        let mut keeper = Keeper::new(model, &self.stores, self.datapath, hearing, requests, outlook);
        keeper.resync = self.config.resync;
        if tunnels && self.datapath == Datapath::Userspace {
            let tunnels = TunnelNeighbours::new(&self.config.paths.ovs_run, names::EXTERNAL_BRIDGE);
            let peers = keeper.know_tunnels(tunnels.clone());
            tasks.spawn(async move { tunnels.keep(peers).await });
        }
        if self.datapath == Datapath::Kernel {
            let (kernel, resync) = (Arc::clone(kernel), self.config.resync);
            if tunnels {
                tasks.spawn(async move { match tunnel_routes::keep(kernel, resync).await {} });
            } else if let Err(error) = tunnel_routes::withdraw(&kernel) {
                tracing::warn!(error = &error as &dyn std::error::Error, "removing routes of tunnels");
            }
        }
        tasks.spawn(astray::look_for(self.config.paths.ovs_run.clone(), keeper.tell_moved()));
        tasks.spawn(tell(self.process.clone(), heard.clone()));
        tasks.spawn(keeper.run());
        tasks.spawn(follow::follow(self.client.clone(), own, basis.clone(), heard, self.listeners.clone()));
        Session { ground, tasks }
    }
}

/// Tells the zone what the switch's process is like.
async fn tell(mut process: watch::Receiver<switch::Process>, zone: mpsc::Sender<Heard>) {
    loop {
        let now = *process.borrow_and_update();
        if zone.send(Heard::Process(now)).await.is_err() || process.changed().await.is_err() {
            return;
        }
    }
}

/// Keeps what the host forwards in a directory, not more often than that.
async fn remember(mut forward: watch::Receiver<Option<Forward>>, directory: PathBuf, every: Duration) {
    while forward.changed().await.is_ok() {
        let now = forward.borrow_and_update().clone();
        if let Some(now) = now
            && let Err(error) = forward::write(&directory, &now)
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "what the host forwards was not remembered");
        }
        tokio::time::sleep(every).await;
    }
}

/// The host's files, in order after a loss of power, with a note of what this boot found there.
fn machine_of(config: &Config) -> Result<Arc<Disk>, StoreError> {
    let disk = Disk::open(&config.paths.root)?;
    machine::store::recover(&disk)?;
    machine::store::note_boot(&disk, &config.paths.run)?;
    Ok(Arc::new(disk))
}

/// Holds links at what this boot carries and routes at what it lets out, those that appear later too; and carries more
/// for a while where that is asked.
async fn hold_sizes(
    trials: trial::Parts,
    bridge: Option<(IfName, IfName)>,
    sized: Option<IfName>,
    mut facts: watch::Receiver<Option<node::NodeFacts>>,
    tried: watch::Sender<Option<TrialObserved>>,
) {
    let uplinks = match bridge {
        Some((bridge, port)) => vec![bridge, port],
        None => match facts.wait_for(Option::is_some).await {
            Ok(facts) => facts.iter().map(|facts| facts.host.link.clone()).collect(),
            Err(_) => return,
        },
    };
    // What host-init gave its size, also where another link leads to the other nodes: of that one nothing was persisted.
    let held = sized.map_or_else(|| uplinks.clone(), |sized| vec![sized]);
    let trials = trial::Parts { uplinks, ..trials };
    let kernel = Arc::clone(&trials.kernel);
    let (booted, run) = (trials.running.get(), trials.run.clone());
    let hold = async {
        if let Some(booted) = booted {
            sizes::keep(kernel, held, booted.host, run).await;
        }
    };
    tokio::join!(hold, trial::keep_trials(trials, tried));
}

/// What host-init did at this boot, if it did.
fn done_at_this_boot(config: &Config) -> Option<Record> {
    Record::read(&config.paths.run).unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "reading what host-init did");
        None
    })
}

/// Writes the CNI configuration once pods can be started, and again should somebody remove it.
async fn announce(
    mut readiness: watch::Receiver<Readiness>,
    mut host: watch::Receiver<host::State>,
    file: PathBuf,
    socket: PathBuf,
) {
    // A pod whose node cannot reach it would fail its probes.
    if host.wait_for(|now| *now == host::State::AsPlanned).await.is_err()
        || readiness.wait_for(|now| *now == Readiness::Ready).await.is_err()
    {
        return;
    }
    loop {
        match conflist::write(&file, &socket) {
            Ok(true) => tracing::info!(file = %file.display(), "pods can be started"),
            Ok(false) => {}
            Err(error) => {
                let error = &error as &(dyn std::error::Error + Send + Sync);
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "the runtime was not told that pods can be started"
                );
            }
        }
        tokio::time::sleep(CONFIG_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_fails_ends_the_agent_whatever_it_is_at() {
        for which in [0, 1] {
            let mut parts = [JoinSet::new(), JoinSet::new()];
            for parts in &mut parts {
                parts.spawn(async {});
                parts.spawn(std::future::pending());
            }
            parts[which].spawn(async { panic!("a mistake of ours") });
            let [one, other] = &mut parts;
            let work = beside(std::future::pending::<Result<(), RunError>>(), [one, other]);
            let ended = tokio::time::timeout(Duration::from_secs(10), work).await.expect("it ends");
            assert!(matches!(ended, Err(RunError::Part(failed)) if failed.is_panic()), "{which}");
        }
    }
}
