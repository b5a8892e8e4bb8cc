//! Whatever can be said is said the same after printing and reading.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netferry_api::annotation::{Annotation, FamilyPair, Mac};
use netferry_api::egressip::annotations::*;
use netferry_api::hostnet::annotations::WebhookMutatingTimestamp;
use netferry_api::migration::annotations::*;
use netferry_api::mtu::*;
use netferry_api::overlay::annotations::*;
use netferry_api::rollout::annotations::{DesiredDrain, Drain, LastAppliedDrain, Reason};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

fn survives<A: Annotation + PartialEq + Debug>(value: &A) {
    let text = value.to_string();
    let read = A::parse(&text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!(&read, value);
    assert_eq!(read.to_string(), text, "printing again gives other bytes");
    let annotations = BTreeMap::from([value.entry()]);
    assert_eq!(A::read(&annotations).expect("legal").as_ref(), Some(value));
}

fn v4() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    // Runs of zeros, and the forms that print with dots, are where printing and reading could part.
    prop_oneof![
        any::<u128>(),
        any::<u32>().prop_map(u128::from),
        any::<u32>().prop_map(|low| 0xffff_0000_0000 | u128::from(low)),
        any::<u64>().prop_map(|high| u128::from(high) << 64),
    ]
    .prop_map(Ipv6Addr::from)
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![v4().prop_map(IpAddr::V4), v6().prop_map(IpAddr::V6)]
}

fn v4_with_length() -> impl Strategy<Value = Ipv4Net> {
    (v4(), 0..=32_u8).prop_map(|(address, length)| Ipv4Net::new(address, length).expect("in range"))
}

fn v6_with_length() -> impl Strategy<Value = Ipv6Net> {
    (v6(), 0..=128_u8).prop_map(|(address, length)| Ipv6Net::new(address, length).expect("in range"))
}

fn with_length() -> impl Strategy<Value = IpNet> {
    prop_oneof![v4_with_length().prop_map(IpNet::V4), v6_with_length().prop_map(IpNet::V6)]
}

fn pair() -> impl Strategy<Value = FamilyPair> {
    (option::of(v4_with_length()), option::of(v6_with_length()))
        .prop_filter_map("one of the two at least", |(v4, v6)| FamilyPair::new(v4, v6))
}

fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

/// Names as people and programs choose them, with what JSON has to escape.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z][a-z0-9.-]{0,20}", "[ -~äß\"\\\\\n]{1,8}"]
}

fn bridge() -> impl Strategy<Value = GatewayBridge> {
    (
        prop_oneof![Just(GatewayMode::Shared), Just(GatewayMode::Local)],
        option::of(name()),
        name(),
        mac(),
        vec(with_length(), 0..3),
        vec(address(), 0..3),
        any::<bool>(),
        option::of(0..4096_u16),
    )
        .prop_map(
            |(
                mode,
                bridge_id,
                interface_id,
                mac_address,
                ip_addresses,
                next_hops,
                node_port_enable,
                vlan_id,
            )| {
                GatewayBridge {
                    mode,
                    bridge_id,
                    interface_id,
                    mac_address,
                    ip_addresses,
                    next_hops,
                    node_port_enable,
                    vlan_id,
                }
            },
        )
}

fn route() -> impl Strategy<Value = PodRoute> {
    prop_oneof![
        (v4_with_length(), option::of(v4()))
            .prop_map(|(dest, hop)| PodRoute { dest: IpNet::V4(dest), next_hop: hop.map(IpAddr::V4) }),
        (v6_with_length(), option::of(v6()))
            .prop_map(|(dest, hop)| PodRoute { dest: IpNet::V6(dest), next_hop: hop.map(IpAddr::V6) }),
    ]
}

fn pod() -> impl Strategy<Value = PodNetwork> {
    (mac(), vec(with_length(), 0..3), vec(address(), 0..3), vec(route(), 0..4), option::of(name())).prop_map(
        |(mac, addresses, gateways, routes, role)| {
            let pod = PodNetwork::new(mac).with_addresses(addresses, gateways).with_routes(routes);
            match role {
                Some(role) => pod.with_role(role),
                None => pod,
            }
        },
    )
}

fn observed() -> impl Strategy<Value = MtuObserved> {
    let role = prop_oneof![
        Just(InterfaceRole::Uplink),
        Just(InterfaceRole::Parent),
        Just(InterfaceRole::Management)
    ];
    let nic = option::of((68..2000_u32, 2000..65536_u32).prop_map(|(min, max)| NicRange { min, max }));
    let interfaces = btree_map("[a-z][a-z0-9.@_-]{0,14}", (role, 1..65537_u32, nic), 1..5);
    let routes = vec((with_length(), any::<prop::sample::Index>(), option::of(1..65537_u32)), 0..5);
    let cni = option::of((1..65537_u32, option::of(1..65537_u32)));
    (interfaces, routes, cni).prop_map(|(interfaces, routes, cni)| {
        let names: Vec<_> = interfaces.keys().cloned().collect();
        let interfaces = interfaces
            .into_iter()
            .map(|(name, (role, mtu, nic))| InterfaceMtu { name, role, mtu, nic })
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        let routes = routes
            .into_iter()
            .map(|(to, index, mtu)| RouteMtu { to: to.trunc(), interface: index.get(&names).clone(), mtu })
            .filter(|route| seen.insert((route.to, route.interface.clone())))
            .collect();
        let cni = cni.map(|(mtu, routable_mtu)| CniMtu { mtu, routable_mtu });
        MtuObserved::new(interfaces, routes, cni).expect("consistent by construction")
    })
}

proptest! {
    #[test]
    fn node_subnets_survive(networks in btree_map(name(), vec(with_length(), 1..3), 0..3)) {
        survives(&NodeSubnets::new(networks).expect("no network is empty"));
    }

    #[test]
    fn numbers_survive(id in any::<u32>(), ids in btree_map(name(), any::<u32>(), 0..4), time in any::<u64>()) {
        survives(&NodeId::from(id));
        survives(&NetworkIds(ids));
        survives(&WebhookMutatingTimestamp::from(time));
    }

    #[test]
    fn pairs_survive(pair in pair(), by_network in btree_map(name(), pair(), 0..3)) {
        survives(&PrimaryIfAddr(pair));
        survives(&TransitSwitchPortIfAddr(pair));
        survives(&MasqueradeSubnet(pair));
        survives(&GatewayRouterLrpIfAddr(pair));
        survives(&GatewayRouterLrpIfAddrs(by_network));
    }

    #[test]
    fn host_addresses_survive(cidrs in vec(with_length(), 0..6), bare in vec(address(), 0..6)) {
        survives(&HostCidrs::new(cidrs));
        survives(&HostAddresses(bare.clone()));
        survives(&SecondaryHostEgressIps(bare.clone()));
        survives(&BridgeEgressIps(bare));
    }

    #[test]
    fn the_order_host_addresses_were_found_in_does_not_show(cidrs in vec(with_length(), 0..6), seed in any::<u64>()) {
        let mut shuffled = cidrs.clone();
        let n = shuffled.len().max(1);
        shuffled.rotate_left(seed as usize % n);
        prop_assert_eq!(HostCidrs::new(cidrs).to_string(), HostCidrs::new(shuffled).to_string());
    }

    #[test]
    fn gateways_survive(bridge in bridge(), network in name()) {
        survives(&L3GatewayConfig(BTreeMap::from([(network, Gateway::Bridge(bridge)), (DEFAULT_NETWORK.into(), Gateway::Disabled)])));
    }

    #[test]
    fn hardware_addresses_survive(macs in btree_map(name(), mac(), 0..3), mac in mac()) {
        survives(&ManagementPortMacs(macs));
        survives(&HybridOverlayDrMac::from(mac));
    }

    #[test]
    fn pods_survive(pods in btree_map(name(), pod(), 0..3)) {
        survives(&PodNetworks(pods));
    }

    #[test]
    fn hybrid_overlay_and_migration_values_survive(net in with_length(), address in address(), cidrs in vec(with_length(), 0..3), text in ".*") {
        survives(&HybridOverlayNodeSubnet::from(net));
        survives(&HybridOverlayDrIp::from(address));
        survives(&SdnToOvnMigration { egress_cidrs: cidrs.iter().map(IpNet::trunc).collect() });
        survives(&NetworkTypeMigration::from(text));
    }

    #[test]
    fn cloud_capacities_survive(networks in pair(), interface in name(), ipv4 in option::of(any::<u32>()), ipv6 in option::of(any::<u32>()), ip in option::of(any::<u32>())) {
        survives(&EgressIpConfig(vec![CloudInterface { interface, networks, capacity: Capacity { ipv4, ipv6, ip } }]));
    }

    #[test]
    fn marks_survive(mark in EgressIpMark::MIN..=EgressIpMark::MAX) {
        survives(&EgressIpMark::new(mark).expect("in range"));
    }

    #[test]
    fn drain_requests_survive(config in "[a-z0-9.-]{1,60}", drain in any::<bool>()) {
        let request = if drain { Drain::Drain(config) } else { Drain::Uncordon(config) };
        survives(&DesiredDrain(request.clone()));
        survives(&LastAppliedDrain(request));
    }

    #[test]
    fn reasons_survive_and_stay_within_the_limit(text in ".{0,3000}") {
        let reason = Reason::new(&text);
        prop_assert!(reason.get().len() <= Reason::LIMIT && text.starts_with(reason.get()));
        survives(&reason);
    }

    #[test]
    fn log_levels_survive(deny in option::of(0..5_usize), allow in option::of(0..5_usize)) {
        let level = |index: Option<usize>| index.map(|i| AclLogLevel::ALL[i]);
        survives(&AclLogging { deny: level(deny), allow: level(allow) });
    }

    #[test]
    fn observations_survive(observed in observed()) {
        survives(&observed);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "[{}\\[\\]\":,a-z0-9./ -]{0,80}") {
        let _ = NodeSubnets::parse(&text);
        let _ = PrimaryIfAddr::parse(&text);
        let _ = L3GatewayConfig::parse(&text);
        let _ = PodNetworks::parse(&text);
        let _ = HostCidrs::parse(&text);
        let _ = EgressIpConfig::parse(&text);
        let _ = MtuObserved::parse(&text);
        let _ = DesiredDrain::parse(&text);
        let _ = HybridOverlayDrMac::parse(&text);
    }
}
