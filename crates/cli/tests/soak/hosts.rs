//! Hosts as they are: whatever configures the network and whatever the uplink is made of, a change of MTU is in force
//! from the next boot on and outlives the service, the power and the change itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures::FutureExt;

use crate::Scenario;
use crate::kernel_lab;
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "hosts",
    shows: "A virtual machine with Debian's kernel goes from 1500 to 9000 by `netferry host-init`, told no more than \
            `TARGET_MTU`: under every service that configures a host's network, with cards, VLANs, bonds and bridges, \
            through restarts of the service and loss of power, and stays there when it is told nothing any more.",
    run: |notes| async { run(notes) }.boxed_local(),
};

const SCRIPT: &str = include_str!("hosts.sh");
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/host");
/// Of an emulated processor, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(5400);

/// What is to be seen after each step.
const STEPS: [(&str, Shall); 6] = [
    ("before", Shall { links: "1500", routes: Some("-"), kept: "no" }),
    ("first-boot", Shall { links: "9000", routes: Some("1500"), kept: "yes" }),
    // By the service alone: host-init has not run yet.
    ("brought-up", Shall { links: "9000", routes: Some("-"), kept: "yes" }),
    ("second-boot", Shall { links: "9000", routes: Some("1500"), kept: "yes" }),
    // Some services write their routes anew. Where there is an agent, it holds them then.
    ("owner-restarted", Shall { links: "9000", routes: None, kept: "yes" }),
    ("after", Shall { links: "9000", routes: Some("-"), kept: "no" }),
];

struct Shall {
    /// What the uplink and every link it stands on carry.
    links: &'static str,
    /// What every route out of it may send; `-` where it has no size of its own.
    routes: Option<&'static str>,
    /// Whether the size before the change is kept.
    kept: &'static str,
}

/// What the script saw of one host after one step.
struct Seen<'s> {
    owner: &'s str,
    shape: &'s str,
    step: &'s str,
    values: BTreeMap<&'s str, &'s str>,
}

fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let mut machine = kernel_lab::machine(place.path())?.with_cards(3).restarting();
    for unit in ["netferry-files.service", "netferry-host-init.service"] {
        machine = machine.with(format!("/etc/systemd/system/{unit}"), Path::new(UNITS).join(unit));
    }
    let said = machine.run(SCRIPT, PATIENCE)?;
    let all: Vec<Seen<'_>> = said.lines().filter_map(Seen::read).collect();
    notes.line("| who configures it | uplink | what every link carries, in order | what routes may send |");
    notes.line("| --- | --- | --- | --- |");
    for host in all.chunk_by(|a, b| (a.owner, a.shape) == (b.owner, b.shape)) {
        let [first, ..] = host else { continue };
        let column = |name: &str| host.iter().map(|seen| seen.shown(name)).collect::<Vec<_>>().join(" → ");
        notes.line(format!(
            "| {} | {} | {} | {} |",
            first.owner,
            first.shape,
            column("links"),
            column("routes")
        ));
        for problem in host.iter().filter_map(Seen::problem) {
            notes.problem(problem);
        }
    }
    notes.line("");
    notes.line(
        "In order: before; the first boot that is told; what the service alone brings up at the next boot, before \
         host-init; that boot; the service restarted, whose routes an agent would hold; a boot that is told nothing any \
         more. Where power was cut, without the two of the service alone. Links are the uplink and all it stands on.",
    );
    for (owner, shape, steps) in EXPECTED {
        let seen = all.iter().filter(|seen| (seen.owner, seen.shape) == (*owner, *shape)).count();
        if seen != *steps {
            notes.problem(format!("{owner}, {shape}: {seen} of {steps} steps were seen"));
        }
    }
    Ok(())
}

/// How many steps are to be seen of each host.
const EXPECTED: &[(&str, &str, usize)] = &[
    ("NetworkManager", "card", 6),
    ("NetworkManager", "vlan", 6),
    ("NetworkManager", "bond", 6),
    ("NetworkManager", "vlan-on-bond", 6),
    ("NetworkManager", "bridge", 6),
    ("systemd-networkd", "card", 6),
    ("systemd-networkd", "vlan", 6),
    ("systemd-networkd", "bond", 6),
    ("systemd-networkd", "vlan-on-bond", 6),
    ("systemd-networkd", "bridge", 6),
    ("ifupdown", "card", 6),
    ("netplan", "card", 6),
    ("netplan", "vlan", 6),
    ("NetworkManager", "power-cut", 4),
    ("systemd-networkd", "power-cut", 4),
];

impl<'s> Seen<'s> {
    fn read(line: &'s str) -> Option<Seen<'s>> {
        let mut words = line.strip_prefix("seen ")?.split_whitespace();
        let (owner, shape, step) = (words.next()?, words.next()?, words.next()?);
        Some(Seen { owner, shape, step, values: words.filter_map(|word| word.split_once('=')).collect() })
    }

    fn value(&self, name: &str) -> &'s str {
        self.values.get(name).copied().unwrap_or_default()
    }

    /// The sizes alone, each once.
    fn shown(&self, name: &str) -> String {
        let sizes = self.value(name).split(',').map(|one| one.rsplit(':').next().unwrap_or(one));
        sizes.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    }

    fn problem(&self) -> Option<String> {
        let Seen { owner, shape, step, values } = self;
        let Some((_, shall)) = STEPS.iter().find(|(name, _)| name == step) else {
            return Some(format!("{owner}, {shape}: nobody knows the step {step}"));
        };
        let is = self.shown("links") == shall.links
            && shall.routes.is_none_or(|routes| self.shown("routes") == routes)
            && self.value("kept") == shall.kept;
        (!is).then(|| format!("{owner}, {shape}, {step}: {values:?}"))
    }
}
