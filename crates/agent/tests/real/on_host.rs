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
        FilesApart::start_after("true", note).await
    }

    /// Runs `prepare` among its files first.
    async fn start_after(prepare: &str, note: &Path) -> FilesApart {
        let only_there = format!(
            "{prepare} && mount -t tmpfs none {0} && echo there > {0}/note && exec sleep 600",
            note.display()
        );
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
        hierarchies().iter().map(|place| place.join(&self.group)).collect()
    }
}

/// Where control groups are mounted, with the type of each mount.
fn mounted() -> Vec<(PathBuf, String)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the mounts");
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let groups = fields.filter(|fields| matches!(fields[2], "cgroup" | "cgroup2"));
    groups.map(|fields| (fields[1].into(), fields[2].to_owned())).collect()
}

fn hierarchies() -> Vec<PathBuf> {
    mounted().into_iter().map(|(place, _)| place).collect()
}

fn unified() -> PathBuf {
    let unified = mounted().into_iter().find(|(_, kind)| kind == "cgroup2");
    unified.expect("the unified hierarchy is mounted").0
}

impl Drop for FilesApart {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // A group can be removed when the last process in it is gone for good.
        let inner = |group: &PathBuf| ["threaded", "refuses"].map(|inner| group.join(inner));
        let groups = self.groups();
        for group in groups.iter().flat_map(inner).chain(groups.clone()) {
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
    assert_eq!(groups.lines().count(), apart.groups().len(), "{groups}");
    for group in groups.lines() {
        let (_, name) = group.rsplit_once(':').expect("number:controllers:name");
        assert_eq!(name, format!("/{}", apart.group), "in {groups}");
    }
    assert!(!note.path().join("note").exists(), "the test's own files are as they were");
}

/// A hierarchy whose group the container's end would still reach, because the program could not be moved there.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_not_started_if_one_hierarchy_cannot_be_written() {
    let note = tempfile::tempdir().expect("a directory");
    let hierarchy = hierarchies().into_iter().next_back().expect("a hierarchy");
    let read_only = format!("mount -o remount,bind,ro {}", hierarchy.display());
    let apart = FilesApart::start_after(&read_only, note.path()).await;
    let touched = note.path().join("note");
    let mut remove = Command::new("rm");
    remove.arg(&touched);
    let refused = in_time("failing", apart.host().output(remove)).await.expect_err("it is refused");
    let group = hierarchy.join(&apart.group);
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(
        refused.to_string(),
        format!(
            "cannot open the control group {}; remount its hierarchy read-write, or unmount it if nothing uses it",
            group.display()
        )
    );
    let there = apart.proc().join("root").join(touched.strip_prefix("/").expect("an absolute path"));
    assert_eq!(std::fs::read_to_string(there).expect("the program did not run"), "there\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_not_started_if_one_group_refuses_it() {
    let note = tempfile::tempdir().expect("a directory");
    let apart = FilesApart::start(note.path()).await;
    // Beside a threaded group, the kernel lets no process into a group of the unified hierarchy.
    let outer = unified().join(&apart.group);
    for group in ["threaded", "refuses"] {
        std::fs::create_dir_all(outer.join(group)).expect("a group");
    }
    std::fs::write(outer.join("threaded/cgroup.type"), "threaded").expect("a threaded group");
    let host = Host::of(apart.proc(), format!("{}/refuses", apart.group));
    let refused = in_time("failing", host.output(Command::new("true"))).await.expect_err("it is refused");
    let group = outer.join("refuses");
    assert_eq!(
        refused.to_string(),
        format!(
            "the control group {} refuses the program; remove the group, and it is created anew",
            group.display()
        )
    );
    let cause = std::error::Error::source(&refused).expect("a cause").to_string();
    assert_eq!(cause, std::io::Error::from(nix::errno::Errno::EOPNOTSUPP).to_string());
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
