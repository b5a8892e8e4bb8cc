//! `netferry man`

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::args::Cli;
use crate::exit::Failure;
use crate::output;

/// Print the manual page, or write one page per command to a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry man | man -l -
  netferry man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write netferry.1, netferry-doctor.1 and so on here; made if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("making the directory {}", dir.display()))?;
            clap_mangen::generate_to(Cli::command(), dir)
                .with_context(|| format!("writing manual pages to {}", dir.display()))?;
            Ok(())
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).context("rendering the manual page")?;
            output::print(&String::from_utf8_lossy(&page))
        }
    }
}
