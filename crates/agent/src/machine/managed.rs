//! Files of a MachineConfig whose meaning a capability knows. All others need a restart when they change.

use std::error::Error;

use netferry_core::rollout::effect::Effect;

type Cause = Box<dyn Error + Send + Sync>;
type EffectOf = dyn Fn(Option<&[u8]>) -> Effect + Send + Sync;
type Check = dyn Fn(&[u8]) -> Result<(), CheckError> + Send + Sync;
type Apply = dyn Fn(&[u8]) -> Result<(), Cause> + Send + Sync;

/// One such file.
pub struct ManagedFile {
    /// Its path on the host.
    pub path: &'static str,
    /// Returns what it takes on the running node until these contents are in force; `None` is no file.
    pub effect: Box<EffectOf>,
    /// Returns why the next boot would not get as far as the kubelet with these contents.
    pub check: Box<Check>,
    /// Applies contents whose effect is [`Effect::Apply`] to the running node.
    pub apply: Box<Apply>,
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
