//! What the host around a zone must have: its end of the management port, the ways into the overlay, and the packet
//! filter between the overlay, the Services and the outside.
//!
//! Nothing here asks whether there is one node or many; what differs is in [`crate::overlay::topology::WayOut`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::net::{Family, Mac};
use crate::overlay::names::MANAGEMENT_LINK;
use crate::overlay::service::Forward;
use crate::overlay::zone::Zone;
use crate::size::Mtu;

pub mod datagrams;
pub mod nft;
mod rules;
#[cfg(test)]
mod tests;

pub use rules::{GENEVE_PORT, HOST_BACKED_MARK, TABLE};

/// What the host must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPlan {
    /// The host's end of the management port; the switch makes it.
    pub link: ManagementLink,
    /// Routes into the overlay.
    pub routes: Vec<HostRoute>,
    /// Neighbours that are known, not asked for: the router drops questions that come from a node's own address.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// Kernel settings, by their dotted names.
    pub sysctls: BTreeMap<String, String>,
    /// The packet filter.
    pub filter: nft::Table,
    /// Where datagrams lead by it: a conversation that began before it was so has to be told.
    pub datagrams: datagrams::Datagrams,
    /// What must be let pass where somebody else's filter would drop it: no rule of ours can take back what another
    /// chain of the same hook drops, so these go into that chain.
    pub admitted: Vec<nft::Rule>,
}

/// The host's end of the management port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagementLink {
    /// Its name.
    pub name: String,
    /// Its link-layer address.
    pub mac: Mac,
    /// Its MTU.
    pub mtu: Mtu,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
}

/// A route of the host through the management port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostRoute {
    /// Where to.
    pub to: IpNet,
    /// Through which router.
    pub via: IpAddr,
    /// From which address.
    pub from: IpAddr,
    /// The largest packet; that of the link when there is none.
    pub mtu: Option<Mtu>,
}

impl Zone<'_> {
    /// What the host must have. `routable` is the largest packet routes may let pass while that is less than the
    /// links carry; `forward` is what [`Zone::forward_of_service`] says of every Service together.
    pub fn host(&self, routable: Option<Mtu>, forward: Forward) -> HostPlan {
        let place = &self.node.assignment;
        let mut neighbours = BTreeMap::new();
        neighbours.extend(place.router().iter().map(|router| (router, place.router().mac())));
        HostPlan {
            link: ManagementLink {
                name: MANAGEMENT_LINK.to_owned(),
                mac: place.management().mac(),
                mtu: self.mtu,
                addresses: place.subnets().around(&place.management()),
            },
            routes: self.host_routes(routable),
            neighbours,
            sysctls: self.sysctls(),
            datagrams: datagrams::Datagrams::of(&forward, self.networks),
            filter: self.filter(forward),
            admitted: rules::admitted(),
        }
    }

    fn host_routes(&self, routable: Option<Mtu>) -> Vec<HostRoute> {
        let place = &self.node.assignment;
        let mut routes = Vec::new();
        for family in self.networks.families() {
            let (Some(via), Some(from)) = (place.router().get(*family), place.management().get(*family))
            else {
                continue;
            };
            let mut add = |to: IpNet, mtu| routes.push(HostRoute { to, via, from, mtu });
            for range in self.networks.cluster_of(*family) {
                add(range.net(), routable);
            }
            // Always set: the kernel would take a larger packet for a Service than any backend can be sent.
            self.networks
                .service()
                .get(*family)
                .into_iter()
                .for_each(|to| add(to, routable.or(Some(self.mtu))));
            // The way back for a strict reverse-path check: what the overlay sends the host from these addresses
            // must be expected on this link.
            let inner = [self.networks.join(), self.networks.masquerade()];
            inner.iter().filter_map(|nets| nets.get(*family)).for_each(|to| add(to, routable));
        }
        routes.sort();
        routes
    }

    fn sysctls(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut set = |key: String, value: &str| all.insert(key, value.to_owned());
        for family in self.networks.families() {
            match family {
                Family::V4 => {
                    set("net.ipv4.ip_forward".to_owned(), "1");
                    set(format!("net.ipv4.conf.{MANAGEMENT_LINK}.forwarding"), "1");
                }
                Family::V6 => {
                    set("net.ipv6.conf.all.forwarding".to_owned(), "1");
                    set(format!("net.ipv6.conf.{MANAGEMENT_LINK}.forwarding"), "1");
                    // A host that speaks no IPv6 on its own links still reaches its pods by it.
                    set(format!("net.ipv6.conf.{MANAGEMENT_LINK}.disable_ipv6"), "0");
                }
            }
        }
        all
    }
}
