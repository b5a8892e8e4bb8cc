//! Who answers for a Service.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::name::NodeName;
use crate::net::Family;
use crate::overlay::cluster::{Endpoint, EndpointSlice, ServicePort, SlicePort};

/// Which backends count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope<'a> {
    /// All of them.
    Cluster,
    /// Those of one node.
    Node(&'a NodeName),
}

/// The backends of a Service's port in one family.
///
/// Those that are ready; if none is, those that end but still serve, because a late answer is better than none.
/// Whether any is ready is asked within the scope.
pub fn backends(
    port: &ServicePort,
    slices: &[EndpointSlice],
    family: Family,
    scope: Scope<'_>,
) -> BTreeSet<SocketAddr> {
    let serves = |to: &&SlicePort| to.name == port.name && to.protocol == port.protocol;
    let counts = |endpoint: &&Endpoint| {
        let here = match scope {
            Scope::Cluster => true,
            Scope::Node(node) => endpoint.node.as_ref() == Some(node),
        };
        here && Family::of(endpoint.address) == family
    };
    let choose = |usable: fn(&Endpoint) -> bool| -> BTreeSet<SocketAddr> {
        let of_slice = |slice: &EndpointSlice| {
            let ports: Vec<u16> = slice.ports.iter().filter(serves).map(|to| to.port.number()).collect();
            let endpoints = slice.endpoints.iter().filter(counts).filter(|endpoint| usable(endpoint));
            let pairs = endpoints.flat_map(|e| ports.iter().map(|port| SocketAddr::new(e.address, *port)));
            pairs.collect::<Vec<_>>()
        };
        slices.iter().flat_map(of_slice).collect()
    };
    let ready = choose(|endpoint| endpoint.ready);
    if ready.is_empty() { choose(|endpoint| endpoint.serving && endpoint.terminating) } else { ready }
}
