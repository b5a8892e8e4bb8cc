//! `netferry solo install` and `netferry solo uninstall`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::{Args, Parser};
use netferry_agent::leave;
use netferry_kernel::Kernel;

use super::installed::Installed;
use super::units::{self, UNIT, Units};
use super::{RunArgs, SoloArgs};
use crate::agent;
use crate::args::{Cli, Command, Global};
use crate::exit::Failure;
use crate::lab;
use crate::line::Line;
use crate::time;

/// What runs here, besides us.
const NEEDED: [(&str, &str); 5] = [
    ("/usr/sbin/ovsdb-server", "openvswitch-switch"),
    ("/usr/sbin/ovs-vswitchd", "openvswitch-switch"),
    ("/usr/bin/ovsdb-tool", "openvswitch-common"),
    ("/usr/bin/ovn-northd", "ovn-central"),
    ("/usr/bin/ovn-controller", "ovn-host"),
];
/// Databases that the distribution's own OVN may have left where ours go.
const DATABASES: [&str; 2] = ["/var/lib/ovn/ovnnb_db.db", "/var/lib/ovn/ovnsb_db.db"];

/// Have this machine's network run from now on, at every boot
#[derive(Debug, Args)]
#[command(
    long_about = "\
Have this machine's network run from now on, at every boot: a unit for `netferry solo`, the CNI plugin where runtimes
look for it, and the distribution's own OVN units masked. The CNI configuration comes last, when pods can be started.

No link, address, route or file of the host's own network is touched. What was done is written to
/etc/netferry/solo.json first; `netferry solo uninstall` undoes it. Run again it changes nothing.",
    after_help = "\
Examples:
  netferry solo install --kubeconfig /etc/rancher/k3s/k3s.yaml
  netferry solo install --kubeconfig /etc/netferry/kubeconfig -- --cluster-network 10.42.0.0/16,fd42::/48"
)]
pub(super) struct InstallArgs {
    /// Where runtimes look for CNI plugins
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    cni_bin_dir: PathBuf,
    /// The plugin to put there; without it, the netferry-cni beside netferry
    #[arg(long, value_name = "FILE")]
    cni_plugin: Option<PathBuf>,
    /// How long to wait until pods can be started; 0s to not wait
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time::read)]
    timeout: Duration,
    /// What `netferry solo` is run with
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Take this machine's network away again, and leave the host as it was
#[derive(Debug, Args)]
#[command(
    long_about = "\
Take this machine's network away again, and leave the host as it was: what `netferry solo` keeps in the kernel and in
Open vSwitch goes, settings are put back to what they were, and what `netferry solo install` did is undone.

Refused with 3, having changed nothing, where there is nothing of it; and while pods are attached, unless --force is
given: they lose their network. Cut off at any point, the next run finishes it, and touches nothing that was put back.",
    after_help = "\
Examples:
  netferry solo uninstall
  netferry solo uninstall --force"
)]
pub(super) struct UninstallArgs {
    /// Also while pods are attached
    #[arg(long)]
    force: bool,
}

pub(super) fn install(args: &InstallArgs, global: &Global) -> Result<(), Failure> {
    lab::missing("netferry solo", &NEEDED)?;
    let root = Path::new("/");
    let program = std::env::current_exe().context("finding our own program")?;
    let plugin = args.cni_plugin.clone().unwrap_or_else(|| lab::beside(&program, "netferry-cni"));
    if !plugin.exists() {
        return Err(Failure::Refused(anyhow!(
            "{} is not there; --cni-plugin says where it is",
            plugin.display()
        )));
    }
    let options = options(global, &args.options)?;
    let solo = read(&options)?;
    let units = Units::of(root);
    let before = Installed::read(root)?;
    let first = before.is_none();
    let mut note = before.unwrap_or_default();
    note.options = options;
    if first {
        note.masked = units.others();
        note.stopped = note.masked.iter().filter(|unit| units.runs(unit)).cloned().collect();
        note.aside = DATABASES.iter().map(PathBuf::from).filter(|file| file.exists()).collect();
        let there = args.cni_bin_dir.join("netferry-cni");
        // Where it is already, somebody else put it.
        if std::fs::canonicalize(&there).ok() != std::fs::canonicalize(&plugin).ok() {
            note.aside.extend(there.exists().then(|| there.clone()));
            note.copied = vec![there];
        }
    }
    note.write(root)?;
    for unit in &note.stopped {
        say(&format!("stopping {unit}"));
        units.tell(&["stop", unit])?;
    }
    say("putting files in place");
    let mut command = vec![program.display().to_string()];
    command.extend(note.options.iter().cloned());
    note.carry_out(root, &plugin, &units::text(&command))?;
    if !units.run_here() {
        say("systemd does not run here: start `netferry solo` yourself");
        return Ok(());
    }
    say(&format!("starting {UNIT}"));
    units.tell(&["daemon-reload"])?;
    units.tell(&["restart", UNIT])?;
    let config = agent::config(&solo.node)?;
    wait(&config.paths.cni_config, args.timeout)
}

pub(super) fn uninstall(args: &UninstallArgs) -> Result<(), Failure> {
    let root = Path::new("/");
    let installed = Installed::read(root)?;
    let note = installed.clone().unwrap_or_default();
    let solo = read(&note.options)?;
    let paths = agent::config(&solo.node)?.paths;
    let units = Units::of(root);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    let kernel = Kernel::here().context("talking to the kernel; are we root?")?;
    let failure = |error: leave::LeaveError| match error.is_refusal() {
        true => Failure::Refused(anyhow!(error)),
        false => Failure::Failed(anyhow!(error)),
    };
    if installed.is_none() && !runtime.block_on(leave::is_ours(&paths)) {
        return Err(Failure::Refused(anyhow!("not installed here: nothing of netferry is in the switch")));
    }
    runtime.block_on(leave::check(&paths, args.force)).map_err(failure)?;
    say(&format!("stopping {UNIT}"));
    units.stop()?;
    runtime.block_on(leave::idle(&paths)).map_err(failure)?;
    units.disable()?;
    runtime.block_on(leave::leave(&kernel, &paths, say)).map_err(failure)?;
    say("putting files back");
    note.undo(root)?;
    units.tell(&["daemon-reload"])?;
    for unit in &note.stopped {
        say(&format!("starting {unit}"));
        units.tell(&["start", unit])?;
    }
    Ok(Installed::forget(root)?)
}

/// The command line of the unit, without the program.
fn options(global: &Global, more: &[String]) -> Result<Vec<String>, Failure> {
    let mut options = vec![];
    if let Some(file) = &global.kubeconfig {
        let file = std::fs::canonicalize(file).with_context(|| format!("looking for {}", file.display()))?;
        options.extend(["--kubeconfig".to_owned(), file.display().to_string()]);
    }
    if let Some(context) = &global.context {
        options.extend(["--context".to_owned(), context.clone()]);
    }
    options.push("solo".to_owned());
    options.extend_from_slice(more);
    Ok(options)
}

/// What a command line of `netferry solo`, without the program, says; the usual where there is none.
fn read(options: &[String]) -> Result<RunArgs, Failure> {
    let usual = options.is_empty().then_some("solo");
    let words = ["netferry"].into_iter().chain(usual).chain(options.iter().map(String::as_str));
    let read = Cli::try_parse_from(words).map_err(|error| Failure::Refused(anyhow!("{error}")))?;
    if let Command::Solo(SoloArgs { run, what: None }) = read.command {
        return Ok(run);
    }
    Err(Failure::Refused(anyhow!("{}: no options of `netferry solo`", options.join(" "))))
}

fn wait(config: &Path, patience: Duration) -> Result<(), Failure> {
    let (began, mut line) = (Instant::now(), Line::new());
    while !config.exists() && !patience.is_zero() {
        if began.elapsed() > patience {
            let why = anyhow!("no pods can be started yet: journalctl -u {UNIT} says why");
            return Err(Failure::TimedOut(why));
        }
        line.show_since("waiting until pods can be started", began.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_millis(100));
    }
    line.clear();
    Ok(())
}

fn say(text: &str) {
    eprintln!("{text}");
}
