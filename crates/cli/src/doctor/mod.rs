//! `netferry doctor`: what this machine has and lacks, and the command that mends each lack.
//!
//! Gathering and judging are apart: every module reads what it needs through [`host::Host`], which can
//! stand on a directory instead of `/`, and returns [`report::Check`]s.

mod engines;
mod evidence;
mod features;
mod host;
mod netlink;
mod packages;
mod privileges;
mod probe;
mod report;
mod units;

use anyhow::anyhow;
use clap::Args;

use crate::args::Format;
use crate::exit::Failure;
use crate::output;
use host::Host;
use report::Report;
pub(crate) use units::{UNIT_DIRS, UNITS as OVN_UNITS};

/// Say what this machine has and lacks to run netferry, and how to mend it
#[derive(Debug, Args)]
#[command(
    long_about = "\
Say what this machine has and lacks to run netferry, and how to mend it.

Kernel features are tried, not looked up: links, rules, queues and an nft table are made in a network
namespace that is thrown away at once. Trying a feature loads its kernel module, as using it would;
nothing else changes. Without the privilege to do so, the kernel's own files are read instead, and the
answer says so.",
    after_help = "\
Levels:
  ok       here, and works
  warn     something will not work, or work worse; the line says what
  missing  netferry cannot work without it

Exit codes: 0 nothing is missing (there may be warnings), 1 something is.

Examples:
  netferry doctor
  netferry doctor -o json | jq -r '.checks[] | select(.level != \"ok\") | .mend'"
)]
pub(crate) struct DoctorArgs {
    /// Try the kernel's features in a new network namespace and print the outcomes; started by doctor itself
    #[arg(long, hide = true)]
    probe: bool,
}

pub(crate) fn run(args: &DoctorArgs, format: Format) -> Result<(), Failure> {
    if args.probe {
        return output::print(&probe::in_this_process());
    }
    let report = examine(&Host::real(), &probe::in_child());
    output::answer(format, &report, |paint| report.table(paint))?;
    match report.missing() {
        0 => Ok(()),
        1 => Err(anyhow!("one thing netferry needs is missing").into()),
        n => Err(anyhow!("{n} things netferry needs are missing").into()),
    }
}

fn examine(host: &Host, tried: &probe::Outcomes) -> Report {
    let mut checks = privileges::checks(host);
    checks.extend(packages::checks(host));
    checks.extend(engines::checks(host));
    checks.extend(features::checks(host, tried));
    checks.extend(units::checks(host));
    Report::new(checks)
}

#[cfg(test)]
mod tests;
