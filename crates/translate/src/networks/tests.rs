use super::*;
use netferry_api::overlay::{DefaultNetwork, GatewayConfig, Ipv4Config, Ipv4GatewayConfig, Ipv6Config};

fn entry(cidr: &str, host_prefix: u32) -> ClusterNetworkEntry {
    ClusterNetworkEntry { cidr: Some(cidr.into()), host_prefix: Some(host_prefix) }
}

fn spec(cluster: &[(&str, u32)], service: &[&str]) -> OperatorNetworkSpec {
    OperatorNetworkSpec {
        cluster_network: cluster.iter().map(|(cidr, prefix)| entry(cidr, *prefix)).collect(),
        service_network: service.iter().map(ToString::to_string).collect(),
        ..OperatorNetworkSpec::default()
    }
}

fn with(config: OvnKubernetesConfig) -> OperatorNetworkSpec {
    let network = DefaultNetwork { ovn_kubernetes_config: Some(config), ..DefaultNetwork::default() };
    OperatorNetworkSpec {
        default_network: Some(network),
        ..spec(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"])
    }
}

fn refused(spec: &OperatorNetworkSpec) -> Vec<String> {
    wanted(spec).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn ranges_of_both_families_are_read_as_they_are_written() {
    let spec = spec(
        &[("10.244.0.0/16", 24), ("10.128.0.0/14", 23), ("fd00:10:244::/48", 64)],
        &["10.96.0.0/16", "fd00:10:96::/112"],
    );
    let networks = wanted(&spec).unwrap();
    assert_eq!(networks.families(), [Family::V4, Family::V6]);
    assert_eq!(printed(&networks), (spec.cluster_network.clone(), spec.service_network.clone()));
    let status = ConfigNetworkStatus {
        cluster_network: spec.cluster_network.clone(),
        service_network: spec.service_network.clone(),
        ..ConfigNetworkStatus::default()
    };
    assert_eq!(deployed(&status, &spec), Ok(networks));
}

#[test]
fn a_range_without_host_prefix_gets_the_usual_one() {
    let mut spec = spec(&[("10.128.0.0/14", 0), ("fd01::/48", 0)], &["172.30.0.0/16", "fd02::/112"]);
    spec.cluster_network.iter_mut().for_each(|entry| entry.host_prefix = None);
    let prefixes: Vec<u8> = wanted(&spec).unwrap().cluster().iter().map(ClusterRange::host_prefix).collect();
    assert_eq!(prefixes, [23, 64]);
}

#[test]
fn what_cannot_be_is_refused_with_its_field_and_its_value() {
    let one = &["10.96.0.0/16"][..];
    for (wrong, says) in [
        (spec(&[], one), "spec.clusterNetwork is empty: pods need a range"),
        (spec(&[("10.244.0.0/16", 24)], &[]), "spec.serviceNetwork is empty: Services need a range"),
        (
            spec(&[("10.244.0.0", 24)], one),
            "spec.clusterNetwork[0].cidr \"10.244.0.0\": is not a network in CIDR notation",
        ),
        (
            spec(&[("10.244.0.0/16", 24), ("010.1.0.0/16", 24)], one),
            "spec.clusterNetwork[1].cidr \"010.1.0.0/16\": is not a network in CIDR notation",
        ),
        (
            spec(&[("10.244.0.0/16", 24)], &["10.96.0.0/016"]),
            "spec.serviceNetwork[0] \"10.96.0.0/016\": is not a network in CIDR notation",
        ),
        (
            spec(&[("10.244.0.0/16", 15)], one),
            "spec.clusterNetwork[0].hostPrefix 15: must be between 16 and 30 for the range 10.244.0.0/16",
        ),
        (
            spec(&[("10.244.0.0/16", 31)], one),
            "spec.clusterNetwork[0].hostPrefix 31: must be between 16 and 30 for the range 10.244.0.0/16",
        ),
        (
            spec(&[("10.244.0.0/16", 4_000_000)], one),
            "spec.clusterNetwork[0].hostPrefix 4000000: must be between 16 and 30 for the range 10.244.0.0/16",
        ),
        (
            spec(&[("10.244.0.0/16", 24)], &["10.96.0.0/16", "10.97.0.0/16"]),
            "spec.serviceNetwork[0] 10.96.0.0/16, spec.serviceNetwork[1] 10.97.0.0/16: \
             must be one network, or one IPv4 and one IPv6",
        ),
        (
            spec(&[("10.244.0.0/16", 24)], &["fd00::/112"]),
            "spec.clusterNetwork[0].cidr 10.244.0.0/16, spec.serviceNetwork[0] fd00::/112: \
             pods would speak IPv4 and Services IPv6; both must speak the same",
        ),
        (
            spec(&[("10.244.0.0/16", 24), ("10.244.128.0/17", 24)], one),
            "spec.clusterNetwork[0].cidr 10.244.0.0/16, spec.clusterNetwork[1].cidr 10.244.128.0/17: overlap",
        ),
        (
            spec(&[("100.64.0.0/10", 24)], one),
            "spec.clusterNetwork[0].cidr 100.64.0.0/10, the default join network 100.64.0.0/16: overlap",
        ),
    ] {
        assert!(refused(&wrong).contains(&says.to_owned()), "{says}: {:?}", refused(&wrong));
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let wrong = spec(&[("10.244.0.0/16", 31), ("x", 24)], &["y"]);
    assert_eq!(refused(&wrong).len(), 3, "{:?}", refused(&wrong));
}

#[test]
fn the_networks_used_inside_can_be_moved_by_the_newer_and_the_older_names() {
    let ipv4 = Ipv4Config {
        internal_join_subnet: Some("100.70.0.0/16".into()),
        internal_transit_switch_subnet: Some("100.80.0.0/16".into()),
    };
    let gateway = GatewayConfig {
        ipv4: Some(Ipv4GatewayConfig { internal_masquerade_subnet: Some("169.254.0.0/17".into()) }),
        ..GatewayConfig::default()
    };
    let config = OvnKubernetesConfig {
        ipv4: Some(ipv4),
        gateway_config: Some(gateway),
        v4_internal_subnet: Some("100.99.0.0/16".into()),
        ..OvnKubernetesConfig::default()
    };
    let networks = wanted(&with(config)).unwrap();
    let shown = [networks.join(), networks.transit(), networks.masquerade()];
    let shown: Vec<String> = shown.iter().flat_map(|nets| nets.iter()).map(|net| net.to_string()).collect();
    assert_eq!(shown, ["100.70.0.0/16", "100.80.0.0/16", "169.254.0.0/17"]);
    let older =
        OvnKubernetesConfig { v4_internal_subnet: Some("100.99.0.0/16".into()), ..Default::default() };
    assert_eq!(wanted(&with(older)).unwrap().join().get(Family::V4), "100.99.0.0/16".parse().ok());
}

#[test]
fn a_network_used_inside_that_cannot_be_is_refused_by_its_field() {
    let join = |text: &str| OvnKubernetesConfig {
        ipv4: Some(Ipv4Config { internal_join_subnet: Some(text.into()), ..Ipv4Config::default() }),
        ..OvnKubernetesConfig::default()
    };
    let field = "spec.defaultNetwork.ovnKubernetesConfig.ipv4.internalJoinSubnet";
    for (text, says) in [
        ("100.70.0.0/31", format!("{field} 100.70.0.0/31: is too small: at most /30 is allowed")),
        ("fd98::/64", format!("{field} fd98::/64: is not IPv4")),
        ("100.70", format!("{field} \"100.70\": is not a network in CIDR notation")),
        ("10.96.4.0/24", format!("spec.serviceNetwork[0] 10.96.0.0/16, {field} 10.96.4.0/24: overlap")),
    ] {
        assert_eq!(refused(&with(join(text))), [says]);
    }
    let v6 = Ipv6Config { internal_join_subnet: Some("10.0.0.0/8".into()), ..Ipv6Config::default() };
    let v6 = OvnKubernetesConfig { ipv6: Some(v6), ..OvnKubernetesConfig::default() };
    assert!(refused(&with(v6))[0].ends_with("ipv6.internalJoinSubnet 10.0.0.0/8: is not IPv6"));
}

#[test]
fn the_mtu_of_pods_is_what_is_asked_or_what_fits_a_tunnel_over_ethernet() {
    let asking = |mtu| with(OvnKubernetesConfig { mtu, ..OvnKubernetesConfig::default() });
    assert_eq!(wanted_mtu(&asking(Some(8900)), Mode::MultiNode).unwrap().bytes(), 8900);
    assert_eq!(wanted_mtu(&asking(None), Mode::MultiNode).unwrap().bytes(), 1400);
    assert_eq!(wanted_mtu(&OperatorNetworkSpec::default(), Mode::MultiNode).unwrap().bytes(), 1400);
    let says = wanted_mtu(&asking(Some(70000)), Mode::MultiNode).unwrap_err().to_string();
    assert_eq!(
        says,
        "spec.defaultNetwork.ovnKubernetesConfig.mtu 70000: MTU 70000 is not between 576 and 65536"
    );
    let status = ConfigNetworkStatus { cluster_network_mtu: Some(1), ..ConfigNetworkStatus::default() };
    assert!(deployed_mtu(&status, Mode::MultiNode).is_err());
}

#[test]
fn without_tunnels_pods_get_what_ethernet_carries_unless_somebody_says() {
    assert_eq!(wanted_mtu(&OperatorNetworkSpec::default(), Mode::SingleNode).unwrap().bytes(), 1500);
    assert_eq!(deployed_mtu(&ConfigNetworkStatus::default(), Mode::SingleNode).unwrap().bytes(), 1500);
}

#[test]
fn for_how_many_nodes_a_network_is_is_read_as_it_is_printed_and_nothing_else() {
    for known in [Mode::MultiNode, Mode::SingleNode] {
        assert_eq!(mode(Some(&BTreeMap::from([printed_mode(known)]))).unwrap(), Some(known));
    }
    assert_eq!(mode(None).unwrap(), None);
    assert_eq!(mode(Some(&BTreeMap::new())).unwrap(), None);
    for wrong in ["", "Single-Node", "single-node ", "1"] {
        let annotations = BTreeMap::from([("netferry.dev/topology".to_owned(), wrong.to_owned())]);
        let says = mode(Some(&annotations)).unwrap_err().to_string();
        assert!(says.contains("must be multi-node or single-node"), "{says}");
    }
}
