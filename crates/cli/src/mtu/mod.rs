//! `netferry mtu`: change the MTU of a running cluster, and see how far it is.
//!
//! Whatever is decided is decided in `core`, by what ships in the operator; here the cluster is read ([`seen`]), edits are
//! made and answers printed.

mod against;
mod edit;
mod kept;
mod news;
mod paths;
mod plan;
mod preflight;
mod seen;
mod status;
mod target;
mod tempo;
mod underlay;
mod unserved;
mod verify;
mod watch;

use clap::{Args, Subcommand};

use crate::args::Global;
use crate::cluster;
use crate::exit::Failure;

/// Change the MTU of a running cluster, and see how far it is
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry mtu plan --to 8900 --host-to 9000 --probe-underlay
  netferry mtu apply --to 8900 --host-to 9000 --unattended && netferry mtu watch
  netferry mtu status -o json")]
pub(crate) struct MtuArgs {
    /// The namespace of the operator, where what is applied is kept
    #[arg(long, global = true, value_name = "NAME", default_value = "netferry")]
    namespace: String,
    #[command(subcommand)]
    command: MtuCommand,
}

#[derive(Debug, Subcommand)]
enum MtuCommand {
    Plan(plan::PlanArgs),
    Apply(plan::ApplyArgs),
    Status(status::StatusArgs),
    Watch(watch::WatchArgs),
    Pause(edit::PauseArgs),
    Resume(edit::ResumeArgs),
    Cancel(edit::CancelArgs),
    Verify(verify::VerifyArgs),
}

pub(crate) fn run(args: &MtuArgs, global: &Global) -> Result<(), Failure> {
    let namespace = &args.namespace;
    cluster::talk(global, async |client| match &args.command {
        MtuCommand::Plan(plan) => plan::plan(&client, namespace, plan, global.output).await,
        MtuCommand::Apply(apply) => Box::pin(plan::apply(&client, namespace, apply, global.output)).await,
        MtuCommand::Status(_) => status::show(&client, namespace, global.output).await,
        MtuCommand::Watch(watch) => watch::watch(&client, namespace, watch, global.output).await,
        MtuCommand::Pause(_) => edit::pause(&client, namespace).await,
        MtuCommand::Resume(_) => edit::resume(&client).await,
        MtuCommand::Cancel(_) => edit::cancel(&client, namespace).await,
        MtuCommand::Verify(args) => verify::verify(&client, namespace, args, global.output).await,
    })
}
