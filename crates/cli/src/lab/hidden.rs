//! The processes a lab is made of. Nobody types these.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::exit::Failure;

/// The process that is a lab.
#[derive(Debug, Args)]
pub(crate) struct LabRunArgs {
    #[arg(long)]
    state: PathBuf,
}

/// What a container's command is started through.
#[derive(Debug, Args)]
pub(crate) struct ContainerArgs {
    #[arg(long)]
    hostname: Option<String>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run_lab(args: &LabRunArgs) -> Result<(), Failure> {
    log();
    Ok(netferry_lab::cluster::run(&args.state)?)
}

pub(crate) fn node() -> Result<(), Failure> {
    log();
    Ok(netferry_lab::node::run()?)
}

pub(crate) fn container(args: &ContainerArgs) -> Result<(), Failure> {
    Ok(netferry_lab::container::run(args.hostname.as_deref(), &args.command)?)
}

/// Standard output is where these processes talk to each other.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
}
