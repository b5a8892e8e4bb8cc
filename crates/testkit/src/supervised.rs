//! A child process that never outlives us, even when we are killed with `-9`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Starts a program and kills it when its own input ends.
///
/// Our end of that input is closed by the kernel however we die; asking the kernel to signal the child instead
/// (`PR_SET_PDEATHSIG`) would take unsafe code between fork and exec. The watcher is ended first when the program
/// ends by itself, else it could later kill a stranger that was given the same pid.
const SUPERVISOR: &str = r#"
exec 3<&0
pidfile=$1; scratch=$2; shift 2
"$@" </dev/null 3<&- &
program=$!
echo "$program" >"$pidfile"
{ cat <&3 >/dev/null; kill -9 "$program" 2>/dev/null; } &
watcher=$!
wait "$program"
status=$?
kill "$watcher" 2>/dev/null
[ -z "$scratch" ] || rm -rf "$scratch"
exit "$status"
"#;

/// One program of the control plane.
pub(crate) struct Supervised {
    name: String,
    pidfile: PathBuf,
    supervisor: Child,
}

impl Supervised {
    /// Starts `program`; its log and pid go to `directory`. `scratch` is removed when the program ends.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        directory: &Path,
        scratch: Option<&Path>,
    ) -> io::Result<Self> {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let output = File::create(directory.join(format!("{name}.log")))?;
        let pidfile = directory.join(format!("{name}.pid"));
        let supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(&pidfile)
            .arg(scratch.map(|s| s.as_os_str().to_owned()).unwrap_or_default())
            .arg(program)
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Supervised { name, pidfile, supervisor })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The program's own process id, once it was started.
    pub(crate) fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(&self.pidfile).ok()?.trim().parse().ok()
    }

    /// How the program ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.supervisor.try_wait().ok().flatten()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        // Nothing more can be done about a supervisor that cannot be waited for.
        let _ = self.supervisor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::until_blocking as until;

    fn alive(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }

    #[test]
    fn dropping_a_supervised_program_ends_it_and_removes_its_scratch() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let scratch = directory.path().join("scratch");
        std::fs::create_dir(&scratch).expect("a scratch directory");
        let one =
            Supervised::start(Path::new("/bin/sleep"), &["600".into()], directory.path(), Some(&scratch))
                .expect("sleep starts");
        until("the pid file", || one.pid().is_some());
        let pid = one.pid().expect("just seen");
        assert!(alive(pid));
        drop(one);
        assert!(!alive(pid), "the program outlived its owner");
        assert!(!scratch.exists(), "the scratch directory outlived its owner");
    }

    #[test]
    fn a_program_ends_when_its_owner_is_killed_with_9() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let pidfile = directory.path().join("sleep.pid");
        // A stand-in for us: a shell that holds the supervisor's input open and does nothing else.
        let owner = r#"exec 5>/dev/null; sleep 600 | sh -c "$1" supervisor "$2" "" /bin/sleep 601"#;
        let mut owner = Command::new("sh")
            .args(["-c", owner, "owner", SUPERVISOR])
            .arg(&pidfile)
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let read = || std::fs::read_to_string(&pidfile).ok()?.trim().parse::<u32>().ok();
        until("the pid file", || read().is_some());
        let pid = read().expect("just seen");
        assert!(alive(pid));
        // The holder of the pipe is the first `sleep`, a child of the owner.
        let children =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", owner.id())).expect("children");
        let holder = children
            .split_whitespace()
            .find(|c| {
                std::fs::read_to_string(format!("/proc/{c}/cmdline")).is_ok_and(|l| l.starts_with("sleep"))
            })
            .expect("the sleep that holds the pipe");
        let killed = Command::new("kill").args(["-9", holder]).status().expect("kill runs");
        assert!(killed.success());
        until("the end of the program", || !alive(pid));
        owner.wait().expect("the owner ends too");
    }

    #[test]
    fn a_program_that_ends_by_itself_is_seen() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut one =
            Supervised::start(Path::new("/bin/false"), &[], directory.path(), None).expect("false starts");
        until("its end", || one.ended().is_some());
        assert_eq!(one.ended().and_then(|s| s.code()), Some(1));
    }
}
