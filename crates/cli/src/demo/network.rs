//! `netferry demo network`: the pod network of a lab, measured while what keeps it is killed.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use netferry_lab::kills::Part;
use netferry_lab::meter::{Meter, Report, Running};
use netferry_lab::paths::{self, Selection, Sites};
use netferry_lab::{Families, Lab};

use super::ground::{self, AFTERWARDS, KILLS, PATIENCE};
use crate::exit::Failure;
use crate::lab;
use crate::output::{self, Paint};
use crate::time;

/// Measure the pod network of a lab while agents, OVN's daemons and the API server are killed
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 nothing was lost, 1 something was.

Examples:
  netferry demo network
  netferry demo network --nodes 5 --family dual --for 30s")]
pub(super) struct NetworkArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u16,
    /// Which families nodes, pods and Services have
    #[arg(long, value_enum, default_value_t = lab::Family::V4)]
    family: lab::Family,
    /// How long to measure before anything is killed
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = time::read)]
    calm: Duration,
}

fn told(part: Part) -> String {
    let where_ = if part.on_nodes() { " on every node" } else { "" };
    format!("{}{where_}, kill -9", part.word())
}

pub(super) fn run(args: &NetworkArgs) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let paint = Paint::for_stdout();
    let title = |text: &str| output::print(&format!("\n{}\n", paint.bold(text)));
    let began = Instant::now();

    title(&format!("1. A cluster of {} nodes, each with a switch and an OVN zone of its own", args.nodes))?;
    let lab = ground::up(|options| {
        options.nodes = args.nodes;
        options.families = Families::from(args.family);
    })?;
    output::print(&format!("  ready after {:.1} s\n", began.elapsed().as_secs_f32()))?;

    title("2. Pods and Services on every node")?;
    let sites = runtime.block_on(ground::sites(&lab))?;

    let report = measured(args, &lab, &sites, &title)?;

    title("4. What was measured")?;
    output::print(&report.to_string())?;
    lab.down()?;
    let totals = &report.totals;
    output::print(&format!(
        "\nWhat you saw\n\
         \x20 packets    {} sent on {} flows, {} lost, longest gap {:.0} ms\n\
         \x20 killed     {}\n\
         \x20 took       {:.0} s\n\
         \x20 left over  nothing: the lab's processes, namespaces and files are gone\n",
        totals.sent,
        totals.flows,
        totals.lost,
        totals.longest_gap_ms,
        KILLS.map(told).join("; "),
        began.elapsed().as_secs_f32(),
    ))?;
    ground::nothing_lost(&report)
}

fn measured(
    args: &NetworkArgs,
    lab: &Lab,
    sites: &Sites,
    title: &dyn Fn(&str) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let flows = paths::flows(sites, &Selection::default());
    output::print(&paths::draw(sites, &flows))?;
    ground::answered(&flows)?;

    title("3. Numbered full-size packets on every kind of path, while its keepers are killed")?;
    let meter = Meter::start(flows).context("starting the meter")?;
    std::thread::sleep(args.calm);
    say("nothing was killed", &meter)?;
    for part in KILLS {
        ground::kill(lab, part)?;
        std::thread::sleep(AFTERWARDS);
        say(&told(part), &meter)?;
    }
    lab.wait_ready(PATIENCE, |_| {})?;
    say("everything is ready again", &meter)?;
    Ok(meter.finish(Duration::from_secs(3)).context("ending the meter")?)
}

fn say(what: &str, meter: &Running) -> Result<(), Failure> {
    let report = meter.snapshot().context("asking the meter")?;
    let totals = report.totals;
    output::print(&format!(
        "  {:>4} s  {what:<36} {:>7} sent  {} lost  longest gap {:.0} ms\n",
        report.elapsed_ms / 1000,
        totals.sent,
        totals.lost,
        totals.longest_gap_ms
    ))
}
