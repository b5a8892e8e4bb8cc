//! Starting a program in somebody else's namespaces.
//!
//! A thread of its own enters them and starts the program from there; the caller's threads stay where they are. No
//! code runs between fork and exec, so nothing here is unsafe.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use netferry_kernel::Namespace;
use nix::sched::{CloneFlags, setns, unshare};
use serde::{Deserialize, Serialize};

use crate::error::{During, Result};

/// The way into a namespace of a lab, one step after another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Processes to take the place of. Each is a process id as the one before sees it.
    pub through: Vec<i32>,
    /// The network to end up in, by its path in the last one's file system, if it is another than that one's.
    pub network: Option<PathBuf>,
}

const KINDS: [(&str, CloneFlags); 5] = [
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("net", CloneFlags::CLONE_NEWNET),
    ("pid", CloneFlags::CLONE_NEWPID),
    // Last: it takes `/proc` with it.
    ("mnt", CloneFlags::CLONE_NEWNS),
];

impl Way {
    /// Moves the calling thread along the way; processes it starts from then on are born there.
    fn walk(&self) -> Result<()> {
        // A thread shares its working directory with its siblings, and one that does cannot leave the file system.
        unshare(CloneFlags::CLONE_FS).during("leaving the working directory of this process")?;
        for pid in &self.through {
            step(&PathBuf::from(format!("/proc/{pid}/ns")))
                .during(format!("entering the namespaces of process {pid}"))?;
        }
        if let Some(path) = &self.network {
            let open = File::open(path).during(format!("opening the network {}", path.display()))?;
            setns(open, CloneFlags::CLONE_NEWNET)
                .during(format!("entering the network {}", path.display()))?;
        }
        Ok(())
    }

    /// Does something there, on a thread that never comes back from it.
    pub fn run<T: Send + 'static>(&self, inside: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let way = self.clone();
        let thread = std::thread::Builder::new()
            .name("inside".into())
            .spawn(move || way.walk().map(|()| inside()))
            .during("starting a thread")?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// The network at its end, for sockets to be opened in.
    pub fn namespace(&self) -> Result<Namespace> {
        // Opened from one step before: whoever has entered a process namespace is not in its `/proc`.
        let (before, path) = match (&self.network, self.through.split_last()) {
            (Some(path), _) => (Way { network: None, ..self.clone() }, path.clone()),
            (None, Some((last, before))) => (
                Way { through: before.to_vec(), network: None },
                PathBuf::from(format!("/proc/{last}/ns/net")),
            ),
            (None, None) => (Way::default(), PathBuf::from("/proc/thread-self/ns/net")),
        };
        let attempt = format!("opening the network {}", path.display());
        before.run(move || Namespace::open(path))?.during(attempt)
    }

    /// Starts a program there. Its name is looked up there as well.
    pub fn spawn(&self, mut command: Command) -> Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        self.run(move || command.spawn())?.during(format!("starting {program}"))
    }
}

fn step(directory: &Path) -> std::io::Result<()> {
    let opened = KINDS.map(|(name, kind)| File::open(directory.join(name)).map(|file| (file, kind)));
    for one in opened {
        let (file, kind) = one?;
        setns(file, kind)?;
    }
    Ok(())
}
