//! The two servers as processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use netferry_testkit::RealControlPlane;
use tempfile::TempDir;

/// `netferry apiserver`, with a data file as etcd has one.
pub(crate) struct Embedded {
    process: Child,
    directory: TempDir,
    /// From the start of the process to the first object it showed over TLS.
    pub(crate) answered_after: Duration,
}

impl Embedded {
    pub(crate) async fn start(program: &Path) -> anyhow::Result<Embedded> {
        let directory = tempfile::tempdir()?;
        let began = Instant::now();
        let mut process = Command::new(program)
            .args(["apiserver", "--listen", "127.0.0.1:0", "--exit-with-parent"])
            .arg("--data")
            .arg(directory.path().join("data"))
            .arg("--kubeconfig-out")
            .arg(directory.path().join("kubeconfig"))
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut says = String::new();
        let output = process.stdout.take().context("its output")?;
        let mut server = Embedded { process, directory, answered_after: Duration::ZERO };
        BufReader::new(output).read_line(&mut says)?;
        anyhow::ensure!(says.starts_with("serving "), "the embedded server did not start");
        let namespaces: Api<Namespace> = Api::all(server.client().await?);
        namespaces.get("default").await.context("the first question")?;
        server.answered_after = began.elapsed();
        Ok(server)
    }

    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        client(&self.directory.path().join("kubeconfig")).await
    }

    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        resident(self.process.id())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left to do about it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// etcd, kube-apiserver and, so that Pods have a service account, kube-controller-manager.
pub(crate) struct Real {
    plane: RealControlPlane,
}

impl Real {
    pub(crate) async fn start(assets: &Path) -> anyhow::Result<Real> {
        Ok(Real { plane: RealControlPlane::start(assets).await? })
    }

    pub(crate) fn answered_after(&self) -> Duration {
        self.plane.answered_after()
    }

    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        client(&self.plane.kubeconfig()).await
    }

    /// Of the two that together are an API server; the controllers are left out, though the embedded server does their
    /// work as well.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let pids = self.plane.processes();
        let counted = pids.iter().filter(|(name, _)| name == "etcd" || name == "kube-apiserver");
        counted.map(|(_, pid)| resident(*pid)).sum()
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Resident memory in bytes.
fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("a process ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}

/// What was measured: one line per program.
pub(crate) fn versions(netferry: &Path, assets: &Path) -> anyhow::Result<Vec<String>> {
    let first_line = |program: &Path, argument: &str| -> anyhow::Result<String> {
        let output = Command::new(program).arg(argument).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    };
    Ok(vec![
        first_line(netferry, "--version")?,
        format!("kube-apiserver: {}", first_line(&assets.join("kube-apiserver"), "--version")?),
        first_line(&assets.join("etcd"), "--version")?,
    ])
}
