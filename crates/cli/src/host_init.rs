//! `netferry host-init`: prepares a host before its kubelet starts.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use netferry_agent::host_init::{self, InitError, Moves, Options, Record};
use netferry_kernel::{IfName, Kernel};
use netferry_ovs::Remote;

use crate::args::Format;
use crate::exit::Failure;
use crate::output;

/// Prepare this host for the pod network; run at boot, before the kubelet
#[derive(Debug, Args)]
#[command(
    long_about = "\
Prepare this host for the pod network; run at boot, after Open vSwitch and before the kubelet.

Where the kernel has no Open vSwitch datapath, tunnels must end on a bridge of the switch: the link with the default
route becomes a port of br-ex, and its addresses and routes move to br-ex. The host's own network configuration is not
touched. Where the kernel has the datapath nothing is needed and nothing is done, unless --bridge asks for the bridge.

Run again it changes nothing. Cut off at any point, by whatever, the next run finishes it. What was done is written to
host-init.json in the run directory. Exits with 3, having changed nothing, if it is not certain which link to use.",
    after_help = "\
Examples:
  netferry host-init
  netferry host-init --uplink enp1s0
  netferry host-init --bridge -o json
  netferry host-init --undo"
)]
pub(crate) struct HostInitArgs {
    /// Link that leads to the other nodes; without it, the one with the default route
    #[arg(long, value_name = "LINK")]
    uplink: Option<IfName>,
    /// Make the bridge also where the kernel moves packets itself
    #[arg(long)]
    bridge: bool,
    /// Name of the bridge
    #[arg(long, value_name = "NAME", default_value = "br-ex")]
    bridge_name: IfName,
    /// Give the bridge the uplink's hardware address, where the network accepts no other
    #[arg(long)]
    keep_mac: bool,
    /// Who moves packets
    #[arg(long, value_enum, default_value_t = Datapath::Auto)]
    datapath: Datapath,
    /// Database of Open vSwitch
    #[arg(long, value_name = "REMOTE", default_value = "unix:/run/openvswitch/db.sock")]
    ovsdb: Remote,
    /// Where to write down what was done
    #[arg(long, value_name = "DIR", default_value = "/run/netferry")]
    run_dir: PathBuf,
    /// Where the host's files are
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// How many seconds to wait for each answer of Open vSwitch
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Only put in order what a loss of power left of the host's files; run at boot before anything reads them
    #[arg(long, conflicts_with_all = ["uplink", "bridge", "keep_mac", "datapath", "undo"])]
    files: bool,
    /// Move everything back to the uplink, remove the bridge and what an agent that has ended left in the kernel
    #[arg(long, conflicts_with_all = ["uplink", "bridge", "keep_mac", "datapath"])]
    undo: bool,
}

/// Who moves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Datapath {
    /// The kernel if it can, else Open vSwitch itself
    Auto,
    /// The kernel
    Kernel,
    /// Open vSwitch itself
    Userspace,
}

pub(crate) fn run(args: &HostInitArgs, format: Format) -> Result<(), Failure> {
    let datapath = match args.datapath {
        Datapath::Auto => None,
        Datapath::Kernel => Some(Moves::Kernel.into()),
        Datapath::Userspace => Some(Moves::Userspace.into()),
    };
    let options = Options {
        database: args.ovsdb.clone(),
        run: args.run_dir.clone(),
        bridge: args.bridge_name.clone(),
        uplink: args.uplink.clone(),
        datapath,
        always: args.bridge,
        keep_mac: args.keep_mac,
        patience: Duration::from_secs(args.timeout),
        root: args.root.clone(),
    };
    if args.files {
        let units = host_init::mend(&options).map_err(failure)?;
        return if units { Ok(read_units_again(&options.root)?) } else { Ok(()) };
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting")?;
    let kernel = Kernel::here().context("opening the kernel's network configuration (this needs root)")?;
    // A service's log should show how far a boot got; a pipe that a program reads has the answer alone.
    let step = |text: &str| {
        if format == Format::Table || std::io::stderr().is_terminal() {
            eprintln!("{text}");
        }
    };
    if args.undo {
        return runtime.block_on(host_init::undo(&kernel, &options, step)).map_err(failure);
    }
    let record = runtime.block_on(host_init::prepare(&kernel, &options, step)).map_err(failure)?;
    output::answer(format, &record, |_| describe(&record))
}

/// Has the service manager read units again that were put back after it had read them.
///
/// At this point of a boot it has started next to nothing, and reads a unit's file before it starts it: those that wait
/// start as they are now, or not at all if they are gone. That is not enough for one that is wanted again, which is not
/// among those that wait: it starts with the next boot. Asking for everything once more would end a rescue.
fn read_units_again(root: &Path) -> anyhow::Result<()> {
    if !root.join("run/systemd/system").is_dir() {
        return Ok(());
    }
    let done = Command::new("systemctl").arg("daemon-reload").status();
    let done = done.context("running systemctl daemon-reload")?;
    anyhow::ensure!(done.success(), "systemctl daemon-reload ended with {done}");
    Ok(())
}

fn describe(record: &Record) -> String {
    let datapath = match record.datapath {
        Moves::Kernel => "the kernel moves packets",
        Moves::Userspace => "Open vSwitch moves packets itself",
    };
    match &record.bridge {
        None => format!("{datapath}: no bridge is needed\n"),
        Some(bridge) => {
            let addresses: Vec<String> = bridge.addresses.iter().map(ToString::to_string).collect();
            let (name, uplink) = (&bridge.name, &bridge.uplink);
            format!("{datapath}: {name} stands on {uplink} and has {}\n", addresses.join(", "))
        }
    }
}

fn failure(error: InitError) -> Failure {
    let (refused, late) = (error.is_refusal(), matches!(error, InitError::NoSwitch { .. }));
    match (refused, late) {
        (true, _) => Failure::Refused(anyhow!(error)),
        (false, true) => Failure::TimedOut(anyhow!(error)),
        (false, false) => Failure::Failed(anyhow!(error)),
    }
}
