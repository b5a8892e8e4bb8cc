use super::*;
use crate::name::{NodeName, ObjectName};
use crate::net::Stack;
use crate::overlay::check;
use crate::overlay::cluster::{Endpoint, SlicePort};
use crate::overlay::zone::testing::{Lab, Speaks, lab, lab_of};
use proptest::prelude::*;

fn port(number: i64) -> Port {
    Port::new(number).unwrap()
}

fn service(lab: &Lab) -> Service {
    Service {
        name: ObjectName::new("ns", "web"),
        cluster_ips: lab.networks.service().nth(10).unwrap(),
        external_ips: BTreeSet::new(),
        load_balancer_ips: BTreeSet::new(),
        ports: vec![ServicePort {
            name: String::new(),
            protocol: Protocol::Tcp,
            port: port(80),
            node_port: None,
        }],
        affinity: None,
        internal_local: false,
        external_local: false,
        source_ranges: BTreeSet::new(),
    }
}

fn node_port(lab: &Lab) -> Service {
    let mut service = service(lab);
    service.ports[0].node_port = Some(port(30080));
    service
}

fn endpoint(address: &str, node: &str) -> Endpoint {
    Endpoint {
        address: address.parse().unwrap(),
        node: Some(node.parse().unwrap()),
        ready: true,
        serving: true,
        terminating: false,
    }
}

fn slice(endpoints: Vec<Endpoint>) -> Vec<EndpointSlice> {
    let ports = vec![SlicePort { name: String::new(), protocol: Protocol::Tcp, port: port(8080) }];
    vec![EndpointSlice { ports, endpoints }]
}

fn two() -> Vec<EndpointSlice> {
    slice(vec![endpoint("10.244.0.3", "n0"), endpoint("10.244.1.3", "n1")])
}

/// `vip -> backend backend` of every load balancer, in order.
fn shown(rows: &Rows) -> Vec<String> {
    let list = |to: &BTreeSet<SocketAddr>| to.iter().map(|b| format!(" {b}")).collect::<String>();
    let of = |lb: &LoadBalancer| {
        let vips = lb.vips.iter().map(|(vip, to)| format!("{} {vip} ->{}", lb.name, list(to)));
        vips.collect::<Vec<_>>()
    };
    rows.load_balancers.values().flat_map(of).collect()
}

#[test]
fn a_plain_service_is_one_load_balancer_with_every_ready_backend() {
    let lab = lab(2, 1);
    let rows = lab.zone("n0").rows_of_service(&service(&lab), &two());
    assert_eq!(shown(&rows), ["Service_ns/web_TCP_cluster 10.96.0.10:80 -> 10.244.0.3:8080 10.244.1.3:8080"]);
    let lb = &rows.load_balancers["Service_ns/web_TCP_cluster"];
    assert_eq!(lb.options["reject"], "true");
    assert_eq!(lb.options["hairpin_snat_ip"], "169.254.169.5");
    assert_eq!(lb.external_ids["k8s.ovn.org/owner"], "ns/web");
    assert!(!lb.options.contains_key("ct_flush"));
}

#[test]
fn a_service_without_backends_refuses() {
    let lab = lab(1, 0);
    let rows = lab.zone("n0").rows_of_service(&service(&lab), &[]);
    assert_eq!(shown(&rows), ["Service_ns/web_TCP_cluster 10.96.0.10:80 ->"]);
}

#[test]
fn an_ending_backend_serves_only_when_no_other_is_ready() {
    let lab = lab(2, 1);
    let mut slices = two();
    let ending = &mut slices[0].endpoints[0];
    (ending.ready, ending.terminating) = (false, true);
    let all = |slices: &[EndpointSlice]| {
        shown(&lab.zone("n0").rows_of_service(&service(&lab), slices))[0]
            .split("->")
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(all(&slices), " 10.244.1.3:8080");
    slices[0].endpoints[1].ready = false;
    slices[0].endpoints[1].serving = false;
    assert_eq!(all(&slices), " 10.244.0.3:8080");
    slices[0].endpoints[0].serving = false;
    assert_eq!(all(&slices), "");
}

#[test]
fn a_node_port_is_served_on_the_nodes_own_addresses_inside_the_overlay() {
    let lab = lab(2, 1);
    let rows = lab.zone("n1").rows_of_service(&node_port(&lab), &two());
    assert_eq!(
        shown(&rows)[1],
        "Service_ns/web_TCP_node_switch_n1 172.18.0.2:30080 -> 10.244.0.3:8080 10.244.1.3:8080"
    );
    assert_eq!(
        rows.load_balancers["Service_ns/web_TCP_node_switch_n1"].switches,
        BTreeSet::from(["n1".into()])
    );
}

#[test]
fn a_service_local_inside_uses_backends_of_the_zones_node_only() {
    let lab = lab(2, 1);
    let service = Service { internal_local: true, ..service(&lab) };
    let rows = lab.zone("n1").rows_of_service(&service, &two());
    assert_eq!(shown(&rows), ["Service_ns/web_TCP_node_switch_n1 10.96.0.10:80 -> 10.244.1.3:8080"]);
}

#[test]
fn outside_a_service_local_outside_reaches_this_node_only_and_inside_all() {
    let lab = lab(2, 1);
    let service = Service { external_local: true, ..node_port(&lab) };
    let zone = lab.zone("n0");
    assert_eq!(
        shown(&zone.rows_of_service(&service, &two()))[1..],
        [
            "Service_ns/web_TCP_node_switch_n0 169.254.169.3:30080 -> 10.244.0.3:8080",
            "Service_ns/web_TCP_node_switch_n0 172.18.0.1:30080 -> 10.244.0.3:8080 10.244.1.3:8080",
        ]
    );
    let forward = zone.forward_of_service(&service, &two());
    let to = |map: &BTreeMap<Entrance, SocketAddr>| map.values().map(|a| a.to_string()).collect::<Vec<_>>();
    assert_eq!(to(&forward.any), ["10.96.0.10:80"]);
    assert_eq!(to(&forward.local), ["169.254.169.3:30080"]);
}

#[test]
fn outside_a_service_local_outside_goes_straight_to_a_process_of_this_host() {
    let lab = lab(2, 1);
    let service = Service { external_local: true, ..node_port(&lab) };
    let slices = slice(vec![endpoint("172.18.0.1", "n0"), endpoint("172.18.0.2", "n1")]);
    let forward = lab.zone("n0").forward_of_service(&service, &slices);
    assert_eq!(forward.local.values().next().unwrap().to_string(), "172.18.0.1:8080");
    assert_eq!(forward.host_backed.len(), 1);
}

#[test]
fn outside_a_service_local_outside_reaches_the_pods_of_a_node_also_beside_a_process_of_its_host() {
    let lab = lab(2, 1);
    let service = Service { external_local: true, ..node_port(&lab) };
    let ends = Endpoint { ready: false, terminating: true, ..endpoint("10.244.0.3", "n0") };
    for (pod, leads) in [
        (endpoint("10.244.0.3", "n0"), "169.254.169.3:30080"),
        (endpoint("10.244.1.3", "n1"), "172.18.0.1:8080"),
        // One that ends serves only where nothing else does.
        (ends, "172.18.0.1:8080"),
    ] {
        let slices = slice(vec![endpoint("172.18.0.1", "n0"), pod]);
        let forward = lab.zone("n0").forward_of_service(&service, &slices);
        assert_eq!(forward.local.values().next().unwrap().to_string(), leads, "{slices:?}");
    }
}

#[test]
fn on_one_machine_it_is_known_where_its_own_processes_answer() {
    let mut lab = lab(1, 1);
    let slices = slice(vec![endpoint("172.18.0.1", "n0"), endpoint("10.244.0.3", "n0")]);
    let shown = |lab: &Lab| {
        let forward = lab.zone("n0").forward_of_service(&service(lab), &slices);
        forward.processes.iter().map(|at| format!("{:?} {}", at.address, at.port)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&lab), Vec::<String>::new());
    lab.topology = crate::overlay::topology::Topology::single_node();
    assert_eq!(shown(&lab), ["Some(172.18.0.1) 8080"]);
}

#[test]
fn a_node_port_of_a_service_local_inside_still_reaches_every_backend() {
    let lab = lab(2, 1);
    let service = Service { internal_local: true, ..node_port(&lab) };
    let zone = lab.zone("n0");
    let forward = zone.forward_of_service(&service, &two());
    let to = forward.any.values().next().unwrap();
    assert_eq!(to.to_string(), "169.254.169.4:30080");
    let rows = zone.rows_of_service(&service, &two());
    let lb = &rows.load_balancers["Service_ns/web_TCP_node_switch_n0"];
    assert_eq!(lb.vips[to].len(), 2);
}

#[test]
fn outside_addresses_are_served_inside_and_forwarded_from_outside() {
    let lab = lab(1, 1);
    let mut service = service(&lab);
    service.external_ips.insert("198.51.100.7".parse().unwrap());
    service.load_balancer_ips.insert("203.0.113.9".parse().unwrap());
    let zone = lab.zone("n0");
    let vips: Vec<String> =
        zone.rows_of_service(&service, &two()).load_balancers["Service_ns/web_TCP_cluster"]
            .vips
            .keys()
            .map(|vip| vip.to_string())
            .collect();
    assert_eq!(vips, ["10.96.0.10:80", "198.51.100.7:80", "203.0.113.9:80"]);
    let forward = zone.forward_of_service(&service, &two());
    let from: Vec<String> = forward.any.keys().map(|e| e.address.unwrap().to_string()).collect();
    assert_eq!(from, ["198.51.100.7", "203.0.113.9"]);
}

#[test]
fn a_client_that_stays_is_chosen_for_by_addresses_and_loses_no_packet_for_it() {
    let lab = lab(1, 0);
    for (affinity, fields) in [(None, 0), (Some(1), 2), (Some(10800), 2), (Some(86400), 2)] {
        let service = Service { affinity, ..service(&lab) };
        let rows = lab.zone("n0").rows_of_service(&service, &two());
        let lb = rows.load_balancers.values().next().unwrap();
        assert_eq!(lb.selection_fields.len(), fields, "{affinity:?}");
        assert!(!lb.options.contains_key("affinity_timeout"), "OVN drops the first packet of each client");
    }
}

#[test]
fn without_ports_of_nodes_a_service_has_doors_at_ports_it_does_not_use() {
    let lab = lab(2, 1);
    let mut service = Service { external_local: true, internal_local: true, ..service(&lab) };
    service.ports[0].port = port(65534);
    let mut second = service.ports[0].clone();
    (second.name, second.port) = ("other".to_owned(), port(65535));
    service.ports.push(second);
    let zone = lab.zone("n0");
    assert_eq!(
        zone.rows_of_service(&service, &two()).load_balancers.len(),
        1,
        "nothing can come from outside"
    );
    service.load_balancer_ips.insert("203.0.113.9".parse().unwrap());
    assert_eq!(
        shown(&zone.rows_of_service(&service, &two())),
        [
            "Service_ns/web_TCP_cluster 203.0.113.9:65534 -> 10.244.0.3:8080 10.244.1.3:8080",
            "Service_ns/web_TCP_cluster 203.0.113.9:65535 ->",
            "Service_ns/web_TCP_node_switch_n0 10.96.0.10:65530 ->",
            "Service_ns/web_TCP_node_switch_n0 10.96.0.10:65531 ->",
            "Service_ns/web_TCP_node_switch_n0 10.96.0.10:65532 -> 10.244.0.3:8080 10.244.1.3:8080",
            "Service_ns/web_TCP_node_switch_n0 10.96.0.10:65533 -> 10.244.0.3:8080",
            "Service_ns/web_TCP_node_switch_n0 10.96.0.10:65534 -> 10.244.0.3:8080",
            "Service_ns/web_TCP_node_switch_n0 10.96.0.10:65535 ->",
        ]
    );
    let forward = zone.forward_of_service(&service, &two());
    let to = |map: &BTreeMap<Entrance, SocketAddr>| map.values().map(|a| a.port()).collect::<Vec<_>>();
    assert_eq!((to(&forward.local), to(&forward.any)), (vec![65533, 65531], vec![65532, 65530]));
}

#[test]
fn only_the_ranges_a_service_names_may_use_its_load_balancers_addresses() {
    let lab = lab(1, 1);
    let mut service = node_port(&lab);
    service.external_ips.insert("198.51.100.7".parse().unwrap());
    service.load_balancer_ips.insert("203.0.113.9".parse().unwrap());
    let zone = lab.zone("n0");
    assert!(zone.forward_of_service(&service, &two()).guarded.is_empty());
    let ranges = ["192.0.2.0/24", "192.0.2.0/25", "10.0.0.0/8", "2001:db8::/32"];
    service.source_ranges = ranges.map(|net| net.parse().unwrap()).into();
    let guarded = zone.forward_of_service(&service, &two()).guarded;
    let shown: Vec<String> = guarded.iter().map(|(e, nets)| format!("{:?} {nets:?}", e.address)).collect();
    assert_eq!(shown, ["Some(203.0.113.9) [10.0.0.0/8, 192.0.2.0/24]"]);
    let matches = |service: &Service| -> Vec<String> {
        zone.rows_of_service(service, &two()).acls.into_values().map(|acl| acl.matches).collect()
    };
    let stopped = "ip4.dst == 203.0.113.9 && tcp.dst == 80 && ip4.src != {10.0.0.0/8, 192.0.2.0/24}";
    assert_eq!(matches(&service), [stopped]);
    // A list of the other family alone lets nobody in.
    service.source_ranges = ["2001:db8::/32".parse().unwrap()].into();
    assert_eq!(matches(&service), ["ip4.dst == 203.0.113.9 && tcp.dst == 80"]);
    assert_eq!(zone.forward_of_service(&service, &two()).guarded.values().next(), Some(&vec![]));
}

#[test]
fn a_udp_flow_is_told_when_its_backend_is_gone() {
    let lab = lab(1, 0);
    let mut service = service(&lab);
    service.ports[0].protocol = Protocol::Udp;
    let rows = lab.zone("n0").rows_of_service(&service, &[]);
    assert_eq!(rows.load_balancers["Service_ns/web_UDP_cluster"].options["ct_flush"], "true");
}

#[test]
fn ports_are_matched_by_protocol_and_name() {
    let lab = lab(1, 0);
    let mut service = service(&lab);
    service.ports = ["http", "admin"]
        .iter()
        .zip([80, 81])
        .map(|(name, number)| ServicePort {
            name: (*name).to_owned(),
            protocol: Protocol::Tcp,
            port: port(number),
            node_port: None,
        })
        .collect();
    let mut slices = two();
    slices[0].ports = vec![
        SlicePort { name: "admin".into(), protocol: Protocol::Tcp, port: port(9090) },
        SlicePort { name: "http".into(), protocol: Protocol::Udp, port: port(1) },
    ];
    let rows = lab.zone("n0").rows_of_service(&service, &slices);
    assert_eq!(
        shown(&rows),
        [
            "Service_ns/web_TCP_cluster 10.96.0.10:80 ->",
            "Service_ns/web_TCP_cluster 10.96.0.10:81 -> 10.244.0.3:9090 10.244.1.3:9090",
        ]
    );
}

#[test]
fn both_families_of_a_dual_stack_service_have_backends_of_their_own() {
    let lab = lab_of(Speaks::Dual, 1, 1);
    let slices = slice(vec![endpoint("10.244.0.3", "n0"), endpoint("fd01::3", "n0")]);
    let rows = lab.zone("n0").rows_of_service(&node_port(&lab), &slices);
    assert_eq!(
        shown(&rows),
        [
            "Service_ns/web_TCP_cluster 10.96.0.10:80 -> 10.244.0.3:8080",
            "Service_ns/web_TCP_cluster [fd02::a]:80 -> [fd01::3]:8080",
            "Service_ns/web_TCP_node_switch_n0 172.18.0.1:30080 -> 10.244.0.3:8080",
            "Service_ns/web_TCP_node_switch_n0 [fd00::1]:30080 -> [fd01::3]:8080",
        ]
    );
}

#[test]
fn a_port_of_another_protocol_has_load_balancers_of_its_own() {
    let lab = lab(2, 1);
    let mut service = node_port(&lab);
    let signal = ("signal".to_owned(), Protocol::Sctp);
    let (name, protocol) = signal.clone();
    service.ports.push(ServicePort { name, protocol, port: port(80), node_port: Some(port(30080)) });
    let mut slices = two();
    let (name, protocol) = signal;
    slices[0].ports.push(SlicePort { name, protocol, port: port(3868) });
    let rows = lab.zone("n0").rows_of_service(&service, &slices);
    assert_eq!(
        shown(&rows),
        [
            "Service_ns/web_SCTP_cluster 10.96.0.10:80 -> 10.244.0.3:3868 10.244.1.3:3868",
            "Service_ns/web_SCTP_node_switch_n0 172.18.0.1:30080 -> 10.244.0.3:3868 10.244.1.3:3868",
            "Service_ns/web_TCP_cluster 10.96.0.10:80 -> 10.244.0.3:8080 10.244.1.3:8080",
            "Service_ns/web_TCP_node_switch_n0 172.18.0.1:30080 -> 10.244.0.3:8080 10.244.1.3:8080",
        ]
    );
    let sctp = &rows.load_balancers["Service_ns/web_SCTP_cluster"];
    assert_eq!(sctp.protocol, Protocol::Sctp);
    assert!(!sctp.options.contains_key("ct_flush"), "a connection is not cut while its backend finishes");
}

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    let address = prop_oneof![
        (0_u8..3, 3_u8..9).prop_map(|(node, host)| IpAddr::from([10, 244, node, host])),
        (1_u8..4).prop_map(|host| IpAddr::from([172, 18, 0, host])),
        (0_u16..3, 3_u16..9).prop_map(|(node, host)| IpAddr::from([0xfd01, 0, 0, node, 0, 0, 0, host])),
    ];
    (address, 0_usize..3, any::<(bool, bool, bool)>()).prop_map(
        |(address, node, (ready, serving, terminating))| {
            let node: NodeName = format!("n{node}").parse().unwrap();
            Endpoint { address, node: Some(node), ready, serving, terminating }
        },
    )
}

fn any_service() -> impl Strategy<Value = (Service, Vec<EndpointSlice>)> {
    let ports = prop::collection::btree_map(
        (prop::sample::select(Protocol::ALL.to_vec()), 1_i64..4),
        proptest::option::of(30000_i64..30003),
        1..4,
    );
    let ranges = prop::sample::subsequence(
        ["192.0.2.0/24", "192.0.2.0/25", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec(),
        0..3,
    );
    let flags = any::<(bool, bool, bool)>();
    let affinity = proptest::option::of(1_u32..90000);
    let slices = prop::collection::vec(prop::collection::vec(any_endpoint(), 0..5), 0..3);
    (ports, flags, affinity, slices, ranges).prop_map(
        |(ports, (internal_local, external_local, external), affinity, lists, ranges)| {
            let name = |protocol: Protocol, number: i64| format!("{}{number}", protocol.lower());
            let mut used = BTreeSet::new();
            let mut fresh = |protocol, wanted: Option<i64>| {
                wanted.filter(|number| used.insert((protocol, *number))).map(port)
            };
            let service = Service {
                name: ObjectName::new("ns", "web"),
                cluster_ips: Stack::Both("10.96.0.10".parse().unwrap(), "fd02::a".parse().unwrap()),
                external_ips: external.then(|| "198.51.100.7".parse().unwrap()).into_iter().collect(),
                load_balancer_ips: external.then(|| "2001:db8::7".parse().unwrap()).into_iter().collect(),
                ports: ports
                    .iter()
                    .map(|((protocol, number), wanted)| ServicePort {
                        name: name(*protocol, *number),
                        protocol: *protocol,
                        port: port(*number),
                        node_port: fresh(*protocol, *wanted),
                    })
                    .collect(),
                affinity,
                internal_local,
                external_local,
                source_ranges: ranges.into_iter().collect(),
            };
            let slice_ports: Vec<_> = ports
                .keys()
                .map(|(protocol, number)| SlicePort {
                    name: name(*protocol, *number),
                    protocol: *protocol,
                    port: port(8000 + number),
                })
                .collect();
            let slices =
                lists.into_iter().map(|endpoints| EndpointSlice { ports: slice_ports.clone(), endpoints });
            (service, slices.collect())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_a_service_asks_the_zone_is_sound_and_nothing_is_forwarded_into_the_void(
        (service, slices) in any_service(),
    ) {
        let mut lab = lab_of(Speaks::Dual, 3, 2);
        lab.cluster.slices.insert(service.name.clone(), slices.clone());
        lab.cluster.services.insert(service.name.clone(), service.clone());
        let zone = lab.zone("n1");
        let rows = zone.rows(&lab.cluster).unwrap();
        prop_assert_eq!(check::zone(&rows), BTreeSet::new());
        let forward = zone.forward_of_service(&service, &slices);
        for (entrance, to) in forward.any.iter().chain(&forward.local) {
            let lb = rows.load_balancers.values().find(|lb| {
                lb.protocol == entrance.protocol && lb.vips.contains_key(to)
            });
            let own_process = lab.cluster.nodes.values().any(|n| n.host_addresses.contains(&to.ip()));
            prop_assert!(lb.is_some() || own_process, "{entrance:?} -> {to}");
        }
        for lb in rows.load_balancers.values() {
            for backend in lb.vips.values().flatten() {
                let known = slices.iter().flat_map(|s| &s.endpoints).any(|e| {
                    e.address == backend.ip() && (e.ready || e.serving && e.terminating)
                });
                prop_assert!(known, "{backend}");
            }
        }
    }
}
