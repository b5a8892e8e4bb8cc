//! What the plugins' own configuration says of sizes.
//!
//! Where others look for it: OVN's in its main file, the older plugin's in a file of its own that exists only during a
//! change. Neither restarts a pod of the plugin; nodes take new sizes when they boot.

use super::check::Plugin;
use super::record::Record;

/// A file inside a ConfigMap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Artifact {
    /// Key inside it.
    pub key: &'static str,
    /// What stands there; nothing, the ConfigMap is not to exist.
    pub text: Option<String>,
}

/// What a plugin's configuration says while `record` is applied.
pub fn artifact(plugin: Plugin, record: &Record) -> Artifact {
    let network = record.rendering().network;
    match plugin {
        Plugin::OvnKubernetes(_) => {
            let pin = network.pin().map_or(String::new(), |pin| format!("routable-mtu=\"{pin}\"\n"));
            Artifact {
                key: "ovnkube.conf",
                text: Some(format!("[default]\nmtu=\"{}\"\n{pin}", network.carries())),
            }
        }
        Plugin::OpenShiftSdn => {
            let pin = network.pin().map_or(String::new(), |pin| format!("routable-mtu: {pin}\n"));
            Artifact {
                key: "mtu.yaml",
                text: record.change.map(|_| format!("mtu: {}\n{pin}", network.carries())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Transport;
    use super::super::record::{Change, Ends, Stage};
    use super::*;
    use crate::size::Mtu;

    #[test]
    fn the_higher_goes_to_interfaces_the_lower_to_routes_and_nothing_where_they_are_equal() {
        let ovn = Plugin::OvnKubernetes(Transport::Geneve);
        let sdn = Plugin::OpenShiftSdn;
        let ends = |from, to| Ends { from: Mtu::new(from).unwrap(), to: Mtu::new(to).unwrap() };
        let changing = |from, to, stage| {
            let change = Change { network: ends(from, to), host: ends(1500, 9100), stage, back: false };
            Record { epoch: 1, change: Some(change), ..Record::settled(Mtu::new(from).unwrap()) }
        };
        let one = Stage::Spreading { finish: false };
        for (record, in_ovn, in_sdn) in [
            (Record::settled(Mtu::new(1400).unwrap()), "[default]\nmtu=\"1400\"\n", None),
            (
                changing(1400, 9000, one),
                "[default]\nmtu=\"9000\"\nroutable-mtu=\"1400\"\n",
                Some("mtu: 9000\nroutable-mtu: 1400\n"),
            ),
            (
                changing(9000, 1400, one),
                "[default]\nmtu=\"9000\"\nroutable-mtu=\"1400\"\n",
                Some("mtu: 9000\nroutable-mtu: 1400\n"),
            ),
            (changing(1400, 1400, one), "[default]\nmtu=\"1400\"\n", Some("mtu: 1400\n")),
            (changing(1400, 9000, Stage::Settling), "[default]\nmtu=\"9000\"\n", Some("mtu: 9000\n")),
            (changing(1400, 9000, Stage::Returning), "[default]\nmtu=\"1400\"\n", Some("mtu: 1400\n")),
        ] {
            assert_eq!(artifact(ovn, &record).text.as_deref(), Some(in_ovn), "{record:?}");
            assert_eq!(artifact(sdn, &record).text.as_deref(), in_sdn, "{record:?}");
        }
    }
}
