use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn networks(cluster: &[(&str, u8)], service: &[&str]) -> Result<Networks, Vec<Refusal>> {
    let ranges = cluster.iter().map(|(n, p)| ClusterRange::new(net(n), *p).unwrap()).collect();
    Networks::new(ranges, service.iter().map(|s| net(s)).collect(), Internal::default())
}

#[test]
fn a_host_prefix_outside_its_range_is_refused() {
    for (range, host_prefix, fits) in [
        ("10.128.0.0/14", 23, true),
        ("10.128.0.0/14", 14, true),
        ("10.128.0.0/14", 13, false),
        ("10.128.0.0/14", 30, true),
        ("10.128.0.0/14", 31, false),
        ("fd01::/48", 64, true),
        ("fd01::/48", 126, true),
        ("fd01::/48", 127, false),
        ("fd01::/48", 47, false),
    ] {
        assert_eq!(ClusterRange::new(net(range), host_prefix).is_ok(), fits, "{range} /{host_prefix}");
    }
}

#[test]
fn a_range_written_with_host_bits_is_the_range_without_them() {
    assert_eq!(ClusterRange::new(net("10.128.3.4/14"), 23).unwrap().net(), net("10.128.0.0/14"));
}

#[test]
fn ranges_that_go_together_are_accepted() {
    assert!(networks(&[("10.128.0.0/14", 23)], &["172.30.0.0/16"]).is_ok());
    assert!(networks(&[("fd01::/48", 64)], &["fd02::/112"]).is_ok());
    let dual = networks(
        &[("10.128.0.0/14", 23), ("10.132.0.0/14", 24), ("fd01::/48", 64)],
        &["fd02::/112", "172.30.0.0/16"],
    )
    .unwrap();
    assert_eq!(dual.families(), [Family::V4, Family::V6]);
    assert_eq!(dual.hairpin(), Stack::Both("169.254.169.5".parse().unwrap(), "fd69::5".parse().unwrap()));
}

#[test]
fn families_that_differ_are_refused() {
    for (cluster, service) in [
        (vec![("10.128.0.0/14", 23)], vec!["fd02::/112"]),
        (vec![("10.128.0.0/14", 23), ("fd01::/48", 64)], vec!["172.30.0.0/16"]),
        (vec![("10.128.0.0/14", 23)], vec!["172.30.0.0/16", "fd02::/112"]),
    ] {
        let refusals = networks(&cluster, &service).unwrap_err();
        assert!(matches!(refusals[..], [Refusal::Families { .. }]), "{refusals:?}");
    }
}

#[test]
fn service_networks_are_one_or_one_of_each_family() {
    for service in [
        &["172.30.0.0/16", "172.31.0.0/16"][..],
        &["fd02::/112", "fd03::/112"],
        &["172.30.0.0/16", "fd02::/112", "172.31.0.0/16"],
        &["172.30.0.0/16", "fd02::/112", "fd03::/112"],
    ] {
        let nets: Vec<IpNet> = service.iter().map(|s| net(s)).collect();
        let cluster: Vec<_> = [("10.128.0.0/14", 23), ("fd01::/48", 64)]
            .into_iter()
            .filter(|(range, _)| nets.iter().any(|n| Family::of_net(*n) == Family::of_net(net(range))))
            .collect();
        let refusals = networks(&cluster, service).unwrap_err();
        assert_eq!(refusals, [Refusal::ServiceNetworks(nets)], "{service:?}");
    }
}

#[test]
fn no_cluster_network_is_refused() {
    assert!(networks(&[], &["172.30.0.0/16"]).unwrap_err().contains(&Refusal::NoClusterNetwork));
}

#[test]
fn every_overlap_is_named() {
    let refusals =
        networks(&[("10.128.0.0/14", 23), ("10.129.0.0/16", 24), ("100.64.0.0/10", 24)], &["10.130.0.0/16"])
            .unwrap_err();
    let named: Vec<_> = refusals
        .iter()
        .filter_map(|r| match r {
            Refusal::Overlap { a, b } => Some((a.0, b.0)),
            Refusal::HostPrefix { .. }
            | Refusal::NoClusterNetwork
            | Refusal::ServiceNetworks(_)
            | Refusal::Families { .. }
            | Refusal::TooSmall { .. } => None,
        })
        .collect();
    use Purpose::{Cluster, Join, Service, Transit};
    assert_eq!(named, [(Cluster, Cluster), (Cluster, Service), (Cluster, Join), (Cluster, Transit)]);
}

#[test]
fn an_internal_network_without_room_is_refused() {
    let internal =
        Internal { join: (net4("100.64.0.0/31"), Internal::default().join.1), ..Internal::default() };
    let range = ClusterRange::new(net("10.128.0.0/14"), 23).unwrap();
    let refusals = Networks::new(vec![range], vec![net("172.30.0.0/16")], internal).unwrap_err();
    assert_eq!(refusals, [Refusal::TooSmall { purpose: Purpose::Join, net: net("100.64.0.0/31"), most: 30 }]);
}

fn net4(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

#[test]
fn a_range_gives_what_it_is_divided_into_and_nothing_else() {
    let range = ClusterRange::new("10.244.0.0/16".parse().unwrap(), 24).unwrap();
    for (subnet, gives) in [
        ("10.244.0.0/24", true),
        ("10.244.255.0/24", true),
        ("10.244.0.0/23", false),
        ("10.244.0.0/25", false),
        ("10.244.1.7/24", false),
        ("10.245.0.0/24", false),
        ("0.0.0.0/1", false),
        ("fd01::/64", false),
    ] {
        assert_eq!(range.gives(subnet.parse().unwrap()), gives, "{subnet}");
    }
}
