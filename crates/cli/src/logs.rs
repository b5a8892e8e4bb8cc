//! How long-running commands say what they do: on standard error, one line each.

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Options of every command that runs until it is stopped.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// What to log: error, warn, info, debug, trace, or per part such as netferry_agent=debug
    #[arg(long, value_name = "FILTER", env = "NETFERRY_LOG", default_value = "info")]
    log: String,
    /// How to log it
    #[arg(long, value_name = "FORMAT", value_enum, env = "NETFERRY_LOG_FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For programs: one JSON object per line
    Json,
}

/// Begins to log, for the rest of the process.
pub(crate) fn begin(args: &LogArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log).map_err(|error| {
        Failure::from(anyhow!(error).context(format!("reading the filter {:?}", args.log)))
    })?;
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    match args.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
