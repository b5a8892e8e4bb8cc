//! `netferry solo`: the network of one machine, whole.

mod furnish;
mod install;
mod installed;
mod run;
mod units;

use clap::{Args, Subcommand};
use ipnet::IpNet;

use crate::agent::NodeArgs;
use crate::args::Global;
use crate::exit::Failure;
use crate::logs::LogArgs;

/// Run the whole network of one machine: agent and operator in one process
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    long_about = "\
Run the whole network of one machine: agent and operator in one process, and the OVN daemons behind them.

No tunnels, no bridge, and the uplink stays as it is, whatever it is and becomes. Give it any Kubernetes API: what the
cluster lacks (our kinds, a namespace, the Network with its ranges) is made, what it has is taken as it is. Comes up
without the API too, with what it last knew.

Runs until it is stopped, and disturbs no packet by that. Needs root, Open vSwitch running, and the packages of OVN
installed. `netferry host-init` is not to be run here.

Credentials: --kubeconfig, else /etc/netferry/kubeconfig.",
    after_help = "\
Examples:
  netferry solo --kubeconfig /etc/rancher/k3s/k3s.yaml
  netferry solo --cluster-network 10.42.0.0/16,fd42::/48 --service-network 10.43.0.0/16,fd43::/112
  netferry solo install --kubeconfig /etc/rancher/k3s/k3s.yaml
  netferry solo uninstall"
)]
pub(crate) struct SoloArgs {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    Install(install::InstallArgs),
    Uninstall(install::UninstallArgs),
}

// No comment for its help: that of the command would be replaced by it.
#[derive(Debug, Args)]
struct RunArgs {
    /// Ranges of pods, where the cluster has no Network yet
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', default_value = "10.42.0.0/16")]
    cluster_network: Vec<IpNet>,
    /// Ranges of Services, where the cluster has no Network yet: those of its API server
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', default_value = "10.43.0.0/16")]
    service_network: Vec<IpNet>,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    logs: LogArgs,
}

pub(crate) fn run(args: &SoloArgs, global: &Global) -> Result<(), Failure> {
    match &args.what {
        None => run::run(&args.run, global),
        Some(What::Install(args)) => install::install(args, global),
        Some(What::Uninstall(args)) => install::uninstall(args),
    }
}
