//! `netferry lab up`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use netferry_lab::{ControlPlane, Lab, Lifetime, Options, Parts, Waiting};

use super::{Family, Patience, Which, show};
use crate::args::Format;
use crate::exit::Failure;
use crate::line::Line;

/// What a lab's nodes run; without one of them there would be a node that never becomes ready instead of an answer.
const NEEDED: [(&str, &str); 8] = [
    ("/usr/sbin/ovsdb-server", "openvswitch-switch"),
    ("/usr/sbin/ovs-vswitchd", "openvswitch-switch"),
    ("/usr/bin/ovsdb-tool", "openvswitch-switch"),
    ("/usr/bin/ovn-northd", "ovn-central"),
    ("/usr/bin/ovn-controller", "ovn-host"),
    ("/sbin/ifup", "ifupdown"),
    ("/sbin/ip", "iproute2"),
    ("/usr/share/openvswitch/vswitch.ovsschema", "openvswitch-switch"),
];

/// Start a lab and wait until its nodes are ready
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry lab up --nodes 3
  netferry lab up --name big --nodes 10 --family dual --networks 1
  netferry lab up --single-node --family dual
  netferry lab up --control-plane kube")]
pub(crate) struct UpArgs {
    /// How many nodes; the first is a control plane node, the others are workers
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u16,
    /// One node with the network for one machine: no tunnels, no bridge, its uplink as it is
    #[arg(long, conflicts_with = "nodes")]
    single_node: bool,
    /// Which families nodes, pods and Services have
    #[arg(long, value_enum, default_value_t = Family::V4)]
    family: Family,
    /// Further underlay networks, with an interface on each node
    #[arg(long, value_name = "K", default_value_t = 0)]
    networks: u8,
    /// The largest packet of the underlay; pods get 100 less, and as much on a single node
    #[arg(long, value_name = "M", default_value_t = 1500)]
    mtu: u32,
    /// What nodes begin with, where it is less than the underlay carries: room for a change of MTU
    #[arg(long, value_name = "M")]
    host_mtu: Option<u32>,
    /// Where the Kubernetes API comes from
    #[arg(long, value_enum, default_value_t = Plane::Embedded)]
    control_plane: Plane,
    /// Stay, and end the lab when interrupted
    #[arg(long)]
    foreground: bool,
    /// Nodes, switches and the API only: no operator, host-init and agent
    #[arg(long)]
    bare: bool,
    /// Leave one of them out, to run it by hand; may be repeated
    #[arg(long, value_enum, value_name = "PART")]
    without: Vec<Part>,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Plane {
    /// The small server of this program
    Embedded,
    /// The real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, from $NETFERRY_KUBE_ASSETS
    Kube,
}

/// A program of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The operator, in the control plane
    Operator,
    /// `netferry host-init`, at each boot of a node
    HostInit,
    /// The agent, on each node
    Agent,
}

pub(super) fn run(which: &Which, args: &UpArgs, format: Format) -> Result<(), Failure> {
    let options = options(which, args)?;
    missing_packages()?;
    let began = Instant::now();
    let lab = Lab::up(&options)?;
    if !args.patience.is_none() {
        args.patience.wait(&lab, options.nodes.into()).inspect_err(|_| {
            eprintln!(
                "the lab is left as it is: netferry lab status --name {0}, netferry lab down --name {0}",
                which.name
            );
        })?;
        eprintln!("lab {} is ready after {:.1} s", which.name, began.elapsed().as_secs_f32());
    }
    show::status(&lab, format)?;
    if args.foreground {
        wait_for_interrupt()?;
        lab.down()?;
        eprintln!("lab {} is down", which.name);
    }
    Ok(())
}

fn options(which: &Which, args: &UpArgs) -> Result<Options, Failure> {
    let program = std::env::current_exe().context("finding our own program")?;
    let cni = beside(&program, "netferry-cni");
    let mut options = Options::new(which.name.clone(), program, cni);
    options.root = which.labs.clone();
    options.nodes = if args.single_node { 1 } else { args.nodes };
    options.single_node = args.single_node;
    options.families = args.family.into();
    options.networks = args.networks;
    options.mtu = args.mtu;
    options.host_mtu = args.host_mtu;
    options.control_plane = match args.control_plane {
        Plane::Embedded => ControlPlane::Embedded,
        Plane::Kube => ControlPlane::Kube { assets: assets()? },
    };
    options.lifetime = if args.foreground { Lifetime::OfCaller } else { Lifetime::Detached };
    let with = |part: Part| !args.bare && !args.without.contains(&part);
    options.parts =
        Parts { operator: with(Part::Operator), host_init: with(Part::HostInit), agent: with(Part::Agent) };
    Ok(options)
}

pub(crate) fn beside(program: &Path, name: &str) -> PathBuf {
    program.with_file_name(name)
}

fn assets() -> Result<PathBuf, Failure> {
    let named = ["NETFERRY_KUBE_ASSETS", "KUBEBUILDER_ASSETS"].into_iter().find_map(std::env::var_os);
    let refuse = || {
        Failure::Refused(anyhow!(
            "--control-plane kube: set NETFERRY_KUBE_ASSETS to the directory of etcd, kube-apiserver, kube-controller-manager and kube-scheduler (scripts/kube-assets builds and prints one)"
        ))
    };
    named.map(PathBuf::from).ok_or_else(refuse)
}

pub(crate) fn missing_packages() -> Result<(), Failure> {
    missing("a lab", &NEEDED)
}

/// Refuses what needs programs that are not there, with the packages that have them.
pub(crate) fn missing(what: &str, needed: &[(&str, &str)]) -> Result<(), Failure> {
    let mut missing: Vec<&str> =
        needed.iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, package)| *package).collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    Err(Failure::Refused(anyhow!(
        "{what} needs packages that are missing: apt-get install {list} (or scripts/setup)"
    )))
}

fn wait_for_interrupt() -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted.context("listening for SIGINT")?),
        }
    })
}

/// What has been waited for longest, and how much else.
pub(crate) fn progress(line: &mut Line, waiting: &[Waiting]) {
    let Some(first) = waiting.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds)) else { return };
    let more = if waiting.len() > 1 { format!(" and {} more", waiting.len() - 1) } else { String::new() };
    let last = first.last.as_ref().map(|last| format!(": {last}")).unwrap_or_default();
    line.show_since(&format!("waiting for {}{more}{last}", first.what), first.seconds);
}
