//! `netferry demo api`: a guided tour of the embedded API server and the resources an administrator writes, with real
//! commands and their real answers. Every step states what must come of it, so the tour is a test as well.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow};
use clap::Args;

use crate::exit::Failure;
use crate::output::{self, Paint};

use super::guide::Guide;
use super::server::Server;
use super::tour;

/// Take a guided kubectl tour of the embedded API server, without root
#[derive(Debug, Args)]
#[command(
    long_about = "\
Take a guided kubectl tour of the embedded API server.

Starts a server on a free port of the loopback address with everything in a temporary directory, runs
kubectl against it, explains each step and checks its outcome, and removes everything at the end.
Needs kubectl, no root, no cluster and no network.",
    after_help = "\
Exit codes: 0 every step went as it should, 1 one did not.

Examples:
  netferry demo api
  netferry demo api --kubectl ~/bin/kubectl"
)]
pub(super) struct ApiArgs {
    /// The kubectl to drive; without it, the one on PATH
    #[arg(long, value_name = "FILE", default_value = "kubectl")]
    kubectl: PathBuf,
}

pub(super) fn run(args: &ApiArgs) -> Result<(), Failure> {
    let kubectl_version = version_of(&args.kubectl)?;
    let dir = tempfile::tempdir().context("making a temporary directory for the tour")?;
    lay_out(dir.path())?;

    let mut guide = Guide::new(&args.kubectl, dir.path(), Paint::for_stdout());
    guide.say("netferry: a guided tour\n")?;
    let mut server = Server::start(dir.path())?;
    guide.say(&format!(
        "The embedded API server answers at {} after {} ms.\n",
        server.address(),
        server.millis()
    ))?;

    let crash = tour::walk(&mut guide, &mut server);
    let first_millis = server.first_millis();
    server.stop()?;
    let back_millis = crash?;

    output::print(&format!(
        "\nWhat you saw\n\
         \x20 steps      {}, each as it should be\n\
         \x20 server     ready in {first_millis} ms; killed with -9, back in {back_millis} ms with every object as it was\n\
         \x20 kubectl    {kubectl_version}, unchanged\n\
         \x20 left over  nothing: the server is stopped and its directory removed\n",
        guide.passed(),
    ))
}

fn version_of(kubectl: &Path) -> Result<String, Failure> {
    let output =
        Command::new(kubectl).args(["version", "--client", "-o", "json"]).output().with_context(|| {
            format!("running {} (make demo brings one; or give --kubectl)", kubectl.display())
        })?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("reading the version of {}", kubectl.display()))?;
    let version = answer["clientVersion"]["gitVersion"].as_str();
    Ok(version.ok_or_else(|| anyhow!("{} does not say its version", kubectl.display()))?.to_owned())
}

fn lay_out(dir: &Path) -> Result<(), Failure> {
    let crds = dir.join("crds");
    std::fs::create_dir(&crds).context("making the directory for the CRDs")?;
    crate::crds::write_to(&crds)?;
    let files = [
        ("network-config.yaml", include_str!("network-config.yaml")),
        ("network-operator.yaml", include_str!("network-operator.yaml")),
        ("shop.yaml", include_str!("shop.yaml")),
    ];
    for (name, text) in files {
        std::fs::write(dir.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    Ok(())
}
