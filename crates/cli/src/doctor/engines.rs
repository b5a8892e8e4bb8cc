//! The versions of the engines underneath.

use super::host::Host;
use super::report::{Check, Group, Level};

struct Engine {
    name: &'static str,
    program: &'static str,
    package: &'static str,
    /// The oldest release netferry is tested with.
    tested_from: (u32, u32),
}

const ENGINES: [Engine; 3] = [
    Engine { name: "ovs", program: "ovs-vswitchd", package: "openvswitch-switch", tested_from: (3, 1) },
    Engine { name: "ovn", program: "ovn-controller", package: "ovn-host", tested_from: (23, 3) },
    Engine { name: "ovn-northd", program: "ovn-northd", package: "ovn-central", tested_from: (23, 3) },
];

pub(super) fn checks(host: &Host) -> Vec<Check> {
    ENGINES.iter().map(|engine| judge(engine, host.version_line(engine.program))).collect()
}

fn judge(engine: &Engine, line: Option<String>) -> Check {
    let install = format!("apt-get install {}", engine.package);
    let Some(line) = line else {
        // Only a warning: the package's own check already counts the lack.
        let detail = format!("unknown: {} is not there or does not run", engine.program);
        return Check::lack(Level::Warn, Group::Versions, engine.name, detail, install);
    };
    let (major, minor) = engine.tested_from;
    match release(&line) {
        Some((text, found)) if found >= engine.tested_from => Check::ok(Group::Versions, engine.name, text),
        Some((text, _)) => Check::lack(
            Level::Warn,
            Group::Versions,
            engine.name,
            format!("{text} is older than {major}.{minor:02}, the oldest release tested"),
            install,
        ),
        None => Check::lack(
            Level::Warn,
            Group::Versions,
            engine.name,
            format!("{} says {line:?}, which names no version", engine.program),
            install,
        ),
    }
}

/// The first word of a `--version` line that is a version, and its first two numbers.
fn release(line: &str) -> Option<(&str, (u32, u32))> {
    line.split_whitespace().find_map(|word| {
        let mut numbers = word.split('.').map(str::parse);
        match (numbers.next()?, numbers.next()?) {
            (Ok(major), Ok(minor)) => Some((word, (major, minor))),
            (Ok(_) | Err(_), Ok(_) | Err(_)) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_older_than_tested_is_a_warning_and_a_newer_one_is_fine() {
        let table = [
            ("ovs-vswitchd (Open vSwitch) 3.1.0", Level::Ok),
            ("ovs-vswitchd (Open vSwitch) 3.3.90", Level::Ok),
            ("ovs-vswitchd (Open vSwitch) 2.17.9", Level::Warn),
            ("ovs-vswitchd", Level::Warn),
        ];
        for (line, level) in table {
            assert_eq!(judge(&ENGINES[0], Some(line.to_owned())).level, level, "{line}");
        }
        assert_eq!(judge(&ENGINES[0], None).level, Level::Warn);
    }

    #[test]
    fn ovn_release_23_03_is_not_read_as_newer_than_23_09() {
        assert_eq!(release("ovn-controller 23.03.1"), Some(("23.03.1", (23, 3))));
        assert!(
            release("ovn-controller 23.09.0").map(|(_, v)| v)
                > release("ovn-controller 23.03.1").map(|(_, v)| v)
        );
    }
}
