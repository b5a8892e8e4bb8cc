//! Measuring the MTU that every kind of path has, end to end: which questions are asked, and what their answers mean.
//!
//! Nodes try each other all the time ([`probe`](super::probe)), every one every other one, between their hosts and their
//! management ports. Here pods and hosts ask each other, by addresses, Services and ports of nodes: every kind of path
//! there is, but each node only the one after it, so that a cluster of a thousand is measured in the time of one of three.

pub mod judge;
pub mod message;

use std::net::{IpAddr, SocketAddr};

use crate::name::NodeName;
use crate::net::Family;
use crate::overlay::path::Kind;
use crate::size::Mtu;

/// What there is on a node to ask and to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The node.
    pub node: NodeName,
    /// The addresses of a pod that answers.
    pub pod: Vec<IpAddr>,
    /// The addresses of the host, which answers too.
    pub host: Vec<IpAddr>,
    /// The addresses of a Service with that pod alone behind it.
    pub service: Vec<IpAddr>,
    /// The port of that Service on every node.
    pub node_port: Option<u16>,
}

/// Whether a measurement that somebody else began is over, so that what is left of it may be removed: it was said to end at
/// `end`; one of which nobody can read that is given a day. All times are seconds since the epoch; clocks may differ by a
/// minute.
pub fn is_over(end: Option<i64>, made: i64, now: i64) -> bool {
    const LONGEST: i64 = 86_400;
    now > end.unwrap_or(made.saturating_add(LONGEST)).saturating_add(60)
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Asker {
    /// A pod: another one than that which answers.
    Pod,
    /// The host.
    Host,
}

/// How a question is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To somebody of ours, by UDP.
    Answers(SocketAddr),
    /// To anybody that answers a ping.
    Echoes(IpAddr),
}

impl Target {
    /// The family it is asked in.
    pub fn family(&self) -> Family {
        match self {
            Target::Answers(to) => Family::of(to.ip()),
            Target::Echoes(to) => Family::of(*to),
        }
    }
}

/// One path to be measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Its kind.
    pub kind: Kind,
    /// Who asks.
    pub asker: Asker,
    /// On which node.
    pub from: NodeName,
    /// The node that answers; the outside is on none.
    pub to: Option<NodeName>,
    /// Where the question goes.
    pub target: Target,
    /// The largest packet that may be sent, whatever the way would let through.
    ///
    /// A host that sends its own full size to a pod behind a node's port is told by that node that the way takes less, and
    /// remembers that for ten minutes of everything it sends there: of tunnels too, which then carry less than pods send.
    /// Measuring must not do what it is to find.
    pub at_most: Option<Mtu>,
}

impl Ask {
    /// The path as a sentence names it.
    pub fn describe(&self) -> String {
        let Ask { kind, from, to, target, .. } = self;
        let to = to.as_ref().map_or_else(|| "the outside".to_owned(), ToString::to_string);
        format!("{kind} from {from} to {to}, {}", target.family())
    }
}

/// The questions to ask where these sites answer at `port`, hosts send pods' ports no more than `pods`, and `outside` are
/// addresses beyond the cluster that answer pings.
///
/// # Guarantees
///
/// Their number is at most a constant for each site. Every kind of path is among them that these sites have: with one
/// there is nothing across, and without `outside` nothing beyond.
pub fn asks(sites: &[Site], port: u16, outside: &[IpAddr], pods: Mtu) -> Vec<Ask> {
    let mut asks = Vec::new();
    for (place, here) in sites.iter().enumerate() {
        let after = |steps: usize| &sites[(place + steps) % sites.len()];
        let next = Some(after(1)).filter(|next| next.node != here.node);
        let mut pod = From { asker: Asker::Pod, here, port, pods, asks: &mut asks };
        pod.asks_pod(Kind::PodPodSameNode, here);
        pod.asks_host(Kind::PodHost, here);
        pod.asks_service(Kind::PodClusterIp, here);
        pod.asks_port(Kind::PodNodePort, here, here);
        if let Some(next) = next {
            pod.asks_pod(Kind::PodPodAcross, next);
            pod.asks_host(Kind::PodHost, next);
            pod.asks_service(Kind::PodClusterIp, next);
            pod.asks_port(Kind::PodNodePort, next, next);
        }
        for address in outside {
            pod.add(Kind::PodOutside, None, &here.pod, [Target::Echoes(*address)]);
        }

        let mut host = From { asker: Asker::Host, here, port, pods, asks: &mut asks };
        host.asks_pod(Kind::HostPod, here);
        host.asks_service(Kind::HostClusterIp, here);
        if let Some(next) = next {
            host.asks_pod(Kind::HostPod, next);
            host.asks_host(Kind::HostHost, next);
            host.asks_service(Kind::HostClusterIp, next);
            // A host stands for the outside at the ports of others: it comes by their uplink, with no pod's address.
            host.asks_port(Kind::OutsideNodePortLocal, next, next);
            host.asks_port(Kind::OutsideNodePortRemote, next, after(2));
        }
    }
    asks
}

/// Where questions begin.
struct From<'a> {
    asker: Asker,
    here: &'a Site,
    port: u16,
    pods: Mtu,
    asks: &'a mut Vec<Ask>,
}

impl From<'_> {
    fn asks_pod(&mut self, kind: Kind, there: &Site) {
        self.asks_at(kind, there, &there.pod);
    }

    fn asks_host(&mut self, kind: Kind, there: &Site) {
        self.asks_at(kind, there, &there.host);
    }

    fn asks_service(&mut self, kind: Kind, there: &Site) {
        self.asks_at(kind, there, &there.service);
    }

    /// To the port on node `by` of the Service whose pod is at `there`.
    fn asks_port(&mut self, kind: Kind, by: &Site, there: &Site) {
        let port = there.node_port;
        // The pod that answers is asked in no other family than it has.
        let targets = by.host.iter().filter(|address| speaks(&there.pod, Family::of(**address)));
        let targets = targets.filter_map(|address| Some(Target::Answers(SocketAddr::new(*address, port?))));
        self.add_all(kind, there, targets.collect());
    }

    fn asks_at(&mut self, kind: Kind, there: &Site, addresses: &[IpAddr]) {
        let targets = addresses.iter().map(|address| Target::Answers(SocketAddr::new(*address, self.port)));
        self.add_all(kind, there, targets.collect());
    }

    fn add_all(&mut self, kind: Kind, there: &Site, targets: Vec<Target>) {
        let own = match self.asker {
            Asker::Pod => &self.here.pod,
            Asker::Host => &self.here.host,
        };
        self.add(kind, Some(&there.node), own, targets);
    }

    fn add(
        &mut self,
        kind: Kind,
        to: Option<&NodeName>,
        own: &[IpAddr],
        targets: impl IntoIterator<Item = Target>,
    ) {
        let by_port = matches!(kind, Kind::OutsideNodePortLocal | Kind::OutsideNodePortRemote);
        for target in targets.into_iter().filter(|target| speaks(own, target.family())) {
            self.asks.push(Ask {
                kind,
                asker: self.asker,
                from: self.here.node.clone(),
                to: to.cloned(),
                target,
                at_most: by_port.then_some(self.pods),
            });
        }
    }
}

/// Whether any of these is of a family.
fn speaks(addresses: &[IpAddr], family: Family) -> bool {
    addresses.iter().any(|address| Family::of(*address) == family)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixtures::{mtu, name};

    /// A site with both families.
    fn site(number: u8) -> Site {
        let both = |v4: [u8; 4], v6: u16| {
            vec![IpAddr::from(v4), IpAddr::from([v6, 0, 0, 0, 0, 0, 0, number.into()])]
        };
        Site {
            node: name(&format!("n{number}")),
            pod: both([10, 244, number, 5], 0xfd01),
            host: both([172, 30, 1, number], 0xfd02),
            service: both([10, 96, 0, number], 0xfd03),
            node_port: Some(30000 + u16::from(number)),
        }
    }

    fn of(sites: &[Site]) -> Vec<Ask> {
        asks(sites, 9645, &["192.0.2.1".parse().unwrap()], mtu(1400))
    }

    fn kinds(asks: &[Ask]) -> BTreeSet<Kind> {
        asks.iter().map(|ask| ask.kind).collect()
    }

    #[test]
    fn every_kind_of_path_is_measured_from_every_node_and_no_node_asks_more_in_a_larger_cluster() {
        let sites: Vec<Site> = (1..=40).map(site).collect();
        let all = of(&sites);
        // What a pod sends to itself by a Service never leaves it as anything else.
        let wanted: BTreeSet<Kind> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Hairpin).collect();
        for here in &sites {
            let asked: Vec<Ask> = all.iter().filter(|ask| ask.from == here.node).cloned().collect();
            assert_eq!(kinds(&asked), wanted);
            assert_eq!(asked.len(), of(&sites[..3]).len() / 3, "as many as in a cluster of three");
        }
    }

    #[test]
    fn what_a_measurement_left_is_removed_when_its_own_time_is_over_and_not_by_anothers() {
        for (end, made, now, over) in [
            (Some(1000), 0, 1000, false),
            (Some(1000), 0, 1060, false),
            (Some(1000), 0, 1061, true),
            (Some(i64::MAX), 0, i64::MAX, false),
            (None, 0, 86_460, false),
            (None, 0, 86_461, true),
            (None, i64::MAX, 0, false),
        ] {
            assert_eq!(is_over(end, made, now), over, "{end:?} {made} {now}");
        }
    }

    #[test]
    fn one_node_alone_asks_nobody_across() {
        let across =
            [Kind::PodPodAcross, Kind::HostHost, Kind::OutsideNodePortLocal, Kind::OutsideNodePortRemote];
        let alone = of(&[site(1)]);
        assert!(alone.iter().all(|ask| ask.to.as_ref().is_none_or(|to| *to == ask.from)));
        assert!(kinds(&alone).is_disjoint(&across.into()));
        assert!(kinds(&alone).contains(&Kind::HostPod));
    }

    #[test]
    fn the_port_of_a_node_leads_to_the_pod_of_that_node_and_to_one_of_another() {
        for sites in [vec![site(1), site(2)], vec![site(1), site(2), site(3)]] {
            for ask in of(&sites) {
                let Target::Answers(at) = ask.target else { continue };
                let by = sites.iter().find(|site| site.host.contains(&at.ip()));
                let answers = sites.iter().find(|site| Some(&site.node) == ask.to.as_ref()).expect("a node");
                if !matches!(ask.kind, Kind::OutsideNodePortLocal | Kind::OutsideNodePortRemote) {
                    continue;
                }
                assert_eq!(by == Some(answers), ask.kind == Kind::OutsideNodePortLocal);
                assert_eq!(Some(at.port()), answers.node_port);
                assert_ne!(by.expect("a host").node, ask.from, "the outside comes by the uplink");
                assert_eq!(
                    ask.at_most,
                    Some(mtu(1400)),
                    "a host may not learn a smaller size of a tunnel's way"
                );
            }
        }
    }

    #[test]
    fn nobody_is_asked_in_a_family_that_one_of_both_does_not_speak() {
        let mut sites = vec![site(1), site(2)];
        sites[1].pod.retain(IpAddr::is_ipv6);
        sites[1].service.retain(IpAddr::is_ipv6);
        for ask in of(&sites) {
            let is_v4 = ask.target.family() == Family::V4;
            let second = name("n2");
            let from_second = ask.from == second && ask.asker == Asker::Pod;
            let to_second = ask.to == Some(second) && !matches!(ask.kind, Kind::PodHost | Kind::HostHost);
            assert!(!(is_v4 && (from_second || to_second)), "{ask:?}");
        }
    }
}
