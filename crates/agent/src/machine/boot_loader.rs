//! The kernel's arguments: having the host's boot loader pass them on, and looking whether it did.

use std::io;
use std::process::Command;
use std::time::Duration;

use netferry_core::rollout::layout::{KERNEL_ARGUMENTS, layout};
use netferry_core::rollout::merge::Rendered;

use super::{Disk, DiskError};
use crate::on_host::Host;

/// Where the kernel says what it was started with.
pub const STARTED_WITH: &str = "/proc/cmdline";
/// What makes a boot loader's configuration anew, where it is there.
const PROGRAMS: [(&str, &[&str]); 2] =
    [("/usr/sbin/update-grub", &[]), ("/usr/sbin/grub2-mkconfig", &["-o", "/boot/grub2/grub.cfg"])];

/// How long such a program may take. It looks for other systems on all disks, and one that hangs on a broken disk would
/// otherwise stop the daemon for good.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// Why the kernel's arguments would not be in force after a restart.
#[derive(Debug, thiserror::Error)]
pub enum BootLoaderError {
    /// A file.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// There is no boot loader that we know.
    #[error(
        "kernelArguments need {} or {} on the host: install GRUB, or take them out of the MachineConfig",
        PROGRAMS[0].0,
        PROGRAMS[1].0
    )]
    Unknown,
    /// It could not be run.
    #[error("running {program} on the host")]
    Running {
        /// Which.
        program: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It failed.
    #[error("{program} failed on the host, so that kernelArguments would not be in force: {said}")]
    Failed {
        /// Which.
        program: &'static str,
        /// Its words.
        said: String,
    },
}

/// Whether going from one configuration to another changes the kernel's arguments.
pub fn is_concerned(old: &Rendered, new: &Rendered) -> bool {
    layout(&old.spec).get(KERNEL_ARGUMENTS) != layout(&new.spec).get(KERNEL_ARGUMENTS)
}

/// Has the boot loader's configuration made anew, from the file that the configuration on the disk brought.
///
/// # Errors
/// If there is no way to, or it fails; the next restart would then not bring the arguments.
pub async fn renew(disk: &Disk, host: &Host) -> Result<(), BootLoaderError> {
    for (program, arguments) in PROGRAMS {
        if !disk.present(program)? {
            continue;
        }
        let mut command = Command::new(program);
        command.args(arguments);
        let done = host
            .output_within(command, ENDS_WITHIN)
            .await
            .map_err(|source| BootLoaderError::Running { program, source })?;
        return match done.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                Err(BootLoaderError::Failed { program, said })
            }
        };
    }
    Err(BootLoaderError::Unknown)
}

/// Arguments of a configuration that the kernel was not started with.
pub fn missing(config: &Rendered, started_with: &str) -> Vec<String> {
    let has = |argument: &&String| started_with.split_whitespace().any(|word| word == argument.as_str());
    config.spec.kernel_arguments.iter().filter(|argument| !has(argument)).cloned().collect()
}
