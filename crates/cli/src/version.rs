//! `netferry version`

use clap::Args;
use serde::Serialize;

use crate::args::Global;
use crate::exit::Failure;
use crate::output;

/// The Kubernetes release whose API the embedded server speaks and the suite compares with.
const KUBERNETES: &str = "v1.34";

/// Print the version of this program and of the Kubernetes API it speaks
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry version
  netferry version -o json")]
pub(crate) struct VersionArgs {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    netferry: &'static str,
    kubernetes_api: &'static str,
    platform: String,
}

pub(crate) fn run(_args: &VersionArgs, global: &Global) -> Result<(), Failure> {
    let version = Version {
        netferry: env!("CARGO_PKG_VERSION"),
        kubernetes_api: KUBERNETES,
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    };
    output::answer(global.output, &version, |_| {
        format!(
            "netferry        {}\nkubernetes api  {}\nplatform        {}\n",
            version.netferry, version.kubernetes_api, version.platform
        )
    })
}
