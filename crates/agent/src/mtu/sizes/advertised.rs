//! Routes that router advertisements bring, now and later. The kernel would not know one again that somebody else wrote
//! in its place: it would outlive its router, and the advertisements after it would not be carried out to their end. So
//! they are held by their interface, whose IPv6 size counts where a route has none of its own.
//!
//! An advertisement may say a size itself, by which the kernel lets go of what it was told. It is told not to listen to
//! that meanwhile; and a route that such a size came with is forgotten, and its router asked to tell of itself again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use netferry_core::size::Envelope;
use netferry_kernel::address::Lifetime;
use netferry_kernel::route::{BY_ROUTER, Route};
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{Changes, Family, IfName, Kernel, Mac, Objects as _};
use serde::{Deserialize, Serialize};

use super::{Managed, Result, SizeError, leads_out, tell};
use crate::kept;

/// The kernel takes no less for IPv6.
const LEAST: u32 = 1280;
/// The file's name in our run directory.
const FILE: &str = "advertised.json";

/// What an interface may send to where a route has no size of its own.
pub(crate) fn size_of(link: &IfName) -> Key {
    Key::conf(Family::V6, &Of::Link(link.clone()), "mtu")
}

/// Whether it follows the size that advertisements tell.
fn obeys(link: &IfName) -> Key {
    Key::conf(Family::V6, &Of::Link(link.clone()), "accept_ra_mtu")
}

/// The links on which the kernel itself makes routes of advertisements.
pub(super) fn listening(kernel: &Kernel, links: &[Managed]) -> Result<BTreeSet<u32>> {
    let of = |managed: &Managed| Key::accept_ra(&Of::Link(managed.link.name.clone()));
    let have = read(kernel, links.iter().map(of))?;
    let listens = |managed: &&Managed| have.get(&of(managed)).is_some_and(|value| value != "0");
    Ok(links.iter().filter(listens).map(|managed| managed.link.index).collect())
}

/// Whether a route has the size of its interface, and is not ours to write. What a network service made of an
/// advertisement is, if it has a size of its own, by which the interface's does not count.
pub(super) fn is_of_its_link(route: &Route, listening: &BTreeSet<u32>) -> bool {
    let by_router = route.protocol == BY_ROUTER || route.lifetime != Lifetime::Forever;
    let by_kernel = || route.hops.iter().any(|hop| hop.link.is_some_and(|link| listening.contains(&link)));
    route.to.addr().is_ipv6() && by_router && (route.mtu.is_none() || by_kernel())
}

/// What an interface had before it was held, for as long as the host is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    /// The size, where it was not the interface's own.
    size: Option<u32>,
    obeys: Option<String>,
}

/// Holds interfaces at the pin; without one gives back what they had.
pub(super) fn hold(kernel: &Kernel, links: &[Managed], wanted: Envelope, run: &Path) -> Result<()> {
    let record = |source: io::Error| SizeError::Record { file: run.join(FILE), source };
    let known: BTreeMap<String, Before> = kept::read(run, FILE).map_err(record)?.unwrap_or_default();
    let names = || links.iter().map(|managed| &managed.link.name);
    let have = read(kernel, names().flat_map(|name| [size_of(name), obeys(name)]))?;
    let size = |link: &IfName| have.get(&size_of(link)).and_then(|size| size.parse::<u32>().ok());
    let Some(pin) = wanted.pin() else {
        let back = links.iter().filter_map(|managed| Some((managed, known.get(managed.link.name.as_str())?)));
        let want = back.flat_map(|(managed, before)| given_back(managed, before)).collect();
        write(kernel, &want, || "letting advertised routes go".to_owned())?;
        return if known.is_empty() { Ok(()) } else { kept::remove(&run.join(FILE)).map_err(record) };
    };
    let mut all = known.clone();
    for managed in links {
        let Managed { link, .. } = managed;
        all.entry(link.name.to_string()).or_insert_with(|| Before {
            size: size(&link.name).filter(|size| *size != link.mtu),
            obeys: have.get(&obeys(&link.name)).cloned(),
        });
    }
    // Before anything is touched: afterwards nobody can tell what was somebody's own.
    if all != known {
        kept::write(run, FILE, &all).map_err(record)?;
    }
    let pin = pin.bytes().max(LEAST);
    let deaf =
        names().filter(|name| have.contains_key(&obeys(name))).map(|name| (obeys(name), "0".to_owned()));
    write(kernel, &deaf.collect(), || "holding advertised routes".to_owned())?;
    let too_large = names().filter(|name| size(name).is_some_and(|size| size > pin));
    let small = too_large.map(|name| (size_of(name), pin.to_string()));
    write(kernel, &small.collect(), || format!("holding advertised routes at {pin}"))?;
    forget_larger(kernel, links, pin)
}

/// Forgets routes that came with a larger size than is let out: the interface's does not count for them, and what is
/// written in their place the kernel would not know again. Asked, routers bring them back in a moment, without a size.
fn forget_larger(kernel: &Kernel, links: &[Managed], pin: u32) -> Result<()> {
    let listening = listening(kernel, links)?;
    let indices = links.iter().map(|managed| managed.link.index).collect();
    let larger = |route: &Route| {
        let said = route.mtu.is_some_and(|mtu| mtu.bytes > pin);
        said && is_of_its_link(route, &listening) && leads_out(route, &indices)
    };
    let mut routes = tell(kernel.routes().observe(), || "reading routes".to_owned())?;
    routes.retain(larger);
    for route in &routes {
        let remove = Changes { remove: vec![route.clone()], ..Changes::default() };
        tell(kernel.routes().apply(&remove), || format!("forgetting the advertised route to {}", route.to))?;
    }
    let over = |managed: &&Managed| {
        routes.iter().flat_map(|route| &route.hops).any(|hop| hop.link == Some(managed.link.index))
    };
    for Managed { link, .. } in links.iter().filter(over) {
        let asked = kernel.solicit_routers(link.index, link.mac.unwrap_or(Mac([0; 6])));
        tell(asked, || format!("asking routers behind {} to tell of themselves", link.name))?;
    }
    Ok(())
}

/// What an interface gets back, as far as it takes it now.
fn given_back(managed: &Managed, before: &Before) -> Vec<(Key, String)> {
    let link = &managed.link;
    let size = before.size.unwrap_or(link.mtu).min(link.mtu);
    let obeyed = before.obeys.clone().map(|value| (obeys(&link.name), value));
    let size = (before.obeys.is_some() && size >= LEAST).then(|| (size_of(&link.name), size.to_string()));
    size.into_iter().chain(obeyed).collect()
}

fn read(kernel: &Kernel, keys: impl Iterator<Item = Key>) -> Result<BTreeMap<Key, String>> {
    let keys: Vec<Key> = keys.collect();
    tell(kernel.sysctls().read(&keys), || "reading what interfaces do with advertisements".to_owned())
}

fn write(kernel: &Kernel, want: &BTreeMap<Key, String>, step: impl FnOnce() -> String) -> Result<()> {
    tell(kernel.sysctls().converge_keys(want), step).map(drop)
}
