//! `netferry crds`

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::exit::Failure;
use crate::output;

/// Print the custom resource definitions, or write one file for each
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry crds | kubectl apply -f -
  netferry crds --dir deploy/crds")]
pub(crate) struct CrdsArgs {
    /// Write one file for each here, named PLURAL.GROUP.yaml; the directory is made if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &CrdsArgs) -> Result<(), Failure> {
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("making the directory {}", dir.display()))?;
            write_to(dir)
        }
        None => output::print(&as_one_stream(&netferry_api::crds())),
    }
}

/// Writes every definition to a file of its own.
pub(crate) fn write_to(dir: &Path) -> Result<(), Failure> {
    for (name, yaml) in netferry_api::crds() {
        let path = dir.join(name);
        std::fs::write(&path, yaml).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn as_one_stream(files: &[(String, String)]) -> String {
    files.iter().map(|(_, yaml)| format!("---\n{}", yaml.strip_prefix("---\n").unwrap_or(yaml))).collect()
}
