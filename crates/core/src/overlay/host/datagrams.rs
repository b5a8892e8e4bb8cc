//! Conversations by datagrams, which the host goes on to send where their first packet was sent.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::net::Family;
use crate::overlay::networks::Networks;
use crate::overlay::service::{Entrance, Forward};
use crate::port::{Port, Protocol};

/// Where datagrams lead.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Datagrams {
    any: BTreeMap<Entrance, SocketAddr>,
    local: BTreeMap<Entrance, SocketAddr>,
    /// What is sent here, was sent here by us.
    inside: Vec<IpNet>,
}

/// A conversation as the host tracks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conversation {
    /// Who asks.
    pub client: IpAddr,
    /// Whom the client asks.
    pub asked: SocketAddr,
    /// Who answers: somebody else, if the destination is replaced.
    pub answers: SocketAddr,
}

impl Datagrams {
    pub(super) fn of(forward: &Forward, networks: &Networks) -> Datagrams {
        let only = |map: &BTreeMap<Entrance, SocketAddr>| {
            let datagrams = map.iter().filter(|(entrance, _)| entrance.protocol == Protocol::Udp);
            datagrams.map(|(entrance, to)| (*entrance, *to)).collect()
        };
        let inside = networks.service().iter().chain(networks.masquerade().iter()).collect();
        Datagrams { any: only(&forward.any), local: only(&forward.local), inside }
    }

    /// Whether a conversation leads where one that began now would not. Forgotten, it begins anew with its next packet.
    ///
    /// A client that sends without a pause would otherwise go on to talk to a process that is gone, to a Service that
    /// was not there when it began, or to one that is not there any more.
    pub fn leads_astray(&self, one: &Conversation, is_host: impl Fn(IpAddr) -> bool) -> bool {
        let Ok(port) = Port::new(one.asked.port().into()) else { return false };
        let family = Family::of(one.asked.ip());
        let by_port = is_host(one.asked.ip()).then_some(None);
        let keys = by_port.into_iter().chain([Some(one.asked.ip())]);
        let entrance = |address| Entrance { family, address, protocol: Protocol::Udp, port };
        let from_here = is_host(one.client);
        let led = keys.map(entrance).find_map(|entrance| {
            let local = self.local.get(&entrance).filter(|_| !from_here);
            local.or_else(|| self.any.get(&entrance))
        });
        match led {
            Some(to) => *to != one.answers,
            None => one.answers != one.asked && self.inside.iter().any(|net| net.contains(&one.answers.ip())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::zone::testing::lab;

    fn entrance(address: Option<&str>, number: i64) -> Entrance {
        Entrance {
            family: Family::V4,
            address: address.map(|ip| ip.parse().unwrap()),
            protocol: Protocol::Udp,
            port: Port::new(number).unwrap(),
        }
    }

    #[test]
    fn a_conversation_is_astray_when_one_that_began_now_would_lead_elsewhere() {
        let lab = lab(1, 0);
        let mut forward = Forward::default();
        forward.any.insert(entrance(None, 30001), "10.96.0.10:53".parse().unwrap());
        forward.any.insert(entrance(None, 30002), "10.96.0.11:53".parse().unwrap());
        forward.local.insert(entrance(None, 30002), "169.254.169.3:30002".parse().unwrap());
        forward.any.insert(entrance(Some("203.0.113.9"), 53), "10.96.0.10:53".parse().unwrap());
        let tcp = Entrance { protocol: Protocol::Tcp, ..entrance(None, 30003) };
        forward.any.insert(tcp, "10.96.0.12:53".parse().unwrap());
        let datagrams = Datagrams::of(&forward, &lab.networks);
        let host: IpAddr = "172.18.0.1".parse().unwrap();
        for (client, asked, answers, astray) in [
            // As it should be.
            ("198.51.100.2", "172.18.0.1:30001", "10.96.0.10:53", false),
            ("198.51.100.2", "172.18.0.1:30002", "169.254.169.3:30002", false),
            ("172.18.0.1", "172.18.0.1:30002", "10.96.0.11:53", false),
            ("198.51.100.2", "203.0.113.9:53", "10.96.0.10:53", false),
            // It began before the Service was there.
            ("198.51.100.2", "172.18.0.1:30001", "172.18.0.1:30001", true),
            ("198.51.100.2", "203.0.113.9:53", "203.0.113.9:53", true),
            // The Service was another, or of all nodes.
            ("198.51.100.2", "172.18.0.1:30001", "10.96.0.99:53", true),
            ("198.51.100.2", "172.18.0.1:30002", "10.96.0.11:53", true),
            // A process of the host that does not stand behind the Service any more.
            ("198.51.100.2", "172.18.0.1:30002", "172.18.0.1:7080", true),
            // A Service that is gone.
            ("198.51.100.2", "172.18.0.1:30009", "10.96.0.10:53", true),
            ("198.51.100.2", "172.18.0.1:30009", "169.254.169.3:30009", true),
            // Nothing of ours.
            ("198.51.100.2", "172.18.0.1:53", "172.18.0.1:53", false),
            ("198.51.100.2", "172.18.0.1:5353", "192.168.0.7:53", false),
            ("172.18.0.1", "198.51.100.2:30001", "198.51.100.2:30001", false),
            ("10.244.0.5", "10.96.0.10:53", "10.96.0.10:53", false),
            ("198.51.100.2", "172.18.0.1:30003", "172.18.0.1:30003", false),
        ] {
            let [asked, answers] = [asked, answers].map(|at| at.parse().unwrap());
            let one = Conversation { client: client.parse().unwrap(), asked, answers };
            assert_eq!(datagrams.leads_astray(&one, |ip| ip == host), astray, "{one:?}");
        }
    }
}
