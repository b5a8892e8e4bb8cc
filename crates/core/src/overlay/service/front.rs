//! What the host catches for a Service, and where it sends it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::{Door, Scope, at, backends, outside_addresses, ranges_of};
use crate::net::Family;
use crate::overlay::cluster::{EndpointSlice, Service, ServicePort};
use crate::overlay::topology::ServiceSource;
use crate::overlay::zone::Zone;
use crate::port::{Port, Protocol};

/// Where a Service is reached from outside the overlay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Entrance {
    /// The family, which a port alone does not tell.
    pub family: Family,
    /// The address; any of the host's own when there is none.
    pub address: Option<IpAddr>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: Port,
}

/// What the host does at the entrances of a Service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forward {
    /// Where what comes in is sent, so that any backend may answer.
    pub any: BTreeMap<Entrance, SocketAddr>,
    /// Where what comes from *other hosts* is sent instead, so that only backends of this node answer and they see
    /// who asks.
    pub local: BTreeMap<Entrance, SocketAddr>,
    /// The entrances behind which a backend lives in a host's own network.
    pub host_backed: BTreeSet<Entrance>,
    /// The entrances that only some may use, and from where they come; no range is within another.
    pub guarded: BTreeMap<Entrance, Vec<IpNet>>,
    /// Where processes of this host answer for Services, in a network for one machine: at an address that the uplink
    /// may take with it while the Service goes on naming it.
    pub processes: BTreeSet<Entrance>,
}

impl Forward {
    /// Adds what another Service needs. Of two Services that want one entrance the first keeps it.
    pub fn join(&mut self, other: Forward) {
        for (entrance, to) in other.any {
            self.any.entry(entrance).or_insert(to);
        }
        for (entrance, to) in other.local {
            self.local.entry(entrance).or_insert(to);
        }
        self.host_backed.extend(other.host_backed);
        for (entrance, ranges) in other.guarded {
            self.guarded.entry(entrance).or_insert(ranges);
        }
        self.processes.extend(other.processes);
    }
}

impl Zone<'_> {
    /// What the host forwards for one Service.
    pub fn forward_of_service(&self, service: &Service, slices: &[EndpointSlice]) -> Forward {
        let mut forward = Forward::default();
        for port in &service.ports {
            for family in service.cluster_ips.families() {
                self.forward_port(service, port, slices, *family, &mut forward);
            }
        }
        forward
    }

    fn forward_port(
        &self,
        service: &Service,
        port: &ServicePort,
        slices: &[EndpointSlice],
        family: Family,
        forward: &mut Forward,
    ) {
        let protocol = port.protocol;
        let entrance = |address, port| Entrance { family, address, protocol, port };
        match self.topology.way_out.service_source {
            ServiceSource::Join => {}
            ServiceSource::KeepUnlessHostBacked => {
                let here = backends(port, slices, family, Scope::Node(&self.node.name));
                let of_host = here.into_iter().filter(|backend| !self.networks.is_pod_address(backend.ip()));
                forward.processes.extend(of_host.filter_map(|backend| {
                    Some(entrance(Some(backend.ip()), Port::new(backend.port().into()).ok()?))
                }));
            }
        }
        let mut entrances: Vec<Entrance> =
            outside_addresses(service, family).map(|ip| entrance(Some(ip), port.port)).collect();
        entrances.extend(port.node_port.map(|number| entrance(None, number)));
        let Some(any) = self.any_backend(service, port, family) else { return };
        let host_backed = backends(port, slices, family, Scope::Cluster)
            .iter()
            .any(|backend| !self.networks.is_pod_address(backend.ip()));
        let local = self.local_backend(service, port, slices, family);
        for entrance in entrances {
            let guarded = entrance.address.is_some_and(|ip| service.load_balancer_ips.contains(&ip));
            if guarded && !service.source_ranges.is_empty() {
                forward.guarded.insert(entrance, ranges_of(service, family));
            }
            forward.any.insert(entrance, any);
            forward.local.extend(local.map(|to| (entrance, to)));
            if host_backed {
                forward.host_backed.insert(entrance);
            }
        }
    }

    /// The Service's own address; where that means this node's backends only, one that means all of them.
    fn any_backend(&self, service: &Service, port: &ServicePort, family: Family) -> Option<SocketAddr> {
        if service.internal_local {
            return self.door(service, port, family, Door::Every);
        }
        service.cluster_ips.get(family).map(|ip| at(ip, port.port))
    }

    /// Where only this node's backends answer: the pods of the node; where there are none a process of the host,
    /// directly, because through the overlay its answer would leave past the translation; else a refusal.
    ///
    /// One place is all that the host can send to. Of pods and processes together it is the pods', which are any number.
    fn local_backend(
        &self,
        service: &Service,
        port: &ServicePort,
        slices: &[EndpointSlice],
        family: Family,
    ) -> Option<SocketAddr> {
        if !service.external_local {
            return None;
        }
        let local = backends(port, slices, family, Scope::Node(&self.node.name));
        let (pods, processes): (Vec<_>, Vec<_>) =
            local.into_iter().partition(|backend| self.networks.is_pod_address(backend.ip()));
        let process = processes.first().copied().filter(|_| pods.is_empty());
        process.or_else(|| self.door(service, port, family, Door::Local))
    }
}
