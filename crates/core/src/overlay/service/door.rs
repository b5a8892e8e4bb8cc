//! Addresses inside the zone that lead to other backends of a Service than its own address does.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{at, fixed, outside_addresses};
use crate::net::Family;
use crate::overlay::cluster::{Service, ServicePort};
use crate::overlay::zone::Zone;
use crate::port::Port;

/// Which backends are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Door {
    /// Those of this node, who are to see the client.
    Local,
    /// All of them, where the Service's own address means those of this node.
    Every,
}

impl Zone<'_> {
    /// The address of a door of one port of a Service; none where nothing from outside can come to it.
    ///
    /// A node's port is no other Service's, so on an address with a fixed meaning it is unique. A Service without one
    /// has its own addresses to itself: ports of them that it does not use are nobody else's.
    pub(super) fn door(
        &self,
        service: &Service,
        port: &ServicePort,
        family: Family,
        door: Door,
    ) -> Option<SocketAddr> {
        if let Some(node_port) = port.node_port {
            let addresses = match door {
                Door::Local => self.networks.local_only(),
                Door::Every => self.networks.every_backend(),
            };
            return fixed(addresses, family, node_port);
        }
        outside_addresses(service, family).next()?;
        let ip = service.cluster_ips.get(family)?;
        spare(service, port, door).map(|number| at(ip, number))
    }
}

/// Counted from the last port down, so that two doors of two ports are four numbers.
fn spare(service: &Service, port: &ServicePort, door: Door) -> Option<Port> {
    let place = service.ports.iter().position(|one| one == port)?;
    let used: BTreeSet<u16> = service
        .ports
        .iter()
        .filter(|one| one.protocol == port.protocol)
        .map(|one| one.port.number())
        .collect();
    let nth = place * 2
        + match door {
            Door::Local => 0,
            Door::Every => 1,
        };
    let free = (1..=u16::MAX).rev().filter(|number| !used.contains(number)).nth(nth)?;
    Port::new(free.into()).ok()
}
