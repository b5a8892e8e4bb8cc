use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A disk that loses what was not synchronised: contents of files and names in directories apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Disk {
    /// Every file there ever was: what is in it, and whether that is on the disk.
    files: Vec<(Entry, bool)>,
    names: BTreeMap<String, usize>,
    dirs: BTreeSet<String>,
    /// What is on the disk.
    durable: Names,
    /// Changes of names that are not yet on the disk, with the directory they are in.
    pending: Vec<(String, NameOp)>,
    /// How many files may be made before the disk is full.
    room: Option<usize>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Names {
    names: BTreeMap<String, usize>,
    dirs: BTreeSet<String>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum NameOp {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
    MakeDir(String),
    RemoveDir(String),
}

impl Names {
    fn apply(&mut self, op: &NameOp) {
        match op {
            NameOp::Set(path, file) => _ = self.names.insert(path.clone(), *file),
            NameOp::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            NameOp::Remove(path) => _ = self.names.remove(path),
            NameOp::MakeDir(path) => _ = self.dirs.insert(path.clone()),
            NameOp::RemoveDir(path) => _ = self.dirs.remove(path),
        }
    }
}

fn text(text: &str) -> Entry {
    Entry::File { mode: 0o644, contents: text.as_bytes().to_vec() }
}

impl Disk {
    fn new(dirs: &[&str], files: &[(&str, &str)]) -> Disk {
        let mut disk = Disk::default();
        disk.dirs.extend(dirs.iter().map(|dir| (*dir).to_owned()));
        for (path, contents) in files {
            disk.files.push((text(contents), true));
            disk.names.insert((*path).to_owned(), disk.files.len() - 1);
        }
        disk.durable = Names { names: disk.names.clone(), dirs: disk.dirs.clone() };
        disk
    }

    fn present(&self, path: &str) -> bool {
        self.names.contains_key(path) || self.dirs.contains(path)
    }

    fn change(&mut self, path: &str, op: NameOp) {
        let mut names =
            Names { names: std::mem::take(&mut self.names), dirs: std::mem::take(&mut self.dirs) };
        names.apply(&op);
        (self.names, self.dirs) = (names.names, names.dirs);
        self.pending.push((parent(path).to_owned(), op));
    }

    /// Does it, or fails because there is no room.
    fn apply(&mut self, op: &Op) -> Result<(), ()> {
        match op {
            Op::MakeDir(path) => {
                assert!(self.dirs.contains(parent(path)), "{path} is made in a directory that is not there");
                if !self.dirs.contains(path) {
                    self.change(path, NameOp::MakeDir(path.clone()));
                }
            }
            Op::Make { path, entry } => {
                assert!(self.dirs.contains(parent(path)), "{path} is made in a directory that is not there");
                if let Some(room) = &mut self.room {
                    *room = room.checked_sub(1).ok_or(())?;
                }
                // A link has no contents that could be lost apart from its name.
                self.files.push((entry.clone(), matches!(entry, Entry::Symlink(_))));
                let file = self.files.len() - 1;
                self.change(path, NameOp::Set(path.clone(), file));
            }
            Op::SyncFile(path) => self.files[self.names[path]].1 = true,
            Op::Link { from, to } => {
                if !self.names.contains_key(to) {
                    let file = self.names[from];
                    self.change(to, NameOp::Set(to.clone(), file));
                }
            }
            Op::Rename { from, to } => {
                assert_eq!(parent(from), parent(to), "a rename across directories is not one operation");
                if self.names.get(to) != Some(&self.names[from]) {
                    self.change(to, NameOp::Rename(from.clone(), to.clone()));
                }
            }
            Op::Remove(path) => {
                if self.names.contains_key(path) {
                    self.change(path, NameOp::Remove(path.clone()));
                }
            }
            Op::RemoveDir(path) => {
                let inside = format!("{path}/");
                let used = |name: &&String| name.starts_with(&inside);
                if self.dirs.contains(path) && !self.names.keys().chain(&self.dirs).any(|n| used(&n)) {
                    self.change(path, NameOp::RemoveDir(path.clone()));
                }
            }
            Op::SyncDir(dir) => {
                let (now, later) = std::mem::take(&mut self.pending).into_iter().partition(|(d, _)| d == dir);
                self.pending = later;
                for (_, op) in &now as &Vec<(String, NameOp)> {
                    self.durable.apply(op);
                }
            }
        }
        Ok(())
    }

    /// What may be on the disk after the power failed now.
    fn crashes(&self, many: bool) -> Vec<Disk> {
        let count = self.pending.len();
        let subsets: Vec<Vec<bool>> = if many && count <= 6 {
            (0..1_usize << count).map(|mask| (0..count).map(|bit| mask >> bit & 1 == 1).collect()).collect()
        } else if !many {
            vec![vec![true; count], vec![false; count]]
        } else {
            let all = [vec![true; count], vec![false; count]];
            let one = |only: bool| (0..count).map(move |at| (0..count).map(|i| (i == at) == only).collect());
            let prefixes = (0..count).map(|upto| (0..count).map(|i| i < upto).collect());
            all.into_iter().chain(one(true)).chain(one(false)).chain(prefixes).collect()
        };
        let mut found = BTreeSet::new();
        for keep in subsets {
            for torn in [true, false] {
                let mut after = self.clone();
                after.pending.clear();
                for ((_, op), _) in self.pending.iter().zip(&keep).filter(|(_, keep)| **keep) {
                    after.durable.apply(op);
                }
                for (entry, synced) in &mut after.files {
                    if let (Entry::File { contents, .. }, false, true) = (&mut *entry, *synced, torn) {
                        contents.clear();
                    }
                    *synced = true;
                }
                (after.names, after.dirs) = (after.durable.names.clone(), after.durable.dirs.clone());
                found.insert(after.forgotten());
            }
        }
        found.into_iter().collect()
    }

    /// The same without files that have no name, so that equal disks are equal.
    fn forgotten(&self) -> Disk {
        let mut files = Vec::new();
        let mut moved = BTreeMap::new();
        for file in self.names.values() {
            moved.entry(*file).or_insert_with(|| {
                files.push(self.files[*file].clone());
                files.len() - 1
            });
        }
        let names: BTreeMap<String, usize> = self.names.iter().map(|(n, f)| (n.clone(), moved[f])).collect();
        let durable = Names { names: names.clone(), dirs: self.dirs.clone() };
        Disk { files, names, dirs: self.dirs.clone(), durable, pending: Vec::new(), room: self.room }
    }

    fn contents(&self) -> (Layout, BTreeSet<String>) {
        let names = self.names.iter().map(|(name, file)| (name.clone(), self.files[*file].0.clone()));
        (names.collect(), self.dirs.clone())
    }

    fn read(&self, path: &str) -> Option<String> {
        match &self.files[*self.names.get(path)?].0 {
            Entry::File { contents, .. } => Some(String::from_utf8(contents.clone()).unwrap()),
            Entry::Symlink(_) => None,
        }
    }

    fn recovery(&self) -> Vec<Op> {
        let intent = self.read(INTENT).map(|text| Intent::parse(&text).unwrap());
        recover(intent.as_ref(), self.read(CURRENT).as_deref(), |path| self.present(path))
    }

    fn recovered(mut self) -> Disk {
        for op in self.recovery() {
            self.apply(&op).unwrap();
        }
        assert_eq!(self.pending, [], "what is mended is on the disk");
        self
    }
}

fn layouts() -> (Layout, Layout) {
    let link = |to: &str| Entry::Symlink(to.into());
    let service = format!("{UNITS}/x.service");
    let old = Layout::from([
        ("/etc/kept".to_owned(), text("kept")),
        ("/etc/edited".to_owned(), text("old edited")),
        ("/etc/dropped".to_owned(), text("dropped")),
        ("/etc/given-back".to_owned(), text("ours")),
        (service.clone(), text("unit")),
        (format!("{UNITS}/a.wants/x.service"), link(&service)),
    ]);
    let new = Layout::from([
        ("/etc/kept".to_owned(), text("kept")),
        ("/etc/edited".to_owned(), text("new edited")),
        ("/etc/taken".to_owned(), text("ours now")),
        ("/etc/deep/er/new".to_owned(), text("new")),
        (service.clone(), link("/dev/null")),
    ]);
    (old, new)
}

/// A host on the old configuration, with files of its own where one was taken and one will be.
fn host() -> Disk {
    let dirs = ["/", "/etc", "/etc/systemd", UNITS, "/etc/systemd/system/a.wants", "/var", "/var/lib"];
    let mut disk = Disk::new(
        &[&dirs[..], &["/var/lib/netferry", STATE]].concat(),
        &[
            ("/etc/taken", "the host's"),
            ("/etc/.given-back.netferry-orig", "the host's own"),
            ("/etc/foreign", "foreign"),
            (CURRENT, "rendered-old"),
        ],
    );
    for (path, entry) in layouts().0 {
        disk.files.push((entry, true));
        disk.names.insert(path, disk.files.len() - 1);
    }
    disk.durable.names = disk.names.clone();
    disk
}

fn plan(disk: &Disk) -> (Intent, Vec<Op>) {
    let (old, new) = layouts();
    let intent = intend(&old, &new, "rendered-new", |path| disk.present(path));
    let ops = carry_out(&intent, &new);
    (intent, ops)
}

fn after() -> Disk {
    let mut disk = host();
    for op in plan(&disk).1 {
        disk.apply(&op).unwrap();
    }
    disk
}

#[test]
fn a_configuration_that_was_carried_out_is_there_with_the_hosts_own_kept_and_given_back() {
    let disk = after();
    assert_eq!(disk.pending, []);
    let (contents, dirs) = disk.contents();
    let shown: Vec<String> = contents
        .iter()
        .map(|(path, entry)| match entry {
            Entry::File { contents, .. } => format!("{path}: {}", String::from_utf8_lossy(contents)),
            Entry::Symlink(to) => format!("{path} -> {to}"),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "/etc/.taken.netferry-orig: the host's",
            "/etc/deep/er/new: new",
            "/etc/edited: new edited",
            "/etc/foreign: foreign",
            "/etc/given-back: the host's own",
            "/etc/kept: kept",
            "/etc/systemd/system/x.service -> /dev/null",
            "/etc/taken: ours now",
            "/var/lib/netferry/machine/current: rendered-new",
        ]
    );
    assert!(!dirs.contains("/etc/systemd/system/a.wants"), "no empty directory is left of a unit");
}

/// Power loss after every operation, with every choice of what was lost, and once more while mending it.
#[test]
fn after_power_loss_at_any_instruction_the_disk_is_the_old_or_the_new_one_whole() {
    let (old, new) = (host().contents(), after().contents());
    let mut seen = BTreeSet::new();
    let mut outcomes = [0, 0];
    let mut disk = host();
    let (_, ops) = plan(&disk);
    for done in 0..=ops.len() {
        if let Some(op) = done.checked_sub(1).map(|at| &ops[at]) {
            disk.apply(op).unwrap();
        }
        for crashed in disk.crashes(true) {
            if !seen.insert(crashed.clone()) {
                continue;
            }
            let mended = crashed.recovered().contents();
            assert!(mended == old || mended == new, "after {done} operations: {mended:?}");
            outcomes[usize::from(mended == new)] += 1;
        }
        // Mending may be cut off as well, any number of times.
        for crashed in disk.crashes(true) {
            let mut mending = crashed.clone();
            for op in crashed.recovery() {
                mending.apply(&op).unwrap();
                for again in mending.crashes(false) {
                    if seen.insert(again.clone()) {
                        let mended = again.recovered().contents();
                        assert!(
                            mended == old || mended == new,
                            "after {done} operations, mending cut off: {mended:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0) && seen.len() > 100, "{outcomes:?} {}", seen.len());
}

/// Every synchronisation is needed: without any one of them some loss of power leaves a mixed disk.
#[test]
fn a_forgotten_synchronisation_is_found_by_the_crash_test() {
    let (old, new) = (host().contents(), after().contents());
    let breaks = |ops: &[Op]| {
        let mut disk = host();
        ops.iter().any(|op| {
            disk.apply(op).unwrap();
            disk.crashes(true).into_iter().any(|crashed| {
                let intent = crashed.read(INTENT).map(|text| Intent::parse(&text));
                if matches!(intent, Some(Err(_))) {
                    return true;
                }
                let mended = crashed.recovered().contents();
                mended != old && mended != new
            })
        })
    };
    let (_, ops) = plan(&host());
    assert!(!breaks(&ops));
    let without_files: Vec<Op> = ops.iter().filter(|op| !matches!(op, Op::SyncFile(_))).cloned().collect();
    assert!(breaks(&without_files));
    let without_dirs: Vec<Op> =
        ops.iter().filter(|op| !matches!(op, Op::SyncDir(dir) if dir == "/etc")).cloned().collect();
    assert!(breaks(&without_dirs));
    let without_state: Vec<Op> =
        ops.iter().filter(|op| !matches!(op, Op::SyncDir(dir) if dir == STATE)).cloned().collect();
    assert!(breaks(&without_state));
}

#[test]
fn a_full_disk_is_found_before_anything_changes_and_undoing_needs_no_room() {
    let old = host().contents();
    for room in 0..20 {
        let mut disk = host();
        disk.room = Some(room);
        let (_, ops) = plan(&disk);
        if ops.iter().try_for_each(|op| disk.apply(op)).is_ok() {
            assert_eq!(disk.contents(), after().contents());
            return;
        }
        disk.room = Some(0);
        for op in disk.recovery() {
            disk.apply(&op).unwrap();
        }
        assert_eq!(disk.contents(), old, "with room for {room} files");
    }
    panic!("never room enough");
}

#[test]
fn when_the_last_unit_goes_the_hosts_directory_of_units_stays() {
    let old = Layout::from([(format!("{UNITS}/x.service"), text("unit"))]);
    let ops = carry_out(&intend(&old, &Layout::new(), "rendered-new", |_| true), &Layout::new());
    assert!(!ops.contains(&Op::RemoveDir(UNITS.to_owned())), "{ops:?}");
}

#[test]
fn doing_nothing_is_planned_as_nothing() {
    let (old, _) = layouts();
    let disk = host();
    let intent = intend(&old, &old, "same", |path| disk.present(path));
    assert_eq!((intent.changes, intent.dirs), (vec![], vec![]));
}

#[test]
fn an_intent_is_read_as_it_was_written_and_anything_else_is_refused() {
    let (intent, _) = plan(&host());
    assert_eq!(Intent::parse(&intent.to_string()), Ok(intent));
    for (wrong, line) in [
        ("", 1),
        ("something", 1),
        ("netferry intent 2\nto x\n", 1),
        ("netferry intent 1\n", 2),
        ("netferry intent 1\nfrom x\n", 2),
        ("netferry intent 1\nto x\nrename /a\n", 3),
    ] {
        assert_eq!(Intent::parse(wrong).unwrap_err().line, line, "{wrong:?}");
    }
}
