//! A server of our own binary, for tests that talk to it.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running `netferry apiserver`; ends with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Starts one in `dir` and waits for the line that says it answers.
    pub(crate) fn start(dir: &Path, listen: &str, args: &[&str]) -> Server {
        let mut child =
            command(dir, listen, args).stdout(Stdio::piped()).spawn().expect("the binary under test runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("serving ").expect("the line says where it serves").to_owned();
        Server { child, url }
    }

    pub(crate) fn end_with(mut self, signal: Signal) -> ExitStatus {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("the server is signalled");
        self.child.wait().expect("the server ends")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that starts one.
pub(crate) fn command(dir: &Path, listen: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netferry"));
    command.current_dir(dir).args(["apiserver", "--listen", listen, "--exit-with-parent"]).args(args);
    command
}
