//! The sizes of a host's links and routes, in the kernel.
//!
//! [`managed`] says which links carry traffic between hosts, [`run`] takes them and every route out of them to an
//! envelope in `core`'s order, [`pin`] holds routes that appear later, [`trial`] carries more for a while.

pub(crate) mod advertised;
mod before;
mod pin;
pub mod trial;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use netferry_core::mtu::steps::{self, Step};
use netferry_core::size::{Envelope, Mtu, OutOfRange};
use netferry_kernel::link::{Kind as LinkKind, Link, Want};
use netferry_kernel::route::{Kind, LOCAL, Route, RouteMtu};
use netferry_kernel::{Changes, IfName, Kernel, Mark, Objects};

use before::Before;
pub use pin::keep;

use crate::ownership::TUNNEL_ROUTE_TABLE;

/// A link that carries traffic between hosts, or one below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// The link.
    pub link: Link,
    /// How many links it stands on, at most.
    pub height: u8,
    /// It stands below one of the uplinks.
    pub below: bool,
}

/// Why sizes could not be set.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// A link runs at a size we cannot work with.
    #[error("link {link}: {source}")]
    Size {
        /// Which.
        link: IfName,
        /// Its size.
        #[source]
        source: OutOfRange,
    },
    /// A link's driver does not take the size.
    #[error("link {link} takes an MTU of at most {most}, and {wanted} is asked")]
    TooLarge {
        /// Which.
        link: IfName,
        /// What it takes.
        most: u32,
        /// What it should.
        wanted: Mtu,
    },
    /// The kernel refused something.
    #[error("{step}")]
    Kernel {
        /// What was being done.
        step: String,
        /// Its refusal.
        #[source]
        source: netferry_kernel::Error,
    },
    /// What routes had before us could not be written down or read.
    #[error("keeping what routes had in {}", file.display())]
    Record {
        /// Where.
        file: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, SizeError>;

fn tell<T>(done: netferry_kernel::Result<T>, step: impl FnOnce() -> String) -> Result<T> {
    done.map_err(|source| SizeError::Kernel { step: step(), source })
}

/// The links a host's traffic to others goes through: the uplinks, and what they stand on (parents of VLANs, ports of
/// bonds and bridges). Pure.
pub fn managed(links: &[Link], uplinks: &[&IfName]) -> Vec<Managed> {
    fn lower<'l>(links: &'l [Link], link: &Link) -> Vec<&'l Link> {
        let gathers = match &link.kind {
            LinkKind::Bridge(_) => true,
            LinkKind::Other(kind) => matches!(kind.as_str(), "bond" | "team"),
            LinkKind::Veth
            | LinkKind::Vxlan(_)
            | LinkKind::Macvlan(_)
            | LinkKind::Tun(_)
            | LinkKind::Device => false,
        };
        // What a veth names is its other end.
        let parent = link.lower.filter(|_| link.lower_namespace.is_none() && link.kind != LinkKind::Veth);
        let below =
            |other: &&Link| Some(other.index) == parent || gathers && other.master == Some(link.index);
        links.iter().filter(below).collect()
    }
    fn height(links: &[Link], link: &Link, depth: u8) -> u8 {
        if depth == 0 {
            return 0;
        }
        let below = lower(links, link).into_iter().map(|l| height(links, l, depth - 1) + 1);
        below.max().unwrap_or(0)
    }
    const DEEPEST: u8 = 8;
    let mut found: Vec<Managed> = Vec::new();
    let mut next: Vec<(&Link, bool)> =
        links.iter().filter(|link| uplinks.contains(&&link.name)).map(|link| (link, false)).collect();
    let mut seen = BTreeSet::new();
    while let Some((link, below)) = next.pop() {
        if seen.insert(link.index) {
            found.push(Managed { link: link.clone(), height: height(links, link, DEEPEST), below });
        }
        let lower = lower(links, link).into_iter().filter(|lower| !seen.contains(&lower.index));
        next.extend(lower.map(|lower| (lower, true)));
    }
    found.sort_by(|a, b| a.link.name.cmp(&b.link.name));
    found
}

/// Whether a route leads out of one of these links, as far as sizes go. What goes through tunnels has a pod's size.
pub(crate) fn leads_out(route: &Route, links: &BTreeSet<u32>) -> bool {
    ![LOCAL, TUNNEL_ROUTE_TABLE].contains(&route.table)
        && route.kind == Kind::Unicast
        && route.hops.iter().any(|hop| hop.link.is_some_and(|link| links.contains(&link)))
}

/// The routes out of these links whose size we write. Not those that advertisements brought; and of IPv6 none that
/// shares destination and metric with another, such as the links' own `fe80::/64`: the kernel would replace whichever it
/// finds first. Both are held by their interface instead ([`advertised::hold`]).
fn ours_to_write(kernel: &Kernel, links: &[Managed]) -> Result<Vec<Route>> {
    let routes = tell(kernel.routes().observe(), || "reading routes".to_owned())?;
    let listening = advertised::listening(kernel, links)?;
    let links: BTreeSet<u32> = links.iter().map(|managed| managed.link.index).collect();
    let mut count: BTreeMap<(u32, IpNet, u32), usize> = BTreeMap::new();
    for route in &routes {
        *count.entry((route.table, route.to, route.metric)).or_default() += 1;
    }
    let alone = |route: &Route| {
        route.to.addr().is_ipv4() || count.get(&(route.table, route.to, route.metric)) == Some(&1)
    };
    let of_their_link = |route: &Route| advertised::is_of_its_link(route, &listening);
    let ours = |route: &Route| leads_out(route, &links) && !of_their_link(route) && alone(route);
    Ok(routes.into_iter().filter(|route| ours(route)).collect())
}

/// Takes links and every route out of them to an envelope. Run again it changes nothing; cut off anywhere, the next run
/// finishes it.
///
/// # Errors
/// If a link does not take the size, before anything was changed; or if the kernel refuses something.
pub fn run(kernel: &Kernel, uplinks: &[&IfName], wanted: Envelope, run: &Path) -> Result<()> {
    let links = look(kernel, uplinks)?;
    let routes = ours_to_write(kernel, &links)?;
    let lower = links.iter().map(plain).collect::<Result<Vec<steps::Link>>>()?;
    all_take(&links, wanted)?;
    let before = before::note(run, &routes)?;
    let own = |route: &Route| before.of(route);
    let name = |route: &Route| {
        let through = |managed: &&Managed| route.hops.iter().any(|hop| hop.link == Some(managed.link.index));
        links.iter().find(through).map(|managed| managed.link.name.to_string()).unwrap_or_default()
    };
    let size = |mtu: Option<RouteMtu>| mtu.and_then(|mtu| Mtu::new(mtu.bytes).ok());
    let plain: Vec<steps::Route> = routes
        .iter()
        .enumerate()
        .map(|(id, route)| steps::Route {
            id,
            to: route.to,
            link: name(route),
            mtu: size(route.mtu),
            own: size(own(route)),
        })
        .collect();
    for step in steps::steps(&lower, &plain, wanted) {
        match step {
            Step::Link { name, mtu } => set_link(kernel, &name, mtu)?,
            Step::Route { id, mtu, locked } => {
                // Somebody's own, kept as it was with its lock; or ours.
                let theirs = own(&routes[id]).filter(|own| !locked && Some(own.bytes) == mtu.map(Mtu::bytes));
                let ours = mtu.map(|mtu| RouteMtu { bytes: mtu.bytes(), locked });
                replace(kernel, &Route { mtu: theirs.or(ours), ..routes[id].clone() })?;
            }
        }
    }
    unlock(kernel, &links, &before)?;
    // The kernel resets it when an interface's size changes, so it is done after that.
    advertised::hold(kernel, &look(kernel, uplinks)?, wanted, run)
}

/// Whether the drivers of all links take a size.
///
/// # Errors
/// If one does not.
pub fn fits(kernel: &Kernel, uplinks: &[&IfName], wanted: Envelope) -> Result<()> {
    all_take(&look(kernel, uplinks)?, wanted)
}

/// The links that are managed, as they are now.
fn look(kernel: &Kernel, uplinks: &[&IfName]) -> Result<Vec<Managed>> {
    let links = tell(kernel.links().observe(), || "reading links".to_owned())?;
    Ok(managed(&links, uplinks))
}

fn all_take(links: &[Managed], wanted: Envelope) -> Result<()> {
    let too_large = |link: &&Link| link.max_mtu != 0 && wanted.carries().bytes() > link.max_mtu;
    match links.iter().map(|managed| &managed.link).find(too_large) {
        None => Ok(()),
        Some(link) => {
            Err(SizeError::TooLarge { link: link.name.clone(), most: link.max_mtu, wanted: wanted.carries() })
        }
    }
}

/// What a link runs at.
///
/// # Errors
/// If that is a size we cannot work with.
pub fn of(link: &Link) -> Result<Mtu> {
    Mtu::new(link.mtu).map_err(|source| SizeError::Size { link: link.name.clone(), source })
}

fn plain(managed: &Managed) -> Result<steps::Link> {
    let Managed { link, height, below } = managed;
    Ok(steps::Link { name: link.name.to_string(), mtu: of(link)?, height: *height, shared: *below })
}

fn set_link(kernel: &Kernel, name: &str, mtu: Mtu) -> Result<()> {
    let step = || format!("giving link {name} MTU {mtu}");
    let name = IfName::new(name.to_owned()).expect("it is a link's");
    let have: Vec<Link> = tell(kernel.links().named(&name), step)?.into_iter().collect();
    let want = [Want::adjust(name.clone()).mtu(mtu.bytes())];
    tell(kernel.links().apply(&netferry_kernel::link::diff(&want, &have, &Mark::default())), step)
}

/// Gives a route its size in place. One that went meanwhile is nobody's business any more.
fn replace(kernel: &Kernel, route: &Route) -> Result<()> {
    let still = tell(kernel.routes().observe(), || "reading routes".to_owned())?;
    let there = still.iter().any(|now| {
        (now.table, now.to, now.metric, now.protocol, &now.hops)
            == (route.table, route.to, route.metric, route.protocol, &route.hops)
    });
    if !there {
        return Ok(());
    }
    let changes = Changes { replace: vec![(route.clone(), route.clone())], ..Changes::default() };
    tell(kernel.routes().apply(&changes), || format!("giving the route to {} its MTU", route.to))
}

/// Routes are locked only while a link changes; a run that was cut off then left some behind.
fn unlock(kernel: &Kernel, links: &[Managed], before: &Before) -> Result<()> {
    for route in ours_to_write(kernel, links)? {
        let theirs = before.of(&route);
        if let Some(RouteMtu { bytes, locked: true }) = route.mtu
            && theirs != route.mtu
        {
            replace(kernel, &Route { mtu: Some(RouteMtu { bytes, locked: false }), ..route })?;
        }
    }
    Ok(())
}
