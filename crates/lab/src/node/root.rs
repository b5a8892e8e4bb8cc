//! A node's file system: the installation's programs, and everything else its own.
//!
//! | path | what |
//! | --- | --- |
//! | `/etc`, `/opt/cni`, `/var/lib`, `/var/log` | the node's disk |
//! | `/run`, `/tmp`, `/var/…` | empty at every boot |
//! | `/proc`, `/sys` | of the node's own namespaces |
//! | `/opt/netferry/bin`, `/opt/cni/bin/netferry-cni` | our programs, the very files that were there at its boot |
//! | the rest | as outside |

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::Spec;
use crate::error::{During, Result};

const OWN: [&str; 8] = ["etc", "lost+found", "opt", "proc", "run", "sys", "tmp", "var"];
const ON_DISK: [&str; 4] = ["etc", "opt/cni", "var/lib", "var/log"];
const EMPTY: [(&str, u32); 7] = [
    ("run", 0o755),
    ("run/netns", 0o755),
    ("run/network", 0o755),
    ("run/openvswitch", 0o755),
    ("tmp", 0o1777),
    ("var/cache", 0o755),
    ("var/tmp", 0o1777),
];

/// Makes the node's file system and moves this process into it.
pub(super) fn enter(spec: &Spec) -> Result<()> {
    let root = spec.directory.join("root");
    let attempt = || format!("making the file system of {}", spec.name);
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).during(attempt())?;
    mount(Some("root"), &root, Some("tmpfs"), MsFlags::empty(), Some("mode=755")).during(attempt())?;
    for (name, mode) in EMPTY {
        directory(&root.join(name), mode).during(attempt())?;
    }
    for name in ON_DISK {
        bind(&spec.disk().join(name), &root.join(name))?;
    }
    as_outside(Path::new("/"), &root, &OWN)?;
    as_outside(Path::new("/opt"), &root.join("opt"), &["cni", "netferry"])?;
    std::os::unix::fs::symlink("/run", root.join("var/run")).during(attempt())?;
    directory(&root.join("opt/netferry/bin"), 0o755).during(attempt())?;
    bind_file(&spec.program, &root.join("opt/netferry/bin/netferry"))?;
    if spec.cni.is_file() {
        bind_file(&spec.cni, &root.join("opt/cni/bin/netferry-cni"))?;
    }
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    for (kind, name) in [("proc", "proc"), ("sysfs", "sys")] {
        directory(&root.join(name), 0o555).during(attempt())?;
        mount(Some(kind), &root.join(name), Some(kind), plain, None::<&str>).during(attempt())?;
    }
    // The old root is put where the new one is, below it, and taken away.
    std::env::set_current_dir(&root).during(attempt())?;
    nix::unistd::pivot_root(".", ".").during(attempt())?;
    umount2(".", MntFlags::MNT_DETACH).during(attempt())?;
    std::env::set_current_dir("/").during(attempt())
}

/// Everything in a directory but some, as it is outside.
fn as_outside(from: &Path, to: &Path, but: &[&str]) -> Result<()> {
    let attempt = || format!("reading {}", from.display());
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    for entry in entries {
        let entry = entry.during(attempt())?;
        let kind = entry.file_type().during(attempt())?;
        let target = to.join(entry.file_name());
        if but.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_symlink() {
            let leads_to = fs::read_link(entry.path()).during(attempt())?;
            std::os::unix::fs::symlink(leads_to, target).during(attempt())?;
        } else if kind.is_dir() {
            bind(&entry.path(), &target)?;
        }
    }
    Ok(())
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    let attempt = || format!("mounting {} as {}", from.display(), to.display());
    directory(to, 0o755).during(attempt())?;
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>).during(attempt())
}

fn bind_file(from: &Path, to: &Path) -> Result<()> {
    let attempt = || format!("mounting {} as {}", from.display(), to.display());
    fs::write(to, "").during(attempt())?;
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).during(attempt())
}

fn directory(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
