//! From a Service and its slices to load balancers, and to what the host forwards into them.
//!
//! Inside the zone every address of a Service is a load balancer on the node's switch, so pods and the host (which
//! reaches them through the management port) are served by the same rows. What comes from outside is caught by the
//! host and sent to one of those addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::net::{Addresses, Family};
use crate::overlay::cluster::{EndpointSlice, Service, ServicePort};
use crate::overlay::names::{self, marked};
use crate::overlay::rows::{LoadBalancer, Map, Rows};
use crate::overlay::zone::Zone;
use crate::port::{Port, Protocol};

mod backends;
mod front;
#[cfg(test)]
mod tests;

pub use backends::{Scope, backends};
pub use front::{Entrance, Forward};

/// The longest OVN remembers a client for; a longer affinity is had by choosing by addresses alone.
const LONGEST_AFFINITY: u32 = 65535;

type Vips = BTreeMap<SocketAddr, BTreeSet<SocketAddr>>;

impl Zone<'_> {
    /// The load balancers of one Service: one per protocol with the addresses that mean the same in every zone, and
    /// one with those that mean this node.
    ///
    /// # Guarantees
    ///
    /// Nothing but the Service, its slices and the node is looked at, so a change of one Service is a change of these
    /// rows. An address without a backend is there all the same and refuses.
    pub fn rows_of_service(&self, service: &Service, slices: &[EndpointSlice]) -> Rows {
        let mut rows = Rows::default();
        let protocols: BTreeSet<Protocol> = service.ports.iter().map(|port| port.protocol).collect();
        for protocol in protocols {
            let (mut everywhere, mut here) = (Vips::new(), Vips::new());
            for port in service.ports.iter().filter(|port| port.protocol == protocol) {
                for family in service.cluster_ips.families() {
                    self.vips(service, port, slices, *family, &mut everywhere, &mut here);
                }
            }
            let node = self.node.name.to_string();
            if !everywhere.is_empty() {
                let mut lb = self.load_balancer(service, protocol, "cluster", everywhere);
                lb.groups.insert(names::CLUSTER_LB_GROUP.to_owned());
                rows.put(lb);
            }
            if !here.is_empty() {
                let mut lb = self.load_balancer(service, protocol, &format!("node_switch_{node}"), here);
                lb.switches.insert(node);
                rows.put(lb);
            }
        }
        rows
    }

    fn vips(
        &self,
        service: &Service,
        port: &ServicePort,
        slices: &[EndpointSlice],
        family: Family,
        everywhere: &mut Vips,
        here: &mut Vips,
    ) {
        let all = backends(port, slices, family, Scope::Cluster);
        let local = backends(port, slices, family, Scope::Node(&self.node.name));
        if let Some(ip) = service.cluster_ips.get(family) {
            if service.internal_local {
                here.insert(at(ip, port.port), local.clone());
            } else {
                everywhere.insert(at(ip, port.port), all.clone());
            }
        }
        // A pod that speaks to an outside address of a Service speaks from inside: it gets every backend.
        for ip in outside_addresses(service, family) {
            everywhere.insert(at(ip, port.port), all.clone());
        }
        let Some(node_port) = port.node_port else { return };
        for ip in self.node.host_addresses.iter().filter(|ip| Family::of(**ip) == family) {
            here.insert(at(*ip, node_port), all.clone());
        }
        if service.external_local {
            let pods = local.into_iter().filter(|to| self.networks.is_pod_address(to.ip())).collect();
            here.extend(fixed(self.networks.local_only(), family, node_port).map(|vip| (vip, pods)));
        }
        if service.internal_local {
            here.extend(fixed(self.networks.every_backend(), family, node_port).map(|vip| (vip, all)));
        }
    }

    fn load_balancer(&self, service: &Service, protocol: Protocol, scope: &str, vips: Vips) -> LoadBalancer {
        let hairpin: Vec<String> = self.networks.hairpin().iter().map(|ip| ip.to_string()).collect();
        let mut options = Map::from_iter(
            [("reject", "true"), ("event", "false"), ("skip_snat", "false"), ("neighbor_responder", "none")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        options.insert("hairpin_snat_ip".to_owned(), hairpin.join(" "));
        let mut selection_fields = BTreeSet::new();
        match service.affinity {
            Some(seconds) if seconds > LONGEST_AFFINITY => {
                selection_fields.extend(["ip_src", "ip_dst"].map(str::to_owned));
            }
            Some(seconds) => {
                options.insert("affinity_timeout".to_owned(), seconds.to_string());
            }
            None => {}
        }
        match protocol {
            // A steady flow would stay with a backend that is gone for as long as it sends; a connection must not be
            // cut while its backend finishes.
            Protocol::Udp => {
                options.insert("ct_flush".to_owned(), "true".to_owned());
            }
            Protocol::Tcp | Protocol::Sctp => {}
        }
        LoadBalancer {
            name: format!("Service_{}_{protocol}_{scope}", service.name),
            protocol,
            vips,
            selection_fields,
            options,
            groups: BTreeSet::new(),
            switches: BTreeSet::new(),
            external_ids: marked([
                ("k8s.ovn.org/kind", "Service".to_owned()),
                ("k8s.ovn.org/owner", service.name.to_string()),
            ]),
        }
    }
}

fn outside_addresses(service: &Service, family: Family) -> impl Iterator<Item = IpAddr> {
    let all = service.external_ips.union(&service.load_balancer_ips).copied();
    all.filter(move |ip| Family::of(*ip) == family)
}

fn at(ip: IpAddr, port: Port) -> SocketAddr {
    SocketAddr::new(ip, port.number())
}

fn fixed(addresses: Addresses, family: Family, port: Port) -> Option<SocketAddr> {
    addresses.get(family).map(|ip| at(ip, port))
}
