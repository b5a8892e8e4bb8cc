//! What a container's command is started through: the first process of the container's own namespaces.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use crate::error::{During, LabError, Result};

/// A file that a container finds at another path, where it leaves its last words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWords {
    /// Where its kubelet reads them.
    pub file: PathBuf,
    /// Where the container writes them.
    pub path: PathBuf,
}

/// Makes `/proc` and `/sys` show the container's own namespaces and becomes the command. Returns only if that fails.
///
/// The calling process must be single-threaded, and the first of process and mount namespaces made for it.
pub fn run(hostname: Option<&str>, last_words: Option<&LastWords>, command: &[OsString]) -> Result<()> {
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
    if let Some(LastWords { file, path }) = last_words {
        // Whatever is there is hidden from this container alone; what is not there must be, to be hidden.
        let place = OpenOptions::new().create(true).append(true).open(path);
        place.during(format!("making {}", path.display()))?;
        mount(Some(file), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .during(format!("mounting {}", path.display()))?;
    }
    if let Some(name) = hostname {
        nix::unistd::sethostname(name).during("setting the host name")?;
    }
    let (program, arguments) =
        command.split_first().ok_or_else(|| LabError::Refused("a container needs a command".into()))?;
    Err(Command::new(program).args(arguments).exec()).during(format!("starting {}", program.display()))
}
