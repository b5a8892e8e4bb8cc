use std::collections::BTreeSet;

use netferry_testkit::disk::{Disk, Losses};

use super::*;

/// A host's disk, which may become full.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Host {
    disk: Disk<Entry>,
    /// How many files may be made before it is full.
    room: Option<usize>,
}

fn text(text: &str) -> Entry {
    Entry::File { mode: 0o644, contents: text.as_bytes().to_vec() }
}

fn emptied(entry: &Entry) -> Entry {
    match entry {
        Entry::File { mode, .. } => Entry::File { mode: *mode, contents: Vec::new() },
        Entry::Symlink(to) => Entry::Symlink(to.clone()),
    }
}

impl Host {
    /// Does it, or fails because there is no room.
    fn apply(&mut self, op: &Op) -> Result<(), ()> {
        let disk = &mut self.disk;
        match op {
            Op::MakeDir(path) => disk.make_dir(path),
            Op::Make { path, entry } => {
                if let Some(room) = &mut self.room {
                    *room = room.checked_sub(1).ok_or(())?;
                }
                disk.make(path, entry.clone(), matches!(entry, Entry::Symlink(_)));
            }
            Op::SyncFile(path) => disk.sync_file(path),
            Op::Link { from, to } => disk.link(from, to),
            Op::Rename { from, to } => disk.rename(from, to),
            Op::Remove(path) => disk.remove(path),
            Op::RemoveDir(path) => disk.remove_dir(path),
            Op::SyncDir(dir) => disk.sync_dir(dir),
        }
        Ok(())
    }

    /// What may be on the disk after the power failed now.
    fn crashes(&self, losses: Losses) -> impl Iterator<Item = Host> {
        let room = self.room;
        self.disk.crashes(losses, emptied).into_iter().map(move |disk| Host { disk, room })
    }

    fn found(&self, path: &str) -> Found {
        match self.disk.entry(path) {
            Some(entry) => Found::Entry(entry.clone()),
            None if self.disk.contains(path) => Found::Other,
            None => Found::Nothing,
        }
    }

    fn contents(&self) -> (Layout, BTreeSet<String>) {
        (self.disk.files(), self.disk.dirs().clone())
    }

    fn read(&self, path: &str) -> Option<String> {
        match self.disk.entry(path)? {
            Entry::File { contents, .. } => Some(String::from_utf8(contents.clone()).unwrap()),
            Entry::Symlink(_) => None,
        }
    }

    fn recovery(&self) -> Vec<Op> {
        let intent = self.read(INTENT).map(|text| Intent::parse(&text).unwrap());
        recover(intent.as_ref(), self.read(CURRENT).as_deref(), |path| self.disk.contains(path))
    }

    fn recovered(mut self) -> Host {
        for op in self.recovery() {
            self.apply(&op).unwrap();
        }
        assert!(self.disk.is_durable(), "what is mended is on the disk: {:?}", self.disk);
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
        ("/etc/lost".to_owned(), text("ours")),
        ("/etc/strayed".to_owned(), text("shared")),
        (service.clone(), text("unit")),
        (format!("{UNITS}/a.wants/x.service"), link(&service)),
    ]);
    let new = Layout::from([
        ("/etc/kept".to_owned(), text("kept")),
        ("/etc/edited".to_owned(), text("new edited")),
        ("/etc/strayed".to_owned(), text("shared")),
        ("/etc/taken".to_owned(), text("ours now")),
        ("/etc/deep/er/new".to_owned(), text("new")),
        (service.clone(), link("/dev/null")),
    ]);
    (old, new)
}

/// A host on the old configuration, with files of its own where one was taken and one will be. Somebody edited a
/// managed file, and deleted one that the host had before.
fn host() -> Host {
    let dirs = ["/etc", "/etc/systemd", UNITS, "/etc/systemd/system/a.wants", "/var", "/var/lib"];
    let own = [
        ("/etc/taken", "the host's"),
        ("/etc/.given-back.netferry-orig", "the host's own"),
        ("/etc/.lost.netferry-orig", "the host's first"),
        ("/etc/strayed", "somebody's"),
        ("/etc/foreign", "foreign"),
        (CURRENT, "rendered-old"),
    ];
    let own = own.map(|(path, contents)| (path.to_owned(), text(contents)));
    let managed = layouts().0.into_iter().filter(|(path, _)| path != "/etc/lost");
    let disk = Disk::new(dirs.into_iter().chain(["/var/lib/netferry", STATE]), managed.chain(own));
    Host { disk, room: None }
}

fn plan(host: &Host) -> (Intent, Vec<Op>) {
    let (old, new) = layouts();
    let intent = intend(&old, &new, "rendered-new", |path| host.found(path));
    let ops = carry_out(&intent, &new);
    (intent, ops)
}

fn after() -> Host {
    let mut disk = host();
    for op in plan(&disk).1 {
        disk.apply(&op).unwrap();
    }
    disk
}

#[test]
fn a_configuration_that_was_carried_out_is_there_with_the_hosts_own_kept_and_given_back() {
    let disk = after();
    assert!(disk.disk.is_durable());
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
            "/etc/lost: the host's first",
            "/etc/strayed: shared",
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
        for crashed in disk.crashes(Losses::Many) {
            if !seen.insert(crashed.clone()) {
                continue;
            }
            let mended = crashed.recovered().contents();
            assert!(mended == old || mended == new, "after {done} operations: {mended:?}");
            outcomes[usize::from(mended == new)] += 1;
        }
        // Mending may be cut off as well, any number of times.
        for crashed in disk.crashes(Losses::Many) {
            let mut mending = crashed.clone();
            for op in crashed.recovery() {
                mending.apply(&op).unwrap();
                for again in mending.crashes(Losses::Few) {
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
            disk.crashes(Losses::Many).any(|crashed| {
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
    let ops = carry_out(&intend(&old, &Layout::new(), "rendered-new", |_| Found::Other), &Layout::new());
    assert!(!ops.contains(&Op::RemoveDir(UNITS.to_owned())), "{ops:?}");
}

#[test]
fn doing_nothing_is_planned_as_nothing() {
    let (old, _) = layouts();
    let disk = Host { disk: Disk::new(["/etc"], old.clone()), room: None };
    let intent = intend(&old, &old, "same", |path| disk.found(path));
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
