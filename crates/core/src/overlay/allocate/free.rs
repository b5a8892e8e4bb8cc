//! Which parts of the ranges are taken.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::name::NodeName;
use crate::net::Family;
use crate::overlay::networks::ClusterRange;

/// Taken intervals of addresses, per family, and where to look next in each range.
pub(super) struct FreeSpace {
    taken: BTreeMap<(Family, u128), (u128, NodeName)>,
    ranges: Vec<(ClusterRange, u128)>,
}

impl FreeSpace {
    pub(super) fn new(ranges: &[ClusterRange]) -> FreeSpace {
        let ranges = ranges.iter().map(|range| (*range, bounds(range.net()).0)).collect();
        FreeSpace { taken: BTreeMap::new(), ranges }
    }

    /// Who has an address of `net`.
    pub(super) fn owner(&self, net: IpNet) -> Option<&NodeName> {
        let (first, last) = bounds(net);
        self.taken_in(Family::of_net(net), first, last).map(|(_, owner)| owner)
    }

    pub(super) fn take(&mut self, net: IpNet, owner: &NodeName) {
        let (first, last) = bounds(net);
        self.taken.insert((Family::of_net(net), first), (last, owner.clone()));
    }

    /// The first free subnet of a family, range by range in their order. Does not take it.
    ///
    /// The place found is remembered: nothing before it becomes free while one allocation is made, so a thousand
    /// nodes are not a thousand walks from the beginning.
    pub(super) fn first_free(&mut self, family: Family) -> Option<IpNet> {
        for index in 0..self.ranges.len() {
            let (range, mut at) = self.ranges[index];
            if Family::of_net(range.net()) != family {
                continue;
            }
            let last_of_range = bounds(range.net()).1;
            let size = 1_u128 << (family.bits() - range.host_prefix());
            let mut found = None;
            while at <= last_of_range {
                match self.taken_in(family, at, at + (size - 1)) {
                    None => {
                        found = Some(at);
                        break;
                    }
                    // to the next boundary behind what is taken; beyond the last address there is none
                    Some((end, _)) => match (end | (size - 1)).checked_add(1) {
                        Some(next) => at = next,
                        None => break,
                    },
                }
            }
            self.ranges[index].1 = found.unwrap_or(last_of_range.saturating_add(1));
            if let Some(first) = found {
                return Some(net_at(family, first, range.host_prefix()));
            }
        }
        None
    }

    fn taken_in(&self, family: Family, first: u128, last: u128) -> Option<(u128, &NodeName)> {
        let (_, (end, owner)) = self.taken.range((family, 0)..=(family, last)).next_back()?;
        (*end >= first).then_some((*end, owner))
    }
}

fn bounds(net: IpNet) -> (u128, u128) {
    match net {
        IpNet::V4(net) => (u128::from(u32::from(net.network())), u128::from(u32::from(net.broadcast()))),
        IpNet::V6(net) => (u128::from(net.network()), u128::from(net.broadcast())),
    }
}

fn net_at(family: Family, first: u128, length: u8) -> IpNet {
    let address = match family {
        Family::V4 => {
            let bits = u32::try_from(first).expect("an IPv4 range ends within 32 bits");
            std::net::IpAddr::V4(bits.into())
        }
        Family::V6 => std::net::IpAddr::V6(first.into()),
    };
    IpNet::new(address, length).expect("a host prefix fits its family")
}
