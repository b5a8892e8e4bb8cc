//! A small machine with a kernel and a service manager of its own, for what namespaces cannot show.
//!
//! It runs one script and switches itself off; what the script printed is what comes of it. Its disk is what
//! `scripts/vm-image` makes, once. Without help of the processor everything takes ten to fifty times as long as outside:
//! nothing here says how fast anything is.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::supervised::Supervised;

/// Makes the disk, or finds it.
const MAKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/vm-image");
/// The last line of a script that came to its end, before its exit status.
const END: &str = "vm: ended with ";
/// The network card and all there is on its wire.
const UPLINK: &str = "user,model=virtio-net-pci,restrict=on,guestfwd=tcp:10.0.2.100:7777-cmd:cat";
/// For scripts that reboot. What comes after a script switches the machine off, unless told otherwise until then.
const AGAIN: &str = "again() {
  mkdir -p /run/systemd/system/vm.service.d
  printf '[Service]\\nExecStopPost=\\n' > /run/systemd/system/vm.service.d/again.conf
  systemctl daemon-reload
  trap - EXIT
  systemctl reboot
  while :; do sleep 60; done
}
";
const LOOK: Duration = Duration::from_millis(200);

/// Why nothing came of a machine.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// There is no disk to boot from.
    #[error("there is no machine to boot, because `scripts/vm-image` failed; it says why")]
    NoImage,
    /// Preparing or starting it failed.
    #[error("starting a machine")]
    Start(#[from] io::Error),
    /// It was not done in time.
    #[error(
        "the machine was not done within {within:?}; its console ended with:\n{console}\nand its script with:\n{output}"
    )]
    TimedOut {
        /// The time it was given.
        within: Duration,
        /// The end of its console.
        console: String,
        /// What the script had printed.
        output: String,
    },
    /// The script failed, or the machine ended without it.
    #[error(
        "the script of the machine failed; its console ended with:\n{console}\nand the script with:\n{output}"
    )]
    Failed {
        /// The end of its console.
        console: String,
        /// What the script had printed.
        output: String,
    },
}

/// A machine that was not started yet.
#[derive(Debug)]
pub struct Machine {
    image: PathBuf,
    /// What is put on its disk, by path below its root.
    files: Vec<(PathBuf, PathBuf)>,
    /// Further words for its kernel.
    words: Vec<String>,
    uplink: bool,
    /// How many cards it has on a wire of their own.
    cards: usize,
    restarts: bool,
}

impl Machine {
    /// One with the usual disk, which is made if there is none yet.
    pub fn new() -> Result<Machine, VmError> {
        let made = Command::new(MAKER).stderr(Stdio::inherit()).output()?;
        if !made.status.success() {
            return Err(VmError::NoImage);
        }
        let image = String::from_utf8_lossy(&made.stdout).trim().into();
        Ok(Machine { image, files: vec![], words: vec![], uplink: false, cards: 0, restarts: false })
    }

    /// With a copy of a file of ours at an absolute path of its.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, ours: impl Into<PathBuf>) -> Machine {
        self.files.push((path.into(), ours.into()));
        self
    }

    /// With a further word for its kernel.
    #[must_use]
    pub fn told(mut self, word: &str) -> Machine {
        self.words.push(word.to_owned());
        self
    }

    /// With a network card, `eth0`. On its wire is a router, 10.0.2.2, that answers pings and advertises itself and a
    /// prefix of IPv6. It leads nowhere but to 10.0.2.100, whose port 7777 says everything back.
    #[must_use]
    pub fn with_uplink(mut self) -> Machine {
        self.uplink = true;
        self
    }

    /// With so many further network cards, all on one wire that leads nowhere.
    #[must_use]
    pub fn with_cards(mut self, cards: usize) -> Machine {
        self.cards = cards;
        self
    }

    /// Where the script may call `again`: the machine reboots in an orderly way, and runs it once more from its
    /// beginning. What it left on its disk tells it which time it is.
    #[must_use]
    pub fn restarting(mut self) -> Machine {
        self.restarts = true;
        self
    }

    /// Boots it, runs a shell script as root and answers with what that printed. Its disk is as before afterwards.
    pub fn run(&self, script: &str, within: Duration) -> Result<String, VmError> {
        let place = tempfile::tempdir()?;
        let archive = self.pack(script, place.path())?;
        let (console, output) = (place.path().join("console"), place.path().join("output"));
        let mut machine = Supervised::start(
            Path::new("qemu-system-x86_64"),
            &self.arguments(&archive, &console, &output),
            place.path(),
            None,
        )?;
        let deadline = Instant::now() + within;
        while machine.ended().is_none() {
            if Instant::now() > deadline {
                return Err(VmError::TimedOut { within, console: end_of(&console), output: said(&output) });
            }
            std::thread::sleep(LOOK);
        }
        let output = said(&output);
        match output.trim_end().rsplit_once(END) {
            Some((output, "0")) => Ok(output.to_owned()),
            _ => Err(VmError::Failed { console: end_of(&console), output }),
        }
    }

    fn arguments(&self, archive: &Path, console: &Path, output: &Path) -> Vec<String> {
        let of_image = |name: &str| self.image.join(name).display().to_string();
        let drive = |file: String, more: &str| format!("file={file},format=raw,if=virtio,{more}");
        let mut all: Vec<String> = [
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-m",
            "2048",
            "-nographic",
            "-nodefaults",
        ]
        .map(str::to_owned)
        .to_vec();
        if !self.restarts {
            // A kernel that gives up ends the machine.
            all.push("-no-reboot".to_owned());
        }
        if self.uplink {
            all.extend(["-nic".to_owned(), UPLINK.to_owned()]);
        }
        for card in 0..self.cards {
            let wire = format!("hubport,id=wire{card},hubid=0");
            let device = format!("virtio-net-pci,netdev=wire{card},mac=52:54:00:00:01:{card:02x},romfile=");
            all.extend(["-netdev".to_owned(), wire, "-device".to_owned(), device]);
        }
        let words = ["root=/dev/vda rw console=ttyS0 panic=-1 net.ifnames=0 mitigations=off".to_owned()];
        let words: Vec<String> = words.into_iter().chain(self.words.iter().cloned()).collect();
        for (option, value) in [
            ("-kernel", of_image("vmlinuz")),
            ("-initrd", of_image("initrd")),
            ("-append", words.join(" ")),
            ("-drive", drive(of_image("root.img"), "snapshot=on")),
            ("-drive", drive(archive.display().to_string(), "readonly=on")),
            ("-serial", format!("file:{}", console.display())),
            ("-serial", format!("file:{}", output.display())),
        ] {
            all.extend([option.to_owned(), value]);
        }
        all
    }

    /// The second disk: an archive of what is added to the first.
    fn pack(&self, script: &str, place: &Path) -> io::Result<PathBuf> {
        let root = place.join("root");
        let run = root.join("vm/run");
        std::fs::create_dir_all(root.join("vm"))?;
        let mut file = std::fs::File::create(&run)?;
        write!(file, "#!/bin/sh\nset -eu\ntrap 'echo \"{END}$?\"' EXIT\n{AGAIN}{script}\n")?;
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755))?;
        for (path, ours) in &self.files {
            let there = root.join(path.strip_prefix("/").unwrap_or(path));
            std::fs::create_dir_all(there.parent().unwrap_or(&root))?;
            std::fs::copy(ours, there)?;
        }
        let archive = place.join("root.tar");
        let made = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status()?;
        if made.success() { Ok(archive) } else { Err(io::Error::other(format!("tar ended with {made}"))) }
    }
}

/// What came over a serial line so far. It ends lines as terminals do.
fn said(line: &Path) -> String {
    let bytes = std::fs::read(line).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}

/// As much of it as tells why a machine did not come up.
fn end_of(line: &Path) -> String {
    let all = said(line);
    let lines: Vec<&str> = all.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
