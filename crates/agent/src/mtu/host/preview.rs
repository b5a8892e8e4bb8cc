//! What the next boot would refuse, found out while the node still runs.
//!
//! host-init keeps the kubelet away when it cannot do what it is told, and the agent with it: nobody could tell such a node
//! that the change was taken back. So a configuration is looked at before the node is drained for it, and what no change
//! could be made with is said before anybody asks for one.

use std::path::PathBuf;
use std::sync::Arc;

use netferry_core::error::chain;
use netferry_core::mtu::equipment::Fixed;
use netferry_core::mtu::file::HostFile;
use netferry_core::size::Mtu;
use netferry_kernel::link::Link;
use netferry_kernel::{IfName, Kernel};
use tokio::sync::watch;

use super::SizesError;
use super::plan::Host;
use crate::host_init::Record;
use crate::machine::Disk;
use crate::mtu::boot;
use crate::mtu::sizes::{self, SizeError};
use crate::node::NodeFacts;

/// Why a boot would not do what it is told.
#[derive(Debug, thiserror::Error)]
pub enum Foreseen {
    /// It would not know which link is meant.
    #[error("host-init would not know which link to give its size: {0}")]
    NoLink(String),
    /// It would size a link that does not lead to the other nodes.
    #[error(
        "host-init would give {sized} its size, and the other nodes are reached over {link}: let it run with \
         `--uplink {link}` at boot"
    )]
    Astray {
        /// The link it takes.
        sized: IfName,
        /// The link it should.
        link: IfName,
    },
    /// What the host has or says does not allow it, or could not be looked at.
    #[error(transparent)]
    Sizes(#[from] SizesError),
}

impl Foreseen {
    /// Is it the boot that would refuse, and not us who could not look?
    pub fn is_refusal(&self) -> bool {
        match self {
            Foreseen::NoLink(_) | Foreseen::Astray { .. } => true,
            Foreseen::Sizes(error) => error.is_refusal(),
        }
    }
}

/// Looks ahead to the next boot of this host.
#[derive(Clone, Debug)]
pub struct Foresight {
    /// The host's kernel.
    pub kernel: Arc<Kernel>,
    /// The host's files.
    pub disk: Arc<Disk>,
    /// Our run directory, with what host-init did at this boot.
    pub run: PathBuf,
    /// The link that leads to the other nodes.
    pub facts: watch::Receiver<Option<NodeFacts>>,
}

impl Foresight {
    /// Whether a boot by this file would do what the file says.
    ///
    /// # Errors
    /// What it would refuse, or what could not be looked at.
    pub fn of(&self, file: &HostFile) -> Result<(), Foreseen> {
        if !file.changes_hosts() {
            return Ok(());
        }
        let Some(uplink) = self.uplink()? else { return Ok(()) };
        let saved = boot::saved(&self.disk).map_err(SizesError::from)?;
        let came_up = sizes::of(&uplink).map_err(SizesError::from)?;
        self.host(&uplink).plan(Some(file), saved, came_up)?;
        Ok(())
    }

    /// Why no change could be made, whichever is asked for: of the smallest one in either direction. What a larger one needs
    /// beyond that is found out when a node is told of it.
    pub fn fixed(&self) -> Fixed {
        let why = |found: Result<(), Foreseen>| match found {
            Err(error) if error.is_refusal() => Some(chain(&error)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "looking whether the host could be told another MTU");
                None
            }
            Ok(()) => None,
        };
        let another = |by: fn(u32) -> Option<u32>| {
            why(self.uplink().and_then(|uplink| self.another(uplink.as_ref(), by)))
        };
        Fixed { change: another(|mtu| mtu.checked_sub(1)), growth: another(|mtu| mtu.checked_add(1)) }
    }

    fn another(&self, uplink: Option<&Link>, by: fn(u32) -> Option<u32>) -> Result<(), Foreseen> {
        let Some(uplink) = uplink else { return Ok(()) };
        let host = self.host(uplink);
        let configured = host.configured()?;
        let is = configured.as_ref().and_then(|said| said.mtu).map_or(uplink.mtu, Mtu::bytes);
        if let Some(another) = by(is).and_then(|bytes| Mtu::new(bytes).ok()) {
            host.may_say(configured.as_ref(), Some(another))?;
        }
        Ok(())
    }

    fn host<'h>(&'h self, uplink: &'h Link) -> Host<'h> {
        Host { disk: &self.disk, kernel: &self.kernel, uplink }
    }

    /// The link that the next boot gives its size, as this one did; nothing where nobody prepared the host, or sizes are
    /// not for us to give.
    fn uplink(&self) -> Result<Option<Link>, Foreseen> {
        let failed = |source| SizesError::Record { run: self.run.clone(), source };
        let Some(record) = Record::read(&self.run).map_err(failed)? else { return Ok(None) };
        if let Some(why) = record.unsized_because {
            return Err(Foreseen::NoLink(why));
        }
        let bridged = record.bridge.is_some();
        let name = record.bridge.map(|bridge| bridge.uplink).or(record.sized);
        let Some(sized) = name.and_then(|name| IfName::new(name).ok()) else { return Ok(None) };
        let leads = self.facts.borrow().as_ref().map(|facts| facts.host.link.clone());
        // Over a bridge of the switch others are reached over that, and it stands on the link.
        if let Some(link) = leads.filter(|link| !bridged && *link != sized) {
            return Err(Foreseen::Astray { sized, link });
        }
        let looking = |source| SizeError::Kernel { step: format!("looking for link {sized}"), source };
        Ok(self.kernel.links().named(&sized).map_err(|source| SizesError::from(looking(source)))?)
    }
}
