//! `netferry demo mtu`: the MTU of a running cluster is raised and lowered again, nodes restarting one by one, and every
//! path is measured meanwhile.

use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::Args;
use kube::api::{Api, Patch, PatchParams};
use netferry_api::annotation::Annotation as _;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::{OperatorNetwork, SINGLETON};
use netferry_lab::escort::Escort;
use netferry_lab::meter::{Limits, Report};
use netferry_lab::paths::{Selection, in_lab};
use netferry_lab::{During, Families, Restarts};
use serde_json::json;
use tokio::runtime::Runtime;

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
#[command(after_help = "\
Exit codes: 0 nothing was lost on any path but those of the node that restarted, 1 something was.

Examples:
  netferry demo mtu
  netferry demo mtu --family dual")]
pub(super) struct MtuArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u16,
    /// Which families nodes, pods and Services have
    #[arg(long, value_enum, default_value_t = lab::Family::V4)]
    family: lab::Family,
}

pub(super) fn run(args: &MtuArgs) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let paint = Paint::for_stdout();
    let title = |text: &str| output::print(&format!("\n{}\n", paint.bold(text)));
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

    let mut escort = Escort::start(&lab, sites, &Selection::default(), PATIENCE)?;
    let client = runtime.block_on(in_lab::client(&lab.state().kubeconfig()))?;
    let change = Change { runtime: &runtime, networks: Api::all(client) };
    for (number, (from, to)) in [(SMALL, LARGE), (LARGE, SMALL)].into_iter().enumerate() {
        title(&format!("{}. {} to {}, unattended", number + 2, from.pods, to.pods))?;
        change.ask(from, to)?;
        change.follow(&mut escort)?;
    }

    title("4. What was measured")?;
    let report = escort.finish()?;
    output::print(&report.to_string())?;
    lab.down()?;
    told(&report, began)
}

fn told(report: &Report, began: Instant) -> Result<(), Failure> {
    let totals = &report.totals;
    output::print(&format!(
        "\nWhat you saw\n\
         \x20 packets    {} sent on {} flows, {} lost, longest gap {:.0} ms\n\
         \x20 took       {:.0} s\n\
         \x20 left over  nothing: the lab's processes, namespaces and files are gone\n",
        totals.sent,
        totals.flows,
        totals.lost,
        totals.longest_gap_ms,
        began.elapsed().as_secs_f32(),
    ))?;
    match report.verdict(Limits::NONE_LOST).problems.first() {
        None => Ok(()),
        Some(problem) => Err(Failure::Failed(anyhow!("{problem}"))),
    }
}

/// The change, as the operator's `Network` asks for it and tells of it.
struct Change<'r> {
    runtime: &'r Runtime,
    networks: Api<OperatorNetwork>,
}

impl Change<'_> {
    /// Asks for a change that finishes by itself.
    fn ask(&self, from: Sizes, to: Sizes) -> Result<(), Failure> {
        let patch = json!({
            "metadata": {"annotations": {MtuUnattended::KEY: "true"}},
            "spec": {"migration": {"mtu": {
                "network": {"from": from.pods, "to": to.pods},
                "machine": {"to": to.host},
            }}},
        });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.networks.patch(SINGLETON, &params, &patch);
        self.runtime.block_on(patched).context("asking for the change")?;
        Ok(())
    }

    /// Lets nodes restart as they ask, and tells how it stands, until the change has ended.
    fn follow(&self, escort: &mut Escort<'_>) -> Result<(), Failure> {
        let mut ledger = Ledger::open(&escort.meter().snapshot().context("asking the meter")?);
        for (reason, name) in [("PhaseTwo", "phase one"), ("Idle", "phase two")] {
            let mut begun = false;
            let holds = || {
                let now = self.phase()?;
                // The operator has not taken the edit in before it says something else than at rest.
                begun |= now != "Idle";
                Ok(begun && (now == reason || now == "Idle"))
            };
            let news = |node: &netferry_lab::Name, meter: &netferry_lab::meter::Running| {
                let report = meter.snapshot().during("asking the meter")?;
                let line = format!("{name}: {node} restarted");
                output::print(&ledger.row(&line, &report)).map_err(|error| {
                    netferry_lab::LabError::failed("telling how it stands", format!("{error:?}"))
                })
            };
            escort.until(&format!("the end of {name}"), holds, news)?;
            ledger = Ledger::open(&escort.meter().snapshot().context("asking the meter")?);
        }
        Ok(())
    }

    /// Where it is, by the operator's word.
    fn phase(&self) -> netferry_lab::Result<String> {
        let network =
            self.runtime.block_on(self.networks.get(SINGLETON)).during("asking where the change is")?;
        let conditions = network.status.map(|status| status.conditions).unwrap_or_default();
        let ours = conditions.into_iter().find(|one| one.type_ == MtuConditionType::InProgress.as_str());
        Ok(ours.and_then(|one| one.reason).unwrap_or_default())
    }
}

/// What was sent and lost since some moment.
struct Ledger {
    sent: u64,
    lost: u64,
}

impl Ledger {
    fn open(report: &Report) -> Ledger {
        Ledger { sent: report.totals.sent, lost: report.totals.lost }
    }

    fn row(&self, what: &str, report: &Report) -> String {
        let Report { totals, elapsed_ms, .. } = report;
        format!(
            "  {:>4} s  {what:<36} {:>7} sent  {} lost  longest gap {:.0} ms\n",
            elapsed_ms / 1000,
            totals.sent - self.sent,
            totals.lost - self.lost,
            totals.longest_gap_ms
        )
    }
}
