//! The container image's archive: the same input gives the same bytes, and a damaged archive is refused.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Trees {
    dir: tempfile::TempDir,
}

impl Trees {
    /// A base and the programs, in files that are new each time.
    fn new() -> Trees {
        let trees = Trees { dir: tempfile::tempdir().expect("a directory") };
        let plugin = std::fs::read(env!("CARGO_BIN_EXE_netferry-cni")).expect("the plugin");
        for program in ["programs/usr/bin/netferry-cni", "programs/usr/bin/netferry", "base/bin/dash"] {
            trees.executable(program, &plugin);
        }
        for program in ["base/bin/cp", "base/bin/mv"] {
            trees.executable(program, b"#!/bin/dash\n");
        }
        std::os::unix::fs::symlink("dash", trees.path("base/bin/sh")).expect("a link");
        std::fs::hard_link(trees.path("base/bin/cp"), trees.path("base/bin/copy")).expect("a hard link");
        trees.file("programs/usr/share/doc/netferry/sbom.cdx.json", b"{}");
        trees.file("base/usr/share/man/man1/cp.1", b"not needed");
        trees.file("base/usr/share/doc/dash/copyright", b"needed");
        trees
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(&self, path: &str, data: &[u8]) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, data).expect("a file");
    }

    fn executable(&self, path: &str, data: &[u8]) {
        self.file(path, data);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(path), mode).expect("a mode");
    }

    fn archive(&self) -> PathBuf {
        let archive = self.path("image.tar");
        let mut pack = script("image-archive");
        pack.args([
            "--name",
            "registry.example/netferry:1",
            "--version",
            "1",
            "--revision",
            "abc",
            "--output",
        ])
        .arg(&archive)
        .args([self.path("base"), self.path("programs")])
        .env("SOURCE_DATE_EPOCH", "1700000000");
        run(pack).expect("it is packed");
        archive
    }
}

fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name))
}

fn run(mut command: Command) -> Result<String, String> {
    let done = command.output().expect("python3 runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
}

fn verify(archive: &Path) -> Result<String, String> {
    let mut verify = script("image-verify");
    verify.arg(archive);
    run(verify)
}

/// The names in one of the archive's layers.
fn names(archive: &Path, layer: &str) -> Vec<String> {
    let mut list = Command::new("sh");
    list.args(["-c", r#"tar -xOf "$0" "$1" | tar -tz"#]).arg(archive).arg(layer);
    run(list).expect("tar runs").lines().map(str::to_owned).collect()
}

#[test]
fn two_trees_with_the_same_files_give_the_same_archive_and_it_is_whole() {
    let (one, other) = (Trees::new(), Trees::new());
    let (one, other) = (one.archive(), other.archive());
    let said = verify(&one).expect("it is whole");
    assert!(said.starts_with("registry.example/netferry:1: sha256:"), "{said}");
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&other).unwrap());
}

#[test]
fn the_image_has_what_containers_run_and_what_licences_ask_for_and_no_manual() {
    let trees = Trees::new();
    let archive = trees.archive();
    let mut manifest = Command::new("tar");
    manifest.arg("-xOf").arg(&archive).arg("manifest.json");
    let manifest: serde_json::Value = serde_json::from_str(&run(manifest).expect("tar runs")).expect("JSON");
    assert_eq!(manifest[0]["RepoTags"][0], "registry.example/netferry:1");
    let base = names(&archive, manifest[0]["Layers"][0].as_str().expect("a layer"));
    for name in ["bin/sh", "bin/cp", "bin/copy", "usr/share/doc/dash/copyright"] {
        assert!(base.iter().any(|one| one == name), "{name} in {base:?}");
    }
    assert!(!base.iter().any(|one| one.contains("man1")), "{base:?}");
    let programs = names(&archive, manifest[0]["Layers"][1].as_str().expect("a layer"));
    assert!(programs.iter().any(|one| one == "usr/bin/netferry"), "{programs:?}");
}

#[test]
fn an_archive_with_a_changed_byte_is_refused() {
    let trees = Trees::new();
    let archive = trees.archive();
    let mut data = std::fs::read(&archive).expect("the archive");
    // Inside the layers, which are most of it.
    let middle = data.len() / 2;
    data[middle] ^= 1;
    std::fs::write(&archive, data).expect("the archive");
    let refused = verify(&archive).expect_err("a digest differs");
    assert!(refused.contains("sha256") && refused.contains("another digest"), "{refused}");
}

#[test]
fn an_archive_without_its_entry_point_is_refused() {
    let trees = Trees::new();
    std::fs::remove_file(trees.path("programs/usr/bin/netferry")).expect("a file");
    let refused = verify(&trees.archive()).expect_err("nothing to start");
    assert_eq!(
        refused,
        "image-verify: /usr/bin/netferry is in no layer; build the image again: make image\n"
    );
}

#[test]
fn an_archive_above_the_size_limit_is_refused() {
    let trees = Trees::new();
    // What cannot be compressed.
    let mut noise = Vec::new();
    let random = std::fs::File::open("/dev/urandom").expect("random bytes");
    std::io::Read::read_to_end(&mut std::io::Read::take(random, 40_100_000), &mut noise)
        .expect("random bytes");
    trees.file("base/noise", &noise);
    let refused = verify(&trees.archive()).expect_err("too large");
    assert!(refused.contains("more than 40000000"), "{refused}");
}
