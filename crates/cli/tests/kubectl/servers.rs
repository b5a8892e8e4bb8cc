//! The two servers, shared by all tests of this program, and kubectl for either.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use netferry_testkit::RealControlPlane;
use tempfile::TempDir;

use crate::common::Server;

/// Which kubectl is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kubectl {
    /// The one built with the control plane it is compared on.
    Pinned,
    /// Whatever version the machine has.
    OfTheMachine,
}

impl Kubectl {
    /// Where it is; `None` when the machine has none.
    pub(crate) fn path(self) -> Option<PathBuf> {
        match self {
            Kubectl::Pinned => Some(assets().join("kubectl")),
            Kubectl::OfTheMachine => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).map(|dir| dir.join("kubectl")).find(|file| file.is_file())
            }
        }
    }
}

fn assets() -> PathBuf {
    netferry_testkit::assets().expect("the real programs are at hand")
}

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// `netferry apiserver`.
    Embedded,
    /// kube-apiserver and its controllers.
    Real,
}

/// Both servers with our definitions applied. Held by every test that uses them; the last one to let go ends them.
pub(crate) struct Servers {
    dir: TempDir,
    real: RealControlPlane,
    end_embedded: Option<Sender<()>>,
    embedded: Option<JoinHandle<()>>,
}

static SHARED: Mutex<Weak<Servers>> = Mutex::new(Weak::new());

impl Servers {
    /// The running ones, or new ones.
    pub(crate) fn shared() -> Arc<Servers> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let servers = Arc::new(Servers::start());
            *shared = Arc::downgrade(&servers);
            servers
        })
    }

    fn start() -> Servers {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (end_embedded, end) = channel();
        let (serves, served) = channel();
        let home = dir.path().to_owned();
        // On a thread of its own: the server ends with the thread that started it, and a test's thread ends with the test.
        let embedded = std::thread::spawn(move || {
            let server = Server::start(&home, "127.0.0.1:0", &["--kubeconfig-out", "kubeconfig"]);
            serves.send(()).expect("the starter waits");
            let _: Result<(), _> = end.recv();
            drop(server);
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let real = runtime.block_on(RealControlPlane::start(&assets())).expect("a real control plane");
        served.recv().expect("the embedded server started");
        let servers = Servers { dir, real, end_embedded: Some(end_embedded), embedded: Some(embedded) };
        servers.each(|which| servers.apply_definitions(which));
        servers
    }

    /// Does the same to both at once.
    pub(crate) fn each<T: Send>(&self, act: impl Fn(Which) -> T + Sync) -> [T; 2] {
        std::thread::scope(|scope| {
            let act = &act;
            let real = scope.spawn(move || act(Which::Real));
            let embedded = act(Which::Embedded);
            match real.join() {
                Ok(real) => [embedded, real],
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn apply_definitions(&self, which: Which) {
        let scratch = Scratch::new(self, which, Kubectl::Pinned, "");
        for command in
            ["kubectl apply -f deploy/crds", "kubectl wait --for=condition=Established -f deploy/crds"]
        {
            let output = scratch.shell(command).output().expect("a shell runs");
            assert!(output.status.success(), "{which:?}: {command}: {output:?}");
        }
    }

    fn kubeconfig(&self, which: Which) -> PathBuf {
        match which {
            Which::Embedded => self.dir.path().join("kubeconfig"),
            Which::Real => self.real.kubeconfig(),
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.end_embedded.take());
        if let Some(thread) = self.embedded.take() {
            let _ = thread.join();
        }
    }
}

/// A directory to type commands in: the objects of the tables and `deploy/` are there, kubectl talks to one server.
pub(crate) struct Scratch {
    dir: TempDir,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

/// What stands for the names of one telling of a story, so that tellings do not meet.
pub(crate) const PREFIX: &str = "PREFIX";

impl Scratch {
    pub(crate) fn new(servers: &Servers, which: Which, kubectl: Kubectl, prefix: &str) -> Scratch {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let deploy = root.join("../../deploy").canonicalize().expect("the definitions");
        std::os::unix::fs::symlink(deploy, dir.path().join("deploy")).expect("a link");
        let objects = root.join("tests/kubectl/objects");
        for entry in std::fs::read_dir(objects).expect("the objects") {
            let file = entry.expect("a file").path();
            let text = std::fs::read_to_string(&file).expect("text").replace(PREFIX, prefix);
            std::fs::write(dir.path().join(file.file_name().expect("a name")), text).expect("a copy");
        }
        let kubectl = kubectl.path().expect("the caller asked for one that is there");
        Scratch { dir, kubectl, kubeconfig: servers.kubeconfig(which) }
    }

    /// A command line, run as one types it.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command = self.command("timeout");
        command.args(["240", "sh", "-c", line]);
        command
    }

    /// kubectl itself, for the caller to end.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = self.command(&self.kubectl);
        command.args(args);
        command
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut path = self.kubectl.parent().expect("a file is in a directory").as_os_str().to_owned();
        path.push(":/usr/bin:/bin");
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", path)
            .env("TZ", "UTC")
            .env("HOME", self.dir.path())
            .env("KUBECONFIG", &self.kubeconfig);
        command
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}
