//! Whether a host's own network goes with the cluster's ranges.

use ipnet::IpNet;

use super::networks::{Networks, Purpose};
use crate::net::Family;

/// What does not go together. Nothing that works is taken away for it: whoever has the address was there first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Misfit {
    /// A network of the host's lies in one of ours, or the other way round: who is meant by such an address?
    #[error("its network {host} overlaps the {purpose} range {range}: one of both hides the other")]
    Overlap {
        /// The host's.
        host: IpNet,
        /// Ours.
        range: IpNet,
        /// What ours is for.
        purpose: Purpose,
    },
    /// The cluster speaks a family the host has no address of.
    #[error("it has no {0} address: pods reach each other by {0}, and nothing outside")]
    Lacks(Family),
}

/// Compares the addresses of a host's links, with their prefixes, with the ranges. Pure.
pub fn misfits(networks: &Networks, host: &[IpNet]) -> Vec<Misfit> {
    let inner = [
        (Purpose::Service, networks.service()),
        (Purpose::Join, networks.join()),
        (Purpose::Masquerade, networks.masquerade()),
    ];
    let cluster = networks.cluster().iter().map(|range| (Purpose::Cluster, range.net()));
    let inner = inner.into_iter().flat_map(|(purpose, nets)| nets.iter().map(move |net| (purpose, net)));
    let ranges: Vec<(Purpose, IpNet)> = cluster.chain(inner).collect();
    let mut found: Vec<Misfit> = host
        .iter()
        .map(IpNet::trunc)
        .flat_map(|host| {
            let meets = move |range: IpNet| range.contains(&host) || host.contains(&range);
            let ranges = ranges.iter().filter(move |(_, range)| meets(*range));
            ranges.map(move |(purpose, range)| Misfit::Overlap { host, range: *range, purpose: *purpose })
        })
        .collect();
    // A host that says nothing of itself lacks nothing.
    let has = |family: Family| host.is_empty() || host.iter().any(|net| Family::of_net(*net) == family);
    found.extend(
        networks.families().iter().filter(|family| !has(**family)).map(|family| Misfit::Lacks(*family)),
    );
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::networks::{ClusterRange, Internal};

    fn said(host: &[&str]) -> Vec<String> {
        let net = |text: &str| -> IpNet { text.parse().unwrap() };
        let cluster = [("10.244.0.0/16", 24), ("fd00:10:244::/48", 64)];
        let cluster = cluster.map(|(range, prefix)| ClusterRange::new(net(range), prefix).unwrap());
        let service = vec![net("10.96.0.0/16"), net("fd00:10:96::/112")];
        let networks = Networks::new(cluster.to_vec(), service, Internal::default()).unwrap();
        let host: Vec<IpNet> = host.iter().map(|text| net(text)).collect();
        misfits(&networks, &host).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_host_whose_network_is_another_is_none_of_our_business() {
        assert_eq!(said(&["192.168.1.7/24", "2001:db8::7/64"]), [] as [&str; 0]);
        assert_eq!(said(&[]), [] as [&str; 0], "it says nothing of itself");
    }

    #[test]
    fn a_network_that_hides_ours_or_is_hidden_by_it_is_named_with_what_it_is_in_the_way_of() {
        let found = said(&["10.244.7.9/24", "10.0.0.1/8", "fd00:10:96::/120"]);
        let has = |part: &str| found.iter().any(|says| says.contains(part));
        assert!(has("its network 10.244.7.0/24 overlaps the cluster range 10.244.0.0/16"), "{found:?}");
        assert!(has("its network 10.0.0.0/8 overlaps the service range 10.96.0.0/16"), "{found:?}");
        assert!(has("fd00:10:96::/120 overlaps the service range"), "{found:?}");
    }

    #[test]
    fn a_family_the_host_does_not_speak_is_named() {
        assert_eq!(
            said(&["192.168.1.7/24"]),
            ["it has no IPv6 address: pods reach each other by IPv6, and nothing outside"]
        );
    }
}
