//! The pair of links between a pod and its host.
//!
//! The host's end is always as large as any pod's may become: changing it makes the switch set its port up anew,
//! which loses packets, while the pod's end can be changed without anybody noticing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netferry_core::net::{Addresses, Family};
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::address::Address;
use netferry_kernel::link::{Changes, Make, VethPeer, Want};
use netferry_kernel::route::{Filter, Hop, LOCAL, MAIN, Route};
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{Error, IfName, Kernel, Mac, Mark, Namespace, Object, Objects, Result};
use nix::errno::Errno;

use super::Place;
use crate::overlay::host::guard;
use crate::ownership;

/// The smallest MTU of a host's end.
pub(super) const HOST_END: u32 = 9000;
/// How long the kernel may take to take hold of an address, and how soon to look again.
const TAKES_HOLD: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// The longest note in a link's alias; the kernel takes 255 bytes with our mark in front.
const LONGEST_NOTE: usize = 200;

/// A pod's end as it shall be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// The host's end.
    pub link: IfName,
    /// The link inside.
    pub ifname: IfName,
    /// Its hardware address.
    pub mac: Mac,
    /// Its addresses, with the length of their network.
    pub addresses: Vec<IpNet>,
    /// Where to, through which router; straight onto the wire without one.
    pub routes: Vec<(IpNet, Option<IpAddr>)>,
    /// The largest packet it carries.
    pub mtu: u32,
    /// The largest packet its routes send, where it is less.
    pub sends: Option<u32>,
    /// Whether a process reads the frames, and not the kernel.
    pub userspace: bool,
    /// For whoever looks at the host's end.
    pub note: String,
}

impl End {
    /// The end of a pod with these addresses.
    pub fn new(
        place: &Place,
        (link, ifname): (IfName, IfName),
        addresses: &Addresses,
        note: impl Into<String>,
    ) -> End {
        let subnets = place.node.assignment.subnets();
        let mut note: String = note.into();
        note.truncate(LONGEST_NOTE);
        End {
            link,
            ifname,
            mac: Mac(addresses.mac().bytes()),
            addresses: subnets.around(addresses),
            routes: routes(place, addresses),
            mtu: place.mtu.bytes(),
            sends: place.sends.filter(|sends| *sends < place.mtu).map(|sends| sends.bytes()),
            userspace: place.datapath == Datapath::Userspace,
            note,
        }
    }

    /// The same without what a kernel that was started without IPv6 cannot be given.
    fn given_to(&self, kernel: &Kernel) -> Result<End> {
        let mut end = self.clone();
        if !kernel.sysctls().speaks_v6()? {
            end.addresses.retain(|net| net.addr().is_ipv4());
            end.routes.retain(|(to, _)| to.addr().is_ipv4());
        }
        Ok(end)
    }

    fn host_mtu(&self) -> u32 {
        self.mtu.max(HOST_END)
    }

    fn addresses_on(&self, index: u32) -> Vec<Address> {
        let on = |net: &IpNet| Address {
            // The route to its network is made by us: the kernel's own would not know what it may send.
            no_prefix_route: true,
            // Chosen to be free; waiting whether somebody objects would delay every pod by a second.
            no_dad: net.addr().is_ipv6(),
            ..Address::new(index, *net)
        };
        self.addresses.iter().map(on).collect()
    }

    fn routes_on(&self, index: u32) -> Vec<Route> {
        let on = |(to, via): &(IpNet, Option<IpAddr>)| {
            let hop = via.map_or_else(|| Hop::on(index), |gateway| Hop::via(index, gateway));
            let route = Route::new(*to, vec![hop]);
            match self.sends {
                Some(bytes) => route.mtu(bytes),
                None => route,
            }
        };
        self.routes.iter().map(on).collect()
    }
}

/// The node's subnet on the wire, and through the router everything, the cluster's own ranges by name: a pod that
/// gets its default route elsewhere keeps its way into the cluster.
fn routes(place: &Place, addresses: &Addresses) -> Vec<(IpNet, Option<IpAddr>)> {
    let subnets = place.node.assignment.subnets();
    let router = place.node.assignment.router();
    let mut routes = Vec::new();
    for family in addresses.families() {
        let Some(gateway) = router.get(*family) else { continue };
        routes.extend(subnets.get(*family).map(|subnet| (subnet, None)));
        routes.extend(named_routes(place, *family).into_iter().map(|to| (to, Some(gateway))));
        let everything = match family {
            Family::V4 => "0.0.0.0/0",
            Family::V6 => "::/0",
        };
        routes.push((everything.parse().expect("a prefix"), Some(gateway)));
    }
    // A range that is the node's own subnet would be the same route twice, and only one of them right.
    routes.retain(|(to, via)| via.is_none() || subnets.get(Family::of_net(*to)) != Some(*to));
    routes
}

/// The cluster's own ranges.
pub(super) fn named_routes(place: &Place, family: Family) -> Vec<IpNet> {
    let networks = &place.networks;
    let mut to: Vec<IpNet> = networks.cluster_of(family).map(|range| range.net()).collect();
    to.extend(networks.service().get(family));
    to.extend(networks.hairpin().get(family).map(IpNet::from));
    to.extend(networks.join().get(family));
    to
}

/// What the host's end became.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostEnd {
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// The largest packet it carries.
    pub mtu: u32,
}

/// Makes the pair and everything inside. What is left of an earlier attempt is taken away first. Answers with a
/// handle on the pod's namespace, for [`take_hold`].
pub fn attach(host: &Kernel, inside: Namespace, end: &End) -> Result<(HostEnd, Kernel)> {
    detach(host, &end.link)?;
    let namespace = Arc::new(inside.try_clone()?);
    let pod = Kernel::inside(inside)?;
    let made = make(host, &pod, namespace, &end.given_to(host)?);
    if made.is_err() {
        // The first refusal says more than one on the way back.
        let _ = detach(host, &end.link);
    }
    made.map(|host_end| (host_end, pod))
}

/// Waits until the kernel takes in what is sent to the pod's addresses.
///
/// It acknowledges a new IPv6 address before that: the rest is left to a queue of work, and until it comes to it the
/// first packets to the pod are dropped as nobody's. Nothing tells when it is done but the route that is there then.
/// It is long before OVN is ready, so this finds it done.
pub fn take_hold(pod: &Kernel, end: &End) -> Result<()> {
    let mut missing: BTreeSet<IpNet> = end
        .given_to(pod)?
        .addresses
        .iter()
        .map(IpNet::addr)
        .filter(IpAddr::is_ipv6)
        .map(IpNet::from)
        .collect();
    let filter =
        Filter { table: Some(LOCAL), family: Some(netferry_kernel::Family::V6), ..Filter::default() };
    let deadline = Instant::now() + TAKES_HOLD;
    loop {
        for route in if missing.is_empty() { vec![] } else { pod.routes().observe_only(filter)? } {
            missing.remove(&route.to);
        }
        let Some(address) = missing.first() else { return Ok(()) };
        if Instant::now() >= deadline {
            return Err(Error::Invalid {
                object: format!("address {address} in {}", pod.namespace()),
                why: "is there, but the kernel does not take hold of it".to_owned(),
            });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn make(host: &Kernel, pod: &Kernel, namespace: Arc<Namespace>, end: &End) -> Result<HostEnd> {
    let peer = VethPeer { mac: Some(end.mac), mtu: Some(end.mtu), ..VethPeer::named(end.ifname.clone()) };
    let pair = Want::make(end.link.clone(), Make::Veth(peer.inside(namespace)))
        .mtu(end.host_mtu())
        // Nothing passes before the other end is switched on as well.
        .up()
        .note(ownership::pod_links().alias(Some(&end.note)));
    host.links().apply(&Changes { create: vec![pair], ..Changes::default() })?;
    // The host's end is no place of the host's: an address of its own there would speak into the pod.
    set_if_there(host, Key::disable_ipv6(&Of::Link(end.link.clone())), "1")?;
    if end.userspace {
        guard::add(host, &end.link)?;
        guard::offloads_off(pod, &end.ifname)?;
    }
    // A neighbour in the same subnet must not be able to announce itself as a router.
    set_if_there(pod, Key::accept_ra(&Of::Link(end.ifname.clone())), "0")?;
    let loopback = IfName::new("lo")?;
    let up = |name: &IfName| Want::adjust(name.clone()).up();
    pod.links().apply(&Changes { set: vec![up(&loopback), up(&end.ifname)], ..Changes::default() })?;
    let index = index_of(pod, &end.ifname)?;
    let stamped = end.addresses_on(index).iter().map(|address| address.stamped(&Mark::default())).collect();
    pod.addresses().apply(&netferry_kernel::Changes { add: stamped, ..Default::default() })?;
    // In their order: a router is reached by the route to its wire.
    let stamped = end.routes_on(index).iter().map(|route| route.stamped(&Mark::default())).collect();
    pod.routes().apply(&netferry_kernel::Changes { add: stamped, ..Default::default() })?;
    let made = host.links().named(&end.link)?;
    Ok(HostEnd { mac: made.as_ref().and_then(|link| link.mac), mtu: made.map_or(0, |link| link.mtu) })
}

/// Settings of IPv6 are not there where the kernel was started without it.
fn set_if_there(kernel: &Kernel, key: Key, value: &str) -> Result<()> {
    match kernel.sysctls().apply(&BTreeMap::from([(key, value.to_owned())])) {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(()),
        done => done,
    }
}

fn index_of(kernel: &Kernel, name: &IfName) -> Result<u32> {
    let link = kernel.links().named(name)?;
    link.map(|link| link.index).ok_or_else(|| Error::Refused {
        attempt: netferry_kernel::Attempt::Reading,
        object: format!("link {name}"),
        explained: None,
        errno: Errno::ENODEV,
    })
}

/// Takes a pair away, if it is there and ours. The other end goes with it.
pub fn detach(host: &Kernel, link: &IfName) -> Result<()> {
    let Some(found) = host.links().named(link)? else { return Ok(()) };
    if !ownership::pod_links().owns_alias(found.alias.as_deref()) {
        return Ok(());
    }
    host.links().apply(&Changes { remove: vec![found], ..Changes::default() })?;
    guard::remove(host, link)
}

/// What of an end is not as it shall be; nothing when all is well.
pub fn inspect(host: &Kernel, inside: Namespace, end: &End) -> Result<Vec<String>> {
    let end = &end.given_to(host)?;
    let mut wrong = Vec::new();
    match host.links().named(&end.link)? {
        None => wrong.push(format!("the host's end {} is gone", end.link)),
        Some(link) if !link.up => wrong.push(format!("the host's end {} is switched off", end.link)),
        Some(_) => {}
    }
    let pod = Kernel::inside(inside)?;
    let Some(link) = pod.links().named(&end.ifname)? else {
        wrong.push(format!("{} is gone", end.ifname));
        return Ok(wrong);
    };
    if !link.up {
        wrong.push(format!("{} is switched off", end.ifname));
    }
    if link.mac != Some(end.mac) {
        let has = link.mac.map_or_else(|| "none".to_owned(), |mac| mac.to_string());
        wrong.push(format!("{} has hardware address {has}, not {}", end.ifname, end.mac));
    }
    let there: BTreeSet<IpNet> =
        pod.addresses().observe()?.into_iter().filter(|a| a.link == link.index).map(|a| a.net).collect();
    for net in end.addresses.iter().filter(|net| !there.contains(*net)) {
        wrong.push(format!("{} lacks address {net}", end.ifname));
    }
    let have = pod.routes().observe_only(Filter { table: Some(MAIN), ..Filter::default() })?;
    for want in end.routes_on(link.index) {
        let same = |have: &&Route| have.to == want.to && have.hops == want.hops;
        match have.iter().find(same) {
            None => wrong.push(format!("the route to {} is gone", want.to)),
            Some(found) if found.mtu.map(|mtu| mtu.bytes) != want.mtu.map(|mtu| mtu.bytes) => {
                let show =
                    |mtu: Option<u32>| mtu.map_or_else(|| "no MTU".to_owned(), |mtu| format!("MTU {mtu}"));
                let (has, not) = (found.mtu.map(|m| m.bytes), want.mtu.map(|m| m.bytes));
                wrong.push(format!("the route to {} has {}, not {}", want.to, show(has), show(not)));
            }
            Some(_) => {}
        }
    }
    Ok(wrong)
}

/// The name of the host's end: as OVN-Kubernetes names it, the first characters of the container's id. Ids that are no
/// hash may have their beginning in common, so their name is made from all of it.
pub fn link_of(container: &str) -> IfName {
    let head: String = container.chars().take(15).collect();
    let is_hash = container.len() >= 32 && container.bytes().all(|b| b.is_ascii_hexdigit());
    let name = if is_hash {
        head
    } else {
        let hash = container.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("nf{:013x}", hash & ((1 << 52) - 1))
    };
    IfName::new(name).expect("fifteen letters and digits are a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_end_is_named_by_the_container() {
        let id = "3f2a90b1c44de5f6a7b8c9d0e1f2030405060708090a0b0c0d0e0f1011121314";
        assert_eq!(link_of(id).as_str(), "3f2a90b1c44de5f");
        let (a, b) = (link_of("cnitool-0000000000000000000a"), link_of("cnitool-0000000000000000000b"));
        assert_ne!(a, b, "the same beginning is not the same name");
        assert_eq!(a.as_str().len(), 15);
    }
}
