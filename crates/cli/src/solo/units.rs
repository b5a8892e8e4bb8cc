//! systemd's units: ours, and those of the distribution's own OVN, which must rest while ours runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow};
use netferry_agent::machine::Disk;

use crate::doctor::{OVN_UNITS, UNIT_DIRS};

/// Our unit.
pub(super) const UNIT: &str = "netferry-solo.service";
/// Where those of the host's own are.
pub(super) const CONFIGURED: &str = "etc/systemd/system";
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";
/// Where our unit's file is; systemd has links to it.
const FILE: &str = "etc/netferry/netferry-solo.service";
/// What a unit that may not start is a link to.
const NOTHING: &str = "/dev/null";

/// The units of a host.
#[derive(Debug)]
pub(super) struct Units {
    root: PathBuf,
}

impl Units {
    /// Those of the host with this root.
    pub(super) fn of(root: &Path) -> Units {
        Units { root: root.to_owned() }
    }

    /// Whether systemd runs here, to be told of changes.
    pub(super) fn run_here(&self) -> bool {
        self.root.join("run/systemd/system").is_dir()
    }

    /// Units of the distribution's own OVN that could start.
    pub(super) fn others(&self) -> Vec<String> {
        let there = |unit: &str| UNIT_DIRS.iter().any(|dir| self.exists(&format!("{dir}/{unit}")));
        let masked =
            |unit: &str| std::fs::read_link(self.configured(unit)).is_ok_and(|to| to == Path::new(NOTHING));
        OVN_UNITS.iter().filter(|unit| there(unit) && !masked(unit)).map(|unit| (*unit).to_owned()).collect()
    }

    /// Whether a unit's processes run.
    pub(super) fn runs(&self, unit: &str) -> bool {
        self.run_here()
            && Command::new("systemctl")
                .args(["is-active", "--quiet", unit])
                .status()
                .is_ok_and(|s| s.success())
    }

    /// Ends our unit, also one that waits for its next start: that one is not active, and would come in between.
    pub(super) fn stop(&self) -> anyhow::Result<()> {
        let there = self.configured(UNIT).symlink_metadata().is_ok();
        if there { self.tell(&["stop", UNIT]) } else { Ok(()) }
    }

    /// Keeps a unit from starting.
    pub(super) fn mask(&self, unit: &str) -> anyhow::Result<()> {
        link(Path::new(NOTHING), &self.configured(unit))
    }

    /// Lets it start again.
    pub(super) fn unmask(&self, unit: &str) -> anyhow::Result<()> {
        let file = self.configured(unit);
        match std::fs::read_link(&file) {
            Ok(to) if to == Path::new(NOTHING) => remove(&file),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Has our unit start at every boot.
    pub(super) fn enable(&self, text: &str) -> anyhow::Result<()> {
        Disk::open(&self.root)?.replace(&format!("/{FILE}"), text.as_bytes().to_vec(), 0o644)?;
        let file = Path::new("/").join(FILE);
        link(&file, &self.configured(UNIT))?;
        link(&file, &self.root.join(WANTS).join(UNIT))
    }

    /// Takes it away.
    pub(super) fn disable(&self) -> anyhow::Result<()> {
        for file in [self.root.join(WANTS).join(UNIT), self.configured(UNIT), self.root.join(FILE)] {
            remove(&file)?;
        }
        Ok(())
    }

    /// Tells systemd, where it runs.
    pub(super) fn tell(&self, arguments: &[&str]) -> anyhow::Result<()> {
        if !self.run_here() {
            return Ok(());
        }
        let attempt = || format!("running systemctl {}", arguments.join(" "));
        let done = Command::new("systemctl").args(arguments).output().with_context(attempt)?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Err(anyhow!("{said}")).with_context(attempt)
    }

    fn configured(&self, unit: &str) -> PathBuf {
        self.root.join(CONFIGURED).join(unit)
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path.trim_start_matches('/')).symlink_metadata().is_ok()
    }
}

/// What our unit says.
pub(super) fn text(command: &[String]) -> String {
    // As systemd reads it: words in quotes, with their own escaped, and no specifiers.
    let word = |word: &String| {
        let safe = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
        format!("\"{safe}\"")
    };
    let command: Vec<String> = command.iter().map(word).collect();
    format!(
        "# Made by `netferry solo install`; `netferry solo uninstall` removes it.\n\
         [Unit]\n\
         Description=The network of this machine's pods (netferry)\n\
         # Wanted and not required: a switch that is restarted must not end what keeps it.\n\
         Wants=openvswitch-switch.service\n\
         After=openvswitch-switch.service network-pre.target\n\
         Before=kubelet.service k3s.service microshift.service\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={}\n\
         Restart=always\n\
         RestartSec=1\n\
         # OVN's daemons outlive it, and so do packets.\n\
         KillMode=process\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        command.join(" ")
    )
}

fn link(to: &Path, at: &Path) -> anyhow::Result<()> {
    make_directory(at)?;
    if std::fs::read_link(at).is_ok_and(|now| now == to) {
        return Ok(());
    }
    symlink(to, at).with_context(|| format!("linking {} to {}", at.display(), to.display()))?;
    keep(at)
}

/// Has what was done to a name outlive a loss of power.
pub(super) fn keep(name: &Path) -> anyhow::Result<()> {
    let Some(directory) = name.parent() else { return Ok(()) };
    let synchronised = File::open(directory).and_then(|directory| directory.sync_all());
    synchronised.with_context(|| format!("synchronising {}", directory.display()))
}

pub(super) fn make_directory(of: &Path) -> anyhow::Result<()> {
    let Some(directory) = of.parent() else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("making the directory {}", directory.display()))
}

pub(super) fn remove(file: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", file.display()))
        }
        Err(_) => Ok(()),
        Ok(()) => keep(file),
    }
}
