//! One machine under a real service manager, with a kernel of its own: installed, rebooted, uninstalled.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::FutureExt;

use crate::Scenario;
use crate::kernel_lab::machine;
use crate::notes::Notes;

pub(crate) const SYSTEMD: Scenario = Scenario {
    name: "solo-systemd",
    shows: "A virtual machine with Debian's kernel, systemd and its own OVN running: `netferry solo install`, a restart, a \
            reboot and a power cut without the API, `netferry solo uninstall`. Its uplink has a router that advertises \
            itself; the host is what it was, and its own packets notice nothing.",
    run: |notes| async { run(notes, include_str!("systemd.sh"), &[]) }.boxed_local(),
};

pub(crate) const NO_IPV6: Scenario = Scenario {
    name: "solo-no-ipv6",
    shows: "The same machine with a kernel that was told to have no IPv6 (`ipv6.disable=1`) and a network of both families: \
            a condition says so, and everything of IPv4 works.",
    run: |notes| async { run(notes, include_str!("no_ipv6.sh"), &["ipv6.disable=1"]) }.boxed_local(),
};

const FUNCTIONS: &str = include_str!("functions.sh");
/// Of an emulated processor that boots three times, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

fn run(notes: &mut Notes, script: &str, words: &[&str]) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let mut machine = machine(place.path())?.with("/opt/netferry/kubectl", kubectl()?);
    for word in words {
        machine = machine.told(word);
    }
    let said = machine.with_uplink().restarting().run(&format!("{FUNCTIONS}\n{script}"), PATIENCE)?;
    notes.line("| what | what came of it |");
    notes.line("| --- | --- |");
    let rows: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("row ")).collect();
    ensure!(!rows.is_empty(), "nothing came of it:\n{said}");
    rows.into_iter().for_each(|row| notes.line(row));
    for problem in said.lines().filter_map(|line| line.strip_prefix("problem ")) {
        notes.problem(problem);
    }
    Ok(())
}

/// What every test types with.
fn kubectl() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join("kubectl")).find(|file| file.exists());
    found.context("kubectl is not in PATH; scripts/setup installs it")
}
