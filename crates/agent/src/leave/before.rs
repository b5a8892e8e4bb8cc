//! What the switch had been told before we told it anything.

use std::io;
use std::path::Path;

use netferry_core::overlay::names;
use netferry_ovs::Client;
use netferry_ovs::tables::Strings;
use netferry_ovs::tables::vswitch::OpenVSwitch;
use serde::{Deserialize, Serialize};

use crate::kept;

/// In our data directory: the switch's database outlives boots, and so must this.
const FILE: &str = "switch-before.json";

/// What the switch had been told before us, in the one row of `Open_vSwitch`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Before {
    external_ids: Strings,
    other_config: Strings,
}

/// Notes it, if nobody did so far. That this failed is told to the log: pods are worth more than a tidy end.
pub fn note(switch: &Client, data: &Path) {
    if let Err(error) = try_note(switch, data) {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "what the switch was told before us was not written down");
    }
}

fn try_note(switch: &Client, data: &Path) -> io::Result<()> {
    if kept::read::<Before>(data, FILE)?.is_some() {
        return Ok(());
    }
    let root = switch.snapshot().single::<OpenVSwitch>().ok().flatten();
    // Told by an agent that did not note anything: then there is nothing to go back to but nothing.
    let root = root.filter(|root| !root.external_ids.contains_key(names::MARK.0));
    let before = root.map(|root| Before {
        external_ids: root.row.external_ids.clone(),
        other_config: root.row.other_config.clone(),
    });
    kept::write(data, FILE, &before.unwrap_or_default())
}

/// Whether somebody noted it, and did not leave since.
pub(super) fn is_noted(data: &Path) -> bool {
    data.join(FILE).exists()
}

pub(super) fn read(data: &Path) -> Before {
    kept::read(data, FILE).ok().flatten().unwrap_or_default()
}

/// Keys to take away, and pairs to put back.
pub(super) type Undo = (Vec<String>, Vec<(String, String)>);

impl Before {
    /// What to undo of `external_ids`.
    pub(super) fn undo_ids(&self, now: &Strings) -> Undo {
        let ours =
            |key: &str| key.starts_with("ovn-") || ["hostname", "system-id", names::MARK.0].contains(&key);
        undo(&self.external_ids, now, ours)
    }

    /// What to undo of `other_config`: `ovn-controller` writes there for itself.
    pub(super) fn undo_config(&self, now: &Strings) -> Undo {
        undo(&self.other_config, now, |key| key == "vlan-limit" || key.starts_with("ovn-"))
    }
}

fn undo(before: &Strings, now: &Strings, ours: impl Fn(&str) -> bool) -> Undo {
    let differs = |(key, value): &(&String, &String)| ours(key) && before.get(*key) != Some(*value);
    let gone: Vec<String> = now.iter().filter(differs).map(|(key, _)| key.clone()).collect();
    let missing = |key: &String| ours(key) && (gone.contains(key) || !now.contains_key(key));
    let back = before.iter().filter(|(key, _)| missing(key));
    let back = back.map(|(key, value)| (key.clone(), value.clone())).collect();
    (gone, back)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(pairs: &[(&str, &str)]) -> Strings {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_was_told_before_us_is_told_again_and_what_is_not_ours_stays() {
        let external_ids = ids(&[("ovn-remote", "theirs"), ("rundir", "/run"), ("system-id", "me")]);
        let before = Before { external_ids, other_config: Strings::new() };
        let now = [
            ("ovn-remote", "ours"),
            ("ovn-encap-ip", "127.0.0.1"),
            ("netferry.dev/owner", "overlay"),
            ("hostname", "a"),
            ("system-id", "me"),
            ("rundir", "/run"),
            ("later", "x"),
        ];
        let (gone, back) = before.undo_ids(&ids(&now));
        assert_eq!(gone, ["hostname", "netferry.dev/owner", "ovn-encap-ip", "ovn-remote"]);
        assert_eq!(back, [("ovn-remote".to_owned(), "theirs".to_owned())]);
        let (gone, _) = before.undo_config(&ids(&[("vlan-limit", "0"), ("n-handler-threads", "1")]));
        assert_eq!(gone, ["vlan-limit"]);
    }
}
