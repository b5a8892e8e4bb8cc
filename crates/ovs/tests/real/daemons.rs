//! Daemons that live no longer than the test that started them.

use netferry_ovs::client::Options;
use netferry_ovs::{Client, Remote, Spec, Status};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

pub(crate) use netferry_testkit::wait::in_time;

pub(crate) const NORTHBOUND: &str = "/usr/share/ovn/ovn-nb.ovsschema";
pub(crate) const SOUTHBOUND: &str = "/usr/share/ovn/ovn-sb.ovsschema";
pub(crate) const VSWITCH: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A daemon behind a shell that kills it when our end of a pipe closes: on drop, on panic, and when the
/// test process itself is killed.
#[derive(Debug)]
pub(crate) struct Daemon {
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Daemon {
    pub(crate) fn start(program: &str, arguments: &[String]) -> Daemon {
        let script = r#""$@" </dev/null >/dev/null 2>&1 & read _; kill -9 $!; wait"#;
        let mut shell = Command::new("sh")
            .args(["-c", script, "sh", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let leash = shell.stdin.take();
        Daemon { shell, leash }
    }

    /// `kill -9`, and gone when this returns.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.leash.take());
        let _ = self.shell.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn need(path: &str) {
    assert!(Path::new(path).exists(), "{path} is missing: this test needs what `scripts/setup` installs");
}

/// An `ovsdb-server` with its file, in a directory of its own.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) dir: tempfile::TempDir,
    daemon: Option<Daemon>,
    also: Option<String>,
}

impl Server {
    pub(crate) fn start(schema: &str) -> Server {
        Server::with(schema, |dir, schema| vec!["create".into(), dir.join("db"), schema.into()])
    }

    /// Listens at a second remote too.
    pub(crate) fn start_listening(schema: &str, remote: &str) -> Server {
        let mut server = Server::start(schema);
        server.kill();
        server.also = Some(format!("--remote={remote}"));
        server.resume();
        server
    }

    /// A cluster of one: unlike a standalone server it keeps a history to resume from.
    pub(crate) fn start_clustered(schema: &str) -> Server {
        Server::with(schema, |dir, schema| {
            let raft = format!("unix:{}/raft", dir.display());
            vec!["create-cluster".into(), dir.join("db"), schema.into(), raft.into()]
        })
    }

    fn with(schema: &str, create: impl Fn(&Path, &str) -> Vec<PathBuf>) -> Server {
        need("/usr/sbin/ovsdb-server");
        need(schema);
        let dir = tempfile::tempdir().expect("a directory");
        let made =
            Command::new("ovsdb-tool").args(create(dir.path(), schema)).output().expect("ovsdb-tool runs");
        assert!(made.status.success(), "ovsdb-tool: {}", String::from_utf8_lossy(&made.stderr));
        let mut server = Server { dir, daemon: None, also: None };
        server.resume();
        server
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::Unix(self.path("sock"))
    }

    pub(crate) fn kill(&mut self) {
        self.daemon.take().expect("running").kill();
    }

    /// Starts it with the file it had.
    pub(crate) fn resume(&mut self) {
        let mut arguments = vec![
            self.path("db").display().to_string(),
            format!("--remote=punix:{}", self.path("sock").display()),
            format!("--unixctl={}", self.path("ctl").display()),
            "--no-chdir".to_owned(),
        ];
        arguments.extend(self.also.clone());
        self.daemon = Some(Daemon::start("ovsdb-server", &arguments));
    }

    /// Follows the database.
    pub(crate) async fn client(&self, spec: Spec) -> Client {
        let connecting = Client::connect(spec, vec![self.remote()], Options::default());
        in_time("connecting", connecting).await.expect("the server is accepted")
    }
}

/// Whether a connection lasts that long. A machine that stands still for a moment ends one, and not one after the other.
pub(crate) async fn lasts(client: &Client, time: Duration) -> bool {
    for _ in 0..5 {
        let mut status = client.status();
        in_time("following", status.wait_for(|now| matches!(now, Status::Following))).await.unwrap();
        let left = status.wait_for(|now| matches!(now, Status::Away { .. }));
        if tokio::time::timeout(time, left).await.is_err() {
            return true;
        }
    }
    false
}
