//! What a lab keeps in the file system, and how one finds out whether it runs.
//!
//! Everything is below one directory. A lock on a file in it is held for as long as the lab's process lives, so a lab
//! that was killed is told from a running one without guessing by process ids.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::error::{During, LabError, Result};
use crate::options::{Name, Options};

/// Two who remove the same files are done after this long at most.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

/// The directory of one lab.
#[derive(Clone, Debug)]
pub struct State {
    directory: PathBuf,
}

/// Who runs a lab, as its starter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// Its process id.
    pub pid: i32,
    /// When it started, in the kernel's ticks: a process id alone may be somebody else's by now.
    pub started: u64,
}

impl State {
    /// The directory of the lab of this name below `root`.
    pub fn of(root: &Path, name: &Name) -> State {
        State { directory: root.join(name.as_str()) }
    }

    /// The directory that a lab was started with.
    pub fn at(directory: impl Into<PathBuf>) -> State {
        State { directory: directory.into() }
    }

    /// The labs below `root` that left something there.
    pub fn all(root: &Path) -> Vec<Name> {
        let names = fs::read_dir(root).into_iter().flatten().flatten();
        let mut found: Vec<Name> =
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        found.sort();
        found
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Where the lab's process takes requests.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    /// An administrator's kubeconfig, for the caller's network.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// What the lab's process says.
    pub fn log(&self) -> PathBuf {
        self.directory.join("lab.log")
    }

    /// Files of the control plane.
    pub fn control(&self) -> PathBuf {
        self.directory.join("control")
    }

    /// Where the namespaces that are not a node's are bound, in the lab's own mount namespace.
    pub fn namespace(&self, name: &str) -> PathBuf {
        self.directory.join("ns").join(name)
    }

    /// Files of a node.
    pub fn node(&self, name: &Name) -> PathBuf {
        self.directory.join("nodes").join(name.as_str())
    }

    /// Makes an empty directory for a new lab.
    pub fn create(&self) -> Result<()> {
        let mut builder = fs::DirBuilder::new();
        // Credentials of an administrator are kept here.
        builder.recursive(true).mode(0o700);
        for directory in
            [self.directory.clone(), self.control(), self.namespace(""), self.directory.join("nodes")]
        {
            builder.create(&directory).during(format!("making the directory {}", directory.display()))?;
        }
        Ok(())
    }

    /// Removes everything, and the directory of all labs if this was the last.
    ///
    /// A lab that ends with its caller and somebody who takes it down may do so at the same time: each finds directories
    /// that the other has just made empty, or not yet.
    pub fn remove(&self) -> Result<()> {
        let deadline = Instant::now() + REMOVED_WITHIN;
        while let Err(error) = fs::remove_dir_all(&self.directory) {
            if !self.exists() {
                break;
            }
            let disturbed = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty);
            if !disturbed || Instant::now() > deadline {
                return Err(error).during(format!("removing {}", self.directory.display()));
            }
        }
        if let Some(root) = self.directory.parent() {
            // Not empty: another lab is there.
            let _ = fs::remove_dir(root);
        }
        Ok(())
    }

    /// Writes down what the lab is made of.
    pub fn write_options(&self, options: &Options) -> Result<()> {
        self.write_json("options.json", options)
    }

    /// What the lab is made of.
    pub fn options(&self) -> Result<Options> {
        self.read_json("options.json")
    }

    /// Writes down who runs it.
    pub fn write_runner(&self, runner: Runner) -> Result<()> {
        self.write_json("runner.json", &runner)
    }

    /// Who runs it.
    pub fn runner(&self) -> Result<Runner> {
        self.read_json("runner.json")
    }

    /// Takes the lock for as long as the value lives. Only the lab's process does.
    pub fn lock(&self) -> Result<Flock<File>> {
        let file = self.lock_file().during(format!("opening the lock of {}", self.directory.display()))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| errno)
            .during(format!("taking the lock of {}", self.directory.display()))
    }

    /// Whether a process runs this lab.
    pub fn is_running(&self) -> bool {
        let Ok(file) = self.lock_file() else { return false };
        matches!(Flock::lock(file, FlockArg::LockExclusiveNonblock), Err((_, Errno::EWOULDBLOCK)))
    }

    /// Whether anything is there at all.
    pub fn exists(&self) -> bool {
        self.directory.is_dir()
    }

    /// Ends the process that runs this lab, and with it everything in the lab, and waits for that.
    ///
    /// The kernel ends every process of a process namespace with its first, and lets that one go last.
    pub fn kill_runner(&self, within: Duration) -> Result<()> {
        let Ok(runner) = self.runner() else { return Ok(()) };
        let deadline = Instant::now() + within;
        let is_there = || started(runner.pid) == Some(runner.started);
        if is_there() {
            match kill(Pid::from_raw(runner.pid), Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => return Err(errno).during(format!("ending process {}", runner.pid)),
            }
        }
        while is_there() {
            if Instant::now() > deadline {
                let waiting_for = format!("the end of the lab's process {}", runner.pid);
                return Err(LabError::TimedOut { waiting_for, within });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn lock_file(&self) -> std::io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.directory.join("lock"))
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let path = self.directory.join(name);
        let attempt = format!("writing {}", path.display());
        let text = serde_json::to_vec_pretty(value).during(attempt.clone())?;
        fs::write(&path, text).during(attempt)
    }

    fn read_json<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T> {
        let path = self.directory.join(name);
        let attempt = format!("reading {}", path.display());
        let text = fs::read(&path).during(attempt.clone())?;
        serde_json::from_slice(&text).during(attempt)
    }
}

/// When a process started; none if it is gone, or has ended and only waits to be asked how.
pub(crate) fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    // A process whose first thread has ended looks ended too; the last thread ends the others of its namespace.
    if ended && threads <= 1 { None } else { fields.nth(1)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_runs_exactly_as_long_as_its_lock_is_held() {
        let root = tempfile::tempdir().unwrap();
        let state = State::of(root.path(), &"one".parse().unwrap());
        assert!(!state.is_running());
        state.create().unwrap();
        assert!(!state.is_running());
        let lock = state.lock().unwrap();
        assert!(state.is_running());
        assert!(state.lock().is_err(), "a second process took the lock");
        drop(lock);
        assert!(!state.is_running());
    }

    #[test]
    fn removing_the_last_lab_removes_the_directory_of_labs() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("labs");
        let labs = ["one", "two"].map(|name| State::of(&root, &name.parse().unwrap()));
        labs.iter().for_each(|lab| lab.create().unwrap());
        labs[0].remove().unwrap();
        assert!(root.is_dir());
        labs[1].remove().unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn several_who_remove_a_lab_at_once_remove_all_of_it() {
        let root = tempfile::tempdir().unwrap();
        let state = State::of(root.path(), &"one".parse().unwrap());
        state.create().unwrap();
        for number in 0..2000 {
            let directory = state.path().join(format!("nodes/{}/{}", number % 40, number));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("file"), "").unwrap();
        }
        std::thread::scope(|threads| {
            let all: Vec<_> = (0..4).map(|_| threads.spawn(|| state.remove())).collect();
            all.into_iter().for_each(|one| one.join().unwrap().unwrap());
        });
        assert!(!state.exists());
    }

    #[test]
    fn a_process_that_ended_has_no_start() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while started(pid).is_some() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(started(std::process::id().cast_signed()).is_some());
    }
}
