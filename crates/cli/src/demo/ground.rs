//! The lab a demonstration stands on.

use std::time::Duration;

use anyhow::{Context, anyhow};
use netferry_lab::kills::Part;
use netferry_lab::meter::{Flow, Limits, Report};
use netferry_lab::paths::{self, Sites, in_lab};
use netferry_lab::{Lab, Lifetime, Name, Options};

use crate::exit::Failure;
use crate::lab;
use crate::line::Line;

/// How long anything may take to be ready, on a busy machine too.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// A lab that is ready, and ends with us however we end.
pub(super) fn up(choose: impl FnOnce(&mut Options)) -> Result<Lab, Failure> {
    lab::missing_packages()?;
    let program = std::env::current_exe().context("finding our own program")?;
    let name = format!("demo-{}", std::process::id()).parse().expect("digits make a name");
    let mut options = Options::new(name, program.clone(), lab::beside(&program, "netferry-cni"));
    options.lifetime = Lifetime::OfCaller;
    choose(&mut options);
    let lab = Lab::up(&options)?;
    let mut line = Line::new();
    let ready = lab.wait_ready(PATIENCE, |waiting| lab::progress(&mut line, waiting));
    line.clear();
    ready?;
    Ok(lab)
}

/// After something was done the flows run on for this long before the next: gaps would be seen by then.
pub(super) const AFTERWARDS: Duration = Duration::from_secs(3);
/// What is killed while packets flow, everywhere at once.
pub(super) const KILLS: [Part; 3] = [Part::Agent, Part::Northd, Part::ApiServer];

/// Kills a part wherever it runs.
pub(super) fn kill(lab: &Lab, part: Part) -> Result<(), Failure> {
    let nodes: Vec<Name> = lab.status()?.nodes.into_iter().map(|node| node.name).collect();
    for place in part.places(&nodes) {
        part.kill(lab, &place)?;
    }
    Ok(())
}

/// Waits until every flow is answered.
pub(super) fn answered(flows: &[Flow]) -> Result<(), Failure> {
    let mut line = Line::new();
    let silent = paths::preflight(flows, PATIENCE, |_| line.show("  waiting for every flow to be answered"))
        .context("looking whether every flow is answered")?;
    line.clear();
    let Some(first) = silent.first() else { return Ok(()) };
    let more = silent.len() - 1;
    Err(Failure::TimedOut(anyhow!("{} and {more} more were not answered: {}", first.flow, first.why)))
}

/// Whether nothing was lost; a failure names the first flow that lost something.
pub(super) fn nothing_lost(report: &Report) -> Result<(), Failure> {
    match report.verdict(Limits::NONE_LOST).problems.first() {
        None => Ok(()),
        Some(problem) => Err(Failure::Failed(anyhow!("{problem}"))),
    }
}

/// Pods and Services on every node, ready to be measured.
pub(super) async fn sites(lab: &Lab) -> Result<Sites, Failure> {
    let mut line = Line::new();
    let sites = in_lab::sites(lab, PATIENCE, |missing| {
        let more = if missing.len() > 1 { format!(" and {} more", missing.len() - 1) } else { String::new() };
        line.show(&format!("  waiting for {}{more}", missing.first().map_or("", String::as_str)));
    })
    .await;
    line.clear();
    Ok(sites?)
}
