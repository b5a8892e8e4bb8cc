//! `netferry version`

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::args::Global;
use crate::cluster;
use crate::exit::Failure;
use crate::output;

/// The Kubernetes release whose API the embedded server speaks and the suite compares with.
const KUBERNETES: &str = "v1.34";

/// Print the version of this program and of the Kubernetes API it speaks
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry version
  netferry version -o json
  netferry version --server --kubeconfig lab.kubeconfig")]
pub(crate) struct VersionArgs {
    /// Ask the cluster for its version too
    #[arg(long)]
    server: bool,
    /// How long to wait for the cluster, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    netferry: &'static str,
    kubernetes_api: &'static str,
    platform: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

pub(crate) fn run(args: &VersionArgs, global: &Global) -> Result<(), Failure> {
    let server = args.server.then(|| of_server(global, Duration::from_secs(args.timeout))).transpose()?;
    let version = Version {
        netferry: env!("CARGO_PKG_VERSION"),
        kubernetes_api: KUBERNETES,
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        server,
    };
    output::answer(global.output, &version, |_| {
        let lines = [
            ("netferry", Some(version.netferry)),
            ("kubernetes api", Some(version.kubernetes_api)),
            ("platform", Some(version.platform.as_str())),
            ("server", version.server.as_deref()),
        ];
        let known = lines.into_iter().filter_map(|(name, value)| Some((name, value?)));
        known.map(|(name, value)| format!("{name:16}{value}\n")).collect()
    })
}

fn of_server(global: &Global, patience: Duration) -> Result<String, Failure> {
    let ask = async |client: kube::Client| client.apiserver_version().await;
    Ok(cluster::ask(global, patience, "asking the cluster for its version", ask)?.git_version)
}
