//! Everything that takes part in a change of MTU is killed in the middle of it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures::FutureExt;
use netferry_lab::escort::Escort;
use netferry_lab::kills::Part;
use netferry_lab::paths::{Selection, in_lab};
use netferry_lab::{Lab, Name, Options, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Scenario;
use crate::bench::{PATIENCE, options, up};
use crate::change::{LARGE, SMALL, measured, with_room, wrong};
use crate::clusters::kube;
use crate::mtu::{head, rows};
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "mtu-kills",
    shows: "Up and down, and in each phase operator, API server, every agent, `host-init` of a node that boots, or a \
            node's power is ended: the change arrives, and nothing is lost on paths of nodes that stay.",
    run: |notes| run(notes, options(3)).boxed_local(),
};

pub(crate) const KUBE: Scenario = Scenario {
    name: "mtu-kills-kube",
    shows: "The same under the real control plane.",
    run: |notes| async { run(notes, kube(options(3))?).await }.boxed_local(),
};

/// How long a node that boots is watched for its `host-init`.
const BOOTS_WITHIN: Duration = Duration::from_secs(20);

/// What is ended, once in each phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Part(Part),
    /// While it makes a booting node ready.
    HostInit,
    /// Of a node that has written what it is to boot by, and asks for its restart.
    Power,
}

const VICTIMS: [(&str, Victim); 5] = [
    ("operator", Victim::Part(Part::Operator)),
    ("API server", Victim::Part(Part::ApiServer)),
    ("every agent", Victim::Part(Part::Agent)),
    ("host-init", Victim::HostInit),
    ("power", Victim::Power),
];

async fn run(notes: &mut Notes, options: Options) -> anyhow::Result<()> {
    let options = with_room(options);
    let selection = Selection::while_the_mtu_changes(options.families, in_lab::datapath()?);
    let lab = up(&options);
    let nodes: Vec<Name> = lab.status()?.nodes.into_iter().map(|node| node.name).collect();
    let mut sites = in_lab::sites(&lab, PATIENCE, |_| {}).await?;
    for (word, victim) in VICTIMS {
        notes.line(format!("\nKilled: {word}\n"));
        head(notes);
        for way in [(SMALL, LARGE), (LARGE, SMALL)] {
            let mut struck = Vec::new();
            let restart = |phase: &str, escort: &mut Escort<'_>, node: &Name| {
                if struck.iter().any(|done| done == phase) {
                    return escort.restart(node);
                }
                if strike(victim, &lab, &nodes, escort, node)? {
                    struck.push(phase.to_owned());
                }
                Ok(())
            };
            let (report, back) = measured(&lab, sites, &selection, way, restart)?;
            rows(notes, &report);
            if struck.len() != 2 {
                notes.problem(format!("{word}: killed in {struck:?} only"));
            }
            for problem in wrong(&lab, &back, &report, way.1)? {
                notes.problem(format!("{word}: {problem}"));
            }
            sites = back;
        }
    }
    Ok(())
}

/// Ends it while a node is seen through its restart; whether it was there to be ended.
fn strike(victim: Victim, lab: &Lab, nodes: &[Name], escort: &mut Escort<'_>, node: &Name) -> Result<bool> {
    match victim {
        Victim::Part(part) => {
            // Once when the node is about to go, and again when it is back.
            for round in 0..2 {
                let killed: Vec<_> =
                    part.places(nodes).iter().map(|place| part.kill(lab, place)).collect::<Result<_>>()?;
                for killed in killed {
                    killed.replaced(lab, PATIENCE)?;
                }
                if round == 0 {
                    escort.restart(node)?;
                }
            }
            Ok(true)
        }
        Victim::HostInit => {
            let mut caught = false;
            escort.restart_by(node, |lab, node| {
                caught = kill_host_init(lab, node)?;
                Ok(())
            })?;
            Ok(caught)
        }
        Victim::Power => escort.restart_by(node, Lab::power_cut).map(|()| true),
    }
}

/// Restarts a node and kills its `host-init`; whether it was caught. It runs for some hundredths of a second: on a busy
/// machine nobody may get to look meanwhile, and the next node to restart is tried.
fn kill_host_init(lab: &Lab, node: &str) -> Result<bool> {
    let runner = lab.state().runner()?.pid;
    let before: HashSet<i32> = processes().collect();
    lab.reboot(node)?;
    let deadline = Instant::now() + BOOTS_WITHIN;
    while Instant::now() < deadline {
        let found = processes()
            .filter(|pid| !before.contains(pid))
            .find(|pid| runs_host_init(*pid).unwrap_or(false) && is_below(*pid, runner).unwrap_or(false));
        if let Some(pid) = found {
            return Ok(kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}

fn processes() -> impl Iterator<Item = i32> {
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok())
}

/// Not with `--files`, which is another run of it: that one touches no link.
fn runs_host_init(pid: i32) -> Option<bool> {
    let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    Some(words.ends_with("\0host-init\0"))
}

/// Whether a process is one of this lab's and not of another on this machine.
fn is_below(pid: i32, ancestor: i32) -> Option<bool> {
    let mut pid = pid;
    while pid > 1 && pid != ancestor {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        pid = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    }
    Some(pid == ancestor)
}
