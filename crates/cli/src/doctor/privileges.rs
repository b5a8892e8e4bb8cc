//! May this process change the network?

use super::host::Host;
use super::report::{Check, Group, Level};

/// The two capabilities, with their bit in the kernel's sets.
const NEEDED: [(&str, u32, &str); 2] = [
    ("CAP_NET_ADMIN", 12, "links, routes, rules and nft"),
    ("CAP_SYS_ADMIN", 21, "network and mount namespaces"),
];

/// One check per capability, read from what the process really has: root in a container may lack them.
pub(super) fn checks(host: &Host) -> Vec<Check> {
    let status = host.read("/proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    let uid = field(&status, "Uid:").unwrap_or("unknown");
    NEEDED
        .into_iter()
        .map(|(name, bit, used_for)| {
            if effective & (1 << bit) != 0 {
                Check::ok(Group::Privileges, name, format!("held (uid {uid})"))
            } else if uid == "0" {
                Check::lack(
                    Level::Missing,
                    Group::Privileges,
                    name,
                    format!("root, but without it: {used_for} cannot be changed"),
                    format!("give the container or service this capability, e.g. --cap-add {}", &name[4..]),
                )
            } else {
                Check::lack(
                    Level::Missing,
                    Group::Privileges,
                    name,
                    format!("not held (uid {uid}): {used_for} cannot be changed"),
                    "run as root: sudo netferry doctor",
                )
            }
        })
        .collect()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().next()
}
