//! Moving what is configured on one link to another, so that at every moment one of the two has it.
//!
//! The kernel's own state is all there is to know: what is still on the old link has to move, what is on the new one
//! has moved. A move that was interrupted anywhere is finished by doing it again.

use std::net::IpAddr;

use netferry_kernel::address::{Address, Lifetime};
use netferry_kernel::link::{Link, Want};
use netferry_kernel::route::{BY_KERNEL, BY_ROUTER, Kind, LOCAL, Route};
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{Changes, IfName, Kernel, Mark, Objects, Result};

/// `IFA_PROTO` of an address that a router's advertisement brought.
const FROM_ROUTER: u8 = 2;
const LINK_SCOPE: u8 = 253;

/// What moves from one link to another.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Load {
    /// To be added to the new link.
    pub add: Vec<Address>,
    /// To be taken from the old link.
    pub remove: Vec<Address>,
    /// Routes that lead over the old link, as they are and as they shall be.
    pub routes: Vec<(Route, Route)>,
    /// Routes over the old link that the new one learns by itself.
    pub forget: Vec<Route>,
}

impl Load {
    /// Is there nothing left to move?
    pub fn is_empty(&self) -> bool {
        *self == Load::default()
    }
}

/// What is still to be moved. Pure.
///
/// Addresses of the wire only, which every link makes for itself, stay. So do routes that come and go with an
/// address. Everything else keeps what its configuration gave it: metrics, labels, lifetimes, who made it.
///
/// `learns` says whether the kernel itself makes routes of what routers advertise, as it then does on the new link too.
/// Where the host's network service does that, it knows nothing of the new link.
pub fn load(from: &Link, to: &Link, addresses: &[Address], routes: &[Route], learns: bool) -> Load {
    let mut load = Load::default();
    for address in addresses.iter().filter(|a| a.link == from.index && moves(a)) {
        let there = addresses.iter().any(|a| a.link == to.index && a.net == address.net);
        let moved = moved(address, from, to);
        let renewed =
            addresses.iter().any(|a| a.link == to.index && a.net == address.net && outlives(&moved, a));
        if !there || renewed {
            load.add.push(moved);
        }
        load.remove.push(address.clone());
    }
    for route in routes.iter().filter(|r| r.table != LOCAL && r.kind == Kind::Unicast) {
        if !route.hops.iter().any(|hop| hop.link == Some(from.index)) || of_an_address(route, from, addresses)
        {
            continue;
        }
        if learns && route.protocol == BY_ROUTER {
            load.forget.push(route.clone());
            continue;
        }
        let mut moved = route.clone();
        moved.hops.iter_mut().filter(|h| h.link == Some(from.index)).for_each(|h| h.link = Some(to.index));
        load.routes.push((route.clone(), moved));
    }
    // The way to a router before the ways through it.
    load.routes.sort_by_key(|(route, _)| route.hops.iter().any(|hop| hop.gateway.is_some()));
    load
}

/// Did the kernel make it with an address? Some network services ask it not to and make such routes themselves, under
/// the kernel's name.
fn of_an_address(route: &Route, from: &Link, addresses: &[Address]) -> bool {
    let first = route.to.addr();
    let of_every_link = matches!(first, IpAddr::V6(ip) if ip.is_unicast_link_local() || ip.is_multicast());
    let makes = |a: &&Address| a.link == from.index && !a.no_prefix_route && a.net.trunc() == route.to;
    route.protocol == BY_KERNEL && (of_every_link || addresses.iter().any(|a| makes(&a)))
}

fn moves(address: &Address) -> bool {
    address.net.addr().is_ipv4() || address.scope != LINK_SCOPE
}

fn moved(address: &Address, from: &Link, to: &Link) -> Address {
    let mut moved = Address { link: to.index, status: Default::default(), ..address.clone() };
    moved.label = relabelled(address.label.as_deref(), &from.name, &to.name);
    // It was on this wire a moment ago: nobody else has it.
    moved.no_dad = address.net.addr().is_ipv6();
    if address.protocol == FROM_ROUTER {
        // The router renews what a link made for itself, and this link did not make this one.
        (moved.valid, moved.preferred, moved.protocol) = (Lifetime::Forever, Lifetime::Forever, 0);
    }
    moved
}

/// A label begins with its link's name; alone it is what the kernel writes where there is none.
fn relabelled(label: Option<&str>, from: &IfName, to: &IfName) -> Option<String> {
    let rest = label?.strip_prefix(from.as_str())?;
    let new = format!("{to}{rest}");
    (rest.starts_with(':') && IfName::new(new.replace(':', "_")).is_ok()).then_some(new)
}

/// Somebody who leases an address renews it on the link he knows.
fn outlives(new: &Address, old: &Address) -> bool {
    new.valid > old.valid && !matches!(old.valid, Lifetime::Forever)
}

/// What is still to be moved, now.
pub fn observe(kernel: &Kernel, from: &Link, to: &Link) -> Result<Load> {
    let accepts = Key::accept_ra(&Of::Link(from.name.clone()));
    let learns =
        kernel.sysctls().read(std::slice::from_ref(&accepts))?.get(&accepts).is_none_or(|value| value != "0");
    Ok(load(from, to, &kernel.addresses().observe()?, &kernel.routes().observe()?, learns))
}

/// Puts the addresses on the new link too. While that is switched off nobody hears of it.
pub fn add_addresses(kernel: &Kernel, load: &Load) -> Result<()> {
    // Not an error if it came meanwhile: replacing an address by itself is nothing.
    let replace = load.add.iter().map(|address| (address.clone(), address.clone())).collect();
    kernel.addresses().apply(&Changes { replace, ..Changes::default() })
}

/// Turns the routes, each in one step, and then takes the addresses from the old link.
pub fn turn(kernel: &Kernel, load: &Load) -> Result<()> {
    // One message for all would do, but a route that a router is behind needs the one to the router.
    for (_, route) in &load.routes {
        let replace = vec![(route.clone(), route.clone())];
        kernel.routes().apply(&Changes { replace, ..Changes::default() })?;
    }
    gone(kernel.routes().apply(&Changes { remove: load.forget.clone(), ..Changes::default() }))?;
    gone(kernel.addresses().apply(&Changes { remove: load.remove.clone(), ..Changes::default() }))
}

/// Removing what is gone already is no failure: a route goes with the address it stood on.
fn gone(done: Result<()>) -> Result<()> {
    use nix::errno::Errno;
    match done {
        Err(error) if matches!(error.errno(), Some(Errno::ESRCH | Errno::EADDRNOTAVAIL)) => Ok(()),
        other => other,
    }
}

/// Switches a link on.
pub fn up(kernel: &Kernel, link: &IfName) -> Result<()> {
    let want = [Want::adjust(link.clone()).up()];
    let have = kernel.links().named(link)?.into_iter().collect::<Vec<_>>();
    kernel.links().apply(&netferry_kernel::link::diff(&want, &have, &Mark::default()))
}
