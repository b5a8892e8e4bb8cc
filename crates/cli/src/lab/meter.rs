//! Measuring a lab's paths.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use netferry_lab::Lab;
use netferry_lab::meter::{Flow, Limits, Meter, Report, Running, Sizes, Verdict};
use netferry_lab::paths::{self, Kind, Selection, Sites, in_lab};
use serde::Serialize;

use crate::args::Format;
use crate::exit::Failure;
use crate::line::Line;
use crate::output;
use crate::time;

/// Measure every kind of path of a lab: numbered full-size packets, counted one by one
#[derive(Debug, Args)]
#[command(
    long_about = "\
Measure every kind of path of a lab: numbered full-size packets, counted one by one.

Raises two pods and a Service on every node (namespace netferry-meter), waits until each flow is answered, then sends
don't-fragment UDP, TCP streams and ICMP echo on every kind of path, and reports for each flow what was sent, lost,
duplicated and reordered, the longest gap and the largest packet that passed. LOST reads `3>1<` where three were lost on
the way there and one on the way back. Fails if anything is lost that --allow-lost does not allow.",
    after_help = "\
Examples:
  netferry lab meter
  netferry lab meter --for 60s --kinds pod-pod-across,pod-clusterip --rate 100
  netferry lab meter --for 5m --max-gap 2s -o json > report.json"
)]
pub(crate) struct MeterArgs {
    /// How long to measure; an interrupt ends it earlier, with the report so far
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = time::read)]
    length: Duration,
    /// Packets per second of each flow; without it, 2000 among all and at most 100 each
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: Option<u32>,
    /// Kinds of path; without it, all
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Protocols; without it, all
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',', value_enum)]
    protocols: Vec<Protocol>,
    /// Families; without it, those the lab has
    #[arg(long, value_name = "4|6", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(4..=6))]
    families: Vec<u8>,
    /// How large packets are
    #[arg(long, value_enum, default_value_t = Size::Full)]
    sizes: Size,
    /// How many packets may be lost
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    allow_lost: u64,
    /// How long a gap may be
    #[arg(long, value_name = "TIME", value_parser = time::read)]
    max_gap: Option<Duration>,
    /// How long to wait until every flow is answered once
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = time::read)]
    wait: Duration,
    /// Draw the lab first
    #[arg(long)]
    draw: bool,
    /// Leave the pods and Services there, for the next time
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Udp,
    Tcp,
    Icmp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    /// As large as the path takes
    Full,
    /// Large, small, odd and middling ones in turn
    Mixed,
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    verdict: Verdict,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) fn run(lab: &Lab, args: &MeterArgs, format: Format) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let mut line = Line::new();
    let sites = runtime.block_on(in_lab::sites(lab, args.wait, |missing| {
        let more = if missing.len() > 1 { format!(" and {} more", missing.len() - 1) } else { String::new() };
        line.show(&format!("waiting for {}{more}", missing.first().map_or("", String::as_str)));
    }));
    let measured = sites.map_err(Failure::from).and_then(|sites| measure(&runtime, args, &sites, &mut line));
    line.clear();
    let lowered = if args.keep { Ok(()) } else { runtime.block_on(in_lab::lower(lab)) };
    let report = measured?;
    lowered?;
    let verdict = report.verdict(Limits { lost: args.allow_lost, gap: args.max_gap });
    let answer = Answer { verdict: verdict.clone(), report: &report };
    output::answer(format, &answer, |_| report.to_string())?;
    if verdict.passed {
        return Ok(());
    }
    let first = verdict.problems.first().cloned().unwrap_or_default();
    let more = if verdict.problems.len() > 1 {
        format!(" and {} more", verdict.problems.len() - 1)
    } else {
        String::new()
    };
    Err(Failure::Failed(anyhow!("{first}{more}")))
}

fn measure(
    runtime: &tokio::runtime::Runtime,
    args: &MeterArgs,
    sites: &Sites,
    line: &mut Line,
) -> Result<Report, Failure> {
    let flows = paths::flows(sites, &args.selection());
    if flows.is_empty() {
        return Err(Failure::Refused(anyhow!(
            "the lab has no path of the kinds, protocols and families asked for"
        )));
    }
    if args.draw {
        line.clear();
        eprint!("{}", paths::draw(sites, &flows));
    }
    let silent = paths::preflight(&flows, args.wait, |report| {
        let silent = report.flows.iter().filter(|flow| flow.directions().any(|d| d.received == 0));
        let names: Vec<&str> = silent.map(|flow| flow.name.as_str()).collect();
        if let Some(first) = names.first() {
            line.show(&format!(
                "waiting for {} of {} flows to be answered: {first}",
                names.len(),
                flows.len()
            ));
        }
    })
    .context("looking whether every flow is answered")?;
    if !silent.is_empty() {
        line.clear();
        for one in &silent {
            eprintln!("no answer: {}: {}", one.flow, one.why);
        }
        return Err(Failure::TimedOut(anyhow!(
            "{} of {} flows were not answered within {} s",
            silent.len(),
            flows.len(),
            args.wait.as_secs()
        )));
    }
    runtime.block_on(watch(flows, args.length, line))
}

/// Runs a meter and shows how it stands, until the time is over or somebody interrupts.
async fn watch(flows: Vec<Flow>, length: Duration, line: &mut Line) -> Result<Report, Failure> {
    let count = flows.len();
    let meter: Running = Meter::start(flows).context("starting the meter")?;
    let end = Instant::now() + length;
    let mut interrupted = Box::pin(tokio::signal::ctrl_c());
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        tokio::select! {
            () = tokio::time::sleep(left.min(Duration::from_secs(1))) => {}
            _ = &mut interrupted => break,
        }
        let so_far = meter.snapshot().context("asking the meter")?;
        let totals = &so_far.totals;
        line.show(&format!(
            "{count} flows, {} s: {} sent, {} lost, longest gap {:.0} ms",
            so_far.elapsed_ms / 1000,
            totals.sent,
            totals.lost,
            totals.longest_gap_ms
        ));
    }
    Ok(meter.finish(Duration::from_secs(3)).context("ending the meter")?)
}

impl MeterArgs {
    fn selection(&self) -> Selection {
        let wants = |protocol| self.protocols.is_empty() || self.protocols.contains(&protocol);
        let family = |number| self.families.is_empty() || self.families.contains(&number);
        let sizes = || match self.sizes {
            Size::Full => Sizes::Full,
            Size::Mixed => Sizes::mixed(),
        };
        let kinds: BTreeSet<Kind> =
            if self.kinds.is_empty() { Kind::ALL.into() } else { self.kinds.iter().copied().collect() };
        Selection {
            kinds,
            v4: family(4),
            v6: family(6),
            not_v6: BTreeSet::new(),
            udp: wants(Protocol::Udp).then(sizes),
            tcp: wants(Protocol::Tcp),
            icmp: wants(Protocol::Icmp).then(sizes),
            rate: self.rate,
        }
    }
}
