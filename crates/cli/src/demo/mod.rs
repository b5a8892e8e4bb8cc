//! `netferry demo`: the real thing, small, on this machine, and cleaned up afterwards.

mod api;
mod ground;
mod guide;
mod mtu;
mod network;
mod server;
mod tour;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// See it work: a cluster on this machine, measured while its parts are killed
#[derive(Debug, Args)]
#[command(
    long_about = "\
See it work: a cluster on this machine, measured while its parts are killed.

Without a word more: three nodes out of namespaces, each with a real switch and an OVN zone of its own, pods and Services
on them, numbered full-size packets on every kind of path. Then agents, OVN's daemons and the API server are killed, and
the report says what was lost. Needs root and the packages of a lab; nothing of it is left afterwards.",
    after_help = "\
Exit codes: 0 everything went as it should, 1 it did not.

Examples:
  netferry demo
  netferry demo network --family dual --for 30s
  netferry demo mtu
  netferry demo api --kubectl ~/bin/kubectl"
)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    Network(network::NetworkArgs),
    Mtu(mtu::MtuArgs),
    Api(api::ApiArgs),
}

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    match &args.what {
        None => network::run(&network::NetworkArgs::default()),
        Some(What::Network(args)) => network::run(args),
        Some(What::Mtu(args)) => mtu::run(args),
        Some(What::Api(args)) => api::run(args),
    }
}
