//! Addresses: link-layer addresses and things that exist in one or both families.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sha2::{Digest, Sha256};

/// An IP family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// The family of a prefix.
    pub fn of_net(net: IpNet) -> Family {
        Family::of(net.addr())
    }

    /// How many bits an address of this family has.
    pub fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// What OVN calls the family in a match: `ip4` or `ip6`.
    pub fn ovn(self) -> &'static str {
        match self {
            Family::V4 => "ip4",
            Family::V6 => "ip6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// A value in one family or in both, never in none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stack<A, B> {
    /// IPv4 only.
    V4(A),
    /// IPv6 only.
    V6(B),
    /// Dual stack.
    Both(A, B),
}

/// One address per family.
pub type Addresses = Stack<Ipv4Addr, Ipv6Addr>;
/// One prefix per family, with the host bits cleared.
pub type Subnets = Stack<Ipv4Net, Ipv6Net>;

impl<A: Copy, B: Copy> Stack<A, B> {
    /// Puts two halves together; `None` when both are missing.
    pub fn from_parts(v4: Option<A>, v6: Option<B>) -> Option<Stack<A, B>> {
        match (v4, v6) {
            (Some(a), None) => Some(Stack::V4(a)),
            (None, Some(b)) => Some(Stack::V6(b)),
            (Some(a), Some(b)) => Some(Stack::Both(a, b)),
            (None, None) => None,
        }
    }

    /// The IPv4 half.
    pub fn v4(&self) -> Option<A> {
        match *self {
            Stack::V4(a) | Stack::Both(a, _) => Some(a),
            Stack::V6(_) => None,
        }
    }

    /// The IPv6 half.
    pub fn v6(&self) -> Option<B> {
        match *self {
            Stack::V6(b) | Stack::Both(_, b) => Some(b),
            Stack::V4(_) => None,
        }
    }

    /// The families there is a value in, IPv4 first.
    pub fn families(&self) -> &'static [Family] {
        match self {
            Stack::V4(_) => &[Family::V4],
            Stack::V6(_) => &[Family::V6],
            Stack::Both(..) => &[Family::V4, Family::V6],
        }
    }
}

impl Stack<Ipv4Addr, Ipv6Addr> {
    /// Reads at most one address per family; the second of a family, or no address at all, is refused.
    pub fn from_addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Option<Addresses> {
        let (mut v4, mut v6) = (None, None);
        for address in addresses {
            let twice = match address {
                IpAddr::V4(a) => v4.replace(a).is_some(),
                IpAddr::V6(a) => v6.replace(a).is_some(),
            };
            if twice {
                return None;
            }
        }
        Stack::from_parts(v4, v6)
    }

    /// The address of one family.
    pub fn get(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.v4().map(IpAddr::V4),
            Family::V6 => self.v6().map(IpAddr::V6),
        }
    }

    /// The addresses, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.v4().map(IpAddr::V4).into_iter().chain(self.v6().map(IpAddr::V6))
    }

    /// Whether `address` is one of these.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.get(Family::of(address)) == Some(address)
    }

    /// The link-layer address derived from these: from IPv4 where there is IPv4.
    pub fn mac(&self) -> Mac {
        Mac::of_address(match *self {
            Stack::V4(a) | Stack::Both(a, _) => IpAddr::V4(a),
            Stack::V6(b) => IpAddr::V6(b),
        })
    }
}

impl Stack<Ipv4Net, Ipv6Net> {
    /// The prefix of one family.
    pub fn get(&self, family: Family) -> Option<IpNet> {
        match family {
            Family::V4 => self.v4().map(IpNet::V4),
            Family::V6 => self.v6().map(IpNet::V6),
        }
    }

    /// The prefixes, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> + use<> {
        self.v4().map(IpNet::V4).into_iter().chain(self.v6().map(IpNet::V6))
    }

    /// Whether one of the prefixes holds `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.iter().any(|net| net.contains(&address))
    }

    /// The `n`th address of each prefix, counted from its first; `None` when a prefix has no such address.
    pub fn nth(&self, n: u32) -> Option<Addresses> {
        match *self {
            Stack::V4(a) => Some(Stack::V4(nth_v4(a, n)?)),
            Stack::V6(b) => Some(Stack::V6(nth_v6(b, n)?)),
            Stack::Both(a, b) => Some(Stack::Both(nth_v4(a, n)?, nth_v6(b, n)?)),
        }
    }

    /// The prefixes of these addresses: each address with the length of the prefix of its family.
    pub fn around(&self, addresses: &Addresses) -> Vec<IpNet> {
        addresses
            .iter()
            .filter_map(|a| {
                let length = self.get(Family::of(a))?.prefix_len();
                IpNet::new(a, length).ok()
            })
            .collect()
    }
}

fn nth_v4(net: Ipv4Net, n: u32) -> Option<Ipv4Addr> {
    let address = u32::from(net.network()).checked_add(n).map(Ipv4Addr::from)?;
    net.contains(&address).then_some(address)
}

fn nth_v6(net: Ipv6Net, n: u32) -> Option<Ipv6Addr> {
    let address = u128::from(net.network()).checked_add(u128::from(n)).map(Ipv6Addr::from)?;
    net.contains(&address).then_some(address)
}

/// Whether two prefixes share an address.
pub fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}

/// A link-layer address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac([u8; 6]);

impl Mac {
    /// The address with these six bytes.
    pub fn new(bytes: [u8; 6]) -> Mac {
        Mac(bytes)
    }

    /// The address every port of the overlay gets: `0a:58:` and the four bytes of its IPv4 address, or of the
    /// SHA-256 of its IPv6 address as text.
    ///
    /// Derived rather than chosen, so that every node knows every other's without asking.
    pub fn of_address(address: IpAddr) -> Mac {
        let tail: [u8; 4] = match address {
            IpAddr::V4(a) => a.octets(),
            IpAddr::V6(a) => {
                let hash = Sha256::digest(a.to_string().as_bytes());
                [hash[0], hash[1], hash[2], hash[3]]
            }
        };
        Mac([0x0a, 0x58, tail[0], tail[1], tail[2], tail[3]])
    }

    /// The six bytes.
    pub fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six pairs of hexadecimal digits with colons between them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a link-layer address")]
pub struct NotAMac(pub String);

impl std::str::FromStr for Mac {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Mac, NotAMac> {
        let refuse = || NotAMac(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2).ok_or_else(refuse)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| refuse())?;
        }
        if parts.next().is_some() { Err(refuse()) } else { Ok(Mac(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_derived_from_the_address_as_ovn_kubernetes_derives_it() {
        let of = |text: &str| Mac::of_address(text.parse().unwrap()).to_string();
        assert_eq!(of("10.244.1.5"), "0a:58:0a:f4:01:05");
        assert_eq!(of("100.88.0.2"), "0a:58:64:58:00:02");
        // the first bytes of `printf fd00:10:244:1::5 | sha256sum`
        assert_eq!(of("fd00:10:244:1::5"), "0a:58:fc:09:1d:4e");
    }

    #[test]
    fn a_mac_survives_its_own_text() {
        let mac = Mac::new([0x0a, 0x58, 0, 255, 16, 1]);
        assert_eq!(mac.to_string().parse(), Ok(mac));
        for wrong in ["", "0a:58", "0a:58:00:ff:10:1", "0a:58:00:ff:10:01:02", "0a:58:00:ff:10:zz"] {
            assert_eq!(wrong.parse::<Mac>(), Err(NotAMac(wrong.to_owned())));
        }
    }

    #[test]
    fn the_nth_address_of_a_prefix_lies_inside_it_or_is_refused() {
        let nets: Subnets = Stack::Both("10.1.0.0/30".parse().unwrap(), "fd00::/64".parse().unwrap());
        assert_eq!(nets.nth(3).unwrap().v4(), Some("10.1.0.3".parse().unwrap()));
        assert_eq!(nets.nth(3).unwrap().v6(), Some("fd00::3".parse().unwrap()));
        assert_eq!(nets.nth(4), None);
    }

    #[test]
    fn two_addresses_of_one_family_are_not_a_pair() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(Addresses::from_addresses([address("10.0.0.1"), address("10.0.0.2")]), None);
        assert_eq!(Addresses::from_addresses([]), None);
        assert!(Addresses::from_addresses([address("fd00::1"), address("10.0.0.2")]).is_some());
    }
}
