//! What a boot would do to a host, and whether it could.
//!
//! It is asked at the boot before anything is changed, and of the next boot while the node still runs: one that is found out
//! then keeps its kubelet, and the node hears of a cancellation.

use netferry_core::mtu::boot::{self as decide, BootFacts, BootStep, Saved};
use netferry_core::mtu::file::HostFile;
use netferry_core::size::Mtu;
use netferry_kernel::link::{Kind, Link};
use netferry_kernel::{Kernel, Objects};

use super::SizesError;
use super::persist::{self, Configured, Owner, PersistError};
use crate::machine::Disk;
use crate::mtu::sizes::{self, SizeError};

type Result<T> = std::result::Result<T, SizesError>;

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host<'h> {
    pub(super) disk: &'h Disk,
    pub(super) kernel: &'h Kernel,
    pub(super) uplink: &'h Link,
}

/// What a boot does.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<BootStep>,
    /// What the host's configuration says of the uplink.
    pub(super) configured: Option<Configured>,
    /// Who configures what the uplink stands on and has to grow with it.
    pub(super) parents: Vec<(String, Owner)>,
}

impl Host<'_> {
    /// What a boot by this file does to an uplink that came up with this size.
    ///
    /// # Errors
    /// What it would refuse, or what could not be looked at.
    pub(super) fn plan(&self, file: Option<&HostFile>, saved: Option<Saved>, came_up: Mtu) -> Result<Plan> {
        let configured = match self.configured() {
            // Whatever is wrong with it, nobody asks for it to be changed.
            Err(error) if !file.is_some_and(HostFile::changes_hosts) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the host's configuration cannot be read"
                );
                None
            }
            found => found?,
        };
        let said = configured.as_ref().and_then(|configured| configured.mtu);
        let mut steps = decide::boot(&BootFacts { file, saved, uplink: came_up, configured: said });
        let mut parents = Vec::new();
        for one in &steps {
            match one {
                BootStep::Run(envelope) => sizes::fits(self.kernel, &[&self.uplink.name], *envelope)?,
                BootStep::Persist(mtu) => parents = self.may_say(configured.as_ref(), *mtu)?,
                BootStep::Save(_) | BootStep::Record(_) | BootStep::Forget => {}
            }
        }
        let says = steps.iter().any(|step| matches!(step, BootStep::Persist(_)));
        if let (Some(target), false) = (file.and_then(HostFile::keeps), says) {
            // The uplink's own configuration says it already; that of what it stands on may not.
            parents = self.parents_below(&self.links()?, target)?;
            let runs = steps.iter().position(|step| matches!(step, BootStep::Run(_)));
            if let (Some(at), false) = (runs, parents.is_empty()) {
                steps.insert(at, BootStep::Persist(Some(target)));
            }
        }
        Ok(Plan { steps, configured, parents })
    }

    /// What the host's configuration says of the uplink.
    pub(super) fn configured(&self) -> Result<Option<Configured>> {
        let mac = self.uplink.mac.map(|mac| mac.to_string());
        Ok(persist::find(self.disk, self.uplink.name.as_str(), mac.as_deref())?)
    }

    /// Whether the host's configuration can be told this size of the uplink. Answers who configures what has to grow with
    /// it.
    pub(super) fn may_say(
        &self,
        configured: Option<&Configured>,
        mtu: Option<Mtu>,
    ) -> Result<Vec<(String, Owner)>> {
        let nobody = || PersistError::Nobody { link: self.uplink.name.to_string() };
        let configured = configured.ok_or_else(nobody)?;
        let links = self.links()?;
        let others = others(&links, self.uplink);
        persist::check(self.disk, self.uplink.name.as_str(), configured, mtu, &others)?;
        mtu.map_or(Ok(Vec::new()), |mtu| self.parents_below(&links, mtu))
    }

    fn links(&self) -> Result<Vec<Link>> {
        let reading = |source| SizeError::Kernel { step: "reading links".to_owned(), source };
        Ok(self.kernel.links().observe().map_err(reading)?)
    }

    /// What an uplink stands on must grow with it: a VLAN cannot be larger than its parent, and a bridge does not hand
    /// its size to its ports, as a bond does. They are never made smaller: others stand on them too. Answers who
    /// configures those that must.
    fn parents_below(&self, links: &[Link], mtu: Mtu) -> Result<Vec<(String, Owner)>> {
        let is_bridge =
            |index: u32| links.iter().any(|link| link.index == index && matches!(link.kind, Kind::Bridge(_)));
        let follows = |link: &Link| link.master.is_some_and(|master| !is_bridge(master));
        let mut found = Vec::new();
        for parent in sizes::managed(links, &[&self.uplink.name]).into_iter().filter(|managed| managed.below)
        {
            let link = &parent.link;
            if follows(link) || comes_and_goes(link) {
                continue;
            }
            let mac = link.mac.map(|mac| mac.to_string());
            match persist::find(self.disk, link.name.as_str(), mac.as_deref())? {
                Some(says) if says.mtu.unwrap_or(sizes::of(link)?) >= mtu => {}
                Some(says) => {
                    let others = others(links, self.uplink);
                    persist::check(self.disk, link.name.as_str(), &says, Some(mtu), &others)?;
                    found.push((link.name.to_string(), says.owner));
                }
                None if link.mtu >= mtu.bytes() => {}
                None => return Err(PersistError::Nobody { link: link.name.to_string() }.into()),
            }
        }
        Ok(found)
    }
}

/// Others than the host's network service make those, and remove them.
fn comes_and_goes(link: &Link) -> bool {
    match &link.kind {
        Kind::Veth | Kind::Tun(_) => true,
        Kind::Other(kind) => kind == "openvswitch",
        Kind::Bridge(_) | Kind::Vxlan(_) | Kind::Macvlan(_) | Kind::Device => false,
    }
}

/// Links of the host that have nothing to do with an uplink.
fn others(links: &[Link], uplink: &Link) -> Vec<persist::Present> {
    let managed: Vec<u32> =
        sizes::managed(links, &[&uplink.name]).into_iter().map(|managed| managed.link.index).collect();
    let others = links.iter().filter(|link| !managed.contains(&link.index) && !comes_and_goes(link));
    others.map(|link| (link.name.to_string(), link.mac.map(|mac| mac.to_string()))).collect()
}
