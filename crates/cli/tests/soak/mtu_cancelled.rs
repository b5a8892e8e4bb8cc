//! Somebody makes the second edit too early, and then thinks better of the whole change.

use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use netferry_lab::escort::Escort;
use netferry_lab::paths::{Selection, in_lab};
use netferry_lab::{Lab, Name, Options};

use crate::Scenario;
use crate::bench::{PATIENCE, options, up};
use crate::change::{LARGE, SMALL, begin, cancel, finish, held, phase, said, with_room, wrong};
use crate::clusters::kube;
use crate::mtu::{head, rows};
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "mtu-cancelled",
    shows: "With one node of three in phase one the second edit is made: it is held, and the missing nodes are named. Then \
            the change is cancelled: all are back at the old sizes, and nothing is lost on paths of nodes that stay.",
    run: |notes| run(notes, options(3)).boxed_local(),
};

pub(crate) const KUBE: Scenario = Scenario {
    name: "mtu-cancelled-kube",
    shows: "The same under the real control plane.",
    run: |notes| async { run(notes, kube(options(3))?).await }.boxed_local(),
};

async fn run(notes: &mut Notes, options: Options) -> anyhow::Result<()> {
    let selection = Selection::while_the_mtu_changes(options.families, in_lab::datapath()?);
    let lab = up(&with_room(options));
    let sites = in_lab::sites(&lab, PATIENCE, |_| {}).await?;
    let mut escort = Escort::start(&lab, sites, &selection, PATIENCE)?;
    escort.lap("phase one, ended too early")?;
    begin(&lab, SMALL, LARGE, false);
    let mut restarts = Vec::new();
    take_to(&lab, &mut escort, "Held", |escort, node| {
        // The next ones are left asking: the second edit must find nodes missing.
        if !restarts.is_empty() {
            std::thread::sleep(Duration::from_millis(200));
            return Ok(());
        }
        escort.restart(node)?;
        restarts.push(node.clone());
        finish(&lab, LARGE);
        Ok(())
    })?;
    let waits = held(&lab);
    notes.line(format!("- held after {} restart: {waits}", restarts.len()));
    let missing = lab.status()?.nodes.into_iter().filter(|node| !restarts.contains(&node.name));
    for node in missing.filter(|node| !waits.contains(node.name.as_str())) {
        notes.problem(format!("it is not said that {} is missing: {waits}", node.name));
    }
    escort.lap("cancelled")?;
    cancel(&lab, SMALL);
    let mut back = 0;
    take_to(&lab, &mut escort, "AwaitingRemoval", |escort, node| {
        back += 1;
        escort.restart(node)
    })?;
    finish(&lab, SMALL);
    take_to(&lab, &mut escort, "Idle", |escort, node| escort.restart(node))?;
    notes.line(format!("- back after {back} more\n"));
    let (report, sites) = escort.finish()?;
    head(notes);
    rows(notes, &report);
    for problem in wrong(&lab, &sites, &report, SMALL)? {
        notes.problem(problem);
    }
    Ok(())
}

/// Lets `restart` see to every node that asks for it, until the change is there.
fn take_to<'l>(
    lab: &'l Lab,
    escort: &mut Escort<'l>,
    wanted: &str,
    restart: impl FnMut(&mut Escort<'l>, &Name) -> netferry_lab::Result<()>,
) -> anyhow::Result<()> {
    let done = escort.until(wanted, || Ok(phase(lab) == wanted), restart);
    done.with_context(|| format!("{wanted}: {}", said(lab)))
}
