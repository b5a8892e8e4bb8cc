//! Removing an address without the ones that stand on it.
//!
//! Of several IPv4 addresses of one network the first is primary. When it goes the kernel takes the others along,
//! whoever's they are, unless the link is set to promote the next one. Many distributions set that; where it is not
//! set, it is set for the moment of the removal.

use std::collections::{BTreeMap, BTreeSet};

use super::Address;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::objects::Objects;
use crate::sysctl::{Key, Of};

/// What was changed, to be put back.
#[derive(Debug, Default)]
pub(super) struct Promoted(BTreeMap<Key, String>);

pub(super) fn before_removing(kernel: &Kernel, removed: &[Address]) -> Result<Promoted> {
    let carries_others =
        |a: &&Address| a.net.addr().is_ipv4() && a.net.prefix_len() < 32 && !a.status.secondary;
    let links: BTreeSet<u32> = removed.iter().filter(carries_others).map(|a| a.link).collect();
    if links.is_empty() {
        return Ok(Promoted::default());
    }
    let names = kernel.links().observe()?;
    let keys: Vec<Key> = names
        .into_iter()
        .filter(|l| links.contains(&l.index))
        .map(|l| Key::promote_secondaries(&Of::Link(l.name)))
        .collect();
    let mut off = kernel.sysctls().read(&keys)?;
    off.retain(|_, value| value == "0");
    kernel.sysctls().apply(&off.keys().map(|key| (key.clone(), "1".to_owned())).collect())?;
    Ok(Promoted(off))
}

impl Promoted {
    pub(super) fn put_back(self, kernel: &Kernel) -> Result<()> {
        kernel.sysctls().apply(&self.0)
    }
}
