//! The switch's database is killed where the kernel forwards, under a service manager.
//!
//! Labs use the kernel they run on, which may have no datapath for the switch; this brings one.

use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use netferry_testkit::vm::Machine;

use crate::Scenario;
use crate::notes::Notes;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kernel-datapath",
    shows: "A virtual machine with Debian's kernel, systemd and Open vSwitch: where its units let the switch live, packets \
            between two namespaces do not notice that the switch's database is killed.",
    run: |notes| async { run(notes) }.boxed_local(),
};

const SCRIPT: &str = include_str!("kernel_datapath.sh");
/// Of an emulated processor, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(1800);

fn run(notes: &mut Notes) -> anyhow::Result<()> {
    let said = Machine::new()?.run(SCRIPT, PATIENCE)?;
    let shipped = Counts::of(&said, "shipped")?;
    let apart = Counts::of(&said, "apart")?;
    notes.line("| units | the database killed | the switch restarted with it | sent | lost |");
    notes.line("| --- | --- | --- | --- | --- |");
    // A switch that is restarted costs what its restart takes; here that is seconds.
    row(notes, "as Debian ships them", &shipped);
    row(notes, "the switch's wants its database's instead of requiring it", &apart);
    if apart.kills == 0 {
        notes.problem("the packets were over before the database was back");
    }
    if apart.restarts > 0 || apart.received != apart.sent {
        notes.problem("packets noticed that the database was killed");
    }
    Ok(())
}

fn row(notes: &mut Notes, units: &str, counts: &Counts) {
    let Counts { kills, restarts, sent, received } = counts;
    notes.line(format!("| {units} | {kills} | {restarts} | {sent} | {} |", sent.saturating_sub(*received)));
}

/// What the script counted under some units.
struct Counts {
    kills: u64,
    restarts: u64,
    sent: u64,
    received: u64,
}

impl Counts {
    fn of(said: &str, units: &str) -> anyhow::Result<Counts> {
        let line = said.lines().find_map(|line| line.strip_prefix(units)).unwrap_or_default();
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let &[kills, restarts, sent, received] = numbers.as_slice() else {
            return Err(anyhow::anyhow!("{said}"))
                .with_context(|| format!("nothing was counted under {units}"));
        };
        Ok(Counts { kills, restarts, sent, received })
    }
}
