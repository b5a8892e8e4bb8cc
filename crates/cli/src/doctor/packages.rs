//! The packages netferry drives.

use super::host::Host;
use super::report::{Check, Group, Level};

struct Package {
    name: &'static str,
    /// A program of it, looked for where there is no dpkg.
    program: &'static str,
    level: Level,
    without: &'static str,
}

const PACKAGES: [Package; 7] = [
    Package {
        name: "openvswitch-switch",
        program: "ovs-vswitchd",
        level: Level::Missing,
        without: "no switch, so no pod network",
    },
    Package {
        name: "ovn-central",
        program: "ovn-northd",
        level: Level::Missing,
        without: "no OVN zone on this node",
    },
    Package {
        name: "ovn-host",
        program: "ovn-controller",
        level: Level::Missing,
        without: "nothing programs the switch",
    },
    Package {
        name: "iproute2",
        program: "ip",
        level: Level::Missing,
        without: "the packages' own scripts cannot set up links",
    },
    Package {
        name: "nftables",
        program: "nft",
        level: Level::Missing,
        without: "rules cannot be shown or inspected by hand",
    },
    Package {
        name: "ethtool",
        program: "ethtool",
        level: Level::Missing,
        without: "offloads cannot be inspected or changed by hand",
    },
    Package {
        name: "tcpdump",
        program: "tcpdump",
        level: Level::Warn,
        without: "gather cannot record packets",
    },
];

pub(super) fn checks(host: &Host) -> Vec<Check> {
    let database = host.read("/var/lib/dpkg/status");
    PACKAGES
        .iter()
        .map(|package| {
            let found = match &database {
                Some(status) => installed_version(status, package.name),
                None => {
                    host.program(package.program).map(|path| format!("{path}, not from a Debian package"))
                }
            };
            match found {
                Some(version) => Check::ok(Group::Packages, package.name, version),
                None => Check::lack(
                    package.level,
                    Group::Packages,
                    package.name,
                    format!("not installed: {}", package.without),
                    install_command(&database, package),
                ),
            }
        })
        .collect()
}

fn install_command(database: &Option<String>, package: &Package) -> String {
    match database {
        Some(_) => format!("apt-get install {}", package.name),
        None => format!("install the package of your distribution that holds {}", package.program),
    }
}

/// The version of a package dpkg has wholly installed; one removed but not purged is not.
fn installed_version(status: &str, package: &str) -> Option<String> {
    let header = format!("Package: {package}");
    let stanza = status.split("\n\n").find(|stanza| stanza.lines().any(|l| l == header))?;
    stanza.lines().find(|l| l.starts_with("Status: ") && l.ends_with(" installed"))?;
    stanza.lines().find_map(|l| l.strip_prefix("Version: ")).map(str::to_owned)
}
