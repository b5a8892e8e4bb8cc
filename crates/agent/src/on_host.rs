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
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use netferry_kernel::process::{ControlGroup, spawn_in};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};

/// A program that runs on the host.
struct Running {
    output: oneshot::Receiver<io::Result<Output>>,
    /// Its process, which leads its group; `None` until it is started.
    process: watch::Receiver<Option<Pid>>,
}

impl Running {
    async fn output(&mut self) -> io::Result<Output> {
        let done = (&mut self.output).await;
        done.unwrap_or_else(|_| Err(io::Error::other("the thread that ran it ended early")))
    }

    fn kill(&self) {
        if let Some(process) = *self.process.borrow() {
            // It may have ended at this moment.
            let _ = killpg(process, Signal::SIGKILL);
        }
    }
}

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

    /// Runs `program` on the host, in a process group of its own, and returns its output when it ended or detached.
    ///
    /// # Errors
    ///
    /// The host cannot be entered, or the program cannot be run.
    pub async fn output(&self, program: Command) -> io::Result<Output> {
        self.run(program)?.output().await
    }

    /// Runs `program` as [`output`](Host::output) does, and kills it with everything in its process group if it takes
    /// longer than `limit`.
    ///
    /// # Errors
    ///
    /// As [`output`](Host::output), and [`TimedOut`](io::ErrorKind::TimedOut).
    pub async fn output_within(&self, program: Command, limit: Duration) -> io::Result<Output> {
        let mut running = self.run(program)?;
        match tokio::time::timeout(limit, running.output()).await {
            Ok(done) => done,
            Err(_) => {
                running.kill();
                let text = format!("it did not end within {} s and was killed", limit.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        }
    }

    fn run(&self, mut program: Command) -> io::Result<Running> {
        let (say, output) = oneshot::channel();
        let (began, process) = watch::channel(None);
        let host = self.clone();
        program.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A thread of its own: it changes the files it sees, and nothing else may run on it afterwards.
        std::thread::Builder::new().name("on-host".to_owned()).spawn(move || {
            let child = if host.is_ours() { program.spawn() } else { host.enter(program) };
            let done = child.and_then(|child| {
                began.send_replace(i32::try_from(child.id()).ok().map(Pid::from_raw));
                child.wait_with_output()
            });
            // The caller may have stopped waiting.
            let _ = say.send(done);
        })?;
        Ok(Running { output, process })
    }

    /// Whether this process sees the files its host sees. So it does outside containers.
    fn is_ours(&self) -> bool {
        let seen_by = |process: &Path| std::fs::metadata(process.join("ns/mnt")).map(|file| file.ino());
        match (seen_by(&self.process), seen_by(Path::new("/proc/self"))) {
            (Ok(host), Ok(ours)) => host == ours,
            _ => true,
        }
    }

    fn enter(&self, program: Command) -> io::Result<Child> {
        let files = File::open(self.process.join("ns/mnt"))?;
        // The directory a thread is in belongs to its process until it is set apart; entering would be refused.
        unshare(CloneFlags::CLONE_FS)?;
        setns(files, CloneFlags::CLONE_NEWNS)?;
        // Ending the container ends whatever is in one of its groups, in any hierarchy.
        let name = Path::new(&self.group);
        let groups: io::Result<_> =
            self.hierarchies()?.iter().map(|hierarchy| ControlGroup::open(hierarchy, name)).collect();
        spawn_in(program, groups?)
    }

    /// The mount points of the host's control group hierarchies.
    fn hierarchies(&self) -> io::Result<Vec<PathBuf>> {
        let mounts = std::fs::read_to_string(self.process.join("mounts"))?;
        let hierarchies: Vec<_> = mounts
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let place = fields.next()?;
                matches!(fields.next()?, "cgroup" | "cgroup2").then(|| place.into())
            })
            .collect();
        if hierarchies.is_empty() {
            return Err(io::Error::other(format!(
                "no control groups are mounted on the host; mount cgroup2 there. Otherwise a restart of this \
                 container would end {} as well",
                self.group
            )));
        }
        Ok(hierarchies)
    }
}
