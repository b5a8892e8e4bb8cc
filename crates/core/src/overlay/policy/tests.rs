use super::*;
use crate::label::{LabelSelector, Labels, Requirement};
use crate::name::ObjectName;
use crate::net::{Addresses, Family};
use crate::overlay::acl::{self, Packet};
use crate::overlay::check;
use crate::overlay::cluster::{NamedPort, Peer, PolicyPort, PortSet};
use crate::overlay::zone::testing::{Lab, Speaks, lab_of, pod};
use crate::port::{Port, Protocol};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const NAMESPACES: [&str; 3] = ["x", "y", "z"];
const PODS: [&str; 3] = ["a", "b", "c"];

fn port(number: i64) -> Port {
    Port::new(number).unwrap()
}

/// Three namespaces with three pods each, spread over two nodes, each listening on `web` 80 (or 81) and `dns` 53.
fn world(speaks: Speaks) -> Lab {
    let mut lab = lab_of(speaks, 2, 0);
    lab.cluster.namespaces.clear();
    let nodes: Vec<_> = lab.cluster.nodes.values().cloned().collect();
    for (i, namespace) in NAMESPACES.iter().enumerate() {
        let labels = Labels::from_iter([("ns", *namespace)]);
        lab.cluster.namespaces.insert((*namespace).to_owned(), labels);
        for (j, name) in PODS.iter().enumerate() {
            let node = &nodes[(i + j) % nodes.len()];
            let n = u32::try_from(3 + i * 3 + j).unwrap();
            let mut pod = pod(namespace, name, &node.name, node.assignment.subnets().nth(n).unwrap());
            pod.labels = Labels::from_iter([("pod", *name)]);
            let web = if j == 2 { 81 } else { 80 };
            pod.ports = [
                NamedPort { name: "web".into(), protocol: Protocol::Tcp, port: port(web) },
                NamedPort { name: "dns".into(), protocol: Protocol::Udp, port: port(53) },
            ]
            .into();
            lab.cluster.pods.insert(pod.name.clone(), pod);
        }
    }
    lab
}

fn policy(namespace: &str, name: &str, pods: LabelSelector) -> Policy {
    Policy { name: ObjectName::new(namespace, name), pods, ingress: None, egress: None, stateless: false }
}

fn add(lab: &mut Lab, policy: Policy) {
    lab.cluster.policies.insert(policy.name.clone(), policy);
}

/// The rows of every node's zone.
fn zones(lab: &Lab) -> BTreeMap<String, Rows> {
    let names = lab.cluster.nodes.keys().map(|name| name.to_string());
    names.map(|name| (name.clone(), lab.rows_of(&name, &lab.cluster))).collect()
}

fn pod_of<'a>(lab: &'a Lab, end: &End) -> Option<&'a Pod> {
    match end {
        End::Pod(name) => lab.cluster.pods.get(name).filter(|pod| !pod.host_network),
        End::Node(_) | End::Outside(_) => None,
    }
}

fn address(lab: &Lab, end: &End, family: Family) -> IpAddr {
    match end {
        End::Pod(name) => lab.cluster.pods[name].addresses.get(family).unwrap(),
        End::Node(name) => lab.cluster.nodes[name].assignment.management().get(family).unwrap(),
        End::Outside(ip) => *ip,
    }
}

/// What the rows do with a flow: the sender's zone as it leaves its pod, the receiver's as it reaches its pod.
fn passes(lab: &Lab, zones: &BTreeMap<String, Rows>, flow: &Flow) -> bool {
    if flow.from == flow.to {
        return true;
    }
    let port = |end: &End| pod_of(lab, end).map_or("elsewhere".to_owned(), |pod| names::pod_port(&pod.name));
    let packet = Packet {
        inport: port(&flow.from),
        outport: port(&flow.to),
        source: address(lab, &flow.from, flow.family),
        destination: address(lab, &flow.to, flow.family),
        protocol: flow.protocol,
        port: flow.port,
    };
    Direction::BOTH.iter().all(|direction| {
        let own = match direction {
            Direction::Ingress => pod_of(lab, &flow.to),
            Direction::Egress => pod_of(lab, &flow.from),
        };
        own.is_none_or(|pod| {
            let node = pod.node.as_str();
            acl::evaluate(&zones[node], node, direction.acl(), &packet).unwrap()
        })
    })
}

fn ends(lab: &Lab, family: Family) -> Vec<End> {
    let mut ends: Vec<End> = lab.cluster.pods.keys().cloned().map(End::Pod).collect();
    ends.extend(lab.cluster.nodes.keys().cloned().map(End::Node));
    let outside: [&str; 2] = match family {
        Family::V4 => ["198.51.100.1", "203.0.113.1"],
        Family::V6 => ["2001:db8::1", "2001:db8:1::1"],
    };
    ends.extend(outside.iter().map(|ip| End::Outside(ip.parse().unwrap())));
    ends
}

fn flows(lab: &Lab) -> Vec<Flow> {
    let probes = [(Protocol::Tcp, 80), (Protocol::Tcp, 81), (Protocol::Udp, 53), (Protocol::Sctp, 80)];
    let mut flows = Vec::new();
    for family in lab.networks.families() {
        let ends = ends(lab, *family);
        for (from, to) in ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to))) {
            for (protocol, number) in probes {
                let (from, to) = (from.clone(), to.clone());
                flows.push(Flow { from, to, family: *family, protocol, port: port(number) });
            }
        }
    }
    flows
}

fn allowed(lab: &Lab, from: (&str, &str), to: (&str, &str), protocol: Protocol, number: i64) -> bool {
    let end = |(namespace, name): (&str, &str)| End::Pod(ObjectName::new(namespace, name));
    let flow = Flow { from: end(from), to: end(to), family: Family::V4, protocol, port: port(number) };
    let said = verdict(&lab.cluster, &flow);
    assert_eq!(passes(lab, &zones(lab), &flow), said, "{flow:?}");
    said
}

const TCP: Protocol = Protocol::Tcp;

#[test]
fn without_a_policy_everything_passes_and_there_are_no_rows() {
    let lab = world(Speaks::V4);
    assert!(lab.zone("n0").rows_of_policies(&lab.cluster).is_empty());
    assert!(allowed(&lab, ("x", "a"), ("z", "c"), TCP, 80));
}

#[test]
fn a_policy_without_rules_isolates_what_it_selects_and_nothing_else() {
    let mut lab = world(Speaks::V4);
    let deny = Policy { ingress: Some(vec![]), ..policy("x", "deny", LabelSelector::equals("pod", "a")) };
    add(&mut lab, deny);
    assert!(!allowed(&lab, ("y", "a"), ("x", "a"), TCP, 80));
    assert!(allowed(&lab, ("y", "a"), ("x", "b"), TCP, 80));
    assert!(allowed(&lab, ("x", "a"), ("y", "a"), TCP, 80));
    assert!(allowed(&lab, ("x", "a"), ("x", "a"), TCP, 80));
}

#[test]
fn the_host_reaches_its_own_pods_and_not_those_of_others() {
    let mut lab = world(Speaks::V4);
    add(&mut lab, Policy { ingress: Some(vec![]), ..policy("x", "deny", LabelSelector::all()) });
    let zones = zones(&lab);
    let to = End::Pod(ObjectName::new("x", "a"));
    for (node, reaches) in [("n0", true), ("n1", false)] {
        let from = End::Node(node.parse().unwrap());
        let flow = Flow { from, to: to.clone(), family: Family::V4, protocol: TCP, port: port(80) };
        assert_eq!(verdict(&lab.cluster, &flow), reaches);
        assert_eq!(passes(&lab, &zones, &flow), reaches);
    }
}

#[test]
fn a_selector_that_matches_nobody_admits_nobody() {
    let mut lab = world(Speaks::V4);
    let nobody = Peer::Pods { namespaces: None, pods: Some(LabelSelector::equals("pod", "none")) };
    let rule = Rule { peers: vec![nobody], ports: vec![] };
    add(&mut lab, Policy { ingress: Some(vec![rule]), ..policy("x", "p", LabelSelector::all()) });
    assert!(!allowed(&lab, ("x", "b"), ("x", "a"), TCP, 80));
}

#[test]
fn a_named_port_is_what_the_destination_calls_so() {
    let mut lab = world(Speaks::V4);
    let named = PolicyPort { protocol: TCP, ports: PortSet::Named("web".into()) };
    let rule = Rule { peers: vec![], ports: vec![named] };
    let both = Policy {
        ingress: Some(vec![rule.clone()]),
        egress: Some(vec![rule]),
        ..policy("x", "web", LabelSelector::all())
    };
    add(&mut lab, both);
    for (from, to, number, passes) in [
        (("y", "a"), ("x", "a"), 80, true),
        (("y", "a"), ("x", "a"), 81, false),
        (("y", "a"), ("x", "c"), 81, true),
        (("y", "a"), ("x", "c"), 80, false),
        (("x", "a"), ("y", "c"), 81, true),
        (("x", "a"), ("y", "c"), 80, false),
    ] {
        assert_eq!(allowed(&lab, from, to, TCP, number), passes, "{from:?} {to:?} {number}");
    }
}

#[test]
fn the_entries_read_as_an_ovn_kubernetes_user_expects() {
    let mut lab = world(Speaks::V4);
    let peer = Peer::Pods { namespaces: Some(LabelSelector::equals("ns", "y")), pods: None };
    let block = Peer::Block {
        net: "203.0.113.0/24".parse().unwrap(),
        except: vec!["203.0.113.128/25".parse().unwrap()],
    };
    let ports = vec![
        PolicyPort { protocol: TCP, ports: PortSet::Range(port(80), port(80)) },
        PolicyPort { protocol: TCP, ports: PortSet::Range(port(90), port(95)) },
    ];
    let ingress = Rule { peers: vec![peer, block], ports };
    let egress = Rule::default();
    let p = Policy {
        ingress: Some(vec![ingress]),
        egress: Some(vec![egress]),
        ..policy("x", "p", LabelSelector::all())
    };
    add(&mut lab, p);
    let rows = lab.zone("n0").rows_of_policy(&lab.cluster.policies[&ObjectName::new("x", "p")], &lab.cluster);
    let set = rows.peers.iter().next().unwrap().name(Family::V4);
    let group = rows.rows.port_groups.keys().next().unwrap().clone();
    let shown: Vec<String> = rows
        .rows
        .acls
        .values()
        .map(|acl| format!("{} {} {} {}", acl.name, acl.direction.ovn(), acl.priority, acl.matches))
        .collect();
    assert_eq!(
        shown,
        [
            format!("NP:x:p:Egress:0 from-lport 1001 ip4 && inport == @{group}"),
            format!(
                "NP:x:p:Ingress:0 to-lport 1001 ip4.src == {{${set}}} && tcp && \
                 (tcp.dst == 80 || 90 <= tcp.dst <= 95) && outport == @{group}"
            ),
            format!(
                "NP:x:p:Ingress:0 to-lport 1001 ip4.src == 203.0.113.0/24 && ip4.src != {{203.0.113.128/25}} && \
                 tcp && (tcp.dst == 80 || 90 <= tcp.dst <= 95) && outport == @{group}"
            ),
        ]
    );
    let after = |acl: &Acl| acl.options.contains_key("apply-after-lb");
    assert!(rows.rows.acls.values().all(|acl| after(acl) == (acl.direction == AclDirection::FromPort)));
}

#[test]
fn policies_that_mean_the_same_pods_share_a_set() {
    let mut lab = world(Speaks::Dual);
    let from_y = Rule {
        peers: vec![Peer::Pods { namespaces: Some(LabelSelector::equals("ns", "y")), pods: None }],
        ports: vec![],
    };
    for namespace in ["x", "z"] {
        let p =
            Policy { ingress: Some(vec![from_y.clone()]), ..policy(namespace, "p", LabelSelector::all()) };
        add(&mut lab, p);
    }
    let rows = lab.zone("n0").rows_of_policies(&lab.cluster);
    assert_eq!(rows.address_sets.len(), 2);
    assert!(rows.address_sets.values().all(|set| set.addresses.len() == 3));
}

#[test]
fn a_long_name_is_cut_and_its_identity_is_not() {
    let mut lab = world(Speaks::V4);
    for last in ["a", "b"] {
        let name = format!("{}{last}", "n".repeat(200));
        add(
            &mut lab,
            Policy { ingress: Some(vec![Rule::default()]), ..policy("x", &name, LabelSelector::all()) },
        );
    }
    let rows = lab.rows_of("n0", &lab.cluster);
    assert_eq!(check::zone(&rows), BTreeSet::new());
    assert_eq!(rows.acls.values().filter(|acl| acl.name.starts_with("NP:x:nn")).count(), 2);
}

#[test]
fn the_namespace_of_the_hosts_stands_for_what_nodes_speak_from() {
    let mut lab = world(Speaks::V4);
    lab.cluster.namespaces.insert("hosts".into(), Labels::from_iter([("ns", "hosts")]));
    lab.cluster.host_namespace = Some("hosts".into());
    let rule = Rule {
        peers: vec![Peer::Pods { namespaces: Some(LabelSelector::equals("ns", "hosts")), pods: None }],
        ports: vec![],
    };
    add(&mut lab, Policy { ingress: Some(vec![rule]), ..policy("x", "p", LabelSelector::all()) });
    let rows = lab.zone("n0").rows_of_policies(&lab.cluster);
    let members: Vec<String> =
        rows.address_sets.values().next().unwrap().addresses.iter().map(|a| a.addr().to_string()).collect();
    assert_eq!(members, ["10.244.0.2", "10.244.1.2", "100.64.0.2", "100.64.0.3"]);
}

fn selector(key: &'static str, values: &'static [&'static str]) -> BoxedStrategy<LabelSelector> {
    let value = || prop::sample::select(values.to_vec());
    let set = prop::collection::btree_set(value().prop_map(str::to_owned), 1..3);
    prop_oneof![
        2 => Just(LabelSelector::all()),
        3 => value().prop_map(move |v| LabelSelector::equals(key, v)),
        1 => set.prop_map(move |set| LabelSelector::from_iter([Requirement::NotIn(key.into(), set)])),
        1 => Just(LabelSelector::from_iter([Requirement::Missing(key.into())])),
    ]
    .boxed()
}

fn peer() -> impl Strategy<Value = Peer> {
    let pods = || proptest::option::of(selector("pod", &PODS));
    let namespaces = proptest::option::of(selector("ns", &NAMESPACES));
    let net = |text: &str| text.parse().unwrap();
    let blocks = vec![
        (net("0.0.0.0/0"), vec![]),
        (net("10.244.0.0/16"), vec![net("10.244.0.0/24")]),
        (net("198.51.100.0/24"), vec![]),
        (net("0.0.0.0/0"), vec![net("198.51.100.0/25"), net("10.244.1.0/29")]),
        (net("::/0"), vec![net("fd01::/64")]),
        (net("2001:db8::/48"), vec![]),
    ];
    prop_oneof![
        3 => (namespaces, pods()).prop_map(|(namespaces, pods)| Peer::Pods { namespaces, pods }),
        1 => prop::sample::select(blocks).prop_map(|(net, except)| Peer::Block { net, except }),
    ]
}

fn policy_port() -> impl Strategy<Value = PolicyPort> {
    let ports = prop_oneof![
        Just(PortSet::Any),
        prop::sample::select(vec![(80, 80), (80, 81), (81, 90), (53, 53)])
            .prop_map(|(first, last)| PortSet::Range(port(first), port(last))),
        prop::sample::select(vec!["web", "dns", "none"]).prop_map(|name| PortSet::Named(name.into())),
    ];
    (prop::sample::select(Protocol::ALL.to_vec()), ports)
        .prop_map(|(protocol, ports)| PolicyPort { protocol, ports })
}

fn rules() -> impl Strategy<Value = Option<Vec<Rule>>> {
    let rule = (prop::collection::vec(peer(), 0..3), prop::collection::vec(policy_port(), 0..3))
        .prop_map(|(peers, ports)| Rule { peers, ports });
    proptest::option::of(prop::collection::vec(rule, 0..3))
}

fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let one =
        (prop::sample::select(NAMESPACES.to_vec()), selector("pod", &PODS), rules(), rules(), any::<bool>());
    prop::collection::vec(one, 0..5).prop_map(|all| {
        let named = all.into_iter().enumerate();
        let policy = |(i, (namespace, pods, ingress, egress, stateless))| Policy {
            ingress,
            egress,
            stateless,
            ..policy(namespace, &format!("p{i}"), pods)
        };
        named.map(policy).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_rows_do_what_kubernetes_says_the_policies_mean(
        speaks in prop_oneof![Just(Speaks::V4), Just(Speaks::V6), Just(Speaks::Dual)],
        policies in policies(),
        host_namespace in any::<bool>(),
        in_host_network in proptest::option::of((0_usize..3, 0_usize..3)),
    ) {
        let mut lab = world(speaks);
        if let Some((i, j)) = in_host_network {
            let pod = lab.cluster.pods.get_mut(&ObjectName::new(NAMESPACES[i], PODS[j])).unwrap();
            let host = &lab.cluster.nodes[&pod.node].host_addresses;
            pod.addresses = Addresses::from_addresses(host.iter().copied()).unwrap();
            pod.host_network = true;
        }
        if host_namespace {
            lab.cluster.host_namespace = Some("z".into());
        }
        for policy in policies {
            add(&mut lab, policy);
        }
        let zones = zones(&lab);
        for rows in zones.values() {
            prop_assert_eq!(check::zone(rows), BTreeSet::new());
        }
        for flow in flows(&lab) {
            prop_assert_eq!(passes(&lab, &zones, &flow), verdict(&lab.cluster, &flow), "{:?}", flow);
        }
    }
}
