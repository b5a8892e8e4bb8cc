use super::*;
use crate::net::{Addresses, overlap};
use crate::overlay::networks::Internal;
use proptest::prelude::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn networks(cluster: &[(&str, u8)], service: &[&str]) -> Networks {
    let ranges = cluster.iter().map(|(n, p)| ClusterRange::new(net(n), *p).unwrap()).collect();
    Networks::new(ranges, service.iter().map(|s| net(s)).collect(), Internal::default()).unwrap()
}

fn small() -> Networks {
    networks(&[("10.244.0.0/22", 24)], &["10.96.0.0/16"])
}

fn node(name: &str, created: i64) -> Applicant {
    Applicant {
        name: name.parse().unwrap(),
        created,
        id: Claim::Absent,
        subnets: Claim::Absent,
        running: None,
    }
}

fn claiming(name: &str, created: i64, id: u64, subnet: &str) -> Applicant {
    Applicant { id: Claim::Says(id), subnets: Claim::Says(vec![net(subnet)]), ..node(name, created) }
}

fn subnet(allocation: &Allocation, name: &str) -> String {
    allocation.nodes[&name.parse().unwrap()]
        .subnets()
        .iter()
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

fn id(allocation: &Allocation, name: &str) -> u16 {
    allocation.nodes[&name.parse().unwrap()].id().number()
}

#[test]
fn new_nodes_get_ids_from_two_and_subnets_from_the_first() {
    let got = allocate(&small(), &[node("b", 2), node("a", 1)]);
    assert_eq!((id(&got, "a"), subnet(&got, "a").as_str()), (2, "10.244.0.0/24"));
    assert_eq!((id(&got, "b"), subnet(&got, "b").as_str()), (3, "10.244.1.0/24"));
    let a = &got.nodes[&"a".parse().unwrap()];
    assert_eq!(a.transit().to_string_list(), "100.88.0.2");
    assert_eq!(a.join().to_string_list(), "100.64.0.2");
    assert_eq!(a.management().to_string_list(), "10.244.0.2");
    assert!(got.findings.is_empty());
}

trait List {
    fn to_string_list(&self) -> String;
}

impl List for Addresses {
    fn to_string_list(&self) -> String {
        self.iter().map(|a| a.to_string()).collect::<Vec<_>>().join(",")
    }
}

#[test]
fn a_node_keeps_what_it_has_whatever_its_neighbours_do() {
    let got = allocate(&small(), &[node("new", 0), claiming("old", 9, 7, "10.244.0.0/24")]);
    assert_eq!((id(&got, "old"), subnet(&got, "old").as_str()), (7, "10.244.0.0/24"));
    assert_eq!((id(&got, "new"), subnet(&got, "new").as_str()), (2, "10.244.1.0/24"));
}

#[test]
fn of_two_nodes_that_claim_one_id_the_older_keeps_it() {
    let got = allocate(
        &small(),
        &[claiming("young", 2, 5, "10.244.0.0/24"), claiming("old", 1, 5, "10.244.1.0/24")],
    );
    assert_eq!(id(&got, "old"), 5);
    assert_eq!((id(&got, "young"), subnet(&got, "young").as_str()), (2, "10.244.0.0/24"));
    let (node, by) = ("young".parse().unwrap(), "old".parse().unwrap());
    assert_eq!(got.findings, [Finding::Taken { node, what: Resource::Id, by }]);
}

#[test]
fn of_two_nodes_whose_subnets_overlap_the_older_keeps_its_own() {
    let got = allocate(
        &small(),
        &[claiming("young", 2, 4, "10.244.1.0/24"), claiming("old", 1, 5, "10.244.1.0/24")],
    );
    assert_eq!(subnet(&got, "old"), "10.244.1.0/24");
    assert_eq!(subnet(&got, "young"), "10.244.0.0/24");
    let (node, by) = ("young".parse().unwrap(), "old".parse().unwrap());
    assert_eq!(got.findings, [Finding::Taken { node, what: Resource::Subnet(Family::V4), by }]);
}

/// Three nodes that run, the oldest first; `a` has id 2 and 10.244.0.0/24, and so on.
fn three_that_run() -> [Applicant; 3] {
    ["a", "b", "c"].map(|name| {
        let n = u64::from(name.as_bytes()[0] - b'a');
        let subnet = format!("10.244.{n}.0/24");
        let running = report(n + 2, &[net(&subnet)]);
        Applicant { running, ..claiming(name, i64::try_from(n).unwrap(), n + 2, &subnet) }
    })
}

#[test]
fn an_edit_of_a_subnet_that_runs_is_refused_and_nobody_moves() {
    let networks = networks(&[("10.244.0.0/16", 24), ("10.250.0.0/16", 25)], &["10.96.0.0/16"]);
    let before = allocate(&networks, &three_that_run());
    assert!(before.findings.is_empty());
    let range = ClusterRange::new(net("10.244.0.0/16"), 24).unwrap();
    let other = ClusterRange::new(net("10.250.0.0/16"), 25).unwrap();
    let runs = |says| Unusable::RunsWithSubnet { says: net(says), runs: net("10.244.0.0/24") };
    for (edit, why) in [
        ("10.244.9.0/24", runs("10.244.9.0/24")),
        ("10.244.1.0/24", runs("10.244.1.0/24")),
        ("10.250.0.0/25", runs("10.250.0.0/25")),
        ("10.244.0.0/20", Unusable::OtherSize(net("10.244.0.0/20"), range)),
        ("10.244.0.0/25", Unusable::OtherSize(net("10.244.0.0/25"), range)),
        ("10.250.0.0/24", Unusable::OtherSize(net("10.250.0.0/24"), other)),
        ("0.0.0.0/1", Unusable::OutsideRanges(net("0.0.0.0/1"))),
        ("0.0.0.0/0", Unusable::OutsideRanges(net("0.0.0.0/0"))),
        ("10.240.0.0/12", Unusable::OutsideRanges(net("10.240.0.0/12"))),
    ] {
        // The oldest, which would win against everybody; and somebody new, who would be given what it left.
        let mut nodes = three_that_run().to_vec();
        nodes[0].subnets = Claim::Says(vec![net(edit)]);
        nodes.push(node("new", 9));
        let after = allocate(&networks, &nodes);
        for (name, place) in &before.nodes {
            assert_eq!(after.nodes.get(name), Some(place), "{edit}: {name}");
        }
        assert_eq!(subnet(&after, "new"), "10.244.3.0/24", "{edit}");
        let what = Resource::Subnet(Family::V4);
        assert_eq!(after.findings, [Finding::Unusable { node: "a".parse().unwrap(), what, why }], "{edit}");
    }
}

#[test]
fn an_edit_of_an_id_that_runs_is_refused_and_nobody_moves() {
    for says in [3, 9] {
        let mut nodes = three_that_run();
        nodes[0].id = Claim::Says(says);
        let after = allocate(&small(), &nodes);
        assert_eq!(["a", "b", "c"].map(|name| id(&after, name)), [2, 3, 4]);
        let why = Unusable::RunsWithId { says, runs: NodeId::new(2).unwrap() };
        let node = "a".parse().unwrap();
        assert_eq!(after.findings, [Finding::Unusable { node, what: Resource::Id, why }]);
    }
}

#[test]
fn a_claim_of_another_size_than_its_range_gives_is_refused_of_a_node_that_does_not_run_too() {
    for edit in ["10.244.0.0/22", "10.244.0.0/23", "10.244.0.0/25"] {
        let mut nodes = three_that_run().to_vec();
        nodes.push(claiming("oldest", -1, 9, edit));
        let got = allocate(&small(), &nodes);
        assert_eq!(subnet(&got, "oldest"), "10.244.3.0/24", "{edit}");
        assert_eq!(subnet(&got, "a"), "10.244.0.0/24", "{edit}");
        assert_eq!(got.findings.len(), 1, "{edit}: {:?}", got.findings);
    }
}

#[test]
fn of_two_that_claim_one_subnet_the_one_that_runs_with_it_keeps_it_however_young() {
    let mut nodes = three_that_run().to_vec();
    nodes.push(claiming("oldest", -1, 9, "10.244.2.0/24"));
    // Also when somebody took the annotation of the one that runs away.
    for subnets in [nodes[2].subnets.clone(), Claim::Absent] {
        nodes[2].subnets = subnets;
        let got = allocate(&small(), &nodes);
        assert_eq!(subnet(&got, "c"), "10.244.2.0/24");
        assert_eq!(subnet(&got, "oldest"), "10.244.3.0/24");
        let (node, by) = ("oldest".parse().unwrap(), "c".parse().unwrap());
        assert_eq!(got.findings, [Finding::Taken { node, what: Resource::Subnet(Family::V4), by }]);
    }
}

#[test]
fn a_node_that_runs_with_what_is_anothers_is_named_until_it_has_moved() {
    let [a, mut b, _] = three_that_run();
    (b.subnets, b.running) = (a.subnets.clone(), report(3, &[net("10.244.0.0/24")]));
    let (name, by): (NodeName, NodeName) = ("b".parse().unwrap(), "a".parse().unwrap());
    let what = Resource::Subnet(Family::V4);
    let first = allocate(&small(), &[a.clone(), b.clone()]);
    assert_eq!((subnet(&first, "a"), subnet(&first, "b")), ("10.244.0.0/24".into(), "10.244.1.0/24".into()));
    assert_eq!(first.findings, [Finding::Taken { node: name.clone(), what, by: by.clone() }]);
    b.subnets = Claim::Says(vec![net("10.244.1.0/24")]);
    let then = allocate(&small(), &[a.clone(), b.clone()]);
    assert_eq!(then.nodes, first.nodes);
    assert_eq!(then.findings, [Finding::Lingers { node: name, what, by }]);
    b.running = report(3, &[net("10.244.1.0/24")]);
    assert_eq!(allocate(&small(), &[a, b]), Allocation { findings: vec![], ..first });
}

#[test]
fn a_mangled_annotation_falls_back_to_what_the_node_runs_with() {
    let running =
        Running { id: NodeId::new(9).unwrap(), subnets: Stack::V4("10.244.3.0/24".parse().unwrap()) };
    let mangled = Applicant {
        id: Claim::Mangled("nine".into()),
        subnets: Claim::Mangled("{".into()),
        running: Some(running),
        ..node("a", 1)
    };
    let got = allocate(&small(), &[mangled, node("b", 2)]);
    assert_eq!((id(&got, "a"), subnet(&got, "a").as_str()), (9, "10.244.3.0/24"));
    assert_eq!(got.findings.len(), 2);
}

#[test]
fn a_claim_outside_the_ranges_is_reported_and_replaced() {
    for (wrong, id) in
        [("10.9.0.0/24", 0), ("10.244.1.7/24", 1), ("fd00::/64", 40000), ("10.244.1.0/31", 70000)]
    {
        let got = allocate(&small(), &[claiming("a", 1, id, wrong)]);
        assert_eq!(subnet(&got, "a"), "10.244.0.0/24", "{wrong}");
        assert_eq!(got.findings.len(), 2, "{wrong}: {:?}", got.findings);
    }
}

#[test]
fn the_fifth_node_of_a_range_for_four_is_refused_and_named() {
    let nodes: Vec<_> = (0..5).map(|i| node(&format!("n{i}"), i)).collect();
    let got = allocate(&small(), &nodes);
    assert_eq!(got.nodes.len(), 4);
    let [Finding::Exhausted { node, what: Exhausted::Subnets { family, ranges, capacity } }] =
        &got.findings[..]
    else {
        panic!("{:?}", got.findings)
    };
    assert_eq!((node.as_str(), *family, *capacity), ("n4", Family::V4, 4));
    assert_eq!(ranges[0].net(), net("10.244.0.0/22"));
}

#[test]
fn a_second_range_is_used_when_the_first_is_full() {
    let networks = networks(&[("10.244.0.0/24", 24), ("10.250.0.0/24", 25)], &["10.96.0.0/16"]);
    let got = allocate(&networks, &[node("a", 1), node("b", 2), node("c", 3), node("d", 4)]);
    let subnets: Vec<_> = ["a", "b", "c"].iter().map(|n| subnet(&got, n)).collect();
    assert_eq!(subnets, ["10.244.0.0/24", "10.250.0.0/25", "10.250.0.128/25"]);
    assert!(!got.nodes.contains_key(&"d".parse().unwrap()));
}

#[test]
fn a_node_that_can_have_only_one_family_takes_neither() {
    let networks = networks(&[("10.244.0.0/16", 24), ("fd01::/64", 64)], &["10.96.0.0/16", "fd02::/112"]);
    let got = allocate(&networks, &[node("a", 1), node("b", 2)]);
    assert_eq!(subnet(&got, "a"), "10.244.0.0/24,fd01::/64");
    assert_eq!(got.nodes.len(), 1);
    let freed = allocate(&networks, &[node("b", 2)]);
    assert_eq!(subnet(&freed, "b"), "10.244.0.0/24,fd01::/64");
}

#[test]
fn a_cluster_that_becomes_dual_stack_keeps_the_subnets_it_has() {
    let networks = networks(&[("10.244.0.0/16", 24), ("fd01::/48", 64)], &["10.96.0.0/16", "fd02::/112"]);
    let got = allocate(&networks, &[claiming("a", 1, 5, "10.244.7.0/24")]);
    assert_eq!(subnet(&got, "a"), "10.244.7.0/24,fd01::/64");
    assert!(got.findings.is_empty());
}

#[test]
fn ids_end_where_the_join_network_ends() {
    let internal = Internal {
        join: ("100.64.0.0/30".parse().unwrap(), "fd98::/64".parse().unwrap()),
        ..Internal::default()
    };
    let range = ClusterRange::new(net("10.244.0.0/16"), 24).unwrap();
    let networks = Networks::new(vec![range], vec![net("10.96.0.0/16")], internal).unwrap();
    let got = allocate(&networks, &[node("a", 1), node("b", 2)]);
    assert_eq!(id(&got, "a"), 2);
    assert!(matches!(&got.findings[..], [Finding::Exhausted { what: Exhausted::Ids { capacity: 1 }, .. }]));
}

#[test]
fn a_wrong_allocation_does_not_pass_the_second_look() {
    use check::Wrong;
    let networks = small();
    let asked = [claiming("a", 1, 5, "10.244.0.0/24"), claiming("b", 2, 6, "10.244.1.0/24")];
    let name = |text: &str| text.parse::<NodeName>().unwrap();
    let right = allocate(&networks, &asked);
    let place = |id, subnet: &str| {
        // In networks that give it: in these it could not be made.
        let giving = self::networks(&[(subnet, net(subnet).prefix_len())], &["10.96.0.0/16"]);
        Assignment::new(&giving, NodeId::new(id).unwrap(), Stack::V4(subnet.parse().unwrap())).unwrap()
    };
    let wrong = |place: Assignment| {
        let mut allocation = right.clone();
        allocation.nodes.insert(name("b"), place);
        check::check(&networks, &asked, &allocation)
    };
    let (a, b) = (name("a"), name("b"));
    assert_eq!(wrong(place(6, "10.244.1.0/24")), []);
    assert_eq!(wrong(place(5, "10.244.1.0/24")), [Wrong::SharedId(a.clone(), b.clone())]);
    assert_eq!(
        wrong(place(6, "10.244.0.0/25")),
        [Wrong::Outside(b.clone()), Wrong::Uprooted(b.clone()), Wrong::SharedSubnet(a, b.clone())]
    );
    assert_eq!(wrong(place(6, "10.244.2.0/24")), [Wrong::Uprooted(b.clone())]);
    assert_eq!(wrong(place(6, "10.9.0.0/24")), [Wrong::Outside(b.clone()), Wrong::Uprooted(b.clone())]);
    assert_eq!(check::check(&networks, &asked[..1], &right), [Wrong::Stranger(b.clone())]);
    // What it reports counts, and what is claimed besides does not.
    let runs = Applicant { running: report(6, &[net("10.244.2.0/24")]), ..asked[1].clone() };
    assert_eq!(check::check(&networks, &[asked[0].clone(), runs], &right), [Wrong::Uprooted(b)]);
}

#[test]
fn a_network_for_one_machine_has_a_place_for_one() {
    let one = |nodes: &[Applicant]| allocate_in(Mode::SingleNode, &small(), nodes);
    let got = one(&[node("b", 2), node("a", 1), node("c", 3)]);
    assert_eq!(got.nodes.len(), 1);
    assert_eq!((id(&got, "a"), subnet(&got, "a").as_str()), (2, "10.244.0.0/24"));
    let refused = got.findings.iter().map(|found| {
        let Finding::Exhausted { node, what: Exhausted::Machine { by } } = found else { panic!("{found:?}") };
        format!("{node} {by}")
    });
    let refused: Vec<String> = refused.collect();
    assert_eq!(refused, ["b a", "c a"]);
    assert_eq!(one(&[]), Allocation::default());
}

#[test]
fn the_machine_that_has_the_place_keeps_it_whoever_comes_and_leaves_it_when_it_goes() {
    let one = |nodes: &[Applicant]| allocate_in(Mode::SingleNode, &small(), nodes);
    let lives = claiming("late", 9, 5, "10.244.2.0/24");
    let got = one(&[node("early", 1), lives.clone()]);
    assert_eq!((id(&got, "late"), subnet(&got, "late").as_str()), (5, "10.244.2.0/24"));
    let mangled = Applicant {
        subnets: Claim::Mangled("{".into()),
        running: report(5, &[net("10.244.2.0/24")]),
        ..lives
    };
    assert_eq!(subnet(&one(&[node("early", 1), mangled]), "late"), "10.244.2.0/24");
    assert_eq!(subnet(&one(&[node("early", 1)]), "early"), "10.244.0.0/24");
}

/// What annotations can look like: absent, sensible, stolen from a neighbour, or written by hand.
fn claims() -> impl Strategy<Value = (Claim<u64>, Claim<Vec<IpNet>>)> {
    let id = prop_oneof![
        2 => Just(Claim::Absent),
        3 => (0_u64..9).prop_map(Claim::Says),
        1 => any::<u64>().prop_map(Claim::Says),
        1 => "[a-z]{0,3}".prop_map(Claim::Mangled),
    ];
    let v4 = (0_u8..12, 20_u8..33)
        .prop_map(|(third, length)| IpNet::new([10, 244, third, 0].into(), length).unwrap());
    let v6 = (0_u16..6, 60_u8..70).prop_map(|(fourth, length)| {
        IpNet::new(std::net::IpAddr::V6([0xfd01, 0, 0, fourth, 0, 0, 0, 0].into()), length).unwrap()
    });
    let subnets = prop_oneof![
        2 => Just(Claim::Absent),
        6 => prop::collection::vec(prop_oneof![v4, v6], 0..4).prop_map(Claim::Says),
        1 => "[a-z{]{0,3}".prop_map(Claim::Mangled),
    ];
    (id, subnets)
}

fn applicants() -> impl Strategy<Value = Vec<Applicant>> {
    prop::collection::vec((0_i64..4, claims(), claims()), 0..14).prop_map(|all| {
        type Claims = (Claim<u64>, Claim<Vec<IpNet>>);
        let applicant =
            |(i, (created, (id, subnets), (running_id, running))): (usize, (i64, Claims, Claims))| {
                let running = match (running_id, running) {
                    (Claim::Says(id), Claim::Says(nets)) => report(id, &nets),
                    (Claim::Absent | Claim::Mangled(_) | Claim::Says(_), _) => None,
                };
                Applicant { id, subnets, running, ..node(&format!("n{i}"), created) }
            };
        all.into_iter().enumerate().map(applicant).collect()
    })
}

fn report(id: u64, nets: &[IpNet]) -> Option<Running> {
    let v4 = nets.iter().find_map(|n| if let IpNet::V4(n) = n { Some(*n) } else { None });
    let v6 = nets.iter().find_map(|n| if let IpNet::V6(n) = n { Some(*n) } else { None });
    Some(Running { id: NodeId::new(id)?, subnets: Stack::from_parts(v4, v6)? })
}

fn some_networks() -> impl Strategy<Value = Networks> {
    prop_oneof![
        Just(networks(&[("10.244.0.0/21", 24)], &["10.96.0.0/16"])),
        Just(networks(&[("10.244.0.0/22", 23), ("10.244.8.0/22", 25)], &["10.96.0.0/16"])),
        Just(networks(&[("fd01::/62", 64)], &["fd02::/112"])),
        Just(networks(&[("10.244.0.0/20", 23), ("fd01::/61", 63)], &["fd02::/112", "10.96.0.0/16"])),
    ]
}

fn assert_sound(networks: &Networks, allocation: &Allocation) {
    let given: Vec<_> = allocation.nodes.iter().collect();
    for (i, (name, a)) in given.iter().enumerate() {
        assert_eq!(a.subnets().families(), networks.families(), "{name}");
        for net in a.subnets().iter() {
            let fits = |r: &ClusterRange| r.net().contains(&net) && r.host_prefix() == net.prefix_len();
            assert!(networks.cluster().iter().any(fits), "{name} has {net}");
        }
        for (other, b) in &given[i + 1..] {
            assert_ne!(a.id(), b.id(), "{name} and {other}");
            for (x, y) in a.subnets().iter().flat_map(|x| b.subnets().iter().map(move |y| (x, y))) {
                assert!(!overlap(x, y), "{name} has {x}, {other} has {y}");
            }
        }
    }
}

/// The nodes once they were told what they are given, and run with it or have not begun to run.
fn told(allocation: &Allocation, of: &[Applicant], run: bool) -> Vec<Applicant> {
    let mut nodes = of.to_vec();
    for node in &mut nodes {
        if let Some(a) = allocation.nodes.get(&node.name) {
            node.id = Claim::Says(u64::from(a.id().number()));
            node.subnets = Claim::Says(a.subnets().iter().collect());
            node.running = run.then(|| Running { id: a.id(), subnets: a.subnets() });
        }
    }
    nodes
}

proptest! {
    #[test]
    fn no_two_nodes_ever_share_an_id_or_an_address(networks in some_networks(), nodes in applicants()) {
        let got = allocate(&networks, &nodes);
        assert_sound(&networks, &got);
        prop_assert_eq!(check::check(&networks, &nodes, &got), vec![]);
        for node in &nodes {
            let refused = got.findings.iter().any(|f| matches!(f, Finding::Exhausted { node: n, .. } if *n == node.name));
            prop_assert_eq!(got.nodes.contains_key(&node.name), !refused);
        }
    }

    #[test]
    fn a_node_that_runs_keeps_what_it_runs_with_whatever_annotations_say(
        networks in some_networks(), nodes in applicants(),
    ) {
        let got = allocate(&networks, &nodes);
        assert_sound(&networks, &got);
        for node in &nodes {
            let (Some(running), Some(given)) = (node.running, got.nodes.get(&node.name)) else { continue };
            let others = || nodes.iter().filter(|other| other.name != node.name).filter_map(|other| other.running);
            if !others().any(|other| other.id == running.id) {
                prop_assert_eq!(given.id(), running.id, "{}", node.name);
            }
            for lives in running.subnets.iter().filter(|net| networks.gives(*net)) {
                if !others().any(|other| other.subnets.iter().any(|theirs| theirs == lives)) {
                    prop_assert!(given.subnets().iter().any(|given| given == lives), "{}: {}", node.name, lives);
                }
            }
        }
    }

    #[test]
    fn an_edit_of_one_running_nodes_annotations_changes_nothing_for_anybody(
        networks in some_networks(), nodes in applicants(), which in any::<prop::sample::Index>(), edit in claims(),
    ) {
        let first = allocate(&networks, &nodes);
        let mut running = told(&first, &nodes, true);
        running.retain(|node| first.nodes.contains_key(&node.name));
        if !running.is_empty() {
            let which = which.index(running.len());
            (running[which].id, running[which].subnets) = edit;
            let second = allocate(&networks, &running);
            prop_assert_eq!(&second.nodes, &first.nodes);
            let edited = &running[which].name;
            let of_edit = |found: &Finding| matches!(found, Finding::Unusable { node, .. } if node == edited);
            prop_assert!(second.findings.iter().all(of_edit), "{:?}", second.findings);
        }
    }

    #[test]
    fn what_was_given_once_is_kept_through_every_later_change(
        networks in some_networks(),
        nodes in applicants(),
        gone in prop::collection::vec(any::<bool>(), 14),
        run in any::<bool>(),
        more in applicants(),
    ) {
        let first = allocate(&networks, &nodes);
        let mut later: Vec<_> = told(&first, &nodes, run);
        later.retain(|node| first.nodes.contains_key(&node.name));
        let mut keep = gone.iter();
        later.retain(|_| *keep.next().unwrap());
        let stayed: Vec<_> = later.iter().map(|n| n.name.clone()).collect();
        // newcomers are younger, as newcomers are
        later.extend(more.into_iter().map(|n| Applicant {
            name: format!("late-{}", n.name).parse().unwrap(),
            created: 100 + n.created,
            // A newcomer runs with what it was given; what it says otherwise must not matter to those that run.
            running: n.running.filter(|_| run),
            ..n
        }));
        let second = allocate(&networks, &later);
        assert_sound(&networks, &second);
        for name in stayed {
            prop_assert_eq!(&second.nodes[&name], &first.nodes[&name]);
        }
    }

    #[test]
    fn one_machine_is_always_given_what_it_would_be_given_alone(
        networks in some_networks(), nodes in applicants().prop_shuffle(),
    ) {
        let got = allocate_in(Mode::SingleNode, &networks, &nodes);
        prop_assert!(got.nodes.len() <= 1);
        prop_assert_eq!(check::check(&networks, &nodes, &got), vec![]);
        let mut sorted = nodes.clone();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        prop_assert_eq!(&allocate_in(Mode::SingleNode, &networks, &sorted), &got);
        for node in &nodes {
            let refused = got.findings.iter().any(|f| matches!(f, Finding::Exhausted { node: n, .. } if *n == node.name));
            prop_assert_eq!(got.nodes.contains_key(&node.name), !refused);
        }
    }

    #[test]
    fn the_answer_does_not_depend_on_the_order_of_the_question(
        networks in some_networks(), nodes in applicants().prop_shuffle(),
    ) {
        let mut sorted = nodes.clone();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        prop_assert_eq!(allocate(&networks, &nodes), allocate(&networks, &sorted));
    }
}
