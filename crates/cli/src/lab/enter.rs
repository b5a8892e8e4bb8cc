//! Running something inside a lab.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use anyhow::Context;
use clap::Args;
use netferry_lab::Lab;

use crate::exit::Failure;

/// Run a command in a node, a pod, or another part of the lab
#[derive(Debug, Args)]
#[command(after_help = "\
Ends as the command ends.

Examples:
  netferry lab exec node-1 -- ip route
  netferry lab exec default/web-0 -- ping -c1 10.244.1.5
  netferry lab exec outside -- nc -z 172.30.1.1 30080")]
pub(crate) struct ExecArgs {
    /// A node, a pod (NAME or NAMESPACE/NAME), `outside`, `router`, `fabric` or `control`
    target: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn exec(lab: &Lab, args: &ExecArgs) -> Result<(), Failure> {
    let (program, arguments) = args.command.split_first().context("a command is missing")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let status = lab.spawn(&args.target, command)?.wait().context("waiting for the command")?;
    ends_like(status)
}

/// Open a shell that talks to the lab, or one inside of it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry lab shell            this machine, with KUBECONFIG set
  netferry lab shell node-1     inside a node")]
pub(crate) struct ShellArgs {
    /// A node, a pod, `outside`, `router`, `fabric` or `control`; without it, this machine
    target: Option<String>,
}

pub(super) fn shell(lab: &Lab, args: &ShellArgs) -> Result<(), Failure> {
    let mut command = Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "sh".into()));
    let status = match &args.target {
        Some(target) => lab.spawn(target, command)?.wait(),
        None => command.env("KUBECONFIG", lab.state().kubeconfig()).status(),
    };
    ends_like(status.context("running a shell")?)
}

/// A command's end is ours: its code, or what a shell makes of its signal.
fn ends_like(status: std::process::ExitStatus) -> Result<(), Failure> {
    match status.code().or(status.signal().map(|signal| 128 + signal)) {
        Some(0) | None => Ok(()),
        Some(code) => std::process::exit(code),
    }
}
