//! From a Service and its slices to load balancers, and to what the host forwards into them.
//!
//! Inside the zone every address of a Service is a load balancer on the node's switch, so pods and the host (which
//! reaches them through the management port) are served by the same rows. What comes from outside is caught by the
//! host and sent to one of those addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::name::{NodeName, ObjectName};
use crate::net::{Addresses, Family};
use crate::overlay::cluster::{EndpointSlice, Service, ServicePort};
use crate::overlay::names::{self, ObjectId, marked};
use crate::overlay::rows::{Acl, AclAction, AclDirection, AclOn, LoadBalancer, Map, Rows};
use crate::overlay::zone::Zone;
use crate::port::{Port, Protocol};

mod backends;
mod door;
mod front;
#[cfg(test)]
mod tests;

pub use backends::{Scope, backends};
pub use front::{Entrance, Forward};

use door::Door;

/// Above everything that policies and the node allow.
const KEEP_OUT_PRIORITY: u16 = 2000;

/// The scope of what means the same in every zone.
const EVERYWHERE: &str = "cluster";

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
        self.guard(service, &mut rows);
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
                let mut lb = self.load_balancer(service, protocol, EVERYWHERE, everywhere);
                lb.groups.insert(names::CLUSTER_LB_GROUP.to_owned());
                rows.put(lb);
            }
            if !here.is_empty() {
                let mut lb = self.load_balancer(service, protocol, &here_at(&node), here);
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
        if let Some(node_port) = port.node_port {
            for ip in self.node.host_addresses.iter().filter(|ip| Family::of(**ip) == family) {
                here.insert(at(*ip, node_port), all.clone());
            }
        }
        if service.external_local {
            let pods = local.into_iter().filter(|to| self.networks.is_pod_address(to.ip())).collect();
            here.extend(self.door(service, port, family, Door::Local).map(|vip| (vip, pods)));
        }
        if service.internal_local {
            here.extend(self.door(service, port, family, Door::Every).map(|vip| (vip, all)));
        }
    }

    /// Pods are kept from the addresses of a load balancer that are not for them; what comes from outside is stopped
    /// by the host.
    fn guard(&self, service: &Service, rows: &mut Rows) {
        if service.source_ranges.is_empty() {
            return;
        }
        for ip in &service.load_balancer_ips {
            for port in &service.ports {
                rows.put(self.keep_out(service, *ip, port));
            }
        }
    }

    fn keep_out(&self, service: &Service, ip: IpAddr, port: &ServicePort) -> Acl {
        let family = Family::of(ip);
        let protocol = port.protocol.lower();
        let ranges: Vec<String> = ranges_of(service, family).iter().map(|net| net.to_string()).collect();
        let but = if ranges.is_empty() {
            String::new()
        } else {
            format!(" && {}.src != {{{}}}", family.ovn(), ranges.join(", "))
        };
        let id = ObjectId::new("Service", service.name.to_string())
            .and("direction", AclDirection::ovn(AclDirection::FromPort))
            .and("gress-index", format!("{ip}:{protocol}:{}", port.port));
        Acl {
            id: id.text(),
            name: "LoadBalancerSourceRanges".to_owned(),
            on: AclOn::Switch(self.node.name.to_string()),
            direction: AclDirection::FromPort,
            priority: KEEP_OUT_PRIORITY,
            matches: format!("{}.dst == {ip} && {protocol}.dst == {}{but}", family.ovn(), port.port),
            action: AclAction::Drop,
            // Before load balancing: after it nobody knows which address was asked.
            options: Map::new(),
            external_ids: id.external_ids(),
        }
    }

    fn load_balancer(&self, service: &Service, protocol: Protocol, scope: &str, vips: Vips) -> LoadBalancer {
        let hairpin: Vec<String> = self.networks.hairpin().iter().map(|ip| ip.to_string()).collect();
        let mut options = Map::from_iter(
            [("reject", "true"), ("event", "false"), ("skip_snat", "false"), ("neighbor_responder", "none")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        options.insert("hairpin_snat_ip".to_owned(), hairpin.join(" "));
        // Not OVN's `affinity_timeout`, which drops the packet a client is remembered by, and with it the connection.
        let selection_fields = match service.affinity {
            Some(_) => ["ip_src", "ip_dst"].into_iter().map(str::to_owned).collect(),
            None => BTreeSet::new(),
        };
        match protocol {
            // A steady flow would stay with a backend that is gone for as long as it sends; a connection must not be
            // cut while its backend finishes.
            Protocol::Udp => {
                options.insert("ct_flush".to_owned(), "true".to_owned());
            }
            Protocol::Tcp | Protocol::Sctp => {}
        }
        LoadBalancer {
            name: name_of(&service.name, protocol, scope),
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

/// Where datagrams to an address of a Service may go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Led {
    /// The address.
    pub asked: SocketAddr,
    /// Who gets them.
    pub backend: SocketAddr,
}

/// Where datagrams to a Service may go by these rows of a node's zone.
pub fn datagrams_led(service: &ObjectName, node: &NodeName, rows: &Rows) -> BTreeSet<Led> {
    let names = [EVERYWHERE.to_owned(), here_at(node.as_str())];
    let of = names.into_iter().filter_map(|scope| {
        rows.load_balancers.get(&name_of(service, Protocol::Udp, &scope)).map(|lb| &lb.vips)
    });
    let pairs = of.flatten().flat_map(|(asked, backends)| {
        backends.iter().map(|backend| Led { asked: *asked, backend: *backend })
    });
    pairs.collect()
}

fn name_of(service: &ObjectName, protocol: Protocol, scope: &str) -> String {
    format!("Service_{service}_{protocol}_{scope}")
}

fn here_at(node: &str) -> String {
    format!("node_switch_{node}")
}

fn outside_addresses(service: &Service, family: Family) -> impl Iterator<Item = IpAddr> {
    let all = service.external_ips.union(&service.load_balancer_ips).copied();
    all.filter(move |ip| Family::of(*ip) == family)
}

fn at(ip: IpAddr, port: Port) -> SocketAddr {
    SocketAddr::new(ip, port.number())
}

/// The ranges of one family that may use a load balancer's addresses, none within another.
fn ranges_of(service: &Service, family: Family) -> Vec<IpNet> {
    let all = service.source_ranges.iter().copied().filter(|net| Family::of_net(*net) == family);
    IpNet::aggregate(&all.collect())
}

fn fixed(addresses: Addresses, family: Family, port: Port) -> Option<SocketAddr> {
    addresses.get(family).map(|ip| at(ip, port))
}
