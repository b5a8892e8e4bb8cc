//! `netferry demo mtu`: the MTU of a running cluster is raised and lowered again, nodes restarting one by one, and every
//! path is measured meanwhile.

mod change;
mod naive;
mod told;

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use netferry_lab::escort::Escort;
use netferry_lab::paths::{self, Selection, Sites};
use netferry_lab::{Families, Lab, Restarts};
use tokio::runtime::Runtime;

use self::change::Change;
use self::told::Told;
use super::ground::{self, PATIENCE};
use crate::exit::Failure;
use crate::lab;
use crate::output::{self, Paint};

/// What hosts and pods run at, before and after.
const SMALL: Sizes = Sizes { host: 1500, pods: 1400 };
const LARGE: Sizes = Sizes { host: 9000, pods: 8900 };

#[derive(Clone, Copy, Debug)]
struct Sizes {
    host: u32,
    pods: u32,
}

/// Raise the MTU of a running cluster and lower it again, nodes restarting one by one, every path measured
#[derive(Debug, Args)]
#[command(
    long_about = "\
Raise the MTU of a running cluster and lower it again, nodes restarting one by one, every path measured.

Pods go from 1400 to 8900 and hosts from 1500 to 9000, unattended, in two phases each way; then every path must carry the
new size. What flows to, from or through a node pauses while that node restarts; everything else is counted. With --naive
the same sizes are given to one node after the other in a single phase, and what that loses is counted.",
    after_help = "\
Exit codes: 0 nothing was lost, no TCP stream stood still for a second and every path carries its size, 1 otherwise.
With --naive: 0 packets were lost, 1 none were, or it could not be shown.

Examples:
  netferry demo mtu
  netferry demo mtu --family dual
  netferry demo mtu --naive"
)]
pub(super) struct MtuArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=50))]
    nodes: u16,
    /// Which families nodes, pods and Services have
    #[arg(long, value_enum, default_value_t = lab::Family::V4)]
    family: lab::Family,
    /// Do it the wrong way: one phase, nodes at the old and at the new size side by side
    #[arg(long)]
    naive: bool,
}

impl Default for MtuArgs {
    fn default() -> MtuArgs {
        MtuArgs { nodes: 3, family: lab::Family::V4, naive: false }
    }
}

pub(super) fn run(args: &MtuArgs) -> Result<(), Failure> {
    let stage = Stage::up(args)?;
    if args.naive { naive::run(stage) } else { in_two_phases(stage, args.family.into()) }
}

fn in_two_phases(stage: Stage, families: Families) -> Result<(), Failure> {
    let Stage { lab, mut sites, runtime, began } = stage;
    let selection = Selection::while_the_mtu_changes(families, paths::in_lab::datapath()?);
    for kind in &selection.not_v6 {
        output::print(&format!("  not measured with IPv6: {}; docs/guide/mtu.md says why\n", kind.word()))?;
    }
    let change = Change::of(&runtime, &lab)?;
    let mut told = Told::default();
    for (number, (from, to)) in (2..).zip([(SMALL, LARGE), (LARGE, SMALL)]) {
        let way = format!("{} to {}", from.pods, to.pods);
        title(&format!("{number}. {way}, unattended"))?;
        let mut escort = Escort::start(&lab, sites, &selection, PATIENCE)?;
        change.ask(from, to)?;
        change.follow(&way, &mut escort)?;
        let (report, back) = escort.finish()?;
        output::print(&format!("\n{report}"))?;
        told.measured(&report);
        sites = back;

        let carried = paths::carried(&lab, &sites, PATIENCE)?;
        let wrong = paths::wrong_sizes(&carried, to.host, to.pods);
        if wrong.is_empty() {
            output::print(&format!(
                "  verified: all {} paths carry {} between pods, and no more\n",
                carried.flows.len(),
                to.pods
            ))?;
        }
        told.problems.extend(wrong);
    }
    lab.down()?;
    told.judge(began.elapsed())
}

/// A lab to change, with something to measure on every node.
struct Stage {
    lab: Lab,
    sites: Sites,
    runtime: Runtime,
    began: Instant,
}

impl Stage {
    fn up(args: &MtuArgs) -> Result<Stage, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting the runtime")?;
        let began = Instant::now();
        title(&format!(
            "1. A cluster of {} nodes: hosts at {}, pods at {}, and a switch between them that carries {}",
            args.nodes, SMALL.host, SMALL.pods, LARGE.host
        ))?;
        let lab = ground::up(|options| {
            options.nodes = args.nodes;
            options.families = Families::from(args.family);
            (options.mtu, options.host_mtu) = (LARGE.host, Some(SMALL.host));
            // Flows that end on a node pause before it restarts: what its own restart costs is not what is measured.
            options.restarts = Restarts::WhenTold;
        })?;
        let sites = runtime.block_on(ground::sites(&lab))?;
        output::print(&format!("  ready after {:.1} s\n", began.elapsed().as_secs_f32()))?;
        Ok(Stage { lab, sites, runtime, began })
    }
}

fn title(text: &str) -> Result<(), Failure> {
    output::print(&format!("\n{}\n", Paint::for_stdout().bold(text)))
}

fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f32())
}
