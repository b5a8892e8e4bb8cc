//! Addresses and networks, alone and one of each family.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::{Wired, decimal};

/// One address with prefix length per family; never neither.
///
/// The host part is kept: `192.168.126.12/24` is an address and its network at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FamilyPair {
    ipv4: Option<Ipv4Net>,
    ipv6: Option<Ipv6Net>,
}

impl FamilyPair {
    /// `None` if there is neither.
    pub fn new(ipv4: Option<Ipv4Net>, ipv6: Option<Ipv6Net>) -> Option<FamilyPair> {
        (ipv4.is_some() || ipv6.is_some()).then_some(FamilyPair { ipv4, ipv6 })
    }

    /// The IPv4 one.
    pub fn ipv4(&self) -> Option<Ipv4Net> {
        self.ipv4
    }

    /// The IPv6 one.
    pub fn ipv6(&self) -> Option<Ipv6Net> {
        self.ipv6
    }

    /// Those that are there, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> {
        self.ipv4.map(IpNet::V4).into_iter().chain(self.ipv6.map(IpNet::V6))
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FamilyPairWire {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ipv4: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ipv6: String,
}

impl Wired for FamilyPair {
    type Wire = FamilyPairWire;

    fn from_wire(wire: FamilyPairWire) -> Result<Self, String> {
        let of = |family: &str, text: &str| match text {
            "" => Ok(None),
            text => network(text).map(Some).map_err(|problem| format!("{family}: {problem}")),
        };
        let ipv4 = match of("ipv4", &wire.ipv4)? {
            Some(IpNet::V6(net)) => return Err(format!("ipv4: {net} is IPv6")),
            Some(IpNet::V4(net)) => Some(net),
            None => None,
        };
        let ipv6 = match of("ipv6", &wire.ipv6)? {
            Some(IpNet::V4(net)) => return Err(format!("ipv6: {net} is IPv4")),
            Some(IpNet::V6(net)) => Some(net),
            None => None,
        };
        FamilyPair::new(ipv4, ipv6).ok_or_else(|| "holds neither an ipv4 nor an ipv6 value".into())
    }

    fn to_wire(&self) -> FamilyPairWire {
        FamilyPairWire {
            ipv4: self.ipv4.map(|net| net.to_string()).unwrap_or_default(),
            ipv6: self.ipv6.map(|net| net.to_string()).unwrap_or_default(),
        }
    }
}

/// Stricter than the parser of [`IpNet`], which takes `010` for an octet: another reader may take it for eight.
fn parse(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    IpNet::new(address.parse().ok()?, decimal(length).ok()?).ok()
}

/// An address with prefix length; the host part is kept.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    parse(text).ok_or_else(|| format!("{text:?} is not an address with prefix length"))
}

/// A network; a host part, which other writers leave in, is cut off.
pub(crate) fn truncated(text: &str) -> Result<IpNet, String> {
    parse(text).map(|net| net.trunc()).ok_or_else(|| format!("{text:?} is not a network in CIDR notation"))
}

/// A bare address.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address"))
}
