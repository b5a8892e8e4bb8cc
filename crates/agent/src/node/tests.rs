use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;
use netferry_core::net::Stack;
use netferry_core::overlay::networks::{ClusterRange, Internal, Networks};
use netferry_kernel::address::{Address, Status};
use netferry_kernel::link::Link;
use netferry_kernel::route::{Hop, Route};
use netferry_kernel::{IfName, Mac};

use super::NodeFacts;
use super::annotations::{of_facts as annotations, of_place as place_annotations};
use super::look::{HostFacts, Sight, look};
use super::publisher::missing;
use crate::fixtures::{link, place};

struct Host {
    links: Vec<Link>,
    addresses: Vec<Address>,
    routes: Vec<Route>,
    known_as: BTreeSet<IpAddr>,
    bridge: Option<IfName>,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn address(link: u32, net: &str) -> Address {
    Address::new(link, net.parse().unwrap())
}

fn default_over(link: u32, gateway: &str, metric: u32) -> Route {
    let gateway = ip(gateway);
    let to = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    Route::new(to.parse().unwrap(), vec![Hop::via(link, gateway)]).metric(metric)
}

/// The loopback, the uplink under its bridge, a second network, the management port, a port of a bridge.
fn host() -> Host {
    let mut links: Vec<Link> = ["lo", "eth0", "br-ex", "eth1", "ovn-k8s-mp0", "member"]
        .iter()
        .zip(1..)
        .map(|(name, index)| link(index, name))
        .collect();
    links[5].master = Some(4);
    let of_wire = Address { scope: 253, ..address(3, "fe80::3/64") };
    let ours = Address { protocol: 110, ..address(5, "10.244.0.2/24") };
    let addresses = vec![
        address(1, "127.0.0.1/8"),
        address(3, "172.30.0.2/16"),
        address(3, "172.30.0.9/16"),
        address(3, "fd00:172:30::2/64"),
        of_wire,
        address(4, "192.0.2.7/24"),
        ours,
        address(6, "203.0.113.1/24"),
    ];
    let routes = vec![
        default_over(4, "192.0.2.254", 200),
        default_over(3, "172.30.255.254", 100),
        default_over(3, "fd00:172:30::fffe", 100),
    ];
    Host { links, addresses, routes, known_as: BTreeSet::new(), bridge: None }
}

impl Host {
    fn look(&self) -> Option<HostFacts> {
        look(&Sight {
            links: &self.links,
            addresses: &self.addresses,
            routes: &self.routes,
            known_as: &self.known_as,
            bridge: self.bridge.as_ref(),
        })
    }
}

fn primary(facts: &HostFacts) -> Vec<String> {
    facts.primary.iter().map(|net| net.to_string()).collect()
}

#[test]
fn a_node_is_where_its_best_default_route_leaves_it() {
    let facts = host().look().unwrap();
    assert_eq!(facts.link.as_str(), "br-ex");
    assert_eq!(primary(&facts), ["172.30.0.2/16", "fd00:172:30::2/64"]);
    assert_eq!(facts.gateways, [ip("172.30.255.254"), ip("fd00:172:30::fffe")]);
    assert_eq!(facts.mac, Mac([2, 0, 0, 0, 0, 3]));
    assert_eq!(facts.management, Some(Mac([2, 0, 0, 0, 0, 5])));
}

#[test]
fn every_address_others_can_reach_is_told_and_no_other() {
    let mut host = host();
    host.addresses.push(Address {
        status: Status { tentative: true, ..Status::default() },
        ..address(4, "2001:db8::1/64")
    });
    let told = |host: &Host| -> Vec<String> {
        host.look().unwrap().addresses.iter().map(ToString::to_string).collect()
    };
    assert_eq!(told(&host), ["172.30.0.2/16", "172.30.0.9/16", "192.0.2.7/24", "fd00:172:30::2/64"]);
    host.links[3].up = false;
    assert_eq!(told(&host), ["172.30.0.2/16", "172.30.0.9/16", "fd00:172:30::2/64"]);
}

#[test]
fn the_address_the_cluster_knows_a_node_by_decides() {
    let mut host = host();
    host.known_as = BTreeSet::from([ip("192.0.2.7")]);
    assert_eq!(primary(&host.look().unwrap()), ["192.0.2.7/24"]);
    host.known_as = BTreeSet::from([ip("172.30.0.9")]);
    assert_eq!(primary(&host.look().unwrap()), ["172.30.0.9/16", "fd00:172:30::2/64"]);
    // where host-init made a bridge tunnels end there, whatever the cluster says
    host.known_as = BTreeSet::from([ip("192.0.2.7")]);
    host.bridge = Some(IfName::new("br-ex").unwrap());
    assert_eq!(primary(&host.look().unwrap()), ["172.30.0.2/16", "fd00:172:30::2/64"]);
}

#[test]
fn a_host_nobody_can_reach_has_no_facts() {
    let mut host = host();
    host.routes.clear();
    assert_eq!(host.look(), None);
    host.bridge = Some(IfName::new("br-ex").unwrap());
    assert!(host.look().is_some());
    host.addresses.retain(|address| address.link != 3);
    assert_eq!(host.look(), None);
}

fn facts() -> NodeFacts {
    NodeFacts { host: host().look().unwrap(), chassis: "6a5b".to_owned() }
}

#[test]
fn annotations_are_as_other_readers_of_them_expect() {
    let told = annotations("n1", &facts());
    let expected = [
        ("k8s.ovn.org/host-cidrs", r#"["172.30.0.2/16","172.30.0.9/16","192.0.2.7/24","fd00:172:30::2/64"]"#),
        ("k8s.ovn.org/node-chassis-id", "6a5b"),
        ("k8s.ovn.org/node-mgmt-port-mac-addresses", r#"{"default":"02:00:00:00:00:05"}"#),
        ("k8s.ovn.org/node-primary-ifaddr", r#"{"ipv4":"172.30.0.2/16","ipv6":"fd00:172:30::2/64"}"#),
        ("k8s.ovn.org/zone-name", "n1"),
    ];
    for (key, value) in expected {
        assert_eq!(told.get(key).map(String::as_str), Some(value), "{key}");
    }
    let gateway: serde_json::Value = serde_json::from_str(&told["k8s.ovn.org/l3-gateway-config"]).unwrap();
    let gateway = &gateway["default"];
    assert_eq!(gateway["mode"], "local");
    assert_eq!(gateway["interface-id"], "br-ex_n1");
    assert_eq!(gateway["mac-address"], "02:00:00:00:00:03");
    assert_eq!(gateway["next-hops"][0], "172.30.255.254");
    assert_eq!(told.len(), 6);
}

#[test]
fn what_the_zone_runs_with_is_told_with_the_networks_between_host_and_services() {
    for (cluster, service, running, masquerade) in [
        (
            vec![("10.244.0.0/16", 24)],
            vec!["10.96.0.0/16"],
            r#"{"id":5,"subnets":["10.244.3.0/24"]}"#,
            r#"{"ipv4":"169.254.169.0/29"}"#,
        ),
        (
            vec![("10.244.0.0/16", 24), ("fd01::/48", 64)],
            vec!["10.96.0.0/16", "fd02::/112"],
            r#"{"id":5,"subnets":["10.244.3.0/24","fd01:0:0:3::/64"]}"#,
            r#"{"ipv4":"169.254.169.0/29","ipv6":"fd69::/125"}"#,
        ),
    ] {
        let range = |(net, size): &(&str, u8)| ClusterRange::new(net.parse().unwrap(), *size).unwrap();
        let service = service.iter().map(|net| net.parse().unwrap()).collect();
        let networks =
            Networks::new(cluster.iter().map(range).collect(), service, Internal::default()).unwrap();
        let v6 = (cluster.len() > 1).then(|| "fd01:0:0:3::/64".parse().unwrap());
        let subnets = Stack::from_parts(Some("10.244.3.0/24".parse().unwrap()), v6).unwrap();
        let told = place_annotations(&place(networks, subnets));
        let expected =
            [("k8s.ovn.org/node-masquerade-subnet", masquerade), ("netferry.dev/overlay-running", running)];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(told, BTreeMap::from(expected));
    }
}

#[test]
fn only_what_differs_is_written() {
    let told = annotations("n1", &facts());
    let mut node = Node::default();
    assert_eq!(missing(&told, &node), told);
    let mut have = told.clone();
    have.insert("k8s.ovn.org/node-id".to_owned(), "7".to_owned());
    have.insert("k8s.ovn.org/zone-name".to_owned(), "global".to_owned());
    node.metadata.annotations = Some(have);
    let zone = BTreeMap::from([("k8s.ovn.org/zone-name".to_owned(), "n1".to_owned())]);
    assert_eq!(missing(&told, &node), zone);
}
