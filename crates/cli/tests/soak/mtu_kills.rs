//! Everything that takes part in a change of MTU is killed in the middle of it.

use futures::FutureExt;
use netferry_lab::escort::Escort;
use netferry_lab::kills::Part;
use netferry_lab::paths::{Selection, in_lab};
use netferry_lab::{Lab, LabError, Name, Options, Result};

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
    let selection = Selection::while_the_mtu_changes(options.families);
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
                struck.push(phase.to_owned());
                strike(victim, &lab, &nodes, escort, node)
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

/// Ends it while a node is seen through its restart.
fn strike(victim: Victim, lab: &Lab, nodes: &[Name], escort: &mut Escort<'_>, node: &Name) -> Result<()> {
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
            Ok(())
        }
        Victim::HostInit => escort.restart_by(node, |lab, node| {
            lab.reboot(node)?;
            kill_host_init(lab, node)
        }),
        Victim::Power => escort.restart_by(node, Lab::power_cut),
    }
}

/// Waits inside a booting node until `host-init` runs there, and kills it.
fn kill_host_init(lab: &Lab, node: &str) -> Result<()> {
    let script = "for _ in $(seq 5000); do \
                  pid=$(pgrep -f '[n]etferry host-init$') && kill -9 $pid && exit 0; sleep 0.001; done; exit 1";
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match lab.exec(node, "sh", &["-c", script]) {
            Ok(done) if done.status.success() => return Ok(()),
            // The node is not there yet, or went while we looked.
            _ if std::time::Instant::now() < deadline => {
                std::thread::sleep(std::time::Duration::from_millis(5))
            }
            Err(error) => return Err(error),
            Ok(_) => return Err(LabError::failed("killing host-init", format!("it was not seen on {node}"))),
        }
    }
}
