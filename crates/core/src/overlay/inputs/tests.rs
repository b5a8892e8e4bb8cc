use std::collections::BTreeMap;

use crate::label::{LabelSelector, Labels};
use crate::name::{NodeName, ObjectName};
use crate::net::Stack;
use crate::overlay::allocate::{Assignment, NodeId};
use crate::overlay::cluster::*;
use crate::overlay::networks::{ClusterRange, Internal, Networks};
use crate::overlay::rows::Rows;
use crate::overlay::zone::{Datapath, SwitchFacts};
use crate::port::{Port, Protocol};
use crate::size::Mtu;
use proptest::prelude::*;

use super::Attached;
use super::*;
use crate::overlay::zone::SwitchProcess;

fn networks() -> Networks {
    let range = ClusterRange::new("10.244.0.0/16".parse().unwrap(), 24).unwrap();
    Networks::new(vec![range], vec!["10.96.0.0/16".parse().unwrap()], Internal::default()).unwrap()
}

fn name(n: u8) -> NodeName {
    format!("n{n}").parse().unwrap()
}

/// Node `n`, with the place of node `place`.
fn node_at(n: u8, place: u8) -> Node {
    let subnet = Stack::V4(format!("10.244.{place}.0/24").parse().unwrap());
    let id = NodeId::new(u64::from(place) + 2).unwrap();
    Node {
        name: name(n),
        assignment: Assignment::new(&networks(), id, subnet).unwrap(),
        chassis: format!("c{place}"),
        encap: [172, 30, 0, place].into(),
        host_addresses: [[172, 30, 0, place].into()].into(),
    }
}

fn node(n: u8) -> Node {
    node_at(n, n)
}

fn model() -> Model {
    let southbound = "unix:/x".to_owned();
    let facts =
        SwitchFacts { southbound, datapath: Datapath::Userspace, has_flows: true, follows_routes: true };
    Model::new(name(0), networks(), Topology::multi_node(), Mtu::new(1400).unwrap(), facts)
}

fn object(namespace: u8, n: u8) -> ObjectName {
    ObjectName::new(format!("ns{namespace}"), format!("o{n}"))
}

fn labels(n: u8) -> Labels {
    Labels::from_iter([("app", format!("a{n}"))])
}

fn pod(on: u8, at: ObjectName, label: u8, last: u8) -> Pod {
    Pod {
        uid: format!("u-{at}"),
        name: at,
        node: name(on),
        labels: labels(label),
        addresses: Stack::V4([10, 244, on, last].into()),
        host_network: false,
        ports: [NamedPort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: Port::new(8000 + i64::from(label)).unwrap(),
        }]
        .into(),
    }
}

/// The object of a pod whose kubelet reports its addresses.
fn written(pod: Pod) -> News {
    News::Pod(distant::object(pod))
}

/// Attaches a pod of this node: its object is there, and so is its port on the switch.
fn attach(model: &mut Model, pod: Pod) {
    let at = pod.name.clone();
    model.hear(written(pod.clone()));
    model.hear_local(&at, |local| local.switch_says(&at, Some(attached(&pod))));
}

fn service(at: ObjectName, n: u8) -> Service {
    Service {
        name: at,
        cluster_ips: Stack::V4([10, 96, 0, n].into()),
        external_ips: [].into(),
        load_balancer_ips: [].into(),
        ports: vec![ServicePort {
            name: String::new(),
            protocol: Protocol::Tcp,
            port: Port::new(80).unwrap(),
            node_port: Some(Port::new(30000 + i64::from(n)).unwrap()),
        }],
        affinity: None,
        internal_local: false,
        external_local: n.is_multiple_of(2),
        source_ranges: BTreeSet::new(),
    }
}

fn slice(last: u8) -> EndpointSlice {
    EndpointSlice {
        ports: vec![SlicePort {
            name: String::new(),
            protocol: Protocol::Tcp,
            port: Port::new(8080).unwrap(),
        }],
        endpoints: vec![Endpoint {
            address: [10, 244, last % 3, last].into(),
            node: Some(name(last % 3)),
            ready: true,
            serving: true,
            terminating: false,
        }],
    }
}

fn policy(at: ObjectName, selects: u8, peer: u8, named: bool) -> Policy {
    let peers = vec![Peer::Pods {
        namespaces: (peer > 1).then(|| LabelSelector::equals("app", format!("a{}", peer % 2))),
        pods: peer.is_multiple_of(2).then(|| LabelSelector::equals("app", format!("a{peer}"))),
    }];
    let ports = if named { PortSet::Named("http".into()) } else { PortSet::Any };
    let rule = Rule { peers, ports: vec![PolicyPort { protocol: Protocol::Tcp, ports }] };
    Policy {
        name: at,
        pods: LabelSelector::equals("app", format!("a{selects}")),
        ingress: Some(vec![rule.clone()]),
        egress: (selects == 0).then(|| vec![rule]),
        stateless: false,
    }
}

fn news() -> impl Strategy<Value = News> {
    let object_of = |n: u8| (0..2_u8, 0..n).prop_map(|(namespace, n)| object(namespace, n));
    prop_oneof![
        (0..3_u8, 0..3_u8).prop_map(|(n, place)| News::Node(node_at(n, if n == 0 { 0 } else { place }))),
        (0..3_u8).prop_map(|n| News::NodeGone(name(n))),
        (0..2_u8, 0..2_u8).prop_map(|(n, l)| News::Namespace(format!("ns{n}"), labels(l))),
        (0..2_u8).prop_map(|n| News::NamespaceGone(format!("ns{n}"))),
        (0..3_u8, object_of(4), 0..3_u8, 3..9_u8).prop_map(|(on, at, l, a)| written(pod(on, at, l, a))),
        object_of(4).prop_map(News::PodGone),
        (object_of(2), 1..5_u8).prop_map(|(at, n)| News::Service(service(at, n))),
        object_of(2).prop_map(News::ServiceGone),
        (object_of(3), object_of(2), 3..9_u8).prop_map(|(at, of, a)| News::Slice(at, of, slice(a))),
        object_of(3).prop_map(News::SliceGone),
        (object_of(2), 0..3_u8, 0..4_u8, any::<bool>())
            .prop_map(|(at, s, p, n)| News::Policy(policy(at, s, p, n))),
        object_of(2).prop_map(News::PolicyGone),
    ]
}

/// What the zone must hold, computed at once.
fn at_once(model: &Model) -> Option<Rows> {
    let zone = model.zone()?;
    let mut cluster = model.cluster().clone();
    let left_out = |part: &Part| model.left_out.contains_key(part);
    cluster.nodes.retain(|name, _| !left_out(&Part::Peer(name.clone())));
    let slices = model
        .slices
        .iter()
        .map(|(of, all)| (of.clone(), all.iter().map(|(_, slice)| slice.clone()).collect()));
    cluster.slices = slices.collect();
    let mut rows = zone.rows(&cluster).unwrap();
    rows.join(zone.rows_of_switch(model.switch())).unwrap();
    Some(rows)
}

proptest! {
    #[test]
    fn following_one_object_at_a_time_leads_where_computing_everything_leads(
        turns in prop::collection::vec(prop::collection::vec(news(), 1..4), 1..25),
    ) {
        let mut model = model();
        let mut followed = Change::default();
        for turn in turns {
            turn.into_iter().for_each(|one| model.hear(one));
            let settled = model.settle();
            followed.then(settled.change);
            let expected = at_once(&model).unwrap_or_default();
            prop_assert_eq!(&model.rows(), &expected);
            prop_assert_eq!(&followed.put, &expected, "the changes lead there too");
        }
    }

    #[test]
    fn the_order_things_are_heard_in_does_not_matter(all in prop::collection::vec(news(), 1..30), seed in any::<u64>()) {
        // Of each object only the last word counts.
        let mut last = BTreeMap::new();
        for one in all {
            last.insert(subject(&one), one);
        }
        let mut there: Vec<News> = last.into_values().collect();
        there.push(News::Node(node(0)));
        let mut one = model();
        there.iter().cloned().for_each(|n| one.hear(n));
        one.settle();
        let turn = (seed as usize) % there.len();
        there.rotate_left(turn);
        let mut other = model();
        for n in there {
            other.hear(n);
            other.settle();
        }
        prop_assert_eq!(one.rows(), other.rows());
    }
}

fn subject(news: &News) -> String {
    match news {
        News::Node(node) => format!("node {}", node.name),
        News::NodeGone(name) => format!("node {name}"),
        News::Namespace(name, _) | News::NamespaceGone(name) => format!("namespace {name}"),
        News::Pod(PodObject { name, .. }) | News::PodGone(name) => format!("pod {name}"),
        News::Service(Service { name, .. }) | News::ServiceGone(name) => format!("service {name}"),
        News::Slice(name, ..) | News::SliceGone(name) => format!("slice {name}"),
        News::Policy(Policy { name, .. }) | News::PolicyGone(name) => format!("policy {name}"),
    }
}

#[test]
fn nothing_is_computed_before_the_node_has_a_place() {
    let mut model = model();
    model.hear(News::Node(node(1)));
    attach(&mut model, pod(0, object(0, 0), 0, 5));
    assert_eq!(model.settle(), Settled::default());
    assert!(model.host(model.forward()).is_none());
    model.hear(News::Node(node(0)));
    let settled = model.settle();
    assert!(settled.host);
    assert!(settled.change.put.switch_ports.contains_key("ns0_o0"));
    assert!(settled.change.put.remote_chassis.contains_key("c1"));
}

#[test]
fn this_node_is_not_taken_away_by_an_api_that_does_not_know_it() {
    let mut model = model();
    model.hear(News::Node(node(0)));
    model.settle();
    let before = model.rows();
    model.hear(News::NodeGone(name(0)));
    assert!(model.settle().change.is_empty());
    assert_eq!(model.rows(), before);
}

/// Node 0 with the id and subnet of node `place`, and everything else its own.
fn placed_at(place: u8) -> Node {
    Node { assignment: node(place).assignment, ..node(0) }
}

#[test]
fn a_node_whose_annotations_change_goes_on_where_it_runs() {
    let at = object(0, 0);
    for with_pod in [true, false] {
        let mut model = model();
        [node(0), node(1)].into_iter().for_each(|n| model.hear(News::Node(n)));
        if with_pod {
            model.hear_local(&at, |local| local.put(pod(0, at.clone(), 1, 5)));
        }
        model.settle();
        let before = model.rows();
        // To somewhere free, and to where another is.
        for place in [7, 1] {
            model.hear(News::Node(placed_at(place)));
            assert!(model.settle().change.is_empty(), "{place}");
            assert_eq!(model.node().unwrap().assignment, node(0).assignment, "{place}");
            assert_eq!(model.told_elsewhere(), Some(&node(place).assignment));
        }
        // What else is said of the node is believed.
        let elsewhere = Node { host_addresses: [[192, 0, 2, 7].into()].into(), ..placed_at(7) };
        model.hear(News::Node(elsewhere.clone()));
        model.settle();
        assert_eq!(model.node().unwrap().host_addresses, elsewhere.host_addresses);
        model.hear(News::Node(node(0)));
        model.settle();
        assert_eq!(model.told_elsewhere(), None, "put right");
        assert_eq!(model.rows(), before);
    }
}

#[test]
fn a_node_leaves_what_is_anothers_when_its_last_pod_has_left() {
    let at = object(0, 0);
    let lives = pod(0, at.clone(), 1, 5);
    type How = fn(&mut LocalPods, &ObjectName, &Pod);
    let ways: [(How, How); 2] = [
        (|local, _, pod| local.put(pod.clone()), |local, at, pod| local.withdraw(at, &pod.uid)),
        (
            |local, at, pod| local.switch_says(at, Some(attached(pod))),
            |local, at, _| local.switch_says(at, None),
        ),
    ];
    for (come, leave) in ways {
        let mut model = model();
        model.hear(News::Node(node(0)));
        // Heard before the pod and the other node are: nothing moves until all is known.
        model.hear(News::Node(placed_at(7)));
        model.hear(News::Node(Node { assignment: node(0).assignment, ..node(1) }));
        model.hear_local(&at, |local| come(local, &at, &lives));
        model.settle();
        assert_eq!(model.node().unwrap().assignment, node(0).assignment);
        model.hear_local(&at, |local| leave(local, &at, &lives));
        model.settle();
        assert_eq!(model.node().unwrap().assignment, node(7).assignment);
        assert_eq!(model.told_elsewhere(), None);
        assert_eq!(model.rows(), at_once(&model).unwrap());
    }
}

#[test]
fn a_node_that_runs_where_none_of_its_pods_lives_goes_back_to_them() {
    let mut model = model();
    model.hear(News::Node(node_at(0, 7)));
    let at = object(0, 0);
    model.hear_local(&at, |local| local.switch_says(&at, Some(attached(&pod(0, at.clone(), 1, 5)))));
    model.settle();
    model.hear(News::Node(node(0)));
    model.settle();
    assert_eq!(model.node().unwrap().assignment, node(0).assignment);
}

#[test]
fn a_node_that_claims_what_another_has_is_left_out_until_the_other_gives_it_up() {
    let mut model = model();
    [node(0), node(1), node_at(2, 1)].into_iter().for_each(|n| model.hear(News::Node(n)));
    let settled = model.settle();
    assert_eq!(settled.left_out.len(), 1, "{:?}", settled.left_out);
    assert!(settled.left_out.contains_key(&Part::Peer(name(2))));
    assert!(model.rows().switch_ports.contains_key("tstor-n1"));
    assert!(!model.rows().switch_ports.contains_key("tstor-n2"));
    model.hear(News::NodeGone(name(1)));
    assert!(model.settle().left_out.is_empty());
    assert!(model.rows().switch_ports.contains_key("tstor-n2"));
    // And nobody takes what is this node's own.
    model.hear(News::Node(node_at(1, 0)));
    let settled = model.settle();
    assert!(settled.left_out.contains_key(&Part::Peer(name(1))), "{:?}", settled.left_out);
}

#[test]
fn a_pod_that_is_being_attached_is_there_before_the_api_tells_and_stays_when_the_api_forgets() {
    let mut model = model();
    model.hear(News::Node(node(0)));
    let at = object(0, 0);
    let new = pod(0, at.clone(), 1, 5);
    model.hear_local(&at, |local| local.put(new.clone()));
    assert!(model.settle().change.put.switch_ports.contains_key("ns0_o0"));
    // The API is behind, then tells the same, then has lost it.
    for said in [News::PodGone(at.clone()), written(new.clone()), News::PodGone(at.clone())] {
        model.hear(said);
        assert!(model.settle().change.gone.is_empty());
    }
    // Another pod of that name asked; this one is not it any more.
    model.hear_local(&at, |local| local.withdraw(&at, "somebody else"));
    assert!(model.settle().change.is_empty());
    model.hear_local(&at, |local| local.withdraw(&at, &new.uid));
    assert_eq!(model.settle().change.gone.len(), 1);
    // The API tells of it for a while longer.
    model.hear(written(new));
    assert!(model.settle().change.is_empty());
}

#[test]
fn an_attached_pod_keeps_its_port_whatever_the_api_says() {
    let mut model = model();
    model.hear(News::Node(node(0)));
    let at = object(0, 0);
    let known = pod(0, at.clone(), 1, 5);
    model.hear(written(known.clone()));
    let attached = attached(&known);
    model.hear_local(&at, |local| local.switch_says(&at, Some(attached)));
    model.settle();
    model.hear(News::PodGone(at.clone()));
    assert!(model.settle().change.is_empty(), "its port is the same without the API");
    model.hear_local(&at, |local| local.switch_says(&at, None));
    assert_eq!(model.settle().change.gone.len(), 1);
}

fn attached(pod: &Pod) -> Attached {
    Attached {
        uid: pod.uid.clone(),
        runtime_uid: pod.uid.clone(),
        addresses: pod.addresses,
        labels: pod.labels.clone(),
    }
}

#[test]
fn a_policy_means_a_static_pod_by_the_mirror_it_has_now_and_its_port_stays_bound() {
    let at = object(0, 0);
    let mut model = model();
    model.hear(News::Node(node(0)));
    model.hear(News::Policy(policy(object(0, 1), 3, 0, false)));
    let shown = pod(0, at.clone(), 1, 5);
    let by_mirror = Attached { uid: "of its first mirror".into(), ..attached(&shown) };
    model.hear_local(&at, |local| local.switch_says(&at, Some(by_mirror)));
    model.hear(written(shown));
    model.settle();
    let meant = |model: &Model| model.rows().port_groups.values().any(|group| group.ports.contains("ns0_o0"));
    assert!(!meant(&model), "{:?}", model.rows().port_groups);
    // Somebody deletes the mirror, and the kubelet makes another.
    model.hear(News::PodGone(at.clone()));
    model.hear(written(pod(0, at.clone(), 3, 5)));
    model.settle();
    assert!(meant(&model), "{:?}", model.rows().port_groups);
    let port = &model.rows().switch_ports["ns0_o0"];
    assert_eq!(port.options["iface-id-ver"], "of its first mirror", "as the switch says");
    model.hear_local(&at, |local| local.withdraw(&at, "u-ns0/o0"));
    assert!(!model.settle().change.gone.is_empty(), "though the API tells of it for a while longer");
}

#[test]
fn a_policy_means_an_attached_pod_for_as_long_as_it_is_here_whatever_the_api_says() {
    let at = object(0, 0);
    let (as_attached, relabelled) = (pod(0, at.clone(), 2, 5), pod(0, at.clone(), 1, 5));
    let model_with = |labels: u8| {
        let mut model = model();
        model.hear(News::Node(node(0)));
        model.hear(News::Policy(policy(object(0, 1), labels, 0, false)));
        model.hear_local(&at, |local| local.switch_says(&at, Some(attached(&as_attached))));
        model
    };
    let isolated = |model: &Model| {
        let groups = model.rows().port_groups;
        groups.values().any(|group| group.ports.contains("ns0_o0"))
    };

    let mut told = model_with(1);
    told.hear(written(relabelled.clone()));
    told.settle();
    assert!(isolated(&told), "{:?}", told.rows().port_groups);
    told.hear(News::PodGone(at.clone()));
    assert!(told.settle().change.is_empty(), "the API lost it, the switch did not");
    // Another of its name is on its way here.
    told.hear(written(Pod { uid: "another".into(), ..pod(0, at.clone(), 7, 6) }));
    assert!(told.settle().change.is_empty());
    told.hear_local(&at, |local| local.switch_says(&at, None));
    told.settle();
    assert!(!isolated(&told));

    let mut never_told = model_with(2);
    never_told.settle();
    assert!(isolated(&never_told), "{:?}", never_told.rows().port_groups);
}

#[test]
fn a_pod_of_the_same_name_elsewhere_is_the_newer_one() {
    let mut model = model();
    [node(0), node(1)].into_iter().for_each(|n| model.hear(News::Node(n)));
    let at = object(0, 0);
    model.hear_local(&at, |local| local.put(pod(0, at.clone(), 1, 5)));
    model.settle();
    let moved = Pod { uid: "newer".into(), ..pod(1, at.clone(), 1, 6) };
    model.hear(written(moved.clone()));
    assert_eq!(model.settle().change.gone.len(), 1);
    // The late withdrawal of the old one does not touch the new one.
    model.hear_local(&at, |local| local.withdraw(&at, "u-ns0/o0"));
    let kept = model.cluster().pods.get(&at).unwrap();
    assert_eq!((&kept.node, kept.addresses), (&moved.node, moved.addresses));
}

#[test]
fn a_new_list_takes_away_what_it_lacks_of_its_kind_only() {
    let mut model = model();
    [node(0), node(1), node(2)].into_iter().for_each(|n| model.hear(News::Node(n)));
    for n in 0..2 {
        model.hear(written(pod(1, object(0, n), 0, 5 + n)));
        model.hear(News::Service(service(object(0, n), n + 1)));
    }
    model.settle();
    model.retain(Kind::Node, |name| name.name != "n2");
    model.retain(Kind::Pod, |name| name.name != "o1");
    assert_eq!(model.cluster().nodes.len(), 2);
    assert_eq!(model.cluster().pods.len(), 1);
    assert_eq!(model.cluster().services.len(), 2);
}

#[test]
fn a_switch_that_lost_its_flows_is_told_not_to_wait_for_them() {
    let mut model = model();
    model.hear(News::Node(node(0)));
    model.settle();
    let lost = SwitchProcess { has_flows: false, follows_routes: true };
    model.hear_process(lost);
    let change = model.settle().change;
    assert_eq!((change.put.len(), change.gone.len()), (1, 0), "{:?}", change.put);
    let settings = &change.put.switch_settings["Open_vSwitch"];
    assert_eq!(settings.external_ids["ovn-ofctrl-wait-before-clear"], "0");
    model.hear_process(lost);
    assert!(model.settle().change.is_empty());
}

#[test]
fn the_work_of_a_change_is_that_of_its_own_rows() {
    let mut model = model();
    [node(0), node(1)].into_iter().for_each(|n| model.hear(News::Node(n)));
    for n in 0..200 {
        model.hear(News::Service(service(object(0, n), n)));
    }
    model.settle();
    model.hear(News::Slice(object(1, 0), object(0, 7), slice(5)));
    let change = model.settle().change;
    assert_eq!(change.put.len(), 2, "{:?}", change.put.load_balancers.keys());
    assert!(change.gone.is_empty());
}

/// What a tenant, or another node, writes of a pod: addresses of any kind.
fn reporting(on: u8, at: ObjectName, label: u8, reported: &[&str]) -> PodObject {
    let reported = reported.iter().map(|text| text.parse().unwrap()).collect();
    PodObject { reported, ..distant::object(pod(on, at, label, 9)) }
}

/// The single addresses of all sets; whole ranges are what is not translated.
fn set_addresses(model: &Model) -> BTreeSet<ipnet::IpNet> {
    let all = model.rows().address_sets.into_values().flat_map(|set| set.addresses);
    all.filter(|net| net.prefix_len() == net.max_prefix_len()).collect()
}

#[test]
fn an_annotation_or_a_report_moves_no_port_that_is_attached() {
    let at = object(0, 0);
    let mut model = model();
    model.hear(News::Node(node(0)));
    attach(&mut model, pod(0, at.clone(), 1, 5));
    model.settle();
    let before = model.rows();
    for stolen in [&["10.244.0.2"][..], &["10.244.0.9"], &["10.244.0.5", "10.244.0.9"], &[]] {
        model.hear(News::Pod(reporting(0, at.clone(), 1, stolen)));
        model.settle();
        assert_eq!(model.rows(), before, "{stolen:?}");
    }
}

#[test]
fn a_pod_that_is_not_attached_opens_nothing() {
    let mut model = model();
    model.hear(News::Node(node(0)));
    model.hear(News::Namespace("ns0".to_owned(), labels(0)));
    model.hear(News::Policy(policy(object(0, 1), 1, 0, true)));
    attach(&mut model, pod(0, object(0, 3), 1, 5));
    model.settle();
    let before = model.rows();
    assert!(!before.address_sets.is_empty(), "there is something to open");
    model.hear(News::Pod(reporting(0, object(0, 0), 0, &["10.244.0.9"])));
    model.settle();
    assert_eq!(model.rows(), before);
}

#[test]
fn the_policies_of_others_admit_a_pod_only_by_addresses_its_node_has() {
    let mut model = model();
    [node(0), node(1), node(2)].into_iter().for_each(|n| model.hear(News::Node(n)));
    model.hear(News::Namespace("ns0".to_owned(), labels(0)));
    model.hear(News::Policy(policy(object(0, 1), 1, 0, false)));
    attach(&mut model, pod(0, object(0, 3), 1, 5));
    let at = object(0, 0);
    for (reported, why) in [
        (&["10.244.1.2"][..], "10.244.1.2 has a fixed meaning"),
        (&["10.244.1.1"], "10.244.1.1 has a fixed meaning"),
        (&["10.244.2.5"], "10.244.2.5 is in no subnet of its node"),
        (&["10.244.0.5"], "10.244.0.5 is in no subnet of its node"),
        (&["172.30.0.1"], "172.30.0.1 is in no subnet of its node"),
        (&["10.96.0.1"], "10.96.0.1 is in no subnet of its node"),
        (&["10.244.1.9", "fd00::9"], "fd00::9 is in no subnet of its node"),
        (&["10.244.1.9", "10.244.1.10"], "they are not one address per family"),
    ] {
        model.hear(News::Pod(reporting(1, at.clone(), 0, reported)));
        let settled = model.settle();
        assert_eq!(set_addresses(&model), BTreeSet::new(), "{reported:?}");
        let said = settled.refused[&at].to_string();
        assert!(said.contains(why) && said.contains("status.podIPs of pod ns0/o0 on node n1"), "{said}");
    }
    model.hear(News::Pod(reporting(1, at.clone(), 0, &["10.244.1.9"])));
    assert!(model.settle().refused.is_empty());
    assert_eq!(set_addresses(&model), ["10.244.1.9/32".parse().unwrap()].into());
    model.hear(News::Pod(reporting(1, at.clone(), 0, &[])));
    assert!(model.settle().refused.is_empty(), "one that is not attached yet is no reason to complain");
    assert_eq!(set_addresses(&model), BTreeSet::new());
}

#[test]
fn a_pod_is_admitted_when_its_node_is_known_and_not_after_the_subnet_is_anothers() {
    let mut model = model();
    model.hear(News::Node(node(0)));
    model.hear(News::Namespace("ns0".to_owned(), labels(0)));
    model.hear(News::Policy(policy(object(0, 1), 1, 0, false)));
    attach(&mut model, pod(0, object(0, 3), 1, 5));
    let admitted = |model: &mut Model, news: News| {
        model.hear(news);
        model.settle();
        !set_addresses(model).is_empty()
    };
    assert!(!admitted(&mut model, News::Pod(reporting(1, object(0, 0), 0, &["10.244.1.9"]))));
    assert!(admitted(&mut model, News::Node(node(1))));
    assert!(!admitted(&mut model, News::Node(node_at(1, 7))));
    assert!(admitted(&mut model, News::Node(node(1))));
    assert!(!admitted(&mut model, News::NodeGone(name(1))));
    assert!(admitted(&mut model, News::Node(node(1))));
    model.retain(Kind::Pod, |_| false);
    model.settle();
    assert_eq!(set_addresses(&model), BTreeSet::new());
}

fn hostile() -> impl Strategy<Value = PodObject> {
    let address = prop_oneof![
        (0..4_u8, any::<u8>()).prop_map(|(net, last)| [10, 244, net, last].into()),
        any::<[u8; 4]>().prop_map(std::net::IpAddr::from),
        any::<[u8; 16]>().prop_map(std::net::IpAddr::from),
    ];
    (0..3_u8, 0..4_u8, 0..3_u8, prop::collection::vec(address, 0..3)).prop_map(|(on, n, label, reported)| {
        PodObject { reported, ..distant::object(pod(on, object(0, n), label, 9)) }
    })
}

proptest! {
    #[test]
    fn whatever_is_written_of_pods_no_address_is_opened_but_those_attached_here_and_those_nodes_may_give(
        written in prop::collection::vec(hostile(), 1..30),
    ) {
        let mut model = model();
        [node(0), node(1), node(2)].into_iter().for_each(|n| model.hear(News::Node(n)));
        model.hear(News::Namespace("ns0".to_owned(), labels(0)));
        model.hear(News::Policy(policy(object(0, 1), 1, 0, true)));
        let lives = pod(0, object(0, 3), 1, 5);
        attach(&mut model, lives.clone());
        let here: std::net::IpAddr = [10, 244, 0, 5].into();
        for object in written {
            model.hear(News::Pod(object));
            model.settle();
            let rows = model.rows();
            let ports: Vec<_> = rows.switch_ports.values().filter(|port| port.external_ids.contains_key("pod")).collect();
            for port in ports {
                prop_assert_eq!(&port.name, "ns0_o3");
                let security: Vec<String> = port.port_security.iter().map(ToString::to_string).collect();
                prop_assert_eq!(security, [format!("{} {here}", lives.addresses.mac())]);
            }
            for net in set_addresses(&model) {
                let std::net::IpAddr::V4(address) = net.addr() else { panic!("{net}") };
                let [a, b, node, last] = address.octets();
                let given = (a, b) == (10, 244) && (1..3).contains(&node) && (4..255).contains(&last);
                prop_assert!(given || net.addr() == here, "{}", net);
            }
        }
    }
}
