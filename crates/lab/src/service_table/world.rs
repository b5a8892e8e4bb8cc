//! Who asks, and what a Service is reached by.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::Client;

use super::scenario::{Named, Seen, To};
use crate::Lab;
use crate::meter::Place;
use crate::programs::probe::Protocol;

/// How many nodes a table stands on.
pub(super) const NODES: usize = 3;

/// A cluster with the usual pods, ready for scenarios.
pub struct Table<'l> {
    pub(super) lab: &'l Lab,
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) nodes: Vec<Node>,
    pub(super) outside: Site,
    /// Of each family the cluster speaks, whether it is IPv6.
    pub(super) families: Vec<bool>,
    pub(super) pods: BTreeMap<String, Standing>,
}

/// A place with addresses.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) place: Place,
    pub(super) addresses: Vec<IpAddr>,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) site: Site,
    pub(super) management: Vec<IpAddr>,
    pub(super) join: Vec<IpAddr>,
}

/// A pod that is ready.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) site: Site,
    /// Counted from 0.
    pub(super) node: usize,
}

/// Somebody who asks.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) name: String,
    pub(super) site: Site,
    /// None outside.
    pub(super) node: Option<usize>,
}

/// Somewhere to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) at: SocketAddr,
    pub(super) protocol: Protocol,
    /// The node it leads to; one's own where it is served inside.
    pub(super) reached: Option<usize>,
}

/// The prefix of outside addresses that arrive at a node, counted from 0.
fn arriving(node: usize, v6: bool) -> IpNet {
    let number = u8::try_from(node).unwrap_or(u8::MAX);
    if v6 {
        let first = [0x2001, 0xdb8, 0xee, u16::from(number) + 1, 0, 0, 0, 0];
        IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from(first), 64))
    } else {
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, number.saturating_mul(64)), 26))
    }
}

/// The prefixes of outside addresses in the families of a cluster, each with the node it arrives at.
pub(super) fn arrivals(families: &[bool]) -> Vec<(usize, IpNet)> {
    let all = (0..NODES).flat_map(|node| families.iter().map(move |v6| (node, arriving(node, *v6))));
    all.collect()
}

/// The node an outside address arrives at, counted from 0: `203.0.113.0/26` and `2001:db8:ee:1::/64` at the first, and
/// so on.
pub fn arrives_at(address: IpAddr) -> Option<usize> {
    (0..NODES).find(|node| arriving(*node, address.is_ipv6()).contains(&address))
}

pub(super) fn of_family(addresses: &[IpAddr], v6: bool) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| address.is_ipv6() == v6)
}

impl Table<'_> {
    /// Whoever a name of a scenario means.
    pub(super) fn askers(&self, name: &str, own: &BTreeMap<String, Standing>) -> Result<Vec<Asker>, String> {
        let host = |at: usize| {
            let node = self.nodes.get(at).ok_or_else(|| format!("there is no node {}", at + 1))?;
            Ok(Asker { name: format!("host-{}", at + 1), site: node.site.clone(), node: Some(at) })
        };
        let pod = |name: &str| {
            let found = own.get(name).or_else(|| self.pods.get(name));
            let found = found.ok_or_else(|| format!("there is no {name}"))?;
            Ok(Asker { name: name.to_owned(), site: found.site.clone(), node: Some(found.node) })
        };
        match name {
            "outside" => Ok(vec![Asker { name: name.to_owned(), site: self.outside.clone(), node: None }]),
            "pods" => (1..=NODES).map(|at| pod(&format!("pod-{at}"))).collect(),
            "hosts" => (0..NODES).map(host).collect(),
            _ => match name.strip_prefix("host-").and_then(|number| number.parse::<usize>().ok()) {
                Some(number) => Ok(vec![host(number.saturating_sub(1))?]),
                None => Ok(vec![pod(name)?]),
            },
        }
    }

    /// What somebody has to ask to reach a Service in this way, in every family it has.
    pub(super) fn targets(
        &self,
        asker: &Asker,
        to: &To,
        service: Option<&Service>,
        protocol: Option<Protocol>,
        port: Option<u16>,
    ) -> Result<Vec<Target>, String> {
        let node = match to {
            To::Node(name) => Some(
                self.nodes
                    .iter()
                    .position(|node| node.name == *name)
                    .ok_or_else(|| format!("there is no {name}"))?,
            ),
            To::Named(_) | To::Addresses(_) => None,
        };
        let spec = service.and_then(|service| service.spec.as_ref());
        let own: Vec<IpAddr> =
            spec.and_then(|spec| spec.cluster_ips.as_ref()).map(|ips| parsed(ips)).unwrap_or_default();
        let speaks = |v6: &bool| service.is_none() || of_family(&own, *v6).is_some();
        let addresses: Vec<IpAddr> = match (to, node) {
            (To::Addresses(addresses), _) => addresses.clone(),
            (To::Named(Named::Cluster), _) => own.clone(),
            (To::Named(Named::External), _) => {
                spec.and_then(|spec| spec.external_ips.as_ref()).map(|ips| parsed(ips)).unwrap_or_default()
            }
            (To::Named(Named::Balancer), _) => balanced(service),
            (To::Node(_), at) => at.map(|at| self.nodes[at].site.addresses.clone()).unwrap_or_default(),
        };
        let doors: Vec<(Protocol, u16)> = match (port, spec) {
            (Some(port), _) => {
                protocol.map_or_else(both, |one| vec![one]).into_iter().map(|one| (one, port)).collect()
            }
            (None, None) => return Err("neither a Service nor a port to ask at".to_owned()),
            (None, Some(spec)) => {
                spec.ports.iter().flatten().filter_map(|one| door(one, node.is_some())).collect()
            }
        };
        let mut targets = Vec::new();
        for v6 in self.families.iter().filter(|v6| speaks(v6)) {
            for address in addresses.iter().filter(|address| address.is_ipv6() == *v6) {
                let reached = node.or(asker.node).or_else(|| arrives_at(*address));
                for (of, port) in doors.iter().filter(|(of, _)| protocol.is_none_or(|one| one == *of)) {
                    targets.push(Target { at: SocketAddr::new(*address, *port), protocol: *of, reached });
                }
            }
        }
        if targets.is_empty() {
            return Err(format!("nothing to ask: {to:?} has no address or port of that kind"));
        }
        Ok(targets)
    }

    /// The address the answering side must see.
    pub(super) fn seen(&self, asker: &Asker, target: &Target, seen: Seen) -> Result<IpAddr, String> {
        let v6 = target.at.is_ipv6();
        let node = |at: Option<usize>| {
            at.and_then(|at| self.nodes.get(at)).ok_or_else(|| format!("{} has no node", asker.name))
        };
        let found = match seen {
            Seen::Itself => of_family(&asker.site.addresses, v6),
            Seen::Node => of_family(&node(asker.node)?.site.addresses, v6),
            Seen::Management => of_family(&node(asker.node)?.management, v6),
            Seen::Join => of_family(&node(target.reached)?.join, v6),
            Seen::Reached => of_family(&node(target.reached)?.site.addresses, v6),
            Seen::Hairpin if v6 => Some(Ipv6Addr::new(0xfd69, 0, 0, 0, 0, 0, 0, 5).into()),
            Seen::Hairpin => Some(Ipv4Addr::new(169, 254, 169, 5).into()),
        };
        found.ok_or_else(|| format!("{} has no {seen:?} address of that family", asker.name))
    }
}

fn both() -> Vec<Protocol> {
    vec![Protocol::Tcp, Protocol::Udp]
}

fn door(port: &ServicePort, of_node: bool) -> Option<(Protocol, u16)> {
    let protocol = match port.protocol.as_deref() {
        None | Some("TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some(_) => return None,
    };
    let number = if of_node { port.node_port? } else { port.port };
    Some((protocol, u16::try_from(number).ok()?))
}

fn parsed(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn balanced(service: Option<&Service>) -> Vec<IpAddr> {
    let status = service.and_then(|service| service.status.as_ref());
    let ingress = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    ingress.into_iter().flatten().filter_map(|one| one.ip.as_ref()?.parse().ok()).collect()
}
