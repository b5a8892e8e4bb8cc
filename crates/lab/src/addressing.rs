//! Who has which address. Pure: an address follows from a node's number, so nothing has to be remembered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netferry_kernel::Mac;
use serde::{Deserialize, Serialize};

/// Which families a lab speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Families {
    /// IPv4 only.
    #[default]
    V4,
    /// IPv6 only.
    V6,
    /// Both, IPv4 first.
    Dual,
}

impl Families {
    fn pick<T>(self, v4: T, v6: T) -> Vec<T> {
        match self {
            Families::V4 => vec![v4],
            Families::V6 => vec![v6],
            Families::Dual => vec![v4, v6],
        }
    }

    /// Where pod addresses come from, and how much of it a node gets.
    pub fn cluster_networks(self) -> Vec<(IpNet, u8)> {
        self.pick((net4([10, 244, 0, 0], 16), 24), (net6([0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0], 48), 64))
    }

    /// Where Service addresses come from.
    pub fn service_networks(self) -> Vec<IpNet> {
        self.pick(net4([10, 96, 0, 0], 16), net6([0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0], 112))
    }

    /// What a member of an underlay network has there; network 0 is the one nodes are known by.
    fn member(self, network: u8, number: u16) -> Vec<IpNet> {
        let [high, low] = number.to_be_bytes();
        let (v4, v6) = match network {
            0 => ([172, 30, high, low], [0xfd00, 0x172, 0x30, 0, 0, 0, 0, number]),
            k => ([10, 200 + k, high, low], [0xfd00, 0x10, 0x200 + u16::from(k), 0, 0, 0, 0, number]),
        };
        self.pick(net4(v4, 16), net6(v6, 64))
    }

    /// The router between the fabric and the outside.
    pub fn router(self) -> Vec<IpNet> {
        self.member(0, 1)
    }

    /// The control plane.
    pub fn control(self) -> Vec<IpNet> {
        self.member(0, 2)
    }

    /// A node's addresses on one of the underlay networks.
    ///
    /// The first 256 numbers are the lab's own.
    pub fn node(self, network: u8, number: u16) -> Vec<IpNet> {
        self.member(network, 0x100 + number)
    }

    /// The router, seen from outside.
    pub fn outside_router(self) -> Vec<IpNet> {
        self.outside_member(1)
    }

    /// The world outside.
    pub fn outside(self) -> Vec<IpNet> {
        self.outside_member(2)
    }

    fn outside_member(self, number: u8) -> Vec<IpNet> {
        let v6 = [0x2001, 0xdb8, 0x51, 0, 0, 0, 0, u16::from(number)];
        self.pick(net4([198, 51, 100, number], 24), net6(v6, 64))
    }
}

/// The hardware address of a node's interface: the same after every boot, as of a real one.
pub fn node_mac(network: u8, number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    Mac([0x02, 0x1e, network, 0, high, low])
}

/// The route to everything else.
pub fn default_route(of: IpAddr) -> IpNet {
    match of {
        IpAddr::V4(_) => net4([0; 4], 0),
        IpAddr::V6(_) => net6([0; 8], 0),
    }
}

fn net4(address: [u8; 4], length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new(Ipv4Addr::from(address), length).expect("a length of at most 32"))
}

fn net6(address: [u16; 8], length: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new(Ipv6Addr::from(address), length).expect("a length of at most 128"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_members_of_a_lab_share_an_address() {
        let mut seen = BTreeSet::new();
        let families = Families::Dual;
        let nodes = (0..=4).flat_map(|k| (1..=300).map(move |i| families.node(k, i)));
        let own = [families.router(), families.control(), families.outside_router(), families.outside()];
        for address in own.into_iter().chain(nodes).flatten() {
            assert!(seen.insert(address.addr()), "{address} twice");
        }
    }

    #[test]
    fn no_range_of_a_lab_overlaps_another() {
        let families = Families::Dual;
        let mut ranges: Vec<IpNet> = families.cluster_networks().into_iter().map(|(net, _)| net).collect();
        ranges.extend(families.service_networks());
        ranges.extend(families.outside());
        for network in 0..=Options::MOST_NETWORKS {
            ranges.extend(families.node(network, 1));
        }
        for (i, a) in ranges.iter().enumerate() {
            for b in &ranges[i + 1..] {
                assert!(!a.contains(&b.network()) && !b.contains(&a.network()), "{a} and {b}");
            }
        }
    }
}
