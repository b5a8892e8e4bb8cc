//! What an installation did to a host's files, written down before it is done, so that it can be undone whatever
//! happens in between.

use std::path::{Path, PathBuf};

use anyhow::Context;
use netferry_agent::machine::Disk;
use serde::{Deserialize, Serialize};

use super::units::{self, CONFIGURED, Units};

/// The note. Removed last of all.
const FILE: &str = "etc/netferry/solo.json";
/// What is put aside keeps its name, with this behind it.
const ASIDE: &str = "before-netferry";

/// What an installation did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Installed {
    /// What `netferry solo` is run with.
    pub(super) options: Vec<String>,
    /// Units of the distribution's own OVN that were masked.
    pub(super) masked: Vec<String>,
    /// Those of them that ran.
    pub(super) stopped: Vec<String>,
    /// Files that were copied to where nothing was.
    pub(super) copied: Vec<PathBuf>,
    /// Files that were there and are aside.
    pub(super) aside: Vec<PathBuf>,
}

impl Installed {
    pub(super) fn read(root: &Path) -> anyhow::Result<Option<Installed>> {
        let file = root.join(FILE);
        let attempt = || format!("reading {}", file.display());
        // Without it nobody knows any more what was there.
        let damaged = || {
            format!(
                "{} says what was installed and cannot be read: bring it back from a copy; or unmask OVN's units in \
                 /{CONFIGURED} yourself, rename files that end in .{ASIDE} back, remove it, and uninstall again",
                file.display()
            )
        };
        match std::fs::read(&file) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).with_context(damaged)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(attempt),
        }
    }

    pub(super) fn write(&self, root: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self).context("writing down what is done")?;
        Ok(Disk::open(root)?.replace(&format!("/{FILE}"), text, 0o644)?)
    }

    /// Makes it so. Doing it again changes nothing.
    pub(super) fn carry_out(&self, root: &Path, plugin: &Path, unit: &str) -> anyhow::Result<()> {
        let host = Units::of(root);
        for unit in &self.masked {
            host.mask(unit)?;
        }
        for file in &self.aside {
            put_aside(&at(root, file))?;
        }
        for file in &self.copied {
            // Renamed into place: a runtime may run it at this moment.
            let program = std::fs::read(plugin).with_context(|| format!("reading {}", plugin.display()))?;
            Disk::open(root)?.replace(&file.display().to_string(), program, 0o755)?;
        }
        host.enable(unit)
    }

    /// Undoes it. Doing it again changes nothing.
    pub(super) fn undo(&self, root: &Path) -> anyhow::Result<()> {
        for file in &self.copied {
            units::remove(&at(root, file))?;
        }
        for file in &self.aside {
            take_back(&at(root, file))?;
        }
        let host = Units::of(root);
        for unit in &self.masked {
            host.unmask(unit)?;
        }
        Ok(())
    }

    /// Forgets it: there is nothing left to undo.
    pub(super) fn forget(root: &Path) -> anyhow::Result<()> {
        units::remove(&root.join(FILE))?;
        // Ours alone, unless somebody keeps something there.
        let _ = std::fs::remove_dir(root.join("etc/netferry"));
        Ok(())
    }
}

fn at(root: &Path, file: &Path) -> PathBuf {
    root.join(file.strip_prefix("/").unwrap_or(file))
}

fn aside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ASIDE);
    name.into()
}

fn put_aside(file: &Path) -> anyhow::Result<()> {
    let to = aside(file);
    if to.exists() || !file.exists() {
        return Ok(());
    }
    rename(file, &to)
}

fn take_back(file: &Path) -> anyhow::Result<()> {
    let from = aside(file);
    if !from.exists() {
        return Ok(());
    }
    rename(&from, file)
}

fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    let attempt = || format!("moving {} to {}", from.display(), to.display());
    std::fs::rename(from, to).with_context(attempt)?;
    units::keep(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Every file and link below a directory, with what is in it.
    fn files(root: &Path) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![root.to_owned()];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(&directory).unwrap().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(root).unwrap().to_owned();
                if let Ok(to) = std::fs::read_link(&path) {
                    found.insert(name, format!("-> {}", to.display()));
                } else if path.is_dir() {
                    left.push(path);
                } else {
                    found.insert(name, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        found
    }

    #[test]
    fn an_installation_cut_off_anywhere_is_undone_to_what_was_there() {
        let unit = units::text(&["netferry".to_owned(), "100% \"sure\" $HOME".to_owned()]);
        assert!(unit.contains(r#"ExecStart="netferry" "100%% \"sure\" $$HOME""#), "{unit}");
        for undone in [1, 2] {
            let place = tempfile::tempdir().unwrap();
            let root = place.path();
            for (file, text) in [
                ("usr/lib/systemd/system/ovn-host.service", "[Unit]"),
                ("usr/lib/systemd/system/ovn-central.service", "[Unit]"),
                ("var/lib/ovn/ovnnb_db.db", "theirs"),
                ("plugin", "ours"),
            ] {
                units::make_directory(&root.join(file)).unwrap();
                std::fs::write(root.join(file), text).unwrap();
            }
            let before = files(root);
            let note = Installed {
                masked: Units::of(root).others(),
                copied: vec!["/opt/cni/bin/netferry-cni".into()],
                aside: vec!["/var/lib/ovn/ovnnb_db.db".into(), "/var/lib/ovn/ovnsb_db.db".into()],
                ..Installed::default()
            };
            assert_eq!(note.masked, ["ovn-host.service", "ovn-central.service"]);
            note.write(root).unwrap();
            for _ in 0..2 {
                note.carry_out(root, &root.join("plugin"), &unit).unwrap();
            }
            assert_eq!(Units::of(root).others(), [] as [&str; 0], "masked");
            let now = files(root);
            assert_eq!(now[Path::new("opt/cni/bin/netferry-cni")], "ours");
            let wants = Path::new("etc/systemd/system/multi-user.target.wants/netferry-solo.service");
            assert_eq!(now[wants], "-> /etc/netferry/netferry-solo.service");
            assert!(!now.contains_key(Path::new("var/lib/ovn/ovnnb_db.db")), "aside");
            // What runs meanwhile makes its own, and takes it away again.
            for _ in 0..undone {
                let note = Installed::read(root).unwrap().unwrap();
                Units::of(root).disable().unwrap();
                note.undo(root).unwrap();
            }
            Installed::forget(root).unwrap();
            assert_eq!(files(root), before);
        }
    }

    #[test]
    fn a_note_that_was_damaged_says_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Installed::read(place.path()).unwrap(), None);
        Installed::default().write(place.path()).unwrap();
        assert_eq!(Installed::read(place.path()).unwrap(), Some(Installed::default()));
        for damaged in ["", "{\"options\": 1}"] {
            std::fs::write(place.path().join(FILE), damaged).unwrap();
            let said = Installed::read(place.path()).unwrap_err().to_string();
            for words in ["etc/netferry/solo.json", "bring it back from a copy", ".before-netferry", "unmask"]
            {
                assert!(said.contains(words), "{said}");
            }
        }
    }
}
