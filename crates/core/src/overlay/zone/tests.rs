use super::testing::{Lab, Speaks, lab, lab_of};
use super::*;
use crate::overlay::check;
use crate::overlay::rows::{PortAddress, PortKind};
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

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
