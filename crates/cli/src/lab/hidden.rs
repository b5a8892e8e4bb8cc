//! The processes a lab is made of. Nobody types these.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use netferry_lab::container::LastWords;

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
    /// The file that the container finds at `--last-words-at`
    #[arg(long, requires = "last_words_at")]
    last_words: Option<PathBuf>,
    #[arg(long, requires = "last_words")]
    last_words_at: Option<PathBuf>,
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
    let last_words = args.last_words.clone().zip(args.last_words_at.clone());
    let last_words = last_words.map(|(file, path)| LastWords { file, path });
    Ok(netferry_lab::container::run(args.hostname.as_deref(), last_words.as_ref(), &args.command)?)
}

/// Standard output is where these processes talk to each other.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
}
