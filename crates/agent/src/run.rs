//! The agent as a whole: opens what its parts work with, and starts them.

use std::sync::Arc;

use kube::Api;
use netferry_kernel::Kernel;
use netferry_ovs::client::LinkError;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::capability::Startup;
use crate::cluster::{self, Cache};
use crate::config::Config;
use crate::context::Context;
use crate::host_init::{InitError, Record};
use crate::machine::{self, StoreError};
use crate::node;
use crate::node::gate::{Gate, Verdict};
use crate::overlay::ovn::Stores;
use crate::overlay::ovn::daemons::{Daemons, StartError};
use crate::overlay::pods::PodHooks;
use crate::overlay::pods::server::NotListening;
use crate::overlay::{self, switch};
use crate::tasks::failure;
use crate::{leave, metrics};

/// Why an agent ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kernel does not answer.
    #[error("talking to the kernel; is this process root?")]
    Kernel(#[source] netferry_kernel::Error),
    /// Which datapath moves the packets could not be found out.
    #[error("finding out which datapath moves the packets")]
    Datapath(#[source] InitError),
    /// The zone's daemons cannot be started.
    #[error("starting the zone's daemons")]
    Daemons(#[from] StartError),
    /// A database does not have the schema this agent needs.
    #[error("opening the databases")]
    Stores(#[source] Arc<LinkError>),
    /// The switch has no identity and could not be given one.
    #[error("giving the switch its identity")]
    Identity(#[source] netferry_ovs::SettleError),
    /// A task panicked: a defect of the agent. A new agent adopts everything; a half-alive one would not.
    #[error("a task of the agent panicked; start the agent again")]
    Part(#[source] JoinError),
    /// The host's files cannot be used.
    #[error("using the host's files")]
    Machine(#[source] StoreError),
    /// The CNI plugin cannot reach the agent.
    #[error("opening the socket of the CNI plugin")]
    Socket(#[source] NotListening),
}

/// Runs the agent of a node until it is dropped. Everything it started or wrote stays as it is: the next agent adopts it.
pub async fn run(config: Config, client: kube::Client) -> Result<(), RunError> {
    let kernel = Kernel::here().map_err(RunError::Kernel)?;
    run_on(Arc::new(kernel), config, client).await
}

/// [`run`], of the node whose network is not the one this process lives in.
pub async fn run_on(kernel: Arc<Kernel>, config: Config, client: kube::Client) -> Result<(), RunError> {
    let Daemons { parts: mut daemons } = Daemons::keep(&config.paths).await?;
    let mut connections = JoinSet::new();
    let stores = Stores::open(&config.paths, &mut connections);
    tokio::select! {
        done = serve(kernel, config, client, stores) => done,
        failed = failure(Some(&mut daemons)) => Err(RunError::Part(failed)),
        failed = failure(Some(&mut connections)) => Err(RunError::Part(failed)),
    }
}

/// Starts everything that stands on the daemons and the copies of their databases, and runs it.
async fn serve(
    kernel: Arc<Kernel>,
    config: Config,
    client: kube::Client,
    stores: Stores,
) -> Result<(), RunError> {
    let cache = Cache::read(&config.paths.data);
    stores.ready().await.map_err(RunError::Stores)?;
    leave::note(&stores.switch, &config.paths.data);
    let last_known = cache.node(config.node.as_str());
    let chassis = switch::identity(&stores.switch, &last_known).await.map_err(RunError::Identity)?;
    let host_init = Record::of_this_boot(&config.paths.run);
    let datapath = match config.datapath {
        Some(datapath) => datapath,
        None => switch::datapath(&kernel, host_init.as_ref()).map_err(RunError::Datapath)?,
    };
    let disk = Arc::new(machine::open(&config.paths).map_err(RunError::Machine)?);
    let (tell_own, own) = watch::channel(None);
    let (tell_networks, networks) = watch::channel(cache.networks.clone());
    let (tell_facts, facts) = watch::channel(None);
    let context = Arc::new(Context {
        config,
        client,
        kernel,
        stores,
        datapath,
        disk,
        host_init,
        gate: Gate::default(),
        pod_hooks: PodHooks::default(),
        own,
        networks,
        facts,
        peers: watch::Sender::default(),
        served: watch::Sender::default(),
        admitted: watch::Sender::default(),
        bridge_size: watch::Sender::default(),
    });
    let mut startup = Startup::default();
    let (nodes, name) = (Api::all(context.client.clone()), context.config.node.to_string());
    startup.tasks.spawn(node::own::follow(nodes.clone(), name.clone(), tell_own));
    startup.tasks.spawn(cluster::follow_basis(context.client.clone(), tell_networks));
    node::start(&context, &mut startup, tell_facts);
    for capability in crate::capabilities() {
        (capability.start)(&context, &mut startup);
    }
    let (tell_verdict, verdict) = watch::channel(Verdict::default());
    startup.tasks.spawn(context.gate.clone().follow(tell_verdict));
    let zone = overlay::start(&context, chassis, cache, verdict, &mut startup).await;
    let zone = zone.map_err(RunError::Socket)?;
    let Startup { mut tasks, publisher, files, metrics } = startup;
    tasks.spawn(machine::keep(&context, files));
    tasks.spawn(publisher.run(nodes, name, context.own.clone(), context.admitted.subscribe()));
    if let Some(address) = context.config.listen {
        let serve = metrics::serve(Arc::clone(&context.kernel), address, metrics);
        tasks.spawn(async { match serve.await {} });
    }
    tokio::select! {
        failed = zone => Err(RunError::Part(failed)),
        failed = failure(Some(&mut tasks)) => Err(RunError::Part(failed)),
    }
}
