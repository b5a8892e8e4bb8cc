//! Nodes that come and go.

use clap::{Args, ValueEnum};
use netferry_lab::{Lab, Name, NewNode, Role};

use super::Patience;
use crate::exit::Failure;

/// Add a node and boot it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry lab add-node
  netferry lab add-node edge-1 --pool edge --label zone=b")]
pub(crate) struct AddNodeArgs {
    /// Its name; without one, node-N
    node: Option<Name>,
    /// What it is to the cluster
    #[arg(long, value_enum, default_value_t = NodeRole::Worker)]
    role: NodeRole,
    /// The pool it is in, if another than its role's
    #[arg(long)]
    pool: Option<Name>,
    /// A label; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NodeRole {
    /// One of those the cluster is run from
    ControlPlane,
    /// Where pods run
    Worker,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?}: expected KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn add_node(lab: &Lab, args: &AddNodeArgs) -> Result<(), Failure> {
    let role = match args.role {
        NodeRole::ControlPlane => Role::ControlPlane,
        NodeRole::Worker => Role::Worker,
    };
    let labels = args.label.iter().cloned().collect();
    let node = lab.add_node(NewNode { name: args.node.clone(), role, pool: args.pool.clone(), labels })?;
    eprintln!("{node} boots");
    args.patience.wait(lab, lab.status()?.nodes.len())
}

/// End a node and forget it: its disk, its Node object
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  netferry lab remove-node node-3")]
pub(crate) struct NodeArgs {
    /// The node
    node: String,
}

pub(super) fn remove_node(lab: &Lab, args: &NodeArgs) -> Result<(), Failure> {
    lab.remove_node(&args.node)?;
    eprintln!("{} is gone", args.node);
    Ok(())
}

/// Shut a node down and boot it again from its disk
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  netferry lab reboot node-2\n  netferry lab reboot node-2 --wait 0")]
pub(crate) struct RebootArgs {
    /// The node
    node: String,
    #[command(flatten)]
    patience: Patience,
}

pub(super) fn reboot(lab: &Lab, args: &RebootArgs) -> Result<(), Failure> {
    lab.reboot(&args.node)?;
    eprintln!("{} boots", args.node);
    args.patience.wait(lab, lab.status()?.nodes.len())
}

/// Take a node's power away, without a goodbye, and boot it again
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  netferry lab power-cut node-2\n  netferry lab power-cut node-2 --off")]
pub(crate) struct PowerCutArgs {
    /// The node
    node: String,
    /// Leave it off; netferry lab reboot starts it again
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    patience: Patience,
}

pub(super) fn power_cut(lab: &Lab, args: &PowerCutArgs) -> Result<(), Failure> {
    if args.off {
        lab.power_off(&args.node)?;
        eprintln!("{} is off", args.node);
        return Ok(());
    }
    lab.power_cut(&args.node)?;
    eprintln!("{} boots", args.node);
    args.patience.wait(lab, lab.status()?.nodes.len())
}
