//! How a capability plugs into the agent.

use netferry_kernel::Kernel;
use prometheus_client::registry::Registry;
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
    /// Starts it in an agent.
    pub start: fn(&Context, &mut Startup),
    /// Removes what it left in the kernel and on the disk, on uninstall. Called in reverse order of [`Capability::start`].
    pub withdraw: fn(&Kernel, &Paths) -> Result<(), WithdrawError>,
}

/// What the parts of a starting agent add to.
#[derive(Default)]
pub struct Startup {
    /// Tasks. One that panics ends the agent.
    pub tasks: JoinSet<()>,
    /// The annotations of this node.
    pub publisher: Publisher,
    /// Files of MachineConfigs that a part knows.
    pub files: Vec<ManagedFile>,
    /// Metrics.
    pub metrics: Registry,
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
