//! What a container's command is started through: the first process of the container's own namespaces.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use crate::error::{During, LabError, Result};

/// Makes `/proc` and `/sys` show the container's own namespaces and becomes the command. Returns only if that fails.
///
/// The calling process must be single-threaded, and the first of process and mount namespaces made for it.
pub fn run(hostname: Option<&str>, command: &[OsString]) -> Result<()> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).during("keeping mounts to ourselves")?;
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    for (kind, path) in [("proc", "/proc"), ("sysfs", "/sys")] {
        match mount(Some(kind), path, Some(kind), plain, None::<&str>) {
            // On the host's own network it is the same already, and the kernel does not put one onto itself.
            Err(Errno::EBUSY) => {}
            done => done.during(format!("mounting {path}"))?,
        }
    }
    if let Some(name) = hostname {
        nix::unistd::sethostname(name).during("setting the host name")?;
    }
    let (program, arguments) =
        command.split_first().ok_or_else(|| LabError::Refused("a container needs a command".into()))?;
    Err(Command::new(program).args(arguments).exec()).during(format!("starting {}", program.display()))
}
