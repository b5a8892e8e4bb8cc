//! `netferry agent`: the flags, and the process around the agent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kube::config::{KubeConfigOptions, Kubeconfig};
use netferry_agent::{Config, PROBE_PORT, Paths, run as run_agent};
use netferry_core::name::NodeName;
use netferry_core::overlay::zone::Datapath;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Global;
use crate::cluster;
use crate::exit::Failure;
use crate::logs::{self, LogArgs};

/// Where an agent that is not a pod finds its credentials.
const KUBECONFIG: &str = "/etc/netferry/kubeconfig";

/// Keep this node's part of the pod network as the cluster says
#[derive(Debug, Args)]
#[command(
    long_about = "\
Keep this node's part of the pod network as the cluster says: its OVN zone and the daemons behind it, its switch,
its kernel, and its pods.

Runs until it is stopped, and disturbs no packet by that: daemons, rows, ports and routes stay as they are, and the
next agent adopts them. Needs root, Open vSwitch running, and the packages of OVN installed.

Pods are attached by netferry-cni, which asks at cni.sock in the run directory. Runtimes are told of it, by
10-netferry.conflist, when the first pod can be attached; that stays when the agent is stopped.

Credentials: --kubeconfig, else /etc/netferry/kubeconfig, else those of the pod it runs in.",
    after_help = "\
Examples:
  netferry agent --node worker-1
  NODE_NAME=worker-1 netferry agent --kubeconfig /etc/netferry/kubeconfig --log-format json"
)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    logs: LogArgs,
}

// What is said of a node. No comment for its help: that of the command would be replaced by it.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The name of this node in the cluster; without it, the host's name
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node: Option<String>,
    /// Who moves the packets
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Mover::Auto)]
    datapath: Mover,
    /// Compare everything this often, although nothing was heard
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    resync: u64,
    /// Namespace of the operator, where it keeps which sizes are applied
    #[arg(long, value_name = "NAME", default_value = "netferry")]
    operator_namespace: String,
    /// UDP port at which nodes try whether full-size packets get through between them; the same on every node
    #[arg(long, value_name = "PORT", default_value_t = PROBE_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    probe_port: u16,
    /// Serve /healthz and /metrics (for Prometheus) at this address, such as 0.0.0.0:9645
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    places: Places,
}

/// Where things are on this node.
#[derive(Debug, Args)]
struct Places {
    /// Run directory of Open vSwitch
    #[arg(long, value_name = "DIR", default_value = "/run/openvswitch")]
    ovs_run_dir: PathBuf,
    /// Run directory of the zone's daemons
    #[arg(long, value_name = "DIR", default_value = "/run/ovn")]
    ovn_run_dir: PathBuf,
    /// Databases of the zone
    #[arg(long, value_name = "DIR", default_value = "/var/lib/ovn")]
    ovn_data_dir: PathBuf,
    /// Logs of the zone's daemons
    #[arg(long, value_name = "DIR", default_value = "/var/log/ovn")]
    ovn_log_dir: PathBuf,
    /// Schemas of the zone's databases
    #[arg(long, value_name = "DIR", default_value = "/usr/share/ovn")]
    ovn_schema_dir: PathBuf,
    /// What the agent keeps until the next boot
    #[arg(long, value_name = "DIR", default_value = "/run/netferry")]
    run_dir: PathBuf,
    /// The CNI configuration to write when pods can be started
    #[arg(long, value_name = "FILE", default_value = netferry_agent::overlay::pods::conflist::DEFAULT)]
    cni_config: PathBuf,
    /// What the agent keeps for longer: enough to heal the node without the API
    #[arg(long, value_name = "DIR", default_value = "/var/lib/netferry")]
    data_dir: PathBuf,
    /// Where the host's files are, for machine configurations
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
}

/// Who moves the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mover {
    /// The kernel if it can
    Auto,
    /// The kernel's Open vSwitch module
    Kernel,
    /// The switch's own process
    Userspace,
}

pub(crate) fn run(args: &AgentArgs, global: &Global) -> Result<(), Failure> {
    logs::begin(&args.logs)?;
    let config = config(&args.node)?;
    netferry_kernel::memory::share_one_heap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(until_stopped(config, global))
}

async fn until_stopped(config: Config, global: &Global) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let client = client(global).await?;
    tokio::select! {
        ended = run_agent(config, client) => Ok(ended.context("running the agent")?),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

/// What the agent of this node is told.
pub(crate) fn config(args: &NodeArgs) -> Result<Config, Failure> {
    let name = match &args.node {
        Some(name) => name.clone(),
        None => {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
            host.context("asking for the host's name; use --node")?.trim().to_owned()
        }
    };
    let node = NodeName::new(name).map_err(|error| Failure::Refused(error.into()))?;
    let places = &args.places;
    Ok(Config {
        paths: Paths {
            ovs_run: places.ovs_run_dir.clone(),
            ovn_run: places.ovn_run_dir.clone(),
            ovn_data: places.ovn_data_dir.clone(),
            ovn_log: places.ovn_log_dir.clone(),
            ovn_schemas: places.ovn_schema_dir.clone(),
            run: places.run_dir.clone(),
            cni_config: places.cni_config.clone(),
            data: places.data_dir.clone(),
            root: places.host_root.clone(),
        },
        resync: Duration::from_secs(args.resync),
        datapath: match args.datapath {
            Mover::Auto => None,
            Mover::Kernel => Some(Datapath::Kernel),
            Mover::Userspace => Some(Datapath::Userspace),
        },
        namespace: args.operator_namespace.clone(),
        probe_port: args.probe_port,
        listen: args.listen,
        ..Config::new(node)
    })
}

/// Made without asking the API anything: a node must come up without it.
pub(crate) async fn client(global: &Global) -> Result<kube::Client, Failure> {
    let usual = PathBuf::from(KUBECONFIG);
    let file = global.kubeconfig.clone().or_else(|| usual.exists().then_some(usual));
    let config = match file {
        None => kube::Config::incluster().context("looking for the credentials of this pod")?,
        Some(path) => {
            let file = Kubeconfig::read_from(&path)
                .with_context(|| format!("reading the kubeconfig {}", path.display()))?;
            let options = KubeConfigOptions { context: global.context.clone(), ..Default::default() };
            kube::Config::from_custom_kubeconfig(file, &options)
                .await
                .with_context(|| format!("using the kubeconfig {}", path.display()))?
        }
    };
    let address = config.cluster_url.to_string();
    Ok(cluster::attentive(config).with_context(|| format!("preparing to talk to {address}"))?)
}
