//! The lab everything is measured in.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use netferry_lab::{Lab, Lifetime, Options};
use tokio::runtime::Runtime;

/// How long anything may take before it is taken for broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The node that is looked at; the other one is where packets come from.
pub(crate) const NODE: &str = "node-2";

/// A lab of two nodes, and its API.
pub(crate) struct Ground {
    pub(crate) lab: Lab,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
}

impl Ground {
    pub(crate) fn up(program: PathBuf) -> anyhow::Result<Ground> {
        let name = format!("bench-{}", std::process::id()).parse().map_err(anyhow::Error::msg)?;
        let cni = program.with_file_name("netferry-cni");
        let mut options = Options::new(name, program, cni);
        options.nodes = 2;
        options.lifetime = Lifetime::OfCaller;
        eprintln!("a lab of two nodes");
        let lab = Lab::up(&options)?;
        lab.wait_ready(PATIENCE, |_| {})?;
        let runtime = Runtime::new()?;
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(lab.state().kubeconfig())?;
            let config =
                kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Ground { lab, client, runtime })
    }

    /// What the agent of the node has said so far.
    pub(crate) fn agent_log(&self) -> anyhow::Result<String> {
        let node = NODE.parse().map_err(anyhow::Error::msg)?;
        let file = self.lab.state().node(&node).join("disk/var/log/netferry/agent.log");
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    }
}
