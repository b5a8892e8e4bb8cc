//! Asking the host to restart.

use std::io;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Disk;
use crate::on_host::Host;

/// Where systemd says that it is the one who started everything.
const SYSTEMD: &str = "/run/systemd/system";

/// How long systemd may take to accept. It restarts the host after it has answered.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Why the host could not be asked to restart.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// Something could not be run or told.
    #[error("asking the host to restart")]
    Asking(#[source] io::Error),
    /// Its service manager refused.
    #[error("the host's service manager does not restart it: {0}")]
    Refused(String),
}

/// Asks the host to restart in an orderly way: systemd where it rules, else the first process, as the keys Ctrl-Alt-Del
/// would.
///
/// # Errors
/// If it cannot be asked or refuses. That it answers does not mean that it will.
pub async fn restart(disk: &Disk, host: &Host) -> Result<(), RestartError> {
    if !matches!(disk.present(SYSTEMD), Ok(true)) {
        return kill(Pid::from_raw(1), Signal::SIGINT).map_err(|error| RestartError::Asking(error.into()));
    }
    let mut systemctl = Command::new("systemctl");
    // Whoever is logged in or holds a lock against sleep does not hold up a change of the cluster.
    systemctl.args(["reboot", "--no-wall", "--ignore-inhibitors"]);
    let output = host.output_within(systemctl, ANSWERS_WITHIN).await.map_err(RestartError::Asking)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(RestartError::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
