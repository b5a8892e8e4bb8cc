//! An underlay that does not carry what is asked of it.

use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use netferry_lab::escort::Escort;
use netferry_lab::meter::{Limits, Report};
use netferry_lab::paths::in_lab;
use netferry_lab::{Lab, Options, Restarts};

use crate::Scenario;
use crate::bench::{PATIENCE, options};
use crate::change::{LARGE, SMALL, begin, between_nodes, findings_of_trial, phase, said, wrong};
use crate::clusters::kube;
use crate::kubectl::kubectl;
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "underlay",
    shows: "Hosts are asked to send 9000 over a wire that carries 1500. Nodes find out as soon as two of them could, the \
            operator names them and takes the change back, and no packet is lost. Asked by `--probe-underlay`, they find out \
            without a restart, and no packet is lost either.",
    run: |notes| run(notes, options(3)).boxed_local(),
};

pub(crate) const KUBE: Scenario = Scenario {
    name: "underlay-kube",
    shows: "The same under the real control plane.",
    run: |notes| async { run(notes, kube(options(3))?).await }.boxed_local(),
};

async fn run(notes: &mut Notes, options: Options) -> anyhow::Result<()> {
    let lab = Lab::up(&Options { restarts: Restarts::WhenTold, ..options })?;
    lab.wait_ready(PATIENCE, |_| {})?;
    let sites = in_lab::sites(&lab, PATIENCE, |_| {}).await.context("pods and Services")?;
    let mut escort = Escort::start(&lab, sites, &between_nodes(), PATIENCE)?;
    begin(&lab, SMALL, LARGE, true);
    let mut restarts: Vec<String> = Vec::new();
    for (what, wanted) in [("it turns around", "Returning"), ("it is back", "Idle")] {
        let holds = || Ok(phase(&lab) == wanted);
        let done = escort.until(what, holds, |escort, node| {
            // The third is left waiting until the change has turned around: it must find its way back from there too.
            if wanted == "Returning" && restarts.len() == 2 {
                std::thread::sleep(Duration::from_millis(200));
                return Ok(());
            }
            restarts.push(node.to_string());
            escort.restart(node)
        });
        done.with_context(|| format!("{what}: {}", said(&lab)))?;
        notes.line(format!("- {what} after {} restarts", restarts.len()));
        if restarts.len() < 2 {
            notes.problem(
                "it did not turn around by what two nodes found out that carry the new size".to_owned(),
            );
        }
    }
    let told = kubectl(&lab, &["get", "events.events.k8s.io", "-A", "-o", "jsonpath={.items[*].note}"]);
    let named = told.split("packets are lost ").nth(1).map(|rest| rest.split(')').next().unwrap_or_default());
    match named {
        // The first two are those that carry the new size, and what passes between them is what the wire carries.
        Some(way) if names(way, restarts.get(..2).unwrap_or_default()) => {
            notes.line(format!("- named: `{way})`"))
        }
        Some(way) => notes.problem(format!("{way}) is named, and {restarts:?} restarted")),
        None => notes.problem(format!("no Event names the nodes: {told}")),
    }
    let (report, sites) = escort.finish()?;
    judge(notes, &report);
    let wrong = wrong(&lab, &sites, &report, SMALL)?;
    if wrong.is_empty() {
        notes.line(format!(
            "- every path carries {} between pods and {} between hosts",
            SMALL.pods, SMALL.host
        ));
    }
    wrong.iter().for_each(|problem| notes.problem(format!("after it turned around: {problem}")));
    let escort = Escort::start(&lab, sites, &between_nodes(), PATIENCE)?;
    let findings = findings_of_trial(&lab);
    notes.line(format!("- tried without a change (`--probe-underlay`): {}", findings.join(", ")));
    if findings.len() != 6 || findings.iter().any(|finding| !finding.starts_with("Underlay/")) {
        notes.problem("not every way between the nodes was found too narrow".to_owned());
    }
    judge(notes, &escort.finish()?.0);
    Ok(())
}

/// Whether the way is one between these two, too narrow above what hosts come from.
fn names(way: &str, nodes: &[String]) -> bool {
    let [one, other] = nodes else { return false };
    let between = |from: &String, to: &String| way.starts_with(&format!("from {from} to {to} "));
    (between(one, other) || between(other, one)) && way.contains(&format!("all above {}", SMALL.host))
}

fn judge(notes: &mut Notes, report: &Report) {
    let (sent, lost) = (report.totals.sent, report.totals.lost);
    notes.line(format!("- {sent} packets sent meanwhile, {lost} lost"));
    if !report.verdict(Limits::NONE_LOST).passed {
        notes.problem(format!("packets were lost:\n{report}"));
    }
}
