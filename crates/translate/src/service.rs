//! Services and their endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::api::discovery::v1 as discovery;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::net::Addresses;
use netferry_core::overlay::cluster::{Endpoint, EndpointSlice, Service, ServicePort, SlicePort};
use netferry_core::port::{NotAPort, Port};

use crate::{object_name, protocol};

/// How long a client stays with a backend when a Service says that it should and not for how long.
const DEFAULT_AFFINITY: u32 = 10_800;
/// The label by which a slice says whose it is.
const SERVICE_OF_SLICE: &str = "kubernetes.io/service-name";

/// Why a Service or a slice cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ServiceRefusal {
    /// An address that is none.
    #[error("{0:?} is not an address")]
    Address(String),
    /// A range that is none.
    #[error("{0:?} is not a range of addresses that may use a load balancer")]
    SourceRange(String),
    /// Two cluster addresses of one family.
    #[error("clusterIPs {0:?} are not one per family")]
    ClusterIps(Vec<String>),
    /// A port that is none.
    #[error(transparent)]
    Port(#[from] NotAPort),
    /// A protocol nobody speaks.
    #[error("{0:?} is not TCP, UDP or SCTP")]
    Protocol(String),
}

/// A Service that has addresses of its own; `None` for a headless one and for one that is only a name.
pub fn service(service: &k8s::Service) -> Result<Option<Service>, ServiceRefusal> {
    let Some(spec) = &service.spec else { return Ok(None) };
    let ips: Vec<&String> = match &spec.cluster_ips {
        Some(ips) if !ips.is_empty() => ips.iter().collect(),
        Some(_) | None => spec.cluster_ip.iter().collect(),
    };
    let headless = ips.iter().all(|ip| ip.is_empty() || ip.as_str() == "None");
    if headless || spec.type_.as_deref() == Some("ExternalName") {
        return Ok(None);
    }
    let parsed = ips.iter().map(|ip| address(ip)).collect::<Result<Vec<_>, _>>()?;
    let refused = || ServiceRefusal::ClusterIps(ips.iter().map(|ip| (*ip).clone()).collect());
    let timeout = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let timeout = timeout.and_then(|client| client.timeout_seconds).and_then(|s| u32::try_from(s).ok());
    let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
    Ok(Some(Service {
        name: object_name(&service.metadata),
        cluster_ips: Addresses::from_addresses(parsed).ok_or_else(refused)?,
        external_ips: spec.external_ips.iter().flatten().map(|ip| address(ip)).collect::<Result<_, _>>()?,
        load_balancer_ips: load_balancer_ips(service)?,
        source_ranges: spec
            .load_balancer_source_ranges
            .iter()
            .flatten()
            .map(|range| source_range(range))
            .collect::<Result<_, _>>()?,
        ports: spec.ports.iter().flatten().map(service_port).collect::<Result<_, _>>()?,
        affinity: (spec.session_affinity.as_deref() == Some("ClientIP"))
            .then(|| timeout.unwrap_or(DEFAULT_AFFINITY)),
        internal_local: is_local(&spec.internal_traffic_policy),
        external_local: is_local(&spec.external_traffic_policy),
    }))
}

fn service_port(port: &k8s::ServicePort) -> Result<ServicePort, ServiceRefusal> {
    Ok(ServicePort {
        name: port.name.clone().unwrap_or_default(),
        protocol: known(port.protocol.as_deref())?,
        port: Port::new(port.port.into())?,
        node_port: port.node_port.filter(|number| *number != 0).map(|n| Port::new(n.into())).transpose()?,
    })
}

/// Addresses that arrive unchanged; what a load balancer forwards as itself never carries its address.
fn load_balancer_ips(service: &k8s::Service) -> Result<BTreeSet<IpAddr>, ServiceRefusal> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
    let delivered = ingress.filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
    delivered.filter_map(|ingress| ingress.ip.as_deref()).map(address).collect()
}

/// A slice and the Service it belongs to; `None` for one that belongs to none or holds names instead of addresses.
///
/// An endpoint that cannot be read is left out: the others serve all the same.
pub fn slice(
    slice: &discovery::EndpointSlice,
) -> Result<Option<(ObjectName, EndpointSlice)>, ServiceRefusal> {
    let labels = slice.metadata.labels.as_ref();
    let service = labels.and_then(|labels| labels.get(SERVICE_OF_SLICE)).filter(|name| !name.is_empty());
    let Some(service) = service.filter(|_| slice.address_type != "FQDN") else { return Ok(None) };
    let namespace = slice.metadata.namespace.clone().unwrap_or_default();
    let ports = slice.ports.iter().flatten().filter(|port| port.port.is_some());
    let ports = ports.map(|port| {
        Ok(SlicePort {
            name: port.name.clone().unwrap_or_default(),
            protocol: known(port.protocol.as_deref())?,
            port: Port::new(port.port.unwrap_or_default().into())?,
        })
    });
    let ports = ports.collect::<Result<Vec<_>, ServiceRefusal>>()?;
    let endpoints = slice.endpoints.iter().filter_map(endpoint).collect();
    Ok(Some((ObjectName::new(namespace, service), EndpointSlice { ports, endpoints })))
}

fn endpoint(written: &discovery::Endpoint) -> Option<Endpoint> {
    let conditions = written.conditions.as_ref();
    // Who does not say is ready, and who is ready serves.
    let ready = conditions.and_then(|c| c.ready).unwrap_or(true);
    Some(Endpoint {
        // They are all the same endpoint, and others use the first too.
        address: written.addresses.first()?.parse().ok()?,
        node: written.node_name.clone().and_then(|name| NodeName::new(name).ok()),
        ready,
        serving: conditions.and_then(|c| c.serving).unwrap_or(ready),
        terminating: conditions.and_then(|c| c.terminating).unwrap_or(false),
    })
}

fn known(written: Option<&str>) -> Result<netferry_core::port::Protocol, ServiceRefusal> {
    protocol(written).ok_or_else(|| ServiceRefusal::Protocol(written.unwrap_or_default().to_owned()))
}

/// One that cannot be read must not become everybody.
fn source_range(text: &str) -> Result<IpNet, ServiceRefusal> {
    let text = text.trim();
    text.parse().map_err(|_| ServiceRefusal::SourceRange(text.to_owned()))
}

fn address(text: &str) -> Result<IpAddr, ServiceRefusal> {
    text.parse().map_err(|_| ServiceRefusal::Address(text.to_owned()))
}
