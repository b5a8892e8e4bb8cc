//! Power loss at every instruction of the daemon: what it really does to a disk is recorded, every way a disk may look
//! after the power failed in between is laid out, and the real recovery is let loose on it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use netferry_core::rollout::journal::Op;
use netferry_core::rollout::layout::Entry;
use netferry_testkit::disk::{Disk as Model, Losses};

use super::disk::Disk;
use super::store;
use super::tests::{host, tree, two};

/// What is on a real disk, all of it synchronised.
fn model(root: &Path) -> Model<Entry> {
    fn walk(root: &Path, dir: &Path, dirs: &mut Vec<String>, files: &mut Vec<(String, Entry)>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("/{}", path.strip_prefix(root).unwrap().display());
            let meta = std::fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                dirs.push(name);
                walk(root, &path, dirs, files);
            } else if meta.is_symlink() {
                let to = std::fs::read_link(&path).unwrap().to_string_lossy().into_owned();
                files.push((name, Entry::Symlink(to)));
            } else {
                let mode = meta.permissions().mode() & 0o7777;
                files.push((name, Entry::File { mode, contents: std::fs::read(&path).unwrap() }));
            }
        }
    }
    let (mut dirs, mut files) = (Vec::new(), Vec::new());
    walk(root, root, &mut dirs, &mut files);
    Model::new(dirs, files)
}

fn apply(model: &mut Model<Entry>, op: &Op) {
    match op {
        Op::MakeDir(path) => model.make_dir(path),
        Op::Make { path, entry } => model.make(path, entry.clone(), matches!(entry, Entry::Symlink(_))),
        Op::SyncFile(path) => model.sync_file(path),
        Op::Link { from, to } => model.link(from, to),
        Op::Rename { from, to } => model.rename(from, to),
        Op::Remove(path) => model.remove(path),
        Op::RemoveDir(path) => model.remove_dir(path),
        Op::SyncDir(dir) => model.sync_dir(dir),
    }
}

fn emptied(entry: &Entry) -> Entry {
    match entry {
        Entry::File { mode, .. } => Entry::File { mode: *mode, contents: Vec::new() },
        Entry::Symlink(to) => Entry::Symlink(to.clone()),
    }
}

/// What is there by name, directories as nothing. Two names of one file are two files here; recovery must not depend on
/// it, for a backup makes them so.
fn shown(model: &Model<Entry>) -> BTreeMap<String, Option<Entry>> {
    let dirs = model.dirs().iter().filter(|dir| *dir != "/").map(|dir| (dir.clone(), None));
    model.files().into_iter().map(|(name, entry)| (name, Some(entry))).chain(dirs).collect()
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
    let mut model = model(&root);
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
            apply(&mut model, op);
        }
        for state in model.crashes(Losses::Some, emptied).iter().map(shown) {
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
