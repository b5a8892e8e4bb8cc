//! What is started on the host from within a container.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use netferry_agent::on_host::Host;
use netferry_testkit::wait::{in_time, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process with files of its own: the host, as seen from this test, which is the container.
struct FilesApart {
    process: Child,
    group: String,
}

impl FilesApart {
    async fn start(note: &Path) -> FilesApart {
        let only_there =
            format!("mount -t tmpfs none {0} && echo there > {0}/note && exec sleep 600", note.display());
        let process = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--kill-child", "sh", "-c", &only_there])
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare runs");
        let started = FilesApart { group: format!("netferry-test-{}", process.id()), process };
        until("its own files", async || {
            std::fs::read(
                started
                    .proc()
                    .join("root")
                    .join(note.strip_prefix("/").expect("an absolute path"))
                    .join("note"),
            )
            .ok()
        })
        .await;
        started
    }

    fn proc(&self) -> PathBuf {
        format!("/proc/{}", self.process.id()).into()
    }

    fn host(&self) -> Host {
        Host::of(self.proc(), &self.group)
    }

    fn groups(&self) -> Vec<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let places =
            mounts.lines().filter(|line| line.contains(" cgroup")).filter_map(|line| line.split(' ').nth(1));
        places.map(|place| Path::new(place).join(&self.group)).collect()
    }
}

impl Drop for FilesApart {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // A group can be removed when the last process in it is gone for good.
        for group in self.groups() {
            for _ in 0..500 {
                match std::fs::remove_dir(&group) {
                    Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                    _ => break,
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_started_from_a_container_has_the_hosts_files_and_is_in_no_group_of_the_container() {
    let note = tempfile::tempdir().expect("a directory");
    let apart = FilesApart::start(note.path()).await;
    let mut read = Command::new("cat");
    read.arg(note.path().join("note"));
    let said = in_time("reading", apart.host().output(read)).await.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "there\n");

    let mut detached = Command::new("sh");
    detached.args(["-c", "echo $MARK; sleep 600 >/dev/null 2>&1 & echo $!"]).env("MARK", "mine");
    let said = in_time("detaching", apart.host().output(detached)).await.expect("it runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let (mark, pid) = said.trim().split_once('\n').expect("two lines");
    assert_eq!(mark, "mine");
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it runs on");
    kill(Pid::from_raw(pid.parse().expect("a pid")), Signal::SIGKILL).expect("it runs on");
    let unified = groups.lines().find(|line| line.starts_with("0::")).expect("the unified hierarchy");
    assert_eq!(unified, format!("0::/{}", apart.group));
    assert!(!note.path().join("note").exists(), "the test's own files are as they were");
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_a_container_a_program_is_started_as_it_is() {
    let mut say = Command::new("cat");
    say.arg("/proc/self/cgroup");
    let said =
        in_time("saying", Host::of("/proc/self", "netferry-test-none").output(say)).await.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), std::fs::read_to_string("/proc/self/cgroup").unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_on_the_host_is_told() {
    let note = tempfile::tempdir().expect("a directory");
    let apart = FilesApart::start(note.path()).await;
    let refused = in_time("failing", apart.host().output(Command::new("no-such-daemon"))).await;
    assert_eq!(refused.expect_err("nothing to run").kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_end_in_its_time_is_killed_with_what_it_started() {
    let note = tempfile::tempdir().expect("a directory");
    let apart = FilesApart::start(note.path()).await;
    for host in [apart.host(), Host::of("/proc/self", "netferry-test-none")] {
        let pids = tempfile::NamedTempFile::new().expect("a file");
        // Through a descriptor that the program inherits: where it runs, the file has no name.
        let mut hangs = Command::new("sh");
        let inherited =
            format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(pids.as_file()));
        hangs.args(["-c", "sleep 600 & echo $$ $! > $PIDS; wait"]).env("PIDS", inherited);
        let refused = host.output_within(hangs, std::time::Duration::from_secs(2));
        let refused = in_time("giving up", refused).await.expect_err("it takes longer");
        assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(refused.to_string(), "it did not end within 2 s and was killed");
        let written = std::fs::read_to_string(pids.path()).expect("the file");
        assert_eq!(written.split_whitespace().count(), 2, "{written:?}");
        for pid in written.split_whitespace() {
            let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            until("its end", async || (!state().contains("sleep") || state().contains(") Z ")).then_some(()))
                .await;
        }
    }
}
