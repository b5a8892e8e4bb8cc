//! `netferry demo single-node`: the network of one machine, measured while its keepers are killed and its uplink
//! changes under it.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use netferry_lab::kills::Part;
use netferry_lab::meter::{Meter, Report, Running, Totals};
use netferry_lab::paths::{self, Kind, Selection, Sites};
use netferry_lab::{Families, Lab, Name};

use super::ground::{self, AFTERWARDS, KILLS, PATIENCE};
use crate::exit::Failure;
use crate::lab;
use crate::line::Line;
use crate::output::{self, Paint};
use crate::time;

/// Paths that need no uplink.
const IN_THE_BOX: [Kind; 5] =
    [Kind::PodPodSameNode, Kind::HostPod, Kind::PodClusterIp, Kind::HostClusterIp, Kind::Hairpin];
/// What happens to the uplink.
const CHANGES: [(&str, &str); 3] = [
    (
        "the uplink has another address",
        "ip addr flush dev eth0 scope global && ip addr add 172.30.9.9/16 dev eth0 && \
         ip route add default via 172.30.0.1",
    ),
    ("the uplink is gone", "ip link set eth0 down"),
    ("the uplink is back", "ip link set eth0 up && ip route add default via 172.30.0.1"),
];

/// Measure the network of one machine while its keepers are killed and its uplink changes
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 nothing was lost inside the machine and the way out came back, 1 it was not so.

Examples:
  netferry demo single-node
  netferry demo single-node --for 30s")]
pub(super) struct SingleNodeArgs {
    /// How long to measure before anything happens
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = time::read)]
    calm: Duration,
}

pub(super) fn run(args: &SingleNodeArgs) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let paint = Paint::for_stdout();
    let title = |text: &str| output::print(&format!("\n{}\n", paint.bold(text)));
    let began = Instant::now();

    title("1. One machine: an uplink that nobody touches, agent and operator in one process")?;
    let lab = ground::up(|options| {
        (options.nodes, options.single_node, options.families) = (1, true, Families::V4);
    })?;
    output::print(&format!("  ready after {:.1} s\n", began.elapsed().as_secs_f32()))?;

    title("2. Pods and Services")?;
    let sites = runtime.block_on(ground::sites(&lab))?;
    let report = measured(args, &lab, &sites, &title)?;

    title("4. What was measured")?;
    output::print(&report.to_string())?;
    lab.down()?;
    let (out, inside) = apart(&report);
    output::print(&format!(
        "\nWhat you saw\n\
         \x20 in the machine  {} sent on {} flows, {} lost\n\
         \x20 to the outside  {} sent, {} lost: all while there was no uplink, or no address on it\n\
         \x20 killed          {}\n\
         \x20 took            {:.0} s\n\
         \x20 left over       nothing: the lab's processes, namespaces and files are gone\n",
        inside.sent,
        inside.flows,
        inside.lost,
        out.sent,
        out.lost,
        KILLS.map(Part::word).join(", "),
        began.elapsed().as_secs_f32(),
    ))?;
    let in_the_machine = Report {
        flows: report.flows.iter().filter(|flow| flow.kind != Kind::PodOutside.word()).cloned().collect(),
        ..report
    };
    ground::nothing_lost(&in_the_machine)
}

fn measured(
    args: &SingleNodeArgs,
    lab: &Lab,
    sites: &Sites,
    title: &dyn Fn(&str) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let mut flows = paths::flows(sites, &Selection { kinds: IN_THE_BOX.into(), ..Selection::default() });
    // Connections end with the address they are from; datagrams go on from another.
    let out = Selection { kinds: [Kind::PodOutside].into(), tcp: false, icmp: None, ..Selection::default() };
    flows.extend(paths::flows(sites, &out));
    output::print(&paths::draw(sites, &flows))?;
    ground::answered(&flows)?;

    title("3. Numbered full-size packets, while its keepers are killed and its uplink changes")?;
    let meter = Meter::start(flows).context("starting the meter")?;
    std::thread::sleep(args.calm);
    say("nothing happened", &meter)?;
    let nodes: Vec<Name> = lab.status()?.nodes.into_iter().map(|node| node.name).collect();
    for part in KILLS {
        ground::kill(lab, part)?;
        std::thread::sleep(AFTERWARDS);
        say(&format!("{}, kill -9", part.word()), &meter)?;
    }
    for (what, script) in CHANGES {
        for node in &nodes {
            inside(lab, node.as_str(), script)?;
        }
        std::thread::sleep(AFTERWARDS);
        say(what, &meter)?;
    }
    let mut line = Line::new();
    lab.wait_ready(PATIENCE, |waiting| lab::progress(&mut line, waiting))?;
    line.clear();
    say("everything is ready again", &meter)?;
    Ok(meter.finish(Duration::from_secs(3)).context("ending the meter")?)
}

/// What went to the outside, and what stayed in the machine.
fn apart(report: &Report) -> (Totals, Totals) {
    let (out, inside): (Vec<_>, Vec<_>) =
        report.flows.iter().partition(|flow| flow.kind == Kind::PodOutside.word());
    (Report::sum(out), Report::sum(inside))
}

/// Does something on a node, as its administrator would.
fn inside(lab: &Lab, node: &str, script: &str) -> Result<(), Failure> {
    let done = lab.exec(node, "sh", &["-c", script])?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Failure::Failed(anyhow!("{script:?} on {node}: {}", said.trim())))
}

fn say(what: &str, meter: &Running) -> Result<(), Failure> {
    let report = meter.snapshot().context("asking the meter")?;
    let (out, inside) = apart(&report);
    output::print(&format!(
        "  {:>4} s  {what:<32} in the machine {:>6} sent {} lost, to the outside {:>5} sent {} lost\n",
        report.elapsed_ms / 1000,
        inside.sent,
        inside.lost,
        out.sent,
        out.lost
    ))
}
