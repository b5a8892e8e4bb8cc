//! Units of the distribution's own OVN: they would run a second controller on the same switch.

use super::host::Host;
use super::report::{Check, Group, Level};

/// The unit that is enabled, and the one that does the work because of it.
pub(crate) const UNITS: [&str; 6] = [
    "ovn-host.service",
    "ovn-controller.service",
    "ovn-central.service",
    "ovn-northd.service",
    "ovn-ovsdb-server-nb.service",
    "ovn-ovsdb-server-sb.service",
];

const CONFIGURED: &str = "/etc/systemd/system";
pub(crate) const UNIT_DIRS: [&str; 4] =
    [CONFIGURED, "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// What systemd will do with a unit.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Absent,
    Masked,
    /// Started at boot.
    Enabled,
    /// Started when another unit wants it.
    Idle,
}

pub(super) fn checks(host: &Host) -> Vec<Check> {
    let running = running_units(host);
    UNITS.iter().map(|unit| judge(unit, state(host, unit), running.iter().any(|r| r == unit))).collect()
}

fn judge(unit: &str, state: State, running: bool) -> Check {
    let lack = |detail: &str| {
        Check::lack(Level::Warn, Group::Units, unit, detail, format!("systemctl mask --now {unit}"))
    };
    match (state, running) {
        (State::Absent, false) => Check::ok(Group::Units, unit, "not installed"),
        (State::Masked, false) => Check::ok(Group::Units, unit, "masked"),
        (State::Idle, false) => Check::ok(Group::Units, unit, "installed, not enabled"),
        (State::Enabled, false) => lack("enabled: starts at boot beside netferry's own"),
        (State::Absent | State::Masked | State::Idle | State::Enabled, true) => {
            lack("running: programs the same switch as netferry's own")
        }
    }
}

fn state(host: &Host, unit: &str) -> State {
    let Some(path) = UNIT_DIRS.iter().map(|dir| format!("{dir}/{unit}")).find(|p| host.exists(p)) else {
        return State::Absent;
    };
    if host.link(&path).is_some_and(|to| to.as_os_str() == "/dev/null") {
        return State::Masked;
    }
    let wanted = host
        .list(CONFIGURED)
        .iter()
        .filter(|dir| dir.ends_with(".wants") || dir.ends_with(".requires"))
        .any(|dir| host.exists(&format!("{CONFIGURED}/{dir}/{unit}")));
    if wanted { State::Enabled } else { State::Idle }
}

/// The units whose processes run now, by the control group systemd put them in.
fn running_units(host: &Host) -> Vec<String> {
    let processes = host.list("/proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let mut units: Vec<String> = processes
        .filter_map(|pid| host.read(&format!("/proc/{pid}/cgroup")))
        .flat_map(|cgroup| {
            cgroup.lines().filter_map(|l| l.rsplit('/').next()).map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|unit| unit.ends_with(".service"))
        .collect();
    units.sort();
    units.dedup();
    units
}
