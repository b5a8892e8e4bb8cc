use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use netferry_core::error::chain;
use netferry_core::rollout::config::{File, Spec, Unit};
use netferry_core::rollout::epochs::Epochs;
use netferry_core::rollout::journal::{CURRENT, INTENT};
use netferry_core::rollout::layout::Drift;
use netferry_core::rollout::merge::Rendered;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::disk::Disk;
use super::store::{self, StoreError};

pub(super) fn rendered(name: &str, epoch: u64, files: &[(&str, &str)], units: Vec<Unit>) -> Rendered {
    let files = files.iter().map(|(path, contents)| File {
        path: (*path).to_owned(),
        mode: 0o640,
        contents: contents.as_bytes().to_vec(),
    });
    let spec = Spec { files: files.collect(), units, ..Spec::default() };
    Rendered { name: name.to_owned(), spec, sources: Vec::new(), epochs: Epochs::of("mtu", epoch) }
}

pub(super) fn unit(name: &str, masked: bool) -> Unit {
    let contents = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    Unit {
        name: name.to_owned(),
        enabled: Some(!masked),
        masked,
        contents: (!masked).then(|| contents.to_owned()),
        ..Unit::default()
    }
}

/// The configuration a host has, and the one it takes.
pub(super) fn two() -> (Rendered, Rendered) {
    let old = [("/etc/kept", "kept"), ("/etc/edited", "old"), ("/etc/given-back", "ours")];
    let new =
        [("/etc/kept", "kept"), ("/etc/edited", "new"), ("/etc/taken", "ours"), ("/etc/deep/er", "new")];
    (
        rendered("rendered-worker-old", 1, &old, vec![unit("x.service", false)]),
        rendered("rendered-worker-new", 2, &new, vec![unit("x.service", true)]),
    )
}

/// A host's root with a file system of its own that holds so much, gone when the test is over. The calling thread sees
/// it alone.
pub(super) fn host(size: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let options = format!("size={size},nr_inodes=0");
    mount(Some("netferry"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).unwrap();
    for path in ["etc/systemd/system", "var/lib"] {
        std::fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    write(dir.path(), "etc/given-back", "the host's own");
    write(dir.path(), "etc/taken", "the host's");
    let root = dir.path().to_owned();
    (dir, root)
}

fn write(root: &Path, path: &str, contents: &str) {
    std::fs::write(root.join(path), contents).unwrap();
}

fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| format!("{path}: {error}"))
}

/// Everything below a root but what we keep for ourselves.
pub(super) fn tree(root: &Path) -> Vec<String> {
    fn walk(root: &Path, dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let shown = format!("/{}", path.strip_prefix(root).unwrap().display());
            let meta = std::fs::symlink_metadata(&path).unwrap();
            if shown == "/var/lib/netferry" {
                continue;
            } else if meta.is_symlink() {
                found.push(format!("{shown} -> {}", std::fs::read_link(&path).unwrap().display()));
            } else if meta.is_dir() {
                found.push(format!("{shown}/"));
                walk(root, &path, found);
            } else {
                let (mode, text) =
                    (meta.permissions().mode() & 0o7777, std::fs::read_to_string(&path).unwrap());
                found.push(format!("{shown} {mode:o} {}", text.lines().next().unwrap_or_default()));
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

#[test]
fn a_configuration_is_taken_and_what_the_host_had_comes_back_after_it() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let (old, new) = two();
    assert_eq!(store::current(&disk).unwrap(), None);
    let before = tree(&root);
    store::take(&disk, &old).unwrap();
    assert_eq!(store::current(&disk).unwrap().unwrap(), old);
    let enabled = root.join("etc/systemd/system/multi-user.target.wants/x.service");
    assert_eq!(std::fs::read_link(&enabled).unwrap(), Path::new("/etc/systemd/system/x.service"));
    assert_eq!(read(&root, "etc/given-back"), "ours");

    store::take(&disk, &new).unwrap();
    assert_eq!(store::current(&disk).unwrap().unwrap(), new);
    assert_eq!(store::strayed(&disk, &new).unwrap(), []);
    assert_eq!(
        tree(&root),
        [
            "/etc/",
            "/etc/.taken.netferry-orig 644 the host's",
            "/etc/deep/",
            "/etc/deep/er 640 new",
            "/etc/edited 640 new",
            "/etc/given-back 644 the host's own",
            "/etc/kept 640 kept",
            "/etc/systemd/",
            "/etc/systemd/system/",
            "/etc/systemd/system/x.service -> /dev/null",
            "/etc/taken 640 ours",
            "/var/",
            "/var/lib/",
        ]
    );
    let nothing = Rendered { name: "rendered-worker-empty".into(), ..store::none() };
    store::take(&disk, &nothing).unwrap();
    let mut after = tree(&root);
    after.retain(|line| line != "/etc/deep/");
    assert_eq!(after, before, "nothing of ours is left but a directory somebody may use by now");
}

#[test]
fn whoever_goes_on_regardless_gets_what_is_told_whatever_became_of_managed_files() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let (old, new) = two();
    store::take(&disk, &old).unwrap();
    // Both configurations have the one; the other was the host's before, and is to be so again.
    write(&root, "etc/kept", "edited by hand");
    std::fs::remove_file(root.join("etc/given-back")).unwrap();
    assert_eq!(store::strayed(&disk, &old).unwrap().len(), 2);
    store::take(&disk, &new).unwrap();
    assert_eq!(store::strayed(&disk, &new).unwrap(), []);
    assert_eq!(read(&root, "etc/kept"), "kept");
    assert_eq!(read(&root, "etc/given-back"), "the host's own");
    assert!(!root.join("etc/.given-back.netferry-orig").exists(), "nothing is left of it");
}

#[test]
fn a_configuration_whose_leftovers_cannot_be_removed_is_said_to_be_taken() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let (old, new) = two();
    store::take(&disk, &old).unwrap();
    // The name of what is kept for undoing is taken by something that cannot be removed like a file.
    std::fs::create_dir(root.join("etc/.left.netferry-old")).unwrap();
    let in_the_way = rendered("rendered-worker-deep", 3, &[("/etc/left", "x")], vec![]);
    let said = chain(&store::take(&disk, &in_the_way).unwrap_err());
    assert!(said.starts_with("rendered-worker-deep was taken, but"), "{said}");
    assert_eq!(store::current(&disk).unwrap().unwrap(), in_the_way);
    assert_eq!(store::strayed(&disk, &in_the_way).unwrap(), []);
    std::fs::remove_dir(root.join("etc/.left.netferry-old")).unwrap();
    store::recover(&disk).unwrap();
    store::take(&disk, &new).unwrap();
}

#[test]
fn whoever_leaves_takes_everything_along_that_configurations_brought() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let before = tree(&root);
    store::leave(&disk).unwrap();
    assert_eq!(tree(&root), before, "nothing was brought");
    store::take(&disk, &two().0).unwrap();
    for _ in 0..2 {
        store::leave(&disk).unwrap();
        assert_eq!(tree(&root), before);
    }
}

#[test]
fn configurations_nobody_needs_are_forgotten() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let (old, new) = two();
    store::take(&disk, &old).unwrap();
    store::take(&disk, &new).unwrap();
    assert!(store::kept(&disk, &old.name).is_ok(), "the host still runs by it");
    store::forget_others(&disk, &[new.name.as_str()].into()).unwrap();
    assert_eq!(store::current(&disk).unwrap().unwrap(), new);
    let gone = store::kept(&disk, &old.name).unwrap_err();
    assert!(matches!(gone, StoreError::Kept { .. }), "{gone}");
}

#[test]
fn a_full_disk_is_said_by_name_and_leaves_everything_as_it_was() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let (old, new) = two();
    store::take(&disk, &old).unwrap();
    let before = tree(&root);
    let large = "x".repeat(2 << 20);
    let too_much = rendered("rendered-worker-large", 3, &[("/etc/large", &large)], vec![]);
    let full = store::take(&disk, &too_much).unwrap_err();
    let said = chain(&full);
    assert!(
        said.starts_with("taking rendered-worker-large failed and what was there was put back"),
        "{said}"
    );
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(tree(&root), before);

    // Whatever is left over: room for everything but the last few pages, down to none at all.
    for pages in 0..12 {
        let fill = root.join("fill");
        let mut all = vec![0_u8; 1 << 20];
        while std::fs::write(&fill, &all).is_err() {
            all.truncate(all.len() - 4096);
        }
        all.truncate(all.len() - (pages * 4096).min(all.len()));
        std::fs::write(&fill, &all).unwrap();
        let taken = store::take(&disk, &new);
        std::fs::remove_file(&fill).unwrap();
        match taken {
            Ok(()) => {
                assert_eq!(store::current(&disk).unwrap().unwrap(), new);
                assert!(pages > 0, "there was no room");
                return;
            }
            Err(error) => {
                assert_eq!(store::current(&disk).unwrap().unwrap(), old, "{}", chain(&error));
                assert_eq!(tree(&root), before, "with {pages} pages left: {}", chain(&error));
            }
        }
    }
    panic!("never room enough");
}

#[test]
fn what_is_in_the_way_is_named_and_nothing_changes() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let (old, _) = two();
    store::take(&disk, &old).unwrap();
    std::fs::create_dir(root.join("etc/dir")).unwrap();
    std::fs::write(root.join("etc/file"), "").unwrap();
    let before = tree(&root);
    for (path, named) in [("/etc/dir", "/etc/dir"), ("/etc/file/inside", "/etc/file")] {
        let config = rendered("rendered-worker-no", 3, &[("/etc/edited", "new"), (path, "x")], vec![]);
        let said = chain(&store::take(&disk, &config).unwrap_err());
        assert!(said.contains(named), "{said}");
        assert_eq!(tree(&root), before, "{path}");
        assert_eq!(store::current(&disk).unwrap().unwrap(), old);
    }
    for name in ["", "../x", ".hidden", "a/b"] {
        let config = Rendered { name: name.to_owned(), ..old.clone() };
        assert!(matches!(store::take(&disk, &config).unwrap_err(), StoreError::Name(_)), "{name:?}");
    }
}

#[test]
fn what_others_wrote_where_only_we_write_is_refused() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let (old, new) = two();
    store::take(&disk, &old).unwrap();
    std::fs::write(root.join(&INTENT[1..]), "rm -rf /\n").unwrap();
    let said = store::take(&disk, &new).unwrap_err().to_string();
    assert_eq!(said, format!("line 1 of {INTENT} is not ours: \"rm -rf /\""));
    std::fs::remove_file(root.join(&INTENT[1..])).unwrap();
    std::fs::write(root.join(&CURRENT[1..]), "rendered-worker-lost").unwrap();
    let said = store::current(&disk).unwrap_err().to_string();
    assert!(said.contains("rendered-worker-lost.json cannot be read: it is not there"), "{said}");
}

#[test]
fn mending_says_whether_units_are_others_than_those_that_were_read() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    store::take(&disk, &two().0).unwrap();
    assert!(!store::recover(&disk).unwrap().units, "nothing was cut off");
    for (kind, path, units) in [("new", "/etc/x", false), ("new", "/etc/systemd/system/y.service", true)] {
        std::fs::write(root.join(&INTENT[1..]), format!("netferry intent 1\nto new\n{kind} {path}\n"))
            .unwrap();
        write(&root, &path[1..], "half");
        assert_eq!(store::recover(&disk).unwrap().units, units, "{path}");
        assert!(!root.join(&path[1..]).exists());
    }
}

#[test]
fn links_lead_where_they_lead_on_the_host_not_where_the_daemon_runs() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    std::fs::create_dir_all(root.join("usr/lib/x")).unwrap();
    symlink("/usr/lib/x", root.join("etc/x")).unwrap();
    symlink("../../../../..", root.join("etc/out")).unwrap();
    let config = rendered("rendered-a", 1, &[("/etc/x/file", "1"), ("/etc/out/etc/y", "2")], vec![]);
    store::take(&disk, &config).unwrap();
    assert_eq!(read(&root, "usr/lib/x/file"), "1");
    assert_eq!(read(&root, "etc/y"), "2", "nothing leads out of the host's root");
}

#[test]
fn links_are_followed_while_others_rename_their_files() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    symlink("../../../../..", root.join("etc/out")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (here, there) = (elsewhere.path().join("here"), elsewhere.path().join("there"));
    std::fs::write(&here, "").unwrap();
    let looked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !looked.load(Relaxed) {
                std::fs::rename(&here, &there).and_then(|()| std::fs::rename(&there, &here)).unwrap();
            }
        });
        let found: Vec<_> = (0..20_000).map(|_| disk.present("/etc/out/etc/out/etc/given-back")).collect();
        looked.store(true, Relaxed);
        assert!(found.into_iter().all(|found| found.unwrap()));
    });
}

#[test]
fn every_way_a_managed_file_can_stray_is_seen_and_a_touch_is_not() {
    let (_dir, root) = host("1m");
    let disk = Disk::open(&root).unwrap();
    let config = rendered("rendered-a", 1, &[("/etc/a", "a")], vec![unit("x.service", true)]);
    let (file, masked) = (root.join("etc/a"), root.join("etc/systemd/system/x.service"));
    let check = |change: &dyn Fn(), said: &[&str]| {
        for path in [&file, &masked] {
            let _ = std::fs::remove_dir_all(path).or_else(|_| std::fs::remove_file(path));
        }
        store::take(&disk, &Rendered { name: "rendered-none".into(), ..store::none() }).unwrap();
        store::take(&disk, &config).unwrap();
        change();
        let found: Vec<String> =
            store::strayed(&disk, &config).unwrap().iter().map(Drift::to_string).collect();
        assert_eq!(found, said);
    };
    check(&|| std::fs::write(&file, "a").unwrap(), &[]);
    check(&|| std::fs::write(&file, "b").unwrap(), &["/etc/a has other contents"]);
    check(&|| std::fs::remove_file(&file).unwrap(), &["/etc/a is missing"]);
    check(&|| std::fs::rename(&file, root.join("etc/b")).unwrap(), &["/etc/a is missing"]);
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    check(&|| mode(0o600), &["/etc/a has mode 600, not 640"]);
    let other = || {
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
    };
    check(&other, &["/etc/a is not what it should be: it is of another kind"]);
    let unmasked = || {
        std::fs::remove_file(&masked).unwrap();
        symlink("/dev/zero", &masked).unwrap();
    };
    check(&unmasked, &["/etc/systemd/system/x.service leads to /dev/zero, not /dev/null"]);
}
