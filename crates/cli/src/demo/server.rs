//! The server the tour runs against: our own binary, in a process of its own so that it can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use crate::exit::Failure;

/// A running server, and how long it took to answer.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    dir: PathBuf,
    address: String,
    first_start: Duration,
    last_start: Duration,
}

impl Server {
    pub(super) fn start(dir: &Path) -> Result<Self, Failure> {
        let (child, address, took) = launch(dir, "127.0.0.1:0")?;
        Ok(Self { child, dir: dir.to_owned(), address, first_start: took, last_start: took })
    }

    /// Where it listens, as `address:port`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn millis(&self) -> u128 {
        self.last_start.as_millis()
    }

    pub(super) fn first_millis(&self) -> u128 {
        self.first_start.as_millis()
    }

    /// Kills the process without a goodbye, as power loss would, and starts another on what it left.
    pub(super) fn crash(&mut self) -> Result<(), Failure> {
        self.end()?;
        (self.child, self.address, self.last_start) = launch(&self.dir, &self.address)?;
        Ok(())
    }

    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.child.kill().context("stopping the server")?;
        self.child.wait().context("waiting for the server to end")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended on every path but a failed step, where that failure is what matters.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the server and waits for the line it prints once it answers.
fn launch(dir: &Path, listen: &str) -> Result<(Child, String, Duration), Failure> {
    let program = std::env::current_exe().context("finding our own program")?;
    let since = Instant::now();
    let mut child = Command::new(program)
        .current_dir(dir)
        .args(["apiserver", "--listen", listen, "--data", "data.log", "--kubeconfig-out", "kubeconfig"])
        .args(["--tls-dir", "tls", "--exit-with-parent"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .context("starting netferry apiserver")?;
    let stdout = child.stdout.take().ok_or_else(|| anyhow!("the server has no standard output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).context("waiting for the server to answer")?;
    let took = since.elapsed();
    match line.trim().strip_prefix("serving https://") {
        Some(address) => Ok((child, address.to_owned(), took)),
        None => {
            let _ = child.kill();
            let status = child.wait().context("waiting for the server to end")?;
            Err(anyhow!("netferry apiserver ended before it answered ({status})").into())
        }
    }
}
