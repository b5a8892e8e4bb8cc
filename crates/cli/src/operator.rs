//! `netferry operator`: the cluster side, until it is asked to stop.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use netferry_core::name::NodeName;
use netferry_operator::lead::Timing;
use netferry_operator::{Settings, overlay, rollout};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Global;
use crate::cluster;
use crate::exit::Failure;
use crate::logs::{self, LogArgs};

/// Run the cluster side: give nodes their places, publish and report what the network is
#[derive(Debug, Args)]
#[command(
    long_about = "\
Run the cluster side: give nodes their places, publish and report what the network is.

Reads `Network.operator.openshift.io/cluster` and the nodes; writes the nodes' subnets, ids and addresses as
annotations, the status of `Network.config.openshift.io/cluster`, conditions and Events.

Changes the MTU when spec.migration.mtu asks for it, and moves nodes to their MachineConfigs a few at a time: merges
those of each MachineConfigPool, tells nodes their configuration, drains them when they ask, and lets them back in.

Any number may run; the one that holds the lease NAMESPACE/netferry-operator acts, the others wait. Talks to the
cluster of --kubeconfig or $KUBECONFIG, or to the one it runs in. Logs to standard error. SIGTERM lets go of the
lease and ends with 0.",
    after_help = "\
Examples:
  netferry operator --kubeconfig lab.kubeconfig --namespace netferry
  netferry operator --lease-duration 6 --log netferry_operator=debug --log-format json
  kubectl get network.operator.openshift.io cluster -o jsonpath='{.status.conditions}'"
)]
pub(crate) struct OperatorArgs {
    /// Namespace of the lease
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "netferry")]
    namespace: String,
    /// What this process is called in the lease; something unique is added. Without it, the host's name
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    identity: Option<String>,
    /// How long the lease lasts without a sign of life: how long nobody acts when a leader dies
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    lease_duration: u64,
    /// How long a leader tries to renew before it stops acting; two thirds of the lease if not given
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    renew_deadline: Option<u64>,
    /// How often the lease is looked at and renewed; a seventh of the lease if not given
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    retry_period: Option<u64>,
    /// The node this process runs on: of all nodes of its pool it is restarted last
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<NodeName>,
    /// Answer /metrics, /healthz and /readyz here, over HTTP
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    logs: LogArgs,
    /// End when the process that started this one ends
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

pub(crate) fn run(args: &OperatorArgs, global: &Global) -> Result<(), Failure> {
    if args.exit_with_parent {
        prctl::set_pdeathsig(Signal::SIGKILL).context("asking to end with the parent process")?;
    }
    let settings = settings(args)?;
    logs::begin(&args.logs)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        // Before anything is asked for: a signal that comes early must not be missed.
        let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        let client = cluster::connect_here(global).await?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        netferry_operator::run(client, settings, stop).await;
        Ok(())
    })
}

fn settings(args: &OperatorArgs) -> Result<Settings, Failure> {
    let duration = Duration::from_secs(args.lease_duration);
    let renew = args.renew_deadline.map_or(duration * 2 / 3, Duration::from_secs);
    let retry = args.retry_period.map_or(duration / 7, Duration::from_secs);
    let timing = Timing::new(duration, renew, retry)
        .map_err(|wrong| Failure::Refused(anyhow::Error::new(wrong).context("choosing the lease's times")))?;
    let identity = match &args.identity {
        Some(identity) => identity.clone(),
        None => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .context("finding out the host's name; --identity says it too")?
            .trim()
            .to_owned(),
    };
    Ok(Settings {
        namespace: args.namespace.clone(),
        identity,
        timing,
        overlay: overlay::Settings::default(),
        rollout: rollout::Settings { node: args.node_name.clone() },
        listen: args.listen,
    })
}
