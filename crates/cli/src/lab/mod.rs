//! `netferry lab`: a cluster on this machine. The flags; what they ask for is in the modules.

mod ask;
mod enter;
mod faults;
mod hidden;
mod meter;
mod show;
mod up;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use netferry_lab::{Families, Lab, LabError, Name, Options};

use crate::args::Format;
use crate::exit::Failure;
use crate::line::Line;

pub(crate) use hidden::{ContainerArgs, LabRunArgs, container, node, run_lab};
pub(crate) use up::{beside, missing, missing_packages, progress};

/// Run a cluster on this machine: nodes out of namespaces, a real switch in each, faults on request
#[derive(Debug, Args)]
#[command(
    long_about = "\
Run a cluster on this machine: nodes out of namespaces, a real switch in each, faults on request.

Each node has a network, processes and files of its own, runs Open vSwitch, OVN and the netferry agent, and starts the
pods bound to it. Pods and Services come from manifests, through kubectl. Nothing of a lab is visible in the machine's
own network but a port of the loopback, and nothing of it is left when it is down. Needs root.",
    after_help = "\
Examples:
  netferry lab up --nodes 3
  eval \"$(netferry lab env)\" && kubectl get nodes
  netferry lab exec node-1 -- ovs-vsctl show
  netferry lab power-cut node-2 && netferry lab status
  netferry lab down"
)]
pub(crate) struct LabArgs {
    #[command(flatten)]
    which: Which,
    #[command(subcommand)]
    command: Command,
}

/// Which lab is meant.
#[derive(Debug, Args)]
struct Which {
    /// The lab's name; labs of different names know nothing of each other
    #[arg(long, global = true, default_value = "lab")]
    name: Name,
    /// Where labs keep their state
    #[arg(long, global = true, value_name = "DIR", default_value = Options::ROOT, hide = true)]
    labs: PathBuf,
}

impl Which {
    fn attach(&self) -> Result<Lab, Failure> {
        Ok(Lab::attach(&self.labs, &self.name)?)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::UpArgs),
    /// End a lab; nothing of it is left
    Down,
    /// Say how a lab is
    Status,
    Exec(enter::ExecArgs),
    Shell(enter::ShellArgs),
    /// Print what a shell evaluates to talk to the lab: eval "$(netferry lab env)"
    Env,
    Logs(show::LogsArgs),
    AddNode(ask::AddNodeArgs),
    RemoveNode(ask::NodeArgs),
    Reboot(ask::RebootArgs),
    PowerCut(ask::PowerCutArgs),
    Cut(faults::CutArgs),
    Heal(faults::HealArgs),
    Lose(faults::LoseArgs),
    Meter(meter::MeterArgs),
}

pub(crate) fn run(args: &LabArgs, format: Format) -> Result<(), Failure> {
    let which = &args.which;
    match &args.command {
        Command::Up(args) => up::run(which, args, format),
        Command::Down => down(which),
        Command::Status => show::status(&which.attach()?, format),
        Command::Exec(args) => enter::exec(&which.attach()?, args),
        Command::Shell(args) => enter::shell(&which.attach()?, args),
        Command::Env => show::env(&which.attach()?),
        Command::Logs(args) => show::logs(&which.attach()?, args),
        Command::AddNode(args) => ask::add_node(&which.attach()?, args),
        Command::RemoveNode(args) => ask::remove_node(&which.attach()?, args),
        Command::Reboot(args) => ask::reboot(&which.attach()?, args),
        Command::PowerCut(args) => ask::power_cut(&which.attach()?, args),
        Command::Cut(args) => faults::cut(&which.attach()?, args),
        Command::Heal(args) => faults::heal(&which.attach()?, args),
        Command::Lose(args) => faults::lose(&which.attach()?, args),
        Command::Meter(args) => meter::run(&which.attach()?, args, format),
    }
}

fn down(which: &Which) -> Result<(), Failure> {
    let said = if Lab::remove(&which.labs, &which.name)? { "is down" } else { "was not there" };
    eprintln!("lab {} {said}", which.name);
    Ok(())
}

/// How long to wait for a lab to be as it shall be.
#[derive(Clone, Copy, Debug, Args)]
struct Patience {
    /// How many seconds to wait until everything is ready; 0 does not wait [default: 300, and 10 more for each node above
    /// 30]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

impl Patience {
    fn is_none(self) -> bool {
        self.wait == Some(0)
    }

    /// Nodes of a large lab take longer the more they are: each is told of all others.
    fn of(self, nodes: usize) -> Duration {
        let usual = 300 + 10 * u64::try_from(nodes.saturating_sub(30)).unwrap_or(0);
        Duration::from_secs(self.wait.unwrap_or(usual))
    }

    /// Waits until a lab is ready that has or gets so many nodes, and says what it waits for.
    fn wait(self, lab: &Lab, nodes: usize) -> Result<(), Failure> {
        if self.is_none() {
            return Ok(());
        }
        let mut line = Line::new();
        let ready = lab.wait_ready(self.of(nodes), |waiting| progress(&mut line, waiting));
        line.clear();
        Ok(ready.map(drop)?)
    }
}

/// Which families a lab speaks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Family {
    /// IPv4
    #[value(name = "4")]
    V4,
    /// IPv6
    #[value(name = "6")]
    V6,
    /// Both, IPv4 first
    Dual,
}

impl From<Family> for Families {
    fn from(family: Family) -> Families {
        match family {
            Family::V4 => Families::V4,
            Family::V6 => Families::V6,
            Family::Dual => Families::Dual,
        }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        match error {
            LabError::Refused(_) => Failure::Refused(error.into()),
            LabError::TimedOut { .. } => Failure::TimedOut(error.into()),
            LabError::Failed { .. } => Failure::Failed(error.into()),
        }
    }
}
