//! Power loss at every instruction of the daemon: what it really does to a disk is recorded, every way a disk may look
//! after the power failed in between is laid out, and the real recovery is let loose on it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use netferry_core::rollout::journal::Op;
use netferry_core::rollout::layout::Entry;

use super::disk::Disk;
use super::store;
use super::tests::{host, tree, two};

/// A disk as far as power loss goes: names are lost apart from contents.
#[derive(Clone, Default)]
struct Model {
    files: Vec<(Entry, bool)>,
    now: Names,
    durable: Names,
    pending: Vec<(String, Change)>,
}

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Names {
    files: BTreeMap<String, usize>,
    dirs: BTreeSet<String>,
}

#[derive(Clone)]
enum Change {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
    MakeDir(String),
    RemoveDir(String),
}

impl Names {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Set(path, file) => _ = self.files.insert(path.clone(), *file),
            Change::Rename(from, to) => {
                if let Some(file) = self.files.remove(from) {
                    self.files.insert(to.clone(), file);
                }
            }
            Change::Remove(path) => _ = self.files.remove(path),
            Change::MakeDir(path) => _ = self.dirs.insert(path.clone()),
            Change::RemoveDir(path) => _ = self.dirs.remove(path),
        }
    }
}

fn above(path: &str) -> String {
    path.rsplit_once('/').map(|(dir, _)| if dir.is_empty() { "/" } else { dir }).unwrap_or("/").to_owned()
}

impl Model {
    /// What is on a real disk, all of it synchronised.
    fn of(root: &Path) -> Model {
        fn walk(root: &Path, dir: &Path, model: &mut Model) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = format!("/{}", path.strip_prefix(root).unwrap().display());
                let meta = std::fs::symlink_metadata(&path).unwrap();
                let entry = if meta.is_dir() {
                    model.now.dirs.insert(name);
                    walk(root, &path, model);
                    continue;
                } else if meta.is_symlink() {
                    Entry::Symlink(std::fs::read_link(&path).unwrap().to_string_lossy().into_owned())
                } else {
                    let mode = meta.permissions().mode() & 0o7777;
                    Entry::File { mode, contents: std::fs::read(&path).unwrap() }
                };
                model.files.push((entry, true));
                model.now.files.insert(name, model.files.len() - 1);
            }
        }
        let mut model = Model::default();
        walk(root, root, &mut model);
        model.durable = model.now.clone();
        model
    }

    fn change(&mut self, path: &str, change: Change) {
        self.now.apply(&change);
        self.pending.push((above(path), change));
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::MakeDir(path) if !self.now.dirs.contains(path) => {
                self.change(path, Change::MakeDir(path.clone()))
            }
            Op::MakeDir(_) => {}
            Op::Make { path, entry } => {
                self.files.push((entry.clone(), matches!(entry, Entry::Symlink(_))));
                self.change(path, Change::Set(path.clone(), self.files.len() - 1));
            }
            Op::SyncFile(path) => {
                let file = self.now.files[path];
                self.files[file].1 = true;
            }
            Op::Link { from, to } => {
                if !self.now.files.contains_key(to) {
                    self.change(to, Change::Set(to.clone(), self.now.files[from]));
                }
            }
            Op::Rename { from, to } => {
                if self.now.files.get(to) != Some(&self.now.files[from]) {
                    self.change(to, Change::Rename(from.clone(), to.clone()));
                }
            }
            Op::Remove(path) => {
                if self.now.files.contains_key(path) {
                    self.change(path, Change::Remove(path.clone()));
                }
            }
            Op::RemoveDir(path) => {
                let inside = format!("{path}/");
                let mut names = self.now.files.keys().chain(&self.now.dirs);
                if self.now.dirs.contains(path) && !names.any(|name| name.starts_with(&inside)) {
                    self.change(path, Change::RemoveDir(path.clone()));
                }
            }
            Op::SyncDir(dir) => {
                let pending = std::mem::take(&mut self.pending);
                let (now, later): (Vec<_>, Vec<_>) = pending.into_iter().partition(|(d, _)| d == dir);
                now.iter().for_each(|(_, change)| self.durable.apply(change));
                self.pending = later;
            }
        }
    }

    /// What may be there after the power failed now: of what is not synchronised all, nothing, or all but one; and of
    /// contents that are not, all or nothing.
    fn after_power_loss(&self) -> BTreeSet<BTreeMap<String, Option<Entry>>> {
        let count = self.pending.len();
        let mut choices = vec![vec![true; count], vec![false; count]];
        for at in 0..count {
            choices.push((0..count).map(|i| i != at).collect());
            choices.push((0..count).map(|i| i < at).collect());
        }
        let mut found = BTreeSet::new();
        for kept in choices {
            let mut names = self.durable.clone();
            for ((_, change), _) in self.pending.iter().zip(&kept).filter(|(_, kept)| **kept) {
                names.apply(change);
            }
            for torn in [false, true] {
                let contents = |file: &usize| match &self.files[*file] {
                    (Entry::File { mode, .. }, false) if torn => {
                        Entry::File { mode: *mode, contents: Vec::new() }
                    }
                    (entry, _) => entry.clone(),
                };
                // Two names of one file are two files here; recovery must not depend on it, for a backup makes them so.
                let files = names.files.iter().map(|(name, file)| (name.clone(), Some(contents(file))));
                found.insert(files.chain(names.dirs.iter().map(|dir| (dir.clone(), None))).collect());
            }
        }
        found
    }
}

fn lay_out(root: &Path, disk: &BTreeMap<String, Option<Entry>>) {
    std::fs::create_dir(root).unwrap();
    for (name, entry) in disk {
        let path = root.join(&name[1..]);
        // A name in a directory that was lost is lost with it.
        if !path.parent().unwrap().is_dir() {
            continue;
        }
        match entry {
            None => std::fs::create_dir(&path).unwrap(),
            Some(Entry::Symlink(to)) => symlink(to, &path).unwrap(),
            Some(Entry::File { mode, contents }) => {
                std::fs::write(&path, contents).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(*mode)).unwrap();
            }
        }
    }
}

#[test]
fn after_power_loss_at_any_instruction_the_host_boots_by_the_old_or_the_new_configuration() {
    let (_dir, root) = host("64m");
    let (old, new) = two();
    let disk = Disk::open(&root).unwrap();
    store::take(&disk, &old).unwrap();
    let mut model = Model::of(&root);
    let before = tree(&root);
    disk.done.lock().unwrap().clear();
    store::take(&disk, &new).unwrap();
    let after = tree(&root);
    let ops = disk.done.lock().unwrap().clone();
    assert!(ops.len() > 40, "{ops:?}");

    let states = root.join("states");
    std::fs::create_dir(&states).unwrap();
    let mut seen = BTreeSet::new();
    let mut outcomes = [0, 0];
    for done in 0..=ops.len() {
        if let Some(op) = done.checked_sub(1).map(|at| &ops[at]) {
            model.apply(op);
        }
        for state in model.after_power_loss() {
            if !seen.insert(state.clone()) {
                continue;
            }
            let crashed = states.join("one");
            lay_out(&crashed, &state);
            let booted = Disk::open(&crashed).unwrap();
            store::recover(&booted).unwrap();
            let config = store::current(&booted).unwrap().expect("a host that had one has one");
            let (shall, outcome) = if config == new { (&after, 1) } else { (&before, 0) };
            assert!(config == old || config == new, "after {done} operations: {config:?}");
            assert_eq!(
                tree(&crashed),
                *shall,
                "after {done} operations, the last of them {:?}",
                ops.get(done.max(1) - 1)
            );
            assert_eq!(store::strayed(&booted, &config).unwrap(), []);
            // It goes on from there as if nothing had happened.
            store::take(&booted, &new).unwrap();
            assert_eq!(tree(&crashed), after);
            outcomes[outcome] += 1;
            std::fs::remove_dir_all(&crashed).unwrap();
        }
    }
    assert!(outcomes.iter().all(|count| *count > 5) && seen.len() > 60, "{outcomes:?} of {}", seen.len());
}
