//! Keeps the kernel's hands off links that a userspace switch reads.
//!
//! Such a switch gets its frames from packet sockets, beside the kernel and not instead of it. Left alone the kernel
//! would answer ARP for any address of the host on a pod's link, with that link's hardware address, and deliver a
//! second copy of everything that arrives at the uplink. A chain at the link's ingress that drops everything ends
//! this; packet sockets see frames before it. And frames must be as they would be on a wire: with offloads on, what
//! the switch reads has no checksum yet and is longer than any packet may be.
//!
//! One chain per link, so that attaching a pod costs the same whatever the number of pods. With the kernel's own
//! datapath none of this is needed: there the switch takes the frames away.

use std::collections::{BTreeMap, BTreeSet};

use netferry_kernel::nft::{
    Chain, Change, Changes, HookKind, HookPoint, Policy, Table, TableFamily, TableId,
};
use netferry_kernel::offload::Offload;
use netferry_kernel::{Error, IfName, Kernel, Objects, Result};
use nix::errno::Errno;

use crate::ownership::{self, GUARD_PRIORITY, GUARD_TABLE as TABLE};

/// How often to begin again when somebody else changed the same table at the same moment.
const PATIENCE: usize = 16;

/// Guards a link: drops what the kernel would take from it, and switches its offloads off. Does nothing if that is
/// so already. Call it before the link becomes a port of the switch.
pub fn add(kernel: &Kernel, link: &IfName) -> Result<()> {
    offloads_off(kernel, link)?;
    let commit = |steps| kernel.nft().apply(&Changes { steps, ..Changes::default() });
    let chain = || Change::NewChain { table: id(), name: chain_of(link), hook: guard(link).hook };
    for _ in 0..PATIENCE {
        match commit(vec![chain()]) {
            Err(error) if error.errno() == Some(Errno::ENOENT) => {}
            other => return other,
        }
        match commit(vec![Change::NewTable(id(), Default::default()), chain()]) {
            // Somebody made the table meanwhile, or it was the link that is missing: the next round tells.
            Err(error) if error.errno() == Some(Errno::EEXIST) => {}
            other => return other,
        }
        if kernel.links().named(link)?.is_none() {
            break;
        }
    }
    commit(vec![chain()])
}

/// Takes the guard off a link that is no longer a port of the switch. Its offloads stay as they are: what they were
/// before is known to whoever switched them off.
pub fn remove(kernel: &Kernel, link: &IfName) -> Result<()> {
    let steps = vec![Change::DelChain(id(), chain_of(link))];
    match kernel.nft().apply(&Changes { steps, ..Changes::default() }) {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

/// Switches everything off that a link's driver would do to frames later than the switch reads them. The pod's end
/// of a pair needs it as well as the host's, in the pod's namespace.
pub fn offloads_off(kernel: &Kernel, link: &IfName) -> Result<()> {
    let off: BTreeMap<Offload, bool> = Offload::ALL.iter().map(|offload| (*offload, false)).collect();
    kernel.offloads().converge_links(&BTreeMap::from([(link.clone(), off)])).map(drop)
}

/// Puts back what is missing of the guards of these links, and removes those of links that are gone. Other links
/// keep theirs: one may be about to become a port. Answers whether anything was wrong.
pub fn repair(kernel: &Kernel, links: &BTreeSet<IfName>) -> Result<bool> {
    let mark = ownership::guard();
    let mut tries = 0;
    loop {
        let there: BTreeSet<IfName> = kernel.links().observe()?.into_iter().map(|link| link.name).collect();
        let have = kernel.nft().observe_named(TABLE)?;
        let guarded = have.tables.iter().flat_map(|table| table.chains.values());
        let guarded = guarded.filter_map(|chain| chain.hook.as_ref()).flat_map(|hook| &hook.devices);
        let wanted: BTreeSet<&IfName> =
            links.iter().chain(guarded).filter(|link| there.contains(*link)).collect();
        let mut table = Table::new(TableFamily::Netdev, TABLE);
        for link in wanted {
            table = table.chain(chain_of(link), guard(link));
        }
        let want: &[Table] = if table.chains.is_empty() { &[] } else { &[table] };
        let changes = netferry_kernel::nft::diff(want, &have, &mark);
        match kernel.nft().apply(&changes) {
            Ok(()) => return Ok(!changes.is_empty()),
            Err(Error::Stale { .. }) if tries < PATIENCE => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn id() -> TableId {
    TableId { family: TableFamily::Netdev, name: TABLE.to_owned() }
}

/// Names of chains must begin with a letter or `nft` could not print the table; names of links need not.
fn chain_of(link: &IfName) -> String {
    format!("link-{link}")
}

fn guard(link: &IfName) -> Chain {
    Chain::at(HookKind::Filter, HookPoint::Ingress, GUARD_PRIORITY, vec![])
        .policy(Policy::Drop)
        .on(vec![link.clone()])
}
