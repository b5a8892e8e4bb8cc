//! The lab a demonstration stands on.

use std::time::Duration;

use anyhow::Context;
use netferry_lab::paths::{Sites, in_lab};
use netferry_lab::{Lab, Lifetime, Options};

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
