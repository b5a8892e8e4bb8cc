use super::*;
use netferry_api::migration::{MigrationStatus, NetworkMigration};
use netferry_api::mtu::{CniMtu, InterfaceMtu, InterfaceRole, MtuMigration, MtuObserved};
use netferry_api::overlay::{ClusterNetworkEntry, DefaultNetwork, OvnKubernetesConfig};

fn spec(cluster: &[(&str, u32)], service: &[&str]) -> OperatorNetworkSpec {
    let entry = |(cidr, prefix): &(&str, u32)| ClusterNetworkEntry {
        cidr: Some((*cidr).to_owned()),
        host_prefix: Some(*prefix),
    };
    OperatorNetworkSpec {
        cluster_network: cluster.iter().map(entry).collect(),
        service_network: service.iter().map(ToString::to_string).collect(),
        ..OperatorNetworkSpec::default()
    }
}

fn usual() -> OperatorNetworkSpec {
    spec(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"])
}

fn with_mtu(mtu: u32, spec: OperatorNetworkSpec) -> OperatorNetworkSpec {
    let config = OvnKubernetesConfig { mtu: Some(mtu), ..OvnKubernetesConfig::default() };
    let network = DefaultNetwork { ovn_kubernetes_config: Some(config), ..DefaultNetwork::default() };
    OperatorNetworkSpec { default_network: Some(network), ..spec }
}

fn node(name: &str, annotations: &BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        annotations: Some(annotations.clone()),
        resource_version: Some("7".into()),
        ..ObjectMeta::default()
    }
}

fn look(spec: &OperatorNetworkSpec, config: Option<&ConfigNetwork>, nodes: &[ObjectMeta]) -> Decision {
    look_while(false, spec, config, nodes)
}

/// While a change is under way, or not.
fn look_while(
    under_way: bool,
    spec: &OperatorNetworkSpec,
    config: Option<&ConfigNetwork>,
    nodes: &[ObjectMeta],
) -> Decision {
    decide(&World { spec, annotations: None, config, under_way, nodes, without_address: &BTreeSet::new() })
}

/// A cluster with one node that has its place, and what is published of it.
fn running(spec: &OperatorNetworkSpec) -> (ConfigNetwork, Vec<ObjectMeta>) {
    let fresh = look(spec, None, &[node("a", &BTreeMap::new())]);
    let status = fresh.published.unwrap().status;
    let mut config = ConfigNetwork::new("cluster", Default::default());
    config.status = Some(status);
    (config, vec![node("a", &fresh.writes[0].annotations)])
}

fn messages(decision: &Decision) -> Vec<&str> {
    decision.problems.iter().map(|problem| problem.message.as_str()).collect()
}

#[test]
fn a_cluster_in_which_everything_is_said_needs_no_write() {
    let (config, nodes) = running(&usual());
    let decision = look(&usual(), Some(&config), &nodes);
    assert!(decision.writes.is_empty() && decision.problems.is_empty(), "{decision:?}");
    assert!(decision.published.unwrap().already);
}

#[test]
fn a_spec_that_cannot_be_publishes_nothing_in_a_new_cluster() {
    let decision =
        look(&spec(&[("10.244.0.0/16", 24)], &["10.244.0.0/24"]), None, &[node("a", &BTreeMap::new())]);
    assert!(decision.writes.is_empty() && decision.published.is_none());
    assert_eq!(
        messages(&decision),
        ["spec.clusterNetwork[0].cidr 10.244.0.0/16, spec.serviceNetwork[0] 10.244.0.0/24: overlap"]
    );
}

#[test]
fn a_running_cluster_goes_on_with_what_is_deployed_while_the_spec_cannot_be() {
    let (config, mut nodes) = running(&usual());
    nodes.push(node("b", &BTreeMap::new()));
    for wrong in [
        spec(&[("10.244.0.0/16", 31)], &["10.96.0.0/16"]),
        spec(&[("10.99.0.0/16", 24)], &["10.96.0.0/16"]),
        spec(&[("10.244.0.0/16", 24)], &["10.97.0.0/16"]),
        spec(&[], &[]),
    ] {
        let decision = look(&wrong, Some(&config), &nodes);
        assert!(!decision.problems.is_empty());
        assert!(decision.published.as_ref().unwrap().already, "{decision:?}");
        let [write] = &decision.writes[..] else { panic!("{decision:?}") };
        assert_eq!(write.name, "b");
        assert_eq!(write.annotations["k8s.ovn.org/node-subnets"], r#"{"default":["10.244.1.0/24"]}"#);
    }
}

#[test]
fn a_status_written_by_hand_is_written_over_unless_somebody_lives_elsewhere() {
    let (mut config, nodes) = running(&usual());
    config.status.as_mut().unwrap().cluster_network[0].cidr = Some("nonsense".into());
    assert!(!look(&usual(), Some(&config), &nodes).published.unwrap().already);
    let elsewhere = spec(&[("10.99.0.0/16", 24)], &["10.96.0.0/16"]);
    let decision = look(&elsewhere, Some(&config), &nodes);
    assert!(decision.writes.is_empty() && decision.published.is_none());
    assert_eq!(decision.problems[0].reason, Reason::InvalidClusterConfig);
}

#[test]
fn the_mtu_of_a_running_cluster_is_not_changed_by_an_edit() {
    let (config, nodes) = running(&with_mtu(1400, usual()));
    let decision = look(&with_mtu(8900, usual()), Some(&config), &nodes);
    assert!(decision.published.as_ref().unwrap().already);
    assert_eq!(
        messages(&decision),
        ["spec.defaultNetwork.ovnKubernetesConfig.mtu 8900: the cluster runs with 1400; \
         a running cluster's MTU is changed through spec.migration.mtu"]
    );
    let fresh = look(&with_mtu(8900, usual()), Some(&config), &[node("a", &BTreeMap::new())]);
    assert_eq!(fresh.published.unwrap().status.cluster_network_mtu, Some(8900), "nobody runs with it yet");
    let (config, nodes) = running(&with_mtu(8900, usual()));
    assert!(look(&usual(), Some(&config), &nodes).problems.is_empty(), "asking for nothing is no change");
}

#[test]
fn the_plugin_s_mtu_is_ignored_beside_a_change_that_is_asked_for() {
    let six = || spec(&[("fd01::/48", 64)], &["fd02::/112"]);
    for base in [usual(), six()] {
        let (config, nodes) = running(&with_mtu(1400, base.clone()));
        for mtu in [1234, 1279, 100, 70_000, 8900] {
            let asked =
                NetworkMigration { mtu: Some(MtuMigration::default()), ..NetworkMigration::default() };
            let edited = OperatorNetworkSpec { migration: Some(asked), ..with_mtu(mtu, base.clone()) };
            for under_way in [false, true] {
                let decision = look_while(under_way, &edited, Some(&config), &nodes);
                assert!(decision.problems.is_empty(), "{mtu}: {decision:?}");
                assert!(decision.published.unwrap().already, "{mtu}");
            }
            // In a cluster that is to be made it is what it is made with.
            let fresh = look(&edited, None, &[]);
            let fits = mtu <= 65_536 && mtu >= if base == usual() { 576 } else { 1280 };
            assert_eq!(fresh.published.is_some(), fits, "{mtu}: {fresh:?}");
        }
    }
}

/// What a node reports that its pods run at, and lets out.
fn reporting(node: &ObjectMeta, mtu: u32, out: Option<u32>) -> ObjectMeta {
    let uplink = InterfaceMtu { name: "eth0".into(), role: InterfaceRole::Uplink, mtu: 9000, nic: None };
    let cni = CniMtu { mtu, routable_mtu: out };
    let observed = MtuObserved::new(vec![uplink], vec![], Some(cni)).unwrap();
    let mut node = node.clone();
    node.annotations.get_or_insert_default().insert(MtuObserved::KEY.into(), observed.to_string());
    node
}

#[test]
fn an_mtu_that_was_published_by_hand_is_written_over_by_what_runs() {
    let (config, nodes) = running(&with_mtu(1400, usual()));
    let newcomer = node("b", &BTreeMap::new());
    let mut edited = config.clone();
    edited.status.as_mut().unwrap().cluster_network_mtu = Some(8900);
    let at = |mtu, out| vec![reporting(&nodes[0], mtu, out), newcomer.clone()];
    for spec in [with_mtu(1400, usual()), usual()] {
        let decision = look(&spec, Some(&edited), &at(1400, None));
        assert!(decision.problems.is_empty(), "{decision:?}");
        let published = decision.published.unwrap();
        assert!(!published.already && published.status == *config.status.as_ref().unwrap());
    }
    // Who runs something else, is on the way, or says nothing of pods, is no witness; nor is one of two who differ.
    let differ = vec![reporting(&nodes[0], 1400, None), reporting(&newcomer, 8900, None)];
    for nodes in [at(8900, None), at(8900, Some(1400)), nodes.clone(), differ] {
        let decision = look(&with_mtu(1400, usual()), Some(&edited), &nodes);
        assert!(decision.published.as_ref().unwrap().already && decision.problems.len() == 1, "{decision:?}");
    }
    // Nor is what is asked for, if nobody runs it; and a change says itself what is published.
    let decision = look(&with_mtu(1300, usual()), Some(&edited), &at(1400, None));
    assert!(decision.published.unwrap().already);
    assert!(look_while(true, &usual(), Some(&edited), &at(1400, None)).published.unwrap().already);
    edited.status.as_mut().unwrap().migration = Some(MigrationStatus::default());
    assert!(look(&usual(), Some(&edited), &at(1400, None)).published.unwrap().already);
}

#[test]
fn ranges_stay_while_a_change_of_mtu_is_under_way_and_may_grow_after() {
    let (mut config, nodes) = running(&usual());
    let wider = spec(&[("10.244.0.0/15", 24)], &["10.96.0.0/16"]);
    let migration = MigrationStatus { network_type: None, mtu: Some(MtuMigration::default()) };
    config.status.as_mut().unwrap().migration = Some(migration);
    let decision = look(&wider, Some(&config), &nodes);
    assert_eq!(messages(&decision), ["spec.clusterNetwork cannot be changed while a change is under way"]);
    assert!(decision.published.unwrap().already, "what is deployed stays published");
    let both = spec(&[("10.244.0.0/16", 24), ("fd01::/48", 64)], &["10.96.0.0/16", "fd02::/112"]);
    assert_eq!(
        messages(&look(&both, Some(&config), &nodes)),
        [
            "spec.serviceNetwork cannot be changed while a change is under way",
            "spec.clusterNetwork cannot be changed while a change is under way"
        ]
    );
    config.status.as_mut().unwrap().migration = None;
    // In phase two nothing is published of it.
    let decision = look_while(true, &wider, Some(&config), &nodes);
    assert_eq!(messages(&decision), ["spec.clusterNetwork cannot be changed while a change is under way"]);
    assert!(decision.published.unwrap().already);
    assert!(look(&wider, Some(&config), &nodes).problems.is_empty());
}

#[test]
fn the_size_of_nodes_subnets_stays_in_a_running_cluster() {
    let (config, nodes) = running(&usual());
    let finer = spec(&[("10.244.0.0/16", 25)], &["10.96.0.0/16"]);
    let decision = look(&finer, Some(&config), &nodes);
    assert_eq!(
        messages(&decision),
        ["spec.clusterNetwork 10.244.0.0/16 (/24 per node) cannot become 10.244.0.0/16 (/25 per node): \
          hostPrefix must stay"]
    );
    assert!(decision.published.unwrap().already, "what is deployed stays");
    let wider = spec(&[("10.244.0.0/15", 25)], &["10.96.0.0/16"]);
    assert_eq!(look(&wider, Some(&config), &nodes).problems.len(), 1);
    let more = spec(&[("10.244.0.0/16", 24), ("10.9.0.0/16", 25)], &["10.96.0.0/16"]);
    assert!(look(&more, Some(&config), &nodes).problems.is_empty(), "others may come");
    assert!(look(&finer, Some(&config), &[node("a", &BTreeMap::new())]).problems.is_empty());
}

#[test]
fn the_plugin_of_a_running_cluster_is_not_changed_by_an_edit() {
    let (mut config, mut nodes) = running(&with_mtu(1400, usual()));
    nodes.push(node("b", &BTreeMap::new()));
    let mut edited = with_mtu(1400, usual());
    edited.default_network.as_mut().unwrap().plugin = Some("OpenShiftSDN".into());
    let decision = look(&edited, Some(&config), &nodes);
    let says = "spec.defaultNetwork.type cannot become \"OpenShiftSDN\" without spec.migration";
    assert_eq!(messages(&decision), [says]);
    assert!(
        decision.published.unwrap().already && decision.writes.len() == 1,
        "newcomers go on being placed"
    );
    // Prepared is what was published as prepared.
    let prepared = MigrationStatus { network_type: Some("OpenShiftSDN".into()), mtu: None };
    config.status.as_mut().unwrap().migration = Some(prepared);
    assert!(look(&edited, Some(&config), &nodes).problems.is_empty());
}

#[test]
fn the_tunnels_port_of_a_running_cluster_is_not_changed_by_an_edit() {
    let (config, nodes) = running(&usual());
    let at = |port: u32| {
        let mut spec = with_mtu(1400, usual());
        let network = spec.default_network.as_mut().unwrap();
        network.ovn_kubernetes_config.as_mut().unwrap().geneve_port = Some(port);
        spec
    };
    assert!(look(&at(6081), Some(&config), &nodes).problems.is_empty());
    assert_eq!(
        messages(&look(&at(6082), Some(&config), &nodes)),
        ["spec.defaultNetwork.ovnKubernetesConfig.genevePort cannot be changed from 6081 to 6082"]
    );
}

#[test]
fn packets_that_should_not_be_wrapped_are_not_wrapped_in_silence() {
    let bare = || {
        let mut spec = with_mtu(1400, usual());
        let network = spec.default_network.as_mut().unwrap();
        network.ovn_kubernetes_config.as_mut().unwrap().transport = Some("NoOverlay".into());
        spec
    };
    let says = "spec.defaultNetwork.ovnKubernetesConfig.transport NoOverlay: nodes wrap packets in Geneve all the same; \
                make the Network anew with the transport Geneve";
    let fresh = look(&bare(), None, &[node("a", &BTreeMap::new())]);
    assert_eq!(messages(&fresh), [says]);
    assert!(fresh.published.is_none() && fresh.writes.is_empty());
    let (config, nodes) = running(&with_mtu(1400, usual()));
    let decision = look(&bare(), Some(&config), &nodes);
    assert_eq!(messages(&decision), [says]);
    assert!(decision.published.unwrap().already, "what runs goes on");
}

#[test]
fn ipv6_is_not_given_an_mtu_it_cannot_live_with() {
    let six = spec(&[("fd01::/48", 64)], &["fd02::/112"]);
    let decision = look(&with_mtu(1279, six.clone()), None, &[]);
    assert!(decision.published.is_none());
    assert!(messages(&decision)[0].contains("IPv6 needs 1280"));
    assert!(look(&with_mtu(1280, six), None, &[]).published.is_some());
}

#[test]
fn a_node_without_an_address_is_reported_and_keeps_nobody_waiting() {
    let without = BTreeSet::from(["a".to_owned()]);
    let nodes = [node("a", &BTreeMap::new()), node("b", &BTreeMap::new())];
    let decision = decide(&World {
        spec: &usual(),
        annotations: None,
        config: None,
        under_way: false,
        nodes: &nodes,
        without_address: &without,
    });
    assert_eq!(messages(&decision), ["node a has no InternalIP; no other node can reach it"]);
    assert_eq!(decision.writes.len(), 2);
}

#[test]
fn a_node_beyond_the_last_subnet_is_named_with_the_way_out() {
    let small = spec(&[("10.244.0.0/24", 25)], &["10.96.0.0/16"]);
    let nodes: Vec<ObjectMeta> = ["a", "b", "c"].iter().map(|name| node(name, &BTreeMap::new())).collect();
    let decision = look(&small, None, &nodes);
    assert_eq!(decision.writes.len(), 2);
    assert_eq!(
        messages(&decision),
        [
            "node c has no place in the overlay: all 2 IPv4 subnets of 10.244.0.0/24 (/25 per node) are taken; \
         add a range to spec.clusterNetwork"
        ]
    );
}

fn topology(mode: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("netferry.dev/topology".to_owned(), mode.to_owned())])
}

fn asked(mode: &str, config: Option<&ConfigNetwork>, nodes: &[ObjectMeta]) -> Decision {
    let annotations = topology(mode);
    let (spec, annotations) = (&usual(), Some(&annotations));
    decide(&World { spec, annotations, config, under_way: false, nodes, without_address: &BTreeSet::new() })
}

/// A cluster of one machine that has its place, and what is published of it.
fn one_machine() -> (ConfigNetwork, Vec<ObjectMeta>) {
    let fresh = asked("single-node", None, &[node("a", &BTreeMap::new())]);
    let published = fresh.published.unwrap();
    let mut config = ConfigNetwork::new("cluster", Default::default());
    config.metadata.annotations = Some(published.topology.into_iter().collect());
    config.status = Some(published.status);
    (config, vec![node("a", &fresh.writes[0].annotations)])
}

#[test]
fn a_network_for_one_machine_says_so_and_gives_pods_what_ethernet_carries() {
    let (config, nodes) = one_machine();
    assert_eq!(config.metadata.annotations, Some(topology("single-node")));
    assert_eq!(config.status.as_ref().unwrap().cluster_network_mtu, Some(1500));
    let decision = asked("single-node", Some(&config), &nodes);
    assert!(decision.writes.is_empty() && decision.problems.is_empty(), "{decision:?}");
    assert!(decision.published.unwrap().already);
    let many = asked("multi-node", None, &[]).published.unwrap();
    assert_eq!((many.topology, many.status.cluster_network_mtu), (None, Some(1400)), "as without a word");
}

#[test]
fn a_second_node_gets_no_place_beside_one_machine_and_is_told_what_to_do() {
    let (config, mut nodes) = one_machine();
    nodes.push(node("b", &BTreeMap::new()));
    let decision = asked("single-node", Some(&config), &nodes);
    assert!(decision.writes.is_empty() && decision.published.as_ref().unwrap().already, "{decision:?}");
    assert_eq!(decision.problems[0].reason, Reason::SingleNodeTaken);
    assert_eq!(
        messages(&decision),
        [
            "node b has no place in the overlay: the network is for one machine (netferry.dev/topology single-node), \
          and node a is it; remove the node from the cluster, or make a cluster without that annotation and move there"
        ]
    );
}

#[test]
fn a_running_cluster_is_not_turned_into_one_for_another_number_of_machines() {
    let (one, one_nodes) = one_machine();
    let (many, many_nodes) = running(&usual());
    let cases = [
        (asked("multi-node", Some(&one), &one_nodes), "multi-node: the cluster runs as single-node"),
        (look(&usual(), Some(&one), &one_nodes), "multi-node: the cluster runs as single-node"),
        (asked("single-node", Some(&many), &many_nodes), "single-node: the cluster runs as multi-node"),
    ];
    for (decision, says) in cases {
        assert!(decision.writes.is_empty() && decision.published.as_ref().unwrap().already, "{decision:?}");
        let [message] = &messages(&decision)[..] else { panic!("{decision:?}") };
        assert!(message.contains(says) && message.contains("make a new cluster"), "{message}");
    }
}

#[test]
fn before_anybody_lives_in_it_a_network_may_be_made_for_another_number_of_machines() {
    let (one, _) = one_machine();
    let back = asked("multi-node", Some(&one), &[]).published.unwrap();
    assert_eq!(back.topology, Some(("netferry.dev/topology".into(), "multi-node".into())));
    assert!(!back.already);
    let (many, _) = running(&usual());
    assert!(asked("single-node", Some(&many), &[]).published.unwrap().topology.is_some());
}

#[test]
fn a_number_of_machines_that_nobody_knows_changes_nothing() {
    let fresh = asked("two-node", None, &[node("a", &BTreeMap::new())]);
    assert!(fresh.writes.is_empty() && fresh.published.is_none());
    assert_eq!(
        messages(&fresh),
        ["metadata.annotations[netferry.dev/topology] \"two-node\": must be multi-node or single-node"]
    );
    let (config, nodes) = one_machine();
    let decision = asked("two-node", Some(&config), &nodes);
    assert!(decision.published.as_ref().unwrap().already && decision.problems.len() == 1, "{decision:?}");
    let mut scribbled = config.clone();
    scribbled.metadata.annotations = Some(topology("?"));
    let decision = asked("single-node", Some(&scribbled), &nodes);
    assert!(decision.writes.is_empty() && decision.published.is_none());
    assert_eq!(decision.problems[0].reason, Reason::InvalidClusterConfig);
}

#[test]
fn a_hosts_network_that_comes_to_overlap_the_pods_is_reported_and_nothing_changes() {
    let (config, mut nodes) = one_machine();
    let host = r#"["10.244.200.7/24","192.168.1.7/24"]"#;
    let annotations = nodes[0].annotations.get_or_insert_default();
    annotations.insert("k8s.ovn.org/host-cidrs".into(), host.into());
    let decision = asked("single-node", Some(&config), &nodes);
    assert!(decision.writes.is_empty() && decision.published.as_ref().unwrap().already, "{decision:?}");
    assert_eq!(decision.problems[0].reason, Reason::HostNetworkMisfit);
    assert_eq!(
        messages(&decision),
        [
            "node a: its network 10.244.200.0/24 overlaps the cluster range 10.244.0.0/16: one of both hides the other"
        ]
    );
}
