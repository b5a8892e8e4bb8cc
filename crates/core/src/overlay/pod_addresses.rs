//! Which addresses a new pod gets, and which addresses a pod may have.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::net::{Addresses, Family, Subnets};

/// The first addresses of a node's subnet have fixed meanings: the network itself, the router, the management port,
/// and the port towards other overlays.
pub const RESERVED: u8 = 4;

/// Every address of a subnet is taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no address is free in {subnet}: {in_use} are in use and {reserved} have fixed meanings")]
pub struct SubnetFull {
    /// The subnet.
    pub subnet: IpNet,
    /// How many of its addresses are taken.
    pub in_use: usize,
    /// How many are never given to pods.
    pub reserved: usize,
}

/// Addresses that a pod on a node cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotOurs {
    /// None, or two of one family.
    #[error("they are not one address per family")]
    NotOnePerFamily,
    /// Of another node, or of a family the node has no subnet of.
    #[error("{0} is in no subnet of its node")]
    Elsewhere(IpAddr),
    /// With a fixed meaning.
    #[error("{0} has a fixed meaning and is never a pod's")]
    Reserved(IpAddr),
}

/// Chooses one free address of every subnet.
///
/// The search begins behind the addresses chosen last and comes back to the beginning at the end: an address that was
/// given back rests for as long as possible, so that what others still believe of it does not hit its next owner.
///
/// # Guarantees
///
/// The addresses are of the subnets, not in `taken`, not among the first [`RESERVED`], and not the broadcast address.
/// If there is such an address in every subnet, one is found.
pub fn choose(
    subnets: &Subnets,
    taken: &BTreeSet<IpAddr>,
    after: Option<&Addresses>,
) -> Result<Addresses, SubnetFull> {
    let pick = |family| {
        subnets.get(family).map(|subnet| {
            let after = after.and_then(|last| last.get(family));
            free(subnet, taken, after).ok_or_else(|| SubnetFull {
                subnet,
                in_use: taken.iter().filter(|address| subnet.contains(*address)).count(),
                reserved: usize::from(RESERVED) + usize::from(subnet.addr().is_ipv4()),
            })
        })
    };
    let v4 = pick(Family::V4).transpose()?;
    let v6 = pick(Family::V6).transpose()?;
    let both = Addresses::from_addresses(v4.into_iter().chain(v6));
    Ok(both.expect("a node has a subnet, and one of a family"))
}

/// Returns the addresses a pod claims if a pod on the node with these subnets may have them. Any object may claim any
/// address, so that every reader of such a claim asks here.
///
/// # Guarantees
///
/// The addresses are of the node's subnets, one per family. None of them is the router's, the management port's or
/// otherwise fixed, so that no claim makes a policy admit the node itself.
pub fn keep(subnets: &Subnets, carried: impl IntoIterator<Item = IpAddr>) -> Result<Addresses, NotOurs> {
    let addresses = Addresses::from_addresses(carried).ok_or(NotOurs::NotOnePerFamily)?;
    for address in addresses.iter() {
        let subnet = subnets.get(Family::of(address)).filter(|subnet| subnet.contains(&address));
        let subnet = subnet.ok_or(NotOurs::Elsewhere(address))?;
        if !usable(subnet).is_some_and(|(first, last)| (first..=last).contains(&number(address))) {
            return Err(NotOurs::Reserved(address));
        }
    }
    Ok(addresses)
}

fn free(subnet: IpNet, taken: &BTreeSet<IpAddr>, after: Option<IpAddr>) -> Option<IpAddr> {
    let (first, last) = usable(subnet)?;
    let begin = after
        .filter(|address| subnet.contains(address))
        .and_then(|address| number(address).checked_add(1))
        .filter(|begin| (first..=last).contains(begin))
        .unwrap_or(first);
    // As many steps as addresses are taken, not as the subnet has.
    let mut candidates = (begin..=last).chain(first..begin);
    candidates.find_map(|n| Some(address(subnet, n)).filter(|address| !taken.contains(address)))
}

/// The first and the last address pods may have.
fn usable(subnet: IpNet) -> Option<(u128, u128)> {
    let (network, last) = match subnet {
        IpNet::V4(net) => (u128::from(u32::from(net.network())), u128::from(u32::from(net.broadcast())) - 1),
        IpNet::V6(net) => (u128::from(net.network()), u128::from(net.broadcast())),
    };
    let first = network.checked_add(RESERVED.into())?;
    (first <= last).then_some((first, last))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

fn address(subnet: IpNet, number: u128) -> IpAddr {
    match subnet {
        IpNet::V4(_) => {
            IpAddr::V4(u32::try_from(number).expect("an address of an IPv4 subnet has 32 bits").into())
        }
        IpNet::V6(_) => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Stack;
    use ipnet::{Ipv4Net, Ipv6Net};
    use proptest::prelude::*;

    fn v4(text: &str) -> Subnets {
        Stack::V4(text.parse().unwrap())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_pod_gets_the_first_address_behind_the_fixed_ones() {
        let both: Subnets =
            Stack::Both("10.244.1.0/24".parse().unwrap(), "fd00:10:244:1::/64".parse().unwrap());
        let chosen = choose(&both, &BTreeSet::new(), None).unwrap();
        assert_eq!(chosen.iter().collect::<Vec<_>>(), [ip("10.244.1.4"), ip("fd00:10:244:1::4")]);
    }

    #[test]
    fn an_address_given_back_rests_until_the_others_were_used() {
        let subnets = v4("10.0.0.0/29");
        let mut last = None;
        let mut chosen = Vec::new();
        for _ in 0..5 {
            let addresses = choose(&subnets, &BTreeSet::new(), last.as_ref()).unwrap();
            chosen.extend(addresses.iter());
            last = Some(addresses);
        }
        let expected = ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.4", "10.0.0.5"];
        assert_eq!(chosen, expected.map(ip));
    }

    #[test]
    fn a_full_subnet_is_named() {
        let taken = ["10.0.0.4", "10.0.0.5", "10.0.0.6"].map(ip).into();
        let error = choose(&v4("10.0.0.0/29"), &taken, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no address is free in 10.0.0.0/29: 3 are in use and 5 have fixed meanings"
        );
        assert!(choose(&v4("10.0.0.0/30"), &BTreeSet::new(), None).is_err(), "four addresses, all fixed");
        let top: Subnets = Stack::V6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126".parse().unwrap());
        assert!(choose(&top, &BTreeSet::new(), None).is_err(), "and none behind the last of all");
    }

    #[test]
    fn addresses_a_pod_carries_are_kept_only_on_their_node() {
        let subnets = v4("10.244.1.0/24");
        let kept = |addresses: &[&str]| keep(&subnets, addresses.iter().map(|text| ip(text)));
        assert_eq!(kept(&["10.244.1.9"]).unwrap().iter().collect::<Vec<_>>(), [ip("10.244.1.9")]);
        assert_eq!(kept(&["10.244.2.9"]), Err(NotOurs::Elsewhere(ip("10.244.2.9"))));
        assert_eq!(kept(&["fd00::9"]), Err(NotOurs::Elsewhere(ip("fd00::9"))));
        assert_eq!(kept(&["10.244.1.2"]), Err(NotOurs::Reserved(ip("10.244.1.2"))));
        assert_eq!(kept(&["10.244.1.255"]), Err(NotOurs::Reserved(ip("10.244.1.255"))));
        assert_eq!(kept(&[]), Err(NotOurs::NotOnePerFamily));
        assert_eq!(kept(&["10.244.1.9", "10.244.1.10"]), Err(NotOurs::NotOnePerFamily));
    }

    fn subnets() -> impl Strategy<Value = Subnets> {
        let v4 = (any::<u32>(), 22_u8..=30).prop_map(|(a, l)| Ipv4Net::new(a.into(), l).unwrap().trunc());
        let v6 = (any::<u128>(), 118_u8..=126).prop_map(|(a, l)| Ipv6Net::new(a.into(), l).unwrap().trunc());
        prop_oneof![
            v4.clone().prop_map(Stack::V4),
            v6.clone().prop_map(Stack::V6),
            (v4, v6).prop_map(|(a, b)| Stack::Both(a, b)),
        ]
    }

    proptest! {
        #[test]
        fn every_pod_gets_addresses_of_its_own_until_none_is_left(
            subnets in subnets(),
            others in proptest::collection::btree_set(any::<u32>(), 0..40),
        ) {
            // some addresses are somebody's already
            let mut taken: BTreeSet<IpAddr> =
                others.iter().filter_map(|n| subnets.nth(n % 1024)).flat_map(|a| a.iter()).collect();
            let room = |subnet: IpNet| {
                let (first, last) = usable(subnet)?;
                Some((first..=last).filter(|n| !taken.contains(&address(subnet, *n))).count())
            };
            let room = subnets.iter().map(|subnet| room(subnet).unwrap_or(0)).min().unwrap();
            let mut last = None;
            for _ in 0..room {
                let chosen = choose(&subnets, &taken, last.as_ref()).expect("there is room");
                prop_assert_eq!(chosen.families(), subnets.families());
                for address in chosen.iter() {
                    prop_assert!(subnets.contains(address));
                    prop_assert!(taken.insert(address), "{} twice", address);
                    for n in 0..u32::from(RESERVED) {
                        prop_assert!(!subnets.nth(n).is_some_and(|fixed| fixed.contains(address)));
                    }
                    if let (IpAddr::V4(a), Some(net)) = (address, subnets.v4()) {
                        prop_assert_ne!(a, net.broadcast());
                    }
                }
                prop_assert_eq!(keep(&subnets, chosen.iter()), Ok(chosen));
                last = Some(chosen);
            }
            let full = choose(&subnets, &taken, last.as_ref()).expect_err("no room is left");
            prop_assert!(subnets.iter().any(|subnet| subnet == full.subnet));
        }
    }
}
