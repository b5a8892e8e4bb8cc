//! Files of a MachineConfig whose meaning a capability knows. All others need a restart when they change.

use std::error::Error;

type Cause = Box<dyn Error + Send + Sync>;
type AppliesWithoutRestart = dyn Fn(Option<&[u8]>) -> bool + Send + Sync;
type Check = dyn Fn(&[u8]) -> Result<(), CheckError> + Send + Sync;
type Adopt = dyn Fn(&[u8]) -> Result<(), Cause> + Send + Sync;

/// One such file.
pub struct ManagedFile {
    /// Its path on the host.
    pub path: &'static str,
    /// Returns true if the running node needs no restart for the file to have these contents; `None` is no file.
    pub applies_without_restart: Box<AppliesWithoutRestart>,
    /// Returns why the next boot would not get as far as the kubelet with these contents.
    pub check: Box<Check>,
    /// Takes over what the contents on the disk say without a restart.
    pub adopt: Box<Adopt>,
}

/// Why a boot would fail with a file, or why that is not known.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The boot would refuse it.
    #[error("a boot would refuse it")]
    Refused(#[source] Cause),
    /// The host could not be looked at.
    #[error("looking what the next boot would do")]
    Unknown(#[source] Cause),
}
