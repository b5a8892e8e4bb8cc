//! What a host says about itself. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::ownership;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netferry_api::annotation::FamilyPair;
use netferry_core::overlay::names;
use netferry_kernel::address::Address;
use netferry_kernel::link::Link;
use netferry_kernel::route::{Kind, MAIN, Route};
use netferry_kernel::{Family, IfName, Mac};

/// What is true of a node's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// The link that leads to the other nodes.
    pub link: IfName,
    /// Its hardware address.
    pub mac: Mac,
    /// Its largest packet.
    pub mtu: u32,
    /// The host's own address on it, one per family; tunnels end there.
    pub primary: FamilyPair,
    /// The routers behind it.
    pub gateways: Vec<IpAddr>,
    /// Every address of the host that others can reach, with its network.
    pub addresses: Vec<IpNet>,
    /// The hardware address of the management port, once there is one.
    pub management: Option<Mac>,
}

/// What a host has.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Its links.
    pub links: &'a [Link],
    /// Its addresses.
    pub addresses: &'a [Address],
    /// Its routes.
    pub routes: &'a [Route],
    /// Addresses that the cluster knows the node by.
    pub known_as: &'a BTreeSet<IpAddr>,
    /// The only link that may lead to the other nodes, where host-init made one.
    pub bridge: Option<&'a IfName>,
}

/// Reads a host; nothing while it has no address that others could reach it at.
///
/// The link is the one that host-init made, else the one with an address that the cluster knows the node by, else the
/// one with the best default route.
pub fn look(sight: &Sight<'_>) -> Option<HostFacts> {
    let link = primary_link(sight)?;
    let own = |family: Family| {
        let on_it = || sight.addresses.iter().filter(move |a| a.link == link.index && lasting(a));
        let of_family = || on_it().filter(move |a| Family::of(a.net.addr()) == family);
        let known = of_family().find(|a| sight.known_as.contains(&a.net.addr()));
        known.or_else(|| of_family().next()).map(|a| a.net)
    };
    let v4: Option<Ipv4Net> =
        own(Family::V4).and_then(|net| if let IpNet::V4(n) = net { Some(n) } else { None });
    let v6: Option<Ipv6Net> =
        own(Family::V6).and_then(|net| if let IpNet::V6(n) = net { Some(n) } else { None });
    let management = sight.links.iter().find(|link| link.name.as_str() == names::MANAGEMENT_LINK);
    Some(HostFacts {
        link: link.name.clone(),
        mac: link.mac?,
        mtu: link.mtu,
        primary: FamilyPair::new(v4, v6)?,
        gateways: gateways(sight, link.index),
        addresses: addresses(sight),
        management: management.and_then(|link| link.mac),
    })
}

fn primary_link<'a>(sight: &Sight<'a>) -> Option<&'a Link> {
    let with_index = |index: u32| sight.links.iter().find(|link| link.index == index);
    if let Some(bridge) = sight.bridge {
        return sight.links.iter().find(|link| link.name == *bridge);
    }
    let known = sight.addresses.iter().find(|a| sight.known_as.contains(&a.net.addr()) && !is_ours(a));
    if let Some(link) = known.and_then(|a| with_index(a.link)).filter(|link| !link.loopback) {
        return Some(link);
    }
    let best = [Family::V4, Family::V6].into_iter().find_map(|family| {
        let defaults = sight.routes.iter().filter(|route| is_default(route, family));
        defaults.min_by_key(|route| route.metric)
    })?;
    best.hops.iter().find_map(|hop| with_index(hop.link?))
}

fn is_default(route: &Route, family: Family) -> bool {
    route.to == family.everything() && route.table == MAIN && route.kind == Kind::Unicast
}

fn gateways(sight: &Sight<'_>, link: u32) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        let defaults = sight.routes.iter().filter(|route| is_default(route, family));
        let hops = defaults.flat_map(|route| route.hops.iter().map(move |hop| (route.metric, hop)));
        let hops = hops.filter(|(_, hop)| hop.link == Some(link));
        found.extend(hops.min_by_key(|(metric, _)| *metric).and_then(|(_, hop)| hop.gateway));
    }
    found
}

/// Addresses that answer to others: on links that are on and lead somewhere. Not the overlay's own, nor those of ports
/// of a bridge, whose frames the bridge takes.
fn addresses(sight: &Sight<'_>) -> Vec<IpNet> {
    let leads_out = |index: u32| {
        let link = sight.links.iter().find(|link| link.index == index);
        link.is_some_and(|link| {
            let inner = [names::MANAGEMENT_LINK, names::INTEGRATION_BRIDGE].contains(&link.name.as_str());
            link.up && !link.loopback && link.master.is_none() && !inner
        })
    };
    let mut found: Vec<IpNet> =
        sight.addresses.iter().filter(|a| lasting(a) && leads_out(a.link)).map(|a| a.net).collect();
    found.sort();
    found.dedup();
    found
}

/// One that stays and that others can use: not of the wire only, not on its way in or out, not the overlay's.
fn lasting(address: &Address) -> bool {
    let status = address.status;
    address.scope == 0 && !status.tentative && !status.duplicate && !status.deprecated && !is_ours(address)
}

fn is_ours(address: &Address) -> bool {
    address.protocol == ownership::host().protocol
}
