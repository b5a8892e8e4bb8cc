//! Settings of the kernel: what a plan asks for, and what there was before.
//!
//! A setting carries no mark, so what was found is written down before it is changed the first time, in our run
//! directory: a reboot forgets the change and the note together. [`restore`] puts back what nobody changed since.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use netferry_kernel::sysctl::{self, Key, Of};
use netferry_kernel::{Family, Kernel, Objects as _};
use serde::{Deserialize, Serialize};

use crate::kept;

/// In our run directory.
const FILE: &str = "settings.json";

/// Why settings are not what they should be.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] netferry_kernel::Error),
    /// What was found cannot be written down, so nothing was changed.
    #[error("the note of what settings were, {}", file.display())]
    Note {
        /// The file.
        file: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// A setting that was changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Changed {
    /// What it was.
    before: String,
    /// What we made it; nothing where the kernel changed it along with another.
    ours: Option<String>,
}

type Note = BTreeMap<String, Changed>;

/// Has the settings that are there to be set; those of a link that is not there come with it. What they were is written
/// down in `run` first.
pub fn settle(kernel: &Kernel, want: &BTreeMap<Key, String>, run: &Path) -> Result<(), SettingsError> {
    let sysctls = kernel.sysctls();
    let keys: Vec<Key> = want.keys().cloned().collect();
    let have = sysctls.read(&keys)?;
    let mut want = want.clone();
    want.retain(|key, _| have.contains_key(key));
    let changes = sysctl::diff(&want, &have);
    if changes.is_empty() {
        return Ok(());
    }
    let links = every_link(kernel)?;
    // A host that forwards does not listen to routers, and forgets the default route it has from one, unless told to.
    // So links that listen now are told to before the host forwards.
    let mut learning = BTreeMap::new();
    if changes.contains_key(&forwards(Family::V6)) {
        let keys: Vec<Key> = links.iter().map(Key::accept_ra).collect();
        learning = sysctls.read(&keys)?;
        learning.retain(|_, value| value == "1");
        learning.values_mut().for_each(|value| "2".clone_into(value));
    }
    let mut along = vec![];
    if changes.contains_key(&Key::ip_forward()) {
        along.extend(links.iter().chain([&Of::All]).map(|of| Key::forwarding(Family::V4, of)));
        along.push(Key::conf(Family::V4, &Of::All, "accept_redirects"));
    }
    if changes.contains_key(&forwards(Family::V6)) {
        along.extend(links.iter().map(|of| Key::forwarding(Family::V6, of)));
    }
    note(kernel, run, &changes, &learning, &along)?;
    sysctls.apply(&learning)?;
    sysctls.apply(&changes)?;
    Ok(())
}

fn note(
    kernel: &Kernel,
    run: &Path,
    changes: &BTreeMap<Key, String>,
    learning: &BTreeMap<Key, String>,
    along: &[Key],
) -> Result<(), SettingsError> {
    let mut note = read(run)?;
    let ours = |key: &Key| changes.get(key).or(learning.get(key)).cloned();
    let mut keys: Vec<Key> = changes.keys().chain(learning.keys()).chain(along).cloned().collect();
    keys.retain(|key| !note.contains_key(&key.name()));
    for (key, before) in kernel.sysctls().read(&keys)? {
        note.insert(key.name(), Changed { before, ours: ours(&key) });
    }
    kept::write(run, FILE, &note).map_err(|source| unkept(run, source))
}

/// Puts settings back to what they were, but those that somebody changed after us. Doing it again changes nothing.
pub fn restore(kernel: &Kernel, run: &Path) -> Result<(), SettingsError> {
    let note = read(run)?;
    let sysctls = kernel.sysctls();
    // What the kernel changes other settings along with goes first.
    let general = [forwards(Family::V6), Key::ip_forward()].map(|key| key.name());
    for first in [true, false] {
        let part = note.iter().filter(|(name, _)| general.contains(name) == first);
        let part: BTreeMap<Key, &Changed> =
            part.filter_map(|(name, changed)| Some((Key::new(name.split('/')).ok()?, changed))).collect();
        let mut now = sysctls.read(&part.keys().cloned().collect::<Vec<_>>())?;
        now.retain(|key, now| {
            let changed = part[key];
            *now != changed.before && changed.ours.as_ref().is_none_or(|ours| ours == now)
        });
        now.iter_mut().for_each(|(key, value)| value.clone_from(&part[key].before));
        sysctls.apply(&now)?;
    }
    kept::remove(&run.join(FILE)).map_err(|source| unkept(run, source))
}

fn read(run: &Path) -> Result<Note, SettingsError> {
    Ok(kept::read(run, FILE).map_err(|source| unkept(run, source))?.unwrap_or_default())
}

fn unkept(run: &Path, source: io::Error) -> SettingsError {
    SettingsError::Note { file: run.join(FILE), source }
}

fn forwards(family: Family) -> Key {
    Key::forwarding(family, &Of::All)
}

/// Every link there is, and those to come.
fn every_link(kernel: &Kernel) -> Result<Vec<Of>, SettingsError> {
    let links = kernel.links().observe()?;
    let of = links.into_iter().filter(|link| !link.loopback).map(|link| Of::Link(link.name));
    Ok(of.chain([Of::Default]).collect())
}
