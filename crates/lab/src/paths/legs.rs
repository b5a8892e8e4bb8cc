//! From sites to flows.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use netferry_core::overlay::zone::Datapath;

use super::Kind;
use super::sites::{End, Node, Pod, Sites, of_family};
use crate::Families;
use crate::meter::{Flow, Place, RATE, Sizes, Traffic};

/// Packets per second of all flows together where no rate is given: what a lab on two cores carries without being
/// measured by its own load.
pub const BUDGET: u32 = 2000;
/// Up to so many nodes every pair is measured on every kind of path; of more, each with the next.
const EVERY_PAIR: usize = 4;
/// Up to so many nodes every pair of hosts and of their pods is measured straight: each pair has a tunnel of its own.
const EVERY_TUNNEL: usize = 10;

/// Which flows are wanted.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Kinds of path.
    pub kinds: BTreeSet<Kind>,
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
    /// Kinds of path that are left out with IPv6.
    pub not_v6: BTreeSet<Kind>,
    /// Datagrams, of these sizes.
    pub udp: Option<Sizes>,
    /// Streams.
    pub tcp: bool,
    /// Echo requests, of these sizes.
    pub icmp: Option<Sizes>,
    /// Packets per second of each flow; without it, as much as [`BUDGET`] gives each, and no more than usual.
    pub rate: Option<u32>,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection {
            kinds: Kind::ALL.into(),
            v4: true,
            v6: true,
            not_v6: BTreeSet::new(),
            udp: Some(Sizes::Full),
            tcp: true,
            icmp: Some(Sizes::Full),
            rate: None,
        }
    }
}

impl Selection {
    /// Every path, by packets of every size, few of each: whether they arrive, and not how many a machine carries that
    /// does other things too.
    pub fn of_every_size() -> Selection {
        Selection {
            udp: Some(Sizes::mixed()),
            icmp: Some(Sizes::mixed()),
            rate: Some(1),
            ..Selection::default()
        }
    }

    /// What is measured while the MTU of a lab of these families changes: every path; but where IPv6 is spoken and Open
    /// vSwitch moves packets itself, one is measured with IPv4 alone.
    ///
    /// While one node has finished and another has not, what a pod of the first answers to the outside through the
    /// second is too large for the second's routes. It says so, and whoever hears it sends less. But Open vSwitch, where
    /// it translates addresses of IPv6's `packet too big` itself, takes the message for the datagram that it is about: it
    /// mends a checksum where the size stands, and another size arrives (27 487 was seen).
    pub fn while_the_mtu_changes(families: Families, datapath: Datapath) -> Selection {
        let spoiled = families != Families::V4 && datapath == Datapath::Userspace;
        let not_v6 = spoiled.then_some(Kind::OutsideNodePortRemote).into_iter().collect();
        Selection { not_v6, ..Selection::default() }
    }

    /// Whether a kind of path is wanted in a family.
    fn wants(&self, kind: Kind, v6: bool) -> bool {
        let family = if v6 { self.v6 && !self.not_v6.contains(&kind) } else { self.v4 };
        family && self.kinds.contains(&kind)
    }
}

/// One way from an end to another, before family and protocol.
struct Leg<'a> {
    kind: Kind,
    from: End<'a>,
    to: Target<'a>,
}

enum Target<'a> {
    /// Straight there.
    End(End<'a>),
    /// A Service's own address.
    ClusterIp(&'a super::Service, &'a Pod),
    /// A Service's port on a node.
    NodePort(&'a Node, &'a super::Service, &'a Pod),
}

/// All flows of a selection that the sites have the ends for.
pub fn flows(sites: &Sites, selection: &Selection) -> Vec<Flow> {
    let mut flows = Vec::new();
    for leg in legs(sites) {
        for v6 in [false, true].into_iter().filter(|v6| selection.wants(leg.kind, *v6)) {
            for traffic in traffics(leg.kind, selection) {
                flows.extend(leg.flow(v6, traffic));
            }
        }
    }
    let share = BUDGET / u32::try_from(flows.len()).unwrap_or(u32::MAX).max(1);
    let rate = selection.rate.unwrap_or_else(|| share.clamp(1, RATE));
    flows.into_iter().map(|flow| flow.at_rate(rate)).collect()
}

fn traffics(kind: Kind, selection: &Selection) -> Vec<Traffic> {
    let mut traffics = Vec::new();
    traffics.extend(selection.udp.clone().map(Traffic::Udp));
    traffics.extend(selection.tcp.then_some(Traffic::TCP));
    traffics.extend(selection.icmp.clone().filter(|_| !kind.is_service()).map(Traffic::Icmp));
    traffics
}

fn legs(sites: &Sites) -> Vec<Leg<'_>> {
    let mut legs: Vec<Leg<'_>> = Vec::new();
    for node in &sites.nodes {
        let own: Vec<&Pod> = sites.pods_on(&node.name).collect();
        let Some(first) = own.first() else { continue };
        if let Some(second) = own.get(1) {
            legs.push(Leg::straight(Kind::PodPodSameNode, first.end(), second.end()));
        }
        legs.push(Leg::straight(Kind::PodHost, first.end(), node.end()));
        legs.push(Leg::straight(Kind::HostPod, node.end(), first.end()));
        if let Some(outside) = &sites.outside {
            legs.push(Leg::straight(Kind::PodOutside, first.end(), outside.end()));
        }
        if let Some(service) = sites.service_of(first) {
            legs.push(Leg { kind: Kind::Hairpin, from: first.end(), to: Target::ClusterIp(service, first) });
            let local = Target::ClusterIp(service, first);
            legs.push(Leg { kind: Kind::HostClusterIp, from: node.end(), to: local });
            if let Some(second) = own.get(1) {
                let local = Target::ClusterIp(service, first);
                legs.push(Leg { kind: Kind::PodClusterIp, from: second.end(), to: local });
                let local = Target::NodePort(node, service, first);
                legs.push(Leg { kind: Kind::PodNodePort, from: second.end(), to: local });
            }
            if let Some(outside) = &sites.outside {
                let local = Target::NodePort(node, service, first);
                legs.push(Leg { kind: Kind::OutsideNodePortLocal, from: outside.end(), to: local });
            }
        }
    }
    for (node, other) in pairs(&sites.nodes, EVERY_TUNNEL) {
        legs.push(Leg::straight(Kind::HostHost, node.end(), other.end()));
        if let Some((pod, theirs)) = sites.first_pods(node, other) {
            legs.push(Leg::straight(Kind::PodPodAcross, pod.end(), theirs.end()));
        }
    }
    for (node, other) in pairs(&sites.nodes, EVERY_PAIR) {
        let Some((pod, theirs)) = sites.first_pods(node, other) else { continue };
        legs.push(Leg::straight(Kind::PodHost, pod.end(), other.end()));
        legs.push(Leg::straight(Kind::HostPod, node.end(), theirs.end()));
        let Some(service) = sites.service_of(theirs) else { continue };
        for (kind, from) in [(Kind::PodClusterIp, pod.end()), (Kind::HostClusterIp, node.end())] {
            legs.push(Leg { kind, from, to: Target::ClusterIp(service, theirs) });
        }
        // The node that is reached is not the one with the backend.
        let remote = || Target::NodePort(node, service, theirs);
        legs.push(Leg { kind: Kind::PodNodePort, from: pod.end(), to: remote() });
        if let Some(outside) = &sites.outside {
            legs.push(Leg { kind: Kind::OutsideNodePortRemote, from: outside.end(), to: remote() });
        }
    }
    legs
}

/// Ordered pairs of nodes: all of at most so many nodes, else each with the next.
fn pairs(nodes: &[Node], all_of: usize) -> Vec<(&Node, &Node)> {
    let every = nodes.len() <= all_of;
    let mut pairs = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for (there, other) in nodes.iter().enumerate() {
            if at != there && (every || (at + 1) % nodes.len() == there) {
                pairs.push((node, other));
            }
        }
    }
    pairs
}

impl<'a> Leg<'a> {
    fn straight(kind: Kind, from: End<'a>, to: End<'a>) -> Leg<'a> {
        Leg { kind, from, to: Target::End(to) }
    }

    /// The leg as a flow, if both ends have addresses of the family.
    fn flow(&self, v6: bool, traffic: Traffic) -> Option<Flow> {
        let from: &Place = self.from.place;
        // Which address a host speaks from is part of what is measured: it is left to its kernel.
        of_family(self.from.addresses, v6)?;
        let mut through = Vec::new();
        let (name, to, answers) = match &self.to {
            Target::End(end) => {
                let endpoint = end.endpoint(v6)?;
                // Echo requests are answered by a kernel, without a socket of the meter's.
                through.push(end.place.name.clone());
                (end.name.clone(), endpoint.at, endpoint)
            }
            Target::ClusterIp(service, pod) => {
                let to = SocketAddr::new(of_family(&service.cluster_ips, v6)?, super::PORT);
                (format!("service {}", service.name), to, pod.end().endpoint(v6)?)
            }
            Target::NodePort(node, service, pod) => {
                let port = match traffic {
                    Traffic::Tcp { .. } | Traffic::TcpRequests { .. } => service.node_port_tcp?,
                    Traffic::Udp(_) | Traffic::Icmp(_) | Traffic::UdpRequests { .. } => {
                        service.node_port_udp?
                    }
                };
                let to = SocketAddr::new(of_family(&node.addresses, v6)?, port);
                through.push(node.place.name.clone());
                (format!("{} port of {}", node.name, service.name), to, pod.end().endpoint(v6)?)
            }
        };
        let mut flow = Flow::between(format!("{} > {name}", self.from.name), traffic, from.clone(), answers)
            .of_kind(self.kind.word())
            .through(through);
        flow.to = to;
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use netferry_kernel::Namespace;

    use super::*;
    use crate::paths::{Outside, Service};

    fn sites(count: u8, v6: bool) -> Sites {
        let place = |name: &str| Place::new(name, Namespace::current().unwrap());
        let both = |v4: String, six: String| {
            let mut all = vec![v4.parse().unwrap()];
            all.extend(v6.then(|| six.parse::<std::net::IpAddr>().unwrap()));
            all
        };
        let mut sites = Sites::default();
        for n in 1..=count {
            let node = format!("node-{n}");
            sites.nodes.push(Node {
                name: node.clone(),
                place: place(&node),
                addresses: both(format!("172.30.0.{n}"), format!("fd00:172:30::{n}")),
                pod_ranges: Vec::new(),
            });
            for p in 1..=2 {
                sites.pods.push(Pod {
                    name: format!("m/p{n}-{p}"),
                    node: node.clone(),
                    place: place(&format!("m/p{n}-{p}")),
                    addresses: both(format!("10.244.{n}.{p}"), format!("fd00:10:244:{n}::{p}")),
                });
            }
            sites.services.push(Service {
                name: format!("m/s{n}"),
                cluster_ips: both(format!("10.96.0.{n}"), format!("fd00:10:96::{n}")),
                node_port_udp: Some(30_000 + u16::from(n)),
                node_port_tcp: Some(31_000 + u16::from(n)),
                backend: format!("m/p{n}-1"),
            });
        }
        sites.outside = Some(Outside {
            place: place("outside"),
            addresses: both("198.51.100.2".to_owned(), "2001:db8:51::2".to_owned()),
        });
        sites
    }

    fn by_kind(flows: &[Flow]) -> BTreeMap<&str, usize> {
        flows.iter().fold(BTreeMap::new(), |mut count, flow| {
            *count.entry(flow.kind.as_str()).or_default() += 1;
            count
        })
    }

    #[test]
    fn every_kind_is_measured_by_every_protocol_it_has_in_both_families() {
        let flows = flows(&sites(3, true), &Selection::default());
        let counts = by_kind(&flows);
        let services = 2 * 2;
        let others = 2 * 3;
        assert_eq!(counts.len(), Kind::ALL.len());
        assert_eq!(counts["pod-pod-same-node"], 3 * others);
        assert_eq!(counts["pod-pod-across"], 6 * others);
        assert_eq!(counts["pod-host"], (3 + 6) * others);
        assert_eq!(counts["host-host"], 6 * others);
        assert_eq!(counts["hairpin"], 3 * services);
        assert_eq!(counts["pod-clusterip"], (3 + 6) * services);
        assert_eq!(counts["outside-nodeport-local"], 3 * services);
        assert_eq!(counts["outside-nodeport-remote"], 6 * services);
    }

    #[test]
    fn a_remote_backend_is_behind_a_node_it_is_not_on() {
        let sites = sites(3, false);
        for flow in flows(&sites, &Selection::default()) {
            let backend_node = |flow: &Flow| {
                let backend = &flow.reflectors[0].place.name;
                sites.pod(backend).unwrap().node.clone()
            };
            let reached = |flow: &Flow| {
                let node = sites.nodes.iter().find(|node| node.addresses.contains(&flow.to.ip()));
                node.unwrap().name.clone()
            };
            match flow.kind.parse().unwrap() {
                Kind::OutsideNodePortLocal => assert_eq!(reached(&flow), backend_node(&flow)),
                Kind::OutsideNodePortRemote => assert_ne!(reached(&flow), backend_node(&flow)),
                Kind::Hairpin => assert_eq!(flow.from.name, flow.reflectors[0].place.name),
                Kind::PodPodSameNode
                | Kind::PodPodAcross
                | Kind::PodHost
                | Kind::HostPod
                | Kind::HostHost
                | Kind::PodClusterIp
                | Kind::HostClusterIp
                | Kind::PodOutside
                | Kind::PodNodePort => {}
            }
        }
    }

    #[test]
    fn of_many_nodes_each_is_measured_to_the_next_and_the_budget_is_kept() {
        let flows = flows(&sites(100, true), &Selection::default());
        assert_eq!(by_kind(&flows)["host-host"], 100 * 6);
        let ten = super::flows(&sites(10, true), &Selection::default());
        let counts = by_kind(&ten);
        for (kind, ways) in [("host-host", 90), ("pod-pod-across", 90), ("host-pod", 10 + 10)] {
            assert_eq!(counts[kind], ways * 6, "{kind}");
        }
        assert!(flows.iter().all(|flow| flow.rate == 1));
        let few = super::flows(
            &sites(1, false),
            &Selection { kinds: [Kind::PodHost].into(), ..Selection::default() },
        );
        assert_eq!((few.len(), few[0].rate), (3, RATE));
    }

    #[test]
    fn a_family_that_is_not_there_makes_no_flows() {
        let only6 = Selection { v4: false, ..Selection::default() };
        assert!(flows(&sites(3, false), &only6).is_empty());
        assert!(!flows(&sites(3, true), &only6).is_empty());
    }

    #[test]
    fn while_the_mtu_changes_only_the_outsides_way_through_another_node_is_left_out_with_ipv6_in_userspace() {
        let sites = sites(3, true);
        let count = |selection: &Selection| {
            flows(&sites, selection).into_iter().fold(BTreeMap::new(), |mut count, flow| {
                *count.entry((flow.kind, flow.to.is_ipv6())).or_insert(0) += 1;
                count
            })
        };
        let mut expected = count(&Selection::default());
        let left_out = expected.remove(&(Kind::OutsideNodePortRemote.word().to_owned(), true));
        assert_eq!(left_out, Some(6 * 2));
        let changing = |families, datapath| Selection::while_the_mtu_changes(families, datapath);
        assert_eq!(count(&changing(Families::Dual, Datapath::Userspace)), expected);
        for (families, datapath) in [(Families::Dual, Datapath::Kernel), (Families::V4, Datapath::Userspace)]
        {
            assert_eq!(changing(families, datapath).not_v6, BTreeSet::new(), "{families:?} {datapath:?}");
        }
    }

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for kind in Kind::ALL {
            assert_eq!(kind.word().parse(), Ok(kind));
        }
        let error = "pod-moon".parse::<Kind>().unwrap_err();
        assert!(error.to_string().contains("pod-moon") && error.to_string().contains("hairpin"));
    }
}
