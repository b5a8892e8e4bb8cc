use super::testing::{Lab, Speaks, lab, lab_of};
use super::*;
use crate::overlay::check;
use crate::overlay::rows::{PortAddress, PortKind};
use crate::overlay::topology::Topology;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn addresses(rows: &Rows, port: &str) -> String {
    rows.switch_ports[port].addresses.iter().map(PortAddress::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn two_nodes_and_their_pods_look_as_an_ovn_kubernetes_user_expects() {
    let lab = lab(2, 1);
    let rows = lab.rows_of("n0", &lab.cluster);
    let keys = |rows: Vec<&String>| rows.into_iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(rows.switches.keys().collect()), "n0 transit_switch");
    assert_eq!(keys(rows.switch_ports.keys().collect()), "k8s-n0 ns_n0p0 stor-n0 tstor-n0 tstor-n1");
    assert_eq!(keys(rows.router_ports.keys().collect()), "rtos-n0 rtots-n0");
    assert_eq!(keys(rows.gateway_chassis.keys().collect()), "rtos-n0-chassis-n0");
    assert_eq!(addresses(&rows, "k8s-n0"), "0a:58:0a:f4:00:02 10.244.0.2");
    assert_eq!(addresses(&rows, "ns_n0p0"), "0a:58:0a:f4:00:03 10.244.0.3");
    assert_eq!(addresses(&rows, "tstor-n1"), "0a:58:64:58:00:03 100.88.0.3/16");
    assert_eq!(rows.switch_ports["tstor-n1"].kind, PortKind::Remote);
    assert_eq!(rows.router_ports["rtots-n0"].networks[0].to_string(), "100.88.0.2/16");
    assert_eq!(rows.switches["n0"].other_config["exclude_ips"], "10.244.0.2");
    let routes: Vec<_> =
        rows.static_routes.values().map(|r| format!("{} via {}", r.prefix, r.next_hop)).collect();
    assert_eq!(
        routes,
        [
            "0.0.0.0/0 via 10.244.0.2",
            "10.244.1.0/24 via 100.88.0.3",
            "100.64.0.2/32 via 10.244.0.2",
            "100.64.0.3/32 via 100.88.0.3",
        ]
    );
    assert_eq!(rows.remote_chassis["chassis-n1"].hostname, "n1");
}

#[test]
fn both_ends_of_a_transit_link_agree() {
    let lab = lab_of(Speaks::Dual, 2, 0);
    let (here, there) = (lab.rows_of("n0", &lab.cluster), lab.rows_of("n1", &lab.cluster));
    let local = &there.router_ports["rtots-n1"];
    let networks: Vec<_> = local.networks.iter().map(|n| n.to_string()).collect();
    assert_eq!(addresses(&here, "tstor-n1"), format!("{} {}", local.mac, networks.join(" ")));
    let key = |rows: &Rows, port: &str| rows.switch_ports[port].options["requested-tnl-key"].clone();
    assert_eq!(key(&here, "tstor-n1"), key(&there, "tstor-n1"));
    assert_eq!(
        here.switches["transit_switch"].other_config["requested-tnl-key"],
        there.switches["transit_switch"].other_config["requested-tnl-key"]
    );
}

#[test]
fn a_pod_of_another_node_or_of_the_host_has_no_port_here() {
    let mut lab = lab(2, 1);
    let zone = lab.zone("n0");
    let pods: Vec<_> = lab.cluster.pods.values().collect();
    assert_eq!(zone.rows_of_pod(pods[0]).switch_ports.len(), 1);
    assert!(zone.rows_of_pod(pods[1]).is_empty());
    lab.cluster.pods.values_mut().for_each(|pod| pod.host_network = true);
    assert!(lab.zone("n0").rows_of_pod(lab.cluster.pods.values().next().unwrap()).is_empty());
}

#[test]
fn a_zone_keeps_its_own_rows_when_the_cluster_has_no_other_node() {
    let Lab { networks, topology, cluster } = lab(3, 1);
    let full = Lab { networks, topology, cluster };
    let mut alone = full.cluster.clone();
    alone.nodes.retain(|name, _| name.as_str() == "n0");
    let rows = full.rows_of("n0", &alone);
    let expected = full.zone("n0").rows_of_node();
    assert!(expected.switch_ports.keys().all(|port| rows.switch_ports.contains_key(port)));
    assert_eq!(check::zone(&rows), BTreeSet::new());
}

#[test]
fn the_management_port_of_the_switch_is_the_one_of_the_zone() {
    let lab = lab(1, 1);
    let zone = lab.zone("n0");
    let facts = SwitchFacts {
        southbound: "unix:/run/sb.sock".into(),
        datapath: Datapath::Userspace,
        has_flows: true,
        follows_routes: true,
    };
    let mut rows = zone.rows(&lab.cluster).unwrap();
    rows.join(zone.rows_of_switch(&facts)).unwrap();
    assert_eq!(check::zone(&rows), BTreeSet::new());
    let mp0 = &rows.interfaces["ovn-k8s-mp0"];
    assert_eq!(mp0.external_ids["iface-id"], "k8s-n0");
    assert_eq!(mp0.mac.unwrap().to_string(), "0a:58:0a:f4:00:02");
    let settings = &rows.switch_settings["Open_vSwitch"].external_ids;
    assert_eq!(settings["ovn-bridge-datapath-type"], "netdev");
    assert_eq!(settings["ovn-is-interconn"], "true");
    assert_eq!(settings["ovn-set-local-ip"], "true");
    let told = zone.rows_of_switch(&SwitchFacts { follows_routes: false, ..facts });
    let settings = &told.switch_settings["Open_vSwitch"].external_ids;
    assert_eq!(settings["ovn-set-local-ip"], "false", "it knows none to be its own");
}

/// A cluster of one node, as it is for one machine.
fn single(speaks: Speaks, pods: usize) -> Lab {
    Lab { topology: Topology::single_node(), ..lab_of(speaks, 1, pods) }
}

#[test]
fn one_machine_has_a_router_a_switch_and_its_pods_and_nothing_that_leads_to_other_nodes() {
    let lab = single(Speaks::Dual, 1);
    let rows = lab.rows_of("n0", &lab.cluster);
    let keys = |rows: Vec<&String>| rows.into_iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(rows.switches.keys().collect()), "n0");
    assert_eq!(keys(rows.routers.keys().collect()), "ovn_cluster_router");
    assert_eq!(keys(rows.switch_ports.keys().collect()), "k8s-n0 ns_n0p0 stor-n0");
    assert_eq!(keys(rows.router_ports.keys().collect()), "rtos-n0");
    assert_eq!(keys(rows.gateway_chassis.keys().collect()), "rtos-n0-chassis-n0");
    let hops: BTreeSet<_> = rows.static_routes.values().map(|route| route.next_hop.to_string()).collect();
    assert_eq!(hops, BTreeSet::from(["10.244.0.2".into(), "fd01::2".into()]), "out is the host");
}

#[test]
fn what_the_host_sends_to_a_pod_of_its_own_machine_is_not_translated() {
    let lab = single(Speaks::V4, 0);
    let rows = lab.rows_of("n0", &lab.cluster);
    for nat in rows.nats.values() {
        let set = &rows.address_sets[nat.exempted.as_ref().expect("restricted")];
        assert!(set.addresses.contains(&"10.244.0.0/16".parse().unwrap()), "{nat:?}");
        assert_eq!(nat.external_ip.to_string(), "10.244.0.1");
    }
    assert_eq!(rows.nats.len(), 2);
}

#[test]
fn nothing_of_one_machine_is_bound_to_its_uplink() {
    let facts = SwitchFacts {
        southbound: "unix:/run/sb.sock".into(),
        datapath: Datapath::Kernel,
        has_flows: false,
        follows_routes: true,
    };
    let rows = |lab: &Lab| {
        let mut rows = lab.rows_of("n0", &lab.cluster);
        rows.join(lab.zone("n0").rows_of_switch(&facts)).unwrap();
        rows
    };
    let mut lab = single(Speaks::Dual, 2);
    let before = rows(&lab);
    assert_eq!(before.switch_settings["Open_vSwitch"].external_ids["ovn-encap-ip"], "127.0.0.1");
    assert!(!before.switch_settings["Open_vSwitch"].external_ids.contains_key("ovn-is-interconn"));
    let node = lab.cluster.nodes.values_mut().next().unwrap();
    node.encap = "203.0.113.7".parse().unwrap();
    node.host_addresses = BTreeSet::from(["203.0.113.7".parse().unwrap()]);
    assert_eq!(rows(&lab), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_zone_of_one_machine_is_sound_and_a_part_of_what_it_would_be_among_many(
        speaks in prop_oneof![Just(Speaks::V4), Just(Speaks::V6), Just(Speaks::Dual)],
        pods in 0_usize..6,
    ) {
        let (alone, among) = (single(speaks, pods), lab_of(speaks, 1, pods));
        let rows = alone.rows_of("n0", &alone.cluster);
        prop_assert_eq!(check::zone(&rows), BTreeSet::new());
        let whole = among.rows_of("n0", &among.cluster);
        for name in rows.names_by_table().into_iter().flatten() {
            prop_assert_eq!(rows.pick([&name]), whole.pick([&name]));
        }
    }

    #[test]
    fn every_zone_of_every_cluster_is_sound(
        speaks in prop_oneof![Just(Speaks::V4), Just(Speaks::V6), Just(Speaks::Dual)],
        nodes in 1_usize..12,
        pods in 0_usize..6,
    ) {
        let lab = lab_of(speaks, nodes, pods);
        for name in lab.cluster.nodes.keys() {
            let rows = lab.rows_of(name.as_str(), &lab.cluster);
            prop_assert_eq!(check::zone(&rows), BTreeSet::new());
            prop_assert_eq!(rows.switch_ports.len(), 3 + pods + nodes - 1);
        }
    }
}
