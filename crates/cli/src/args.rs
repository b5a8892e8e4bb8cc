//! What can be typed, and the help that explains it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    agent, apiserver, completions, crds, demo, doctor, host_init, lab, lab_pod, man, mtu, operator, path_pod,
    solo, version,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed; the reason is on standard error
  2  the command line is wrong
  3  refused: the request is understood, and carrying it out would break a promise
  4  timed out: it may still complete, nothing was undone

Environment:
  KUBECONFIG  the cluster to talk to, where --kubeconfig is not given
  NO_COLOR    set to anything: no colour, also on a terminal

Every command explains itself: netferry help <command>";

/// Change the network of a running Kubernetes cluster without losing it.
#[derive(Debug, Parser)]
#[command(name = "netferry", version, about, after_help = EXIT_CODES, propagate_version = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// How to print the answer
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Kubeconfig file of the cluster to talk to; without it, $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use instead of its current one
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// For files
    Yaml,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Doctor(doctor::DoctorArgs),
    Lab(lab::LabArgs),
    Demo(demo::DemoArgs),
    Mtu(mtu::MtuArgs),
    Agent(agent::AgentArgs),
    Operator(operator::OperatorArgs),
    Solo(solo::SoloArgs),
    Apiserver(apiserver::ApiserverArgs),
    HostInit(host_init::HostInitArgs),
    Crds(crds::CrdsArgs),
    Version(version::VersionArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    /// The process that is a lab
    #[command(hide = true)]
    LabRun(lab::LabRunArgs),
    /// The first process of a node
    #[command(hide = true)]
    LabNode,
    /// What a container's command is started through
    #[command(hide = true)]
    LabContainer(lab::ContainerArgs),
    #[command(hide = true)]
    LabPod(lab_pod::LabPodArgs),
    #[command(hide = true)]
    PathPod(path_pod::PathPodArgs),
}
