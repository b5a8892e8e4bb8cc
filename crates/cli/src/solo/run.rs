//! The process: what a boot needs, then agent and operator side by side.

use std::time::Duration;

use anyhow::{Context, anyhow};
use kube::Client;
use netferry_agent::{Config, host_init};
use netferry_kernel::Kernel;
use netferry_operator::lead::Timing;
use netferry_operator::{Settings, overlay, rollout};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::RunArgs;
use super::furnish::{Ranges, furnish};
use crate::agent;
use crate::args::Global;
use crate::exit::Failure;
use crate::logs;

/// Nobody else is there to take over: the lease keeps a second process out, and no longer than a restart takes.
const LEASE: Duration = Duration::from_secs(6);
/// One machine's work.
const THREADS: usize = 2;

pub(super) fn run(args: &RunArgs, global: &Global) -> Result<(), Failure> {
    logs::begin(&args.logs)?;
    let config = agent::config(&args.node)?;
    let settings = Settings {
        namespace: config.namespace.clone(),
        identity: config.node.to_string(),
        timing: Timing::new(LEASE, LEASE * 2 / 3, LEASE / 6).context("choosing the lease's times")?,
        overlay: overlay::Settings::default(),
        rollout: rollout::Settings { node: Some(config.node.clone()) },
        listen: None,
    };
    let ranges = Ranges { cluster: args.cluster_network.clone(), service: args.service_network.clone() };
    netferry_kernel::memory::share_one_heap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(until_stopped(config, settings, ranges, global))
}

async fn until_stopped(
    config: Config,
    settings: Settings,
    ranges: Ranges,
    global: &Global,
) -> Result<(), Failure> {
    // Before anything is asked for: a signal that comes early must not be missed.
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let client = agent::client(global).await?;
    let (tell, told) = watch::channel(false);
    let mut cluster_side = Box::pin(operate(client.clone(), settings, ranges, told));
    let mut node_side = Box::pin(keep_node(config, client));
    tokio::select! {
        ended = &mut cluster_side => return ended,
        ended = &mut node_side => return ended,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // The lease is let go, so that whoever comes next need not wait until it runs out.
    tell.send_replace(true);
    let _ = tokio::time::timeout(LEASE, cluster_side).await;
    Ok(())
}

/// The operator, once the cluster has what it needs.
async fn operate(
    client: Client,
    settings: Settings,
    ranges: Ranges,
    mut told: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let mut stop = told.clone();
    tokio::select! {
        furnished = furnish(&client, &settings.namespace, &ranges) => furnished?,
        _ = told.wait_for(|stop| *stop) => return Ok(()),
    }
    netferry_operator::run(client, settings, async move { drop(stop.wait_for(|stop| *stop).await) }).await;
    Ok(())
}

/// The agent, once the switch is as a new boot needs it.
async fn keep_node(config: Config, client: Client) -> Result<(), Failure> {
    let kernel = Kernel::here().context("talking to the kernel; are we root?")?;
    let paths = &config.paths;
    let record = host_init::prepare_alone(&kernel, &host_init::Options::of(paths), &paths.data).await;
    let record = record.context("taking up the switch")?;
    if let Some(bridge) = record.bridge {
        return Err(Failure::Refused(anyhow!(
            "bridge {} stands on {}, as many nodes need it and one does not: netferry host-init --undo",
            bridge.name,
            bridge.uplink
        )));
    }
    Ok(netferry_agent::run(config, client).await.context("running the agent")?)
}
