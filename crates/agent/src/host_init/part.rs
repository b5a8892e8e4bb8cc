//! What capabilities do to the host at boot, before its kubelet starts.

use netferry_kernel::link::Link;
use netferry_kernel::{IfName, Kernel};

use super::{InitError, Options};

/// One capability's share in preparing the host. It must be repeatable: a run may be cut off anywhere.
pub trait BootPart {
    /// Returns true if this boot must not go on with an unknown uplink.
    fn needs_uplink(&self) -> bool;

    /// Prepares the uplink, and returns the MTU it carries then if this part sets it.
    fn prepare(
        &mut self,
        kernel: &Kernel,
        uplink: &Link,
        step: &mut dyn FnMut(&str),
    ) -> Result<Option<u32>, BootError>;

    /// Records what runs, once every link that leads to the uplink is there.
    fn record(&mut self, kernel: &Kernel, links: &[&IfName]) -> Result<(), BootError>;
}

/// Opens a capability's part, with what is known before the uplink is.
pub type OpenPart = fn(&Options) -> Result<Box<dyn BootPart>, BootError>;

/// A capability could not prepare the host.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The host is as it was: the request cannot be carried out as it is.
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// Something failed on the way; the next run continues.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// The parts of all capabilities, in the order in which they start.
pub(super) struct Parts(Vec<Box<dyn BootPart>>);

impl Parts {
    pub(super) fn open(options: &Options) -> Result<Parts, InitError> {
        let open = crate::capabilities().into_iter().filter_map(|capability| capability.boot);
        let parts: Result<_, BootError> = open.map(|open| open(options)).collect();
        Ok(Parts(parts?))
    }

    pub(super) fn need_uplink(&self) -> bool {
        self.0.iter().any(|part| part.needs_uplink())
    }

    /// Prepares the uplink, and returns it with the MTU it carries now.
    pub(super) fn prepare(
        &mut self,
        kernel: &Kernel,
        mut uplink: Link,
        step: &mut dyn FnMut(&str),
    ) -> Result<Link, InitError> {
        for part in &mut self.0 {
            if let Some(mtu) = part.prepare(kernel, &uplink, step)? {
                uplink.mtu = mtu;
            }
        }
        Ok(uplink)
    }

    pub(super) fn record(&mut self, kernel: &Kernel, links: &[&IfName]) -> Result<(), InitError> {
        for part in &mut self.0 {
            part.record(kernel, links)?;
        }
        Ok(())
    }
}
