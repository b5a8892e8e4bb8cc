//! Addresses, keys and prefixes that two rows share.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::{Finding, Unique, What};
use crate::net::overlap;
use crate::overlay::rows::*;

pub(super) fn check(rows: &Rows, found: &mut BTreeSet<Finding>) {
    ports(rows, found);
    tunnel_keys(rows, found);
    router_prefixes(rows, found);
    vips(rows, found);
    let mut encaps = Unique::new(What::Encap, found);
    for chassis in rows.remote_chassis.values() {
        encaps.see("", chassis.encap, &chassis.name);
    }
    let mut peers = Unique::new(What::Peer, found);
    for port in rows.switch_ports.values() {
        if let PortKind::Router { peer } = &port.kind {
            peers.see("", peer, &port.name);
        }
    }
}

/// Every port of a switch with what it answers to; a router's end answers to what its router's port has.
fn answers(rows: &Rows) -> Vec<(&str, &str, String, Vec<String>)> {
    let mut all = Vec::new();
    for port in rows.switch_ports.values() {
        for address in &port.addresses {
            if let PortAddress::Of { mac, ips } = address {
                let plain = ips.iter().map(|ip| ip.split('/').next().unwrap_or(ip).to_owned());
                all.push((port.switch.as_str(), port.name.as_str(), mac.to_string(), plain.collect()));
            }
        }
        if let PortKind::Router { peer } = &port.kind
            && let Some(router) = rows.router_ports.get(peer)
        {
            let ips = router.networks.iter().map(|net| net.addr().to_string()).collect();
            all.push((port.switch.as_str(), port.name.as_str(), router.mac.to_string(), ips));
        }
    }
    all
}

fn ports(rows: &Rows, found: &mut BTreeSet<Finding>) {
    let answers = answers(rows);
    let mut macs = Unique::new(What::Mac, found);
    for (switch, port, mac, _) in &answers {
        macs.see(switch, mac, port);
    }
    let mut addresses = Unique::new(What::Address, found);
    for (switch, port, _, ips) in &answers {
        for ip in ips {
            addresses.see(switch, ip, port);
        }
    }
}

fn tunnel_keys(rows: &Rows, found: &mut BTreeSet<Finding>) {
    let mut keys = Unique::new(What::TunnelKey, found);
    for port in rows.switch_ports.values() {
        if let Some(key) = port.options.get("requested-tnl-key") {
            keys.see(&port.switch, key, &port.name);
        }
    }
    for switch in rows.switches.values() {
        if let Some(key) = switch.other_config.get("requested-tnl-key") {
            keys.see("switch", key, &switch.name);
        }
    }
}

fn router_prefixes(rows: &Rows, found: &mut BTreeSet<Finding>) {
    let mut taken: Vec<(&str, IpNet, String)> = Vec::new();
    for port in rows.router_ports.values() {
        taken.extend(port.networks.iter().map(|net| (port.router.as_str(), net.trunc(), port.name.clone())));
    }
    for route in rows.static_routes.values() {
        let behind = rows.router_ports.values().any(|port| {
            port.router == route.router && port.networks.iter().any(|net| net.contains(&route.next_hop))
        });
        if !behind {
            found.insert(Finding::Unreachable { route: route.key() });
        }
        // the default route is meant to lie under all others
        if route.by == RouteBy::Destination && route.prefix.prefix_len() > 0 {
            taken.push((&route.router, route.prefix, route.key()));
        }
    }
    // sorted by first address, an overlap is one with the one before: prefixes nest or are apart
    taken.sort_by_key(|(router, net, _)| (*router, net.network(), net.prefix_len()));
    for pair in taken.windows(2) {
        if let [(router, net, a), (other, inner, b)] = pair
            && router == other
            && overlap(*net, *inner)
        {
            let (a, b) = (a.clone(), b.clone());
            found.insert(Finding::Twice { what: What::Prefix, value: inner.to_string(), a, b });
        }
    }
}

fn vips(rows: &Rows, found: &mut BTreeSet<Finding>) {
    let mut vips = Unique::new(What::Vip, found);
    for switch in rows.switches.values() {
        for lb in rows.load_balancers.values() {
            let here =
                lb.switches.contains(&switch.name) || !lb.groups.is_disjoint(&switch.load_balancer_groups);
            for vip in lb.vips.keys().filter(|_| here) {
                vips.see(&format!("{} {}", switch.name, lb.protocol.lower()), vip, &lb.name);
            }
        }
    }
}
