//! Programs that must outlive the container the agent may run in.
//!
//! Ending a container ends everything in its control groups and takes its files away, whatever session or process
//! group its processes are in. A daemon that is to go on is therefore started with the host's files and in a control
//! group beside the containers': where the agent shares process numbers with its host (`hostPID`) and not its files, the
//! host is what process 1 sees.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use netferry_kernel::process::begin_in;
use nix::sched::{CloneFlags, setns, unshare};
use tokio::sync::oneshot;

/// The host, as one of its processes sees it.
#[derive(Clone, Debug)]
pub struct Host {
    process: PathBuf,
    group: String,
}

impl Default for Host {
    fn default() -> Host {
        Host::of("/proc/1", "netferry-zone")
    }
}

impl Host {
    /// What `process` (a directory of `/proc`) sees; what is started there goes into the control group `group`.
    pub fn of(process: impl Into<PathBuf>, group: impl Into<String>) -> Host {
        Host { process: process.into(), group: group.into() }
    }

    /// Runs `program` on the host, in a process group of its own, and returns what it said when it ended or detached.
    ///
    /// # Errors
    ///
    /// The host cannot be entered, or the program cannot be run.
    pub async fn output(&self, mut program: Command) -> io::Result<Output> {
        let (say, said) = oneshot::channel();
        let host = self.clone();
        // A thread of its own: it changes the files it sees, and nothing else may run on it afterwards.
        std::thread::Builder::new().name("on-host".to_owned()).spawn(move || {
            let done = if host.is_ours() { program.process_group(0).output() } else { host.enter(program) };
            // Whoever asked may have stopped waiting.
            let _ = say.send(done);
        })?;
        said.await.unwrap_or_else(|_| Err(io::Error::other("the thread that ran it ended early")))
    }

    /// Whether this process sees the files its host sees. So it does outside containers.
    fn is_ours(&self) -> bool {
        let seen_by = |process: &Path| std::fs::metadata(process.join("ns/mnt")).map(|file| file.ino());
        match (seen_by(&self.process), seen_by(Path::new("/proc/self"))) {
            (Ok(host), Ok(ours)) => host == ours,
            _ => true,
        }
    }

    fn enter(&self, mut program: Command) -> io::Result<Output> {
        let files = File::open(self.process.join("ns/mnt"))?;
        // The directory a thread is in belongs to its process until it is set apart; entering would be refused.
        unshare(CloneFlags::CLONE_FS)?;
        setns(files, CloneFlags::CLONE_NEWNS)?;
        begin_in(&mut program, self.groups()?);
        program.process_group(0).output()
    }

    /// The files that take a process into the group, one in each hierarchy the host has.
    fn groups(&self) -> io::Result<Vec<File>> {
        let mounts = std::fs::read_to_string(self.process.join("mounts"))?;
        let hierarchies = mounts.lines().filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let place = fields.next()?;
            matches!(fields.next()?, "cgroup" | "cgroup2").then(|| Path::new(place).join(&self.group))
        });
        let open = |group: PathBuf| {
            std::fs::create_dir_all(&group)?;
            File::options().write(true).open(group.join("cgroup.procs"))
        };
        let groups: Vec<_> = hierarchies.filter_map(|group| open(group).ok()).collect();
        if groups.is_empty() {
            return Err(io::Error::other(format!(
                "the host has no control groups that can be written; mount cgroup2 there, or a restart of this \
                 container would take its {} along",
                self.group
            )));
        }
        Ok(groups)
    }
}
