//! How a capability plugs into the agent.

use netferry_kernel::Kernel;
use tokio::task::JoinSet;

use crate::config::Paths;
use crate::context::Context;
use crate::host_init::OpenPart;
use crate::machine::ManagedFile;
use crate::node::publisher::Publisher;

/// One capability on a node. The list is [`crate::capabilities`].
pub struct Capability {
    /// Its folder, log target and the owner of what it publishes.
    pub name: &'static str,
    /// Opens its part in `netferry host-init`, if it has one.
    pub boot: Option<OpenPart>,
    /// Starts its tasks. A task that panics ends the agent.
    pub start: fn(&Context, &mut Publisher, &mut JoinSet<()>) -> Vec<ManagedFile>,
    /// Removes what it left in the kernel and on the disk, on uninstall. Called in reverse order of [`Capability::start`].
    pub withdraw: fn(&Kernel, &Paths) -> Result<(), WithdrawError>,
}

/// Something of a capability stays on the host.
#[derive(Debug, thiserror::Error)]
#[error("removing what {capability} left on this host")]
pub struct WithdrawError {
    /// The capability.
    pub capability: &'static str,
    /// Why it stays.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
