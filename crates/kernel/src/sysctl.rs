//! `/proc/sys/net` of one namespace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Attempt, Error, Result};
use crate::family::Family;
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::name::IfName;
use crate::objects::Objects;

/// A key below `/proc/sys/net`.
///
/// Invariant: a relative path without `..`, so that an interface's name cannot lead out of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(PathBuf);

/// Whose setting: of one link, of those to come, of all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// Links made from now on.
    Default,
    /// All; how this combines with the link's own differs from key to key.
    All,
    /// One link.
    Link(IfName),
}

impl Key {
    /// A key by its parts: `["ipv4", "ip_forward"]`. Parts are names, so dots in them are not separators.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Key> {
        let mut path = PathBuf::new();
        for part in parts {
            if part.is_empty() || part == "." || part == ".." || part.contains(['/', '\0']) {
                return Err(Error::invalid(format!("sysctl part {part:?}"), "is not a name"));
            }
            path.push(part);
        }
        Ok(Key(path))
    }

    /// A setting of an interface: `conf`, of a family.
    pub fn conf(family: Family, of: &Of, name: &'static str) -> Key {
        Key([family_name(family), "conf", of.name(), name].iter().collect())
    }

    /// Forward IPv4 at all.
    pub fn ip_forward() -> Key {
        Key("ipv4/ip_forward".into())
    }

    /// Forward.
    pub fn forwarding(family: Family, of: &Of) -> Key {
        Key::conf(family, of, "forwarding")
    }

    /// Check that a packet's source would be reached through where it came in: 0 no, 1 strict, 2 loose.
    pub fn rp_filter(of: &Of) -> Key {
        Key::conf(Family::V4, of, "rp_filter")
    }

    /// Use a packet's mark in that check.
    pub fn src_valid_mark(of: &Of) -> Key {
        Key::conf(Family::V4, of, "src_valid_mark")
    }

    /// Which ARP requests are answered.
    pub fn arp_ignore(of: &Of) -> Key {
        Key::conf(Family::V4, of, "arp_ignore")
    }

    /// Loopback addresses may arrive from outside.
    pub fn route_localnet(of: &Of) -> Key {
        Key::conf(Family::V4, of, "route_localnet")
    }

    /// When the first address of a network goes, the next takes its place instead of going too.
    pub fn promote_secondaries(of: &Of) -> Key {
        Key::conf(Family::V4, of, "promote_secondaries")
    }

    /// No IPv6.
    pub fn disable_ipv6(of: &Of) -> Key {
        Key::conf(Family::V6, of, "disable_ipv6")
    }

    /// Take addresses and routes from router advertisements.
    pub fn accept_ra(of: &Of) -> Key {
        Key::conf(Family::V6, of, "accept_ra")
    }

    /// Keep IPv6 addresses when the link is switched off.
    pub fn keep_addr_on_down(of: &Of) -> Key {
        Key::conf(Family::V6, of, "keep_addr_on_down")
    }

    /// Its parts, joined by slashes; [`Key::new`] reads them.
    pub fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/proc/sys/net").join(&self.0)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sysctl net/{}", self.0.display())
    }
}

impl Of {
    fn name(&self) -> &str {
        match self {
            Of::Default => "default",
            Of::All => "all",
            Of::Link(name) => name.as_str(),
        }
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// See [`Kernel::sysctls`].
#[derive(Debug)]
pub struct Sysctls<'k>(pub(crate) &'k Kernel);

impl Sysctls<'_> {
    /// Reads some; a key that is not there (its link is gone, IPv6 is off) is left out.
    pub fn read(&self, keys: &[Key]) -> Result<BTreeMap<Key, String>> {
        self.0.namespace().run(|| {
            let mut found = BTreeMap::new();
            for key in keys {
                match std::fs::read_to_string(key.path()) {
                    Ok(value) => {
                        found.insert(key.clone(), value.trim_end().to_owned());
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                    Err(source) => return Err(Error::io(Attempt::Reading, key.to_string(), source)),
                }
            }
            Ok(found)
        })?
    }

    /// Whether the kernel has IPv6 at all, switched on or not.
    pub fn speaks_v6(&self) -> Result<bool> {
        Ok(!self.read(&[Key::disable_ipv6(&Of::All)])?.is_empty())
    }

    /// Observe, diff, apply for exactly the wanted keys.
    pub fn converge_keys(&self, want: &BTreeMap<Key, String>) -> Result<BTreeMap<Key, String>> {
        let have = self.read(&want.keys().cloned().collect::<Vec<_>>())?;
        let changes = diff(want, &have);
        self.apply(&changes)?;
        Ok(changes)
    }
}

/// What to write: the wanted values that are not there. A setting has no owner and is never removed.
pub fn diff(want: &BTreeMap<Key, String>, have: &BTreeMap<Key, String>) -> BTreeMap<Key, String> {
    want.iter()
        .filter(|(key, value)| have.get(key) != Some(value))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

impl Objects for Sysctls<'_> {
    type Want = BTreeMap<Key, String>;
    type State = BTreeMap<Key, String>;
    type Changes = BTreeMap<Key, String>;

    /// The settings of every interface; there are hundreds, so [`Sysctls::read`] is what most need.
    fn observe(&self) -> Result<BTreeMap<Key, String>> {
        self.0.namespace().run(|| {
            let mut keys = vec![Key::ip_forward()];
            for family in [Family::V4, Family::V6] {
                let conf = PathBuf::from("/proc/sys/net").join(family_name(family)).join("conf");
                for directory in entries(&conf) {
                    for file in entries(&conf.join(&directory)) {
                        keys.push(Key([family_name(family), "conf", &directory, &file].iter().collect()));
                    }
                }
            }
            // Some are for writing only.
            let read = |key: Key| {
                let value = std::fs::read_to_string(key.path()).ok()?;
                Some((key, value.trim_end().to_owned()))
            };
            keys.into_iter().filter_map(read).collect()
        })
    }

    fn diff(want: &Self::Want, have: &Self::State, _: &Mark) -> Self::Changes {
        diff(want, have)
    }

    fn apply(&self, changes: &BTreeMap<Key, String>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.0.namespace().run(|| {
            for (key, value) in changes {
                std::fs::write(key.path(), value)
                    .map_err(|source| Error::io(Attempt::Setting, format!("{key} to {value}"), source))?;
            }
            Ok(())
        })?
    }

    fn converge(&self, want: &Self::Want, _: &Mark) -> Result<Self::Changes> {
        self.converge_keys(want)
    }
}

fn entries(directory: &std::path::Path) -> Vec<String> {
    let read = std::fs::read_dir(directory).into_iter().flatten().flatten();
    read.filter_map(|e| e.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_lead_out_of_its_directory() {
        for bad in ["..", ".", "", "a/b", "nul\0"] {
            assert!(Key::new(["ipv4", bad]).is_err(), "{bad:?}");
        }
        let key = Key::new(["ipv4", "conf", "eth0.100", "rp_filter"]).unwrap();
        assert_eq!(key.to_string(), "sysctl net/ipv4/conf/eth0.100/rp_filter");
    }

    #[test]
    fn only_what_differs_is_written() {
        let of = |pairs: &[(Key, &str)]| pairs.iter().map(|(k, v)| (k.clone(), (*v).to_owned())).collect();
        let want: BTreeMap<_, _> = of(&[(Key::ip_forward(), "1"), (Key::rp_filter(&Of::All), "2")]);
        let have = of(&[
            (Key::ip_forward(), "1"),
            (Key::rp_filter(&Of::All), "0"),
            (Key::rp_filter(&Of::Default), "1"),
        ]);
        assert_eq!(diff(&want, &have), of(&[(Key::rp_filter(&Of::All), "2")]));
        assert!(diff(&want, &want).is_empty());
    }
}
