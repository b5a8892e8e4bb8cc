//! `netferry demo`: the real thing, small, on this machine, and cleaned up afterwards.

mod api;
mod ground;
mod guide;
mod mtu;
mod network;
mod server;
mod single_node;
mod tour;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// See it work: the MTU of a running cluster changes and nothing is lost
#[derive(Debug, Args)]
#[command(
    long_about = "\
See it work: the MTU of a running cluster changes and nothing is lost.

Without a word more: three nodes out of namespaces, each with a real switch and an OVN zone of its own, pods and Services
on them, numbered full-size packets on every kind of path. The MTU of their pods goes from 1400 to 8900 and back, nodes
restarting one by one, and the report says what was lost in each phase. `network` kills agents, OVN's daemons and the API
server instead. Needs root and the packages of a lab; nothing of it is left afterwards.",
    after_help = "\
Exit codes: 0 everything went as it should, 1 it did not.

Examples:
  netferry demo
  netferry demo mtu --naive
  netferry demo network --family dual --for 30s
  netferry demo single-node
  netferry demo api --kubectl ~/bin/kubectl"
)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    Mtu(mtu::MtuArgs),
    Network(network::NetworkArgs),
    SingleNode(single_node::SingleNodeArgs),
    Api(api::ApiArgs),
}

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    match &args.what {
        None => mtu::run(&mtu::MtuArgs::default()),
        Some(What::Mtu(args)) => mtu::run(args),
        Some(What::Network(args)) => network::run(args),
        Some(What::SingleNode(args)) => single_node::run(args),
        Some(What::Api(args)) => api::run(args),
    }
}
