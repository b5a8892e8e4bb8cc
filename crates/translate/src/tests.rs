use std::collections::BTreeSet;

use netferry_core::label::{LabelSelector, Labels};
use netferry_core::name::ObjectName;
use netferry_core::overlay::cluster::*;
use netferry_core::overlay::networks::{ClusterRange, Internal, Networks};
use netferry_core::port::{Port, Protocol};
use serde_json::{Value, from_value, json};

use crate::node::NodeGap;
use crate::policy::LeftOut;
use crate::service::ServiceRefusal;

fn networks() -> Networks {
    let range = ClusterRange::new("10.244.0.0/16".parse().unwrap(), 24).unwrap();
    Networks::new(vec![range], vec!["10.96.0.0/16".parse().unwrap()], Internal::default()).unwrap()
}

fn annotations() -> Value {
    json!({
        "k8s.ovn.org/node-id": "3",
        "k8s.ovn.org/node-subnets": r#"{"default":["10.244.1.0/24"]}"#,
        "k8s.ovn.org/node-chassis-id": "c1",
        "k8s.ovn.org/node-primary-ifaddr": r#"{"ipv4":"172.30.0.3/16"}"#,
        "k8s.ovn.org/host-cidrs": r#"["172.30.0.3/16","10.9.9.9/24"]"#,
        "k8s.ovn.org/l3-gateway-config": r#"{"default":{"mode":"local","interface-id":"br-ex_n1","mac-address":"02:00:00:00:00:03"}}"#,
    })
}

fn written_node(annotations: &Value) -> k8s_openapi::api::core::v1::Node {
    from_value(json!({"metadata": {"name": "n1", "annotations": annotations}})).unwrap()
}

#[test]
fn a_node_is_there_when_it_has_a_place_and_has_spoken_of_itself() {
    let written = written_node(&annotations());
    let node = crate::node::node(&networks(), &written).unwrap();
    assert_eq!(node.name.as_str(), "n1");
    assert_eq!(node.assignment.id().number(), 3);
    assert_eq!(node.assignment.subnets().v4(), Some("10.244.1.0/24".parse().unwrap()));
    assert_eq!(node.chassis, "c1");
    assert_eq!(node.encap.to_string(), "172.30.0.3");
    assert_eq!(node.host_addresses.len(), 2);
    let (address, mac) = crate::node::tunnel_neighbour(&written).unwrap().unwrap();
    assert_eq!((address.to_string(), mac.to_string()), ("172.30.0.3".into(), "02:00:00:00:00:03".into()));
}

#[test]
fn one_machine_needs_its_place_and_its_switch_and_no_address_of_its_own() {
    let mut said = annotations();
    for key in ["k8s.ovn.org/node-primary-ifaddr", "k8s.ovn.org/host-cidrs"] {
        assert!(said.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    let node = crate::node::alone(&networks(), &written_node(&said)).unwrap();
    assert_eq!((node.encap.to_string().as_str(), node.host_addresses.len()), ("127.0.0.1", 0));
    let with = crate::node::alone(&networks(), &written_node(&annotations())).unwrap();
    assert_eq!(with.encap, node.encap, "whatever the uplink is");
    assert!(!with.host_addresses.is_empty());
    said.as_object_mut().unwrap().remove("k8s.ovn.org/node-subnets");
    assert!(crate::node::alone(&networks(), &written_node(&said)).unwrap_err().is_waiting());
}

#[test]
fn a_node_that_lacks_an_annotation_waits_and_one_with_a_mangled_annotation_is_left_out() {
    for key in ["node-id", "node-subnets", "node-chassis-id", "node-primary-ifaddr", "host-cidrs"] {
        let key = format!("k8s.ovn.org/{key}");
        let mut lacking = annotations();
        lacking.as_object_mut().unwrap().remove(&key);
        let gap = crate::node::node(&networks(), &written_node(&lacking)).unwrap_err();
        assert!(gap.is_waiting(), "{key}: {gap:?}");
        assert!(gap.to_string().contains(&key), "{gap}");
        let mut mangled = annotations();
        mangled[&key] = json!(if key.ends_with("chassis-id") { "" } else { "{" });
        let gap = crate::node::node(&networks(), &written_node(&mangled)).unwrap_err();
        assert!(matches!(gap, NodeGap::Mangled(_)), "{key}: {gap:?}");
    }
    for (subnets, id) in [
        (r#"{"default":["10.244.1.0/24","10.244.2.0/24"]}"#, "3"),
        (r#"{"default":["fd00::/64"]}"#, "3"),
        (r#"{"other":["10.244.1.0/24"]}"#, "3"),
        (r#"{"default":["10.244.1.0/24"]}"#, "1"),
    ] {
        let mut wrong = annotations();
        wrong["k8s.ovn.org/node-subnets"] = json!(subnets);
        wrong["k8s.ovn.org/node-id"] = json!(id);
        let gap = crate::node::node(&networks(), &written_node(&wrong)).unwrap_err();
        assert!(matches!(gap, NodeGap::Subnets | NodeGap::NoSuchPlace { .. }), "{subnets}: {gap:?}");
    }
}

#[test]
fn a_node_whose_subnet_is_none_of_the_clusters_ranges_is_not_believed() {
    for subnet in ["0.0.0.0/1", "0.0.0.0/0", "10.244.0.0/16", "10.244.0.0/20", "10.244.1.0/25", "10.9.1.0/24"]
    {
        let mut wide = annotations();
        wide["k8s.ovn.org/node-subnets"] = json!(format!(r#"{{"default":["{subnet}"]}}"#));
        let written = written_node(&wide);
        for read in [crate::node::node, crate::node::peer, crate::node::alone] {
            let gap = read(&networks(), &written).unwrap_err();
            assert!(matches!(gap, NodeGap::NoSuchPlace { .. }), "{subnet}: {gap:?}");
            assert!(!gap.is_waiting(), "what was known of it stays");
        }
    }
}

#[test]
fn another_node_is_where_its_own_zone_says_that_it_runs() {
    let reporting = |report: &str| {
        let mut said = annotations();
        said["netferry.dev/overlay-running"] = json!(report);
        crate::node::peer(&networks(), &written_node(&said))
    };
    let runs = |id: u8, subnet: &str| reporting(&format!(r#"{{"id":{id},"subnets":["{subnet}"]}}"#));
    assert_eq!(runs(3, "10.244.1.0/24").unwrap().assignment.id().number(), 3);
    for (id, subnet) in [(3, "10.244.9.0/24"), (9, "10.244.1.0/24")] {
        let gap = runs(id, subnet).unwrap_err();
        assert!(matches!(gap, NodeGap::RunsElsewhere), "{subnet}: {gap:?}");
        assert!(!gap.is_waiting(), "what was known of it stays");
    }
    // Its own agent reads it, to move there once its pods are gone.
    let mut moving = annotations();
    moving["netferry.dev/overlay-running"] = json!(r#"{"id":3,"subnets":["10.244.9.0/24"]}"#);
    assert!(crate::node::node(&networks(), &written_node(&moving)).is_ok());
    for nonsense in ["", "{", r#"{"id":3,"subnets":["0.0.0.0/1"]}"#, r#"{"id":3,"subnets":["fd00::/64"]}"#] {
        assert!(reporting(nonsense).is_ok(), "{nonsense}");
    }
}

fn written_pod(edit: impl FnOnce(&mut Value)) -> k8s_openapi::api::core::v1::Pod {
    let mut pod = json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "u1", "labels": {"app": "web"},
            "annotations": {"k8s.ovn.org/pod-networks":
                r#"{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05"}}"#},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "a", "ports": [
                {"name": "http", "containerPort": 8080},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                {"containerPort": 9},
                {"name": "odd", "containerPort": 1, "protocol": "ICMP"}]}],
            "initContainers": [
                {"name": "once", "ports": [{"name": "once", "containerPort": 1}]},
                {"name": "sidecar", "restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 2}]}],
        },
    });
    edit(&mut pod);
    from_value(pod).unwrap()
}

#[test]
fn a_static_pod_is_the_one_its_runtime_knows_and_not_its_mirror() {
    let mirror =
        written_pod(|pod| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("s1"));
    assert_eq!(crate::pod::pod(&mirror).unwrap().unwrap().uid, "s1");
    assert_eq!(crate::pod::runtime_uid(&written_pod(|_| ())), "u1");
}

#[test]
fn a_pod_has_its_labels_and_the_ports_it_names() {
    let pod = crate::pod::pod(&written_pod(|_| ())).unwrap().unwrap();
    assert_eq!(pod.name, ObjectName::new("ns", "web"));
    assert_eq!((pod.uid.as_str(), pod.node.as_str()), ("u1", "n1"));
    assert_eq!(pod.labels, Labels::from_iter([("app", "web")]));
    let names: Vec<&str> = pod.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["http", "dns", "side"]);
}

#[test]
fn a_pod_without_node_or_life_or_network_of_its_own_is_not_there() {
    let edits: [fn(&mut Value); 4] = [
        |pod| pod["spec"]["nodeName"] = Value::Null,
        |pod| pod["spec"]["hostNetwork"] = json!(true),
        |pod| pod["status"] = json!({"phase": "Succeeded"}),
        |pod| pod["status"] = json!({"phase": "Failed"}),
    ];
    for (at, edit) in edits.into_iter().enumerate() {
        assert_eq!(crate::pod::pod(&written_pod(edit)).unwrap(), None, "edit {at}");
    }
    let lone = written_pod(|pod| pod["metadata"]["annotations"] = json!({}));
    let given = netferry_core::net::Stack::V4("10.244.1.9".parse().unwrap());
    assert_eq!(crate::pod::pod_with(&lone, given).unwrap().unwrap().addresses, given);
}

#[test]
fn a_pod_has_the_addresses_its_kubelet_reports_whatever_its_annotation_claims() {
    let reported = |edit: fn(&mut Value)| crate::pod::pod(&written_pod(edit)).unwrap().unwrap().reported;
    assert_eq!(reported(|_| ()), <[std::net::IpAddr; 0]>::default(), "an annotation alone is a claim");
    let both = reported(|pod| {
        pod["status"] = json!({"podIPs": [{"ip": "10.244.1.7"}, {"ip": "fd00::7"}, {"ip": "nonsense"}]});
    });
    assert_eq!(both, ["10.244.1.7", "fd00::7"].map(|text| text.parse::<std::net::IpAddr>().unwrap()));
    for mangled in ["{", "", r#"{"default":{"ip_addresses":["10.244.1.5/24","10.244.1.6/24"]}}"#] {
        let pod = written_pod(|pod| {
            pod["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = json!(mangled);
        });
        assert_eq!(crate::pod::pod(&pod).unwrap().unwrap().labels, Labels::from_iter([("app", "web")]));
    }
}

fn written_service(edit: impl FnOnce(&mut Value)) -> k8s_openapi::api::core::v1::Service {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
            "externalIPs": ["198.51.100.7"], "sessionAffinity": "ClientIP",
            "loadBalancerSourceRanges": ["192.0.2.0/24 ", "2001:db8::/32"],
            "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Local",
            "ports": [{"name": "http", "port": 80, "nodePort": 30080, "targetPort": 8080},
                      {"name": "dns", "port": 53, "protocol": "UDP"}],
        },
        "status": {"loadBalancer": {"ingress": [
            {"ip": "203.0.113.1"}, {"ip": "203.0.113.2", "ipMode": "Proxy"}, {"hostname": "lb.example"}]}},
    });
    edit(&mut service);
    from_value(service).unwrap()
}

#[test]
fn a_service_is_its_addresses_its_ports_and_who_may_answer() {
    let service = crate::service::service(&written_service(|_| ())).unwrap().unwrap();
    let port = |n| Port::new(n).unwrap();
    assert_eq!(
        service,
        Service {
            name: ObjectName::new("ns", "web"),
            cluster_ips: netferry_core::net::Stack::V4("10.96.0.10".parse().unwrap()),
            external_ips: BTreeSet::from(["198.51.100.7".parse().unwrap()]),
            load_balancer_ips: BTreeSet::from(["203.0.113.1".parse().unwrap()]),
            ports: vec![
                ServicePort {
                    name: "http".into(),
                    protocol: Protocol::Tcp,
                    port: port(80),
                    node_port: Some(port(30080)),
                },
                ServicePort { name: "dns".into(), protocol: Protocol::Udp, port: port(53), node_port: None },
            ],
            affinity: Some(10_800),
            internal_local: false,
            external_local: true,
            source_ranges: BTreeSet::from([
                "192.0.2.0/24".parse().unwrap(),
                "2001:db8::/32".parse().unwrap()
            ]),
        }
    );
}

#[test]
fn a_service_without_an_address_is_not_there_and_one_with_nonsense_is_refused() {
    let none: [fn(&mut Value); 3] = [
        |s| s["spec"]["type"] = json!("ExternalName"),
        |s| s["spec"]["clusterIPs"] = json!(["None"]),
        |s| {
            s["spec"]["clusterIPs"] = Value::Null;
            s["spec"]["clusterIP"] = Value::Null;
        },
    ];
    for edit in none {
        assert_eq!(crate::service::service(&written_service(edit)), Ok(None));
    }
    type Edit = fn(&mut Value);
    let wrong: [(Edit, ServiceRefusal); 4] = [
        (|s| s["spec"]["clusterIPs"] = json!(["x"]), ServiceRefusal::Address("x".into())),
        (|s| s["spec"]["externalIPs"] = json!(["y"]), ServiceRefusal::Address("y".into())),
        (
            |s| s["spec"]["clusterIPs"] = json!(["10.96.0.1", "10.96.0.2"]),
            ServiceRefusal::ClusterIps(vec!["10.96.0.1".into(), "10.96.0.2".into()]),
        ),
        (|s| s["spec"]["ports"][0]["protocol"] = json!("GRE"), ServiceRefusal::Protocol("GRE".into())),
    ];
    for (edit, refusal) in wrong {
        assert_eq!(crate::service::service(&written_service(edit)), Err(refusal));
    }
}

fn written_slice(edit: impl FnOnce(&mut Value)) -> k8s_openapi::api::discovery::v1::EndpointSlice {
    let mut slice = json!({
        "metadata": {"name": "web-x", "namespace": "ns", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "any"}],
        "endpoints": [
            {"addresses": ["10.244.1.5"], "nodeName": "n1"},
            {"addresses": ["10.244.1.6"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["nonsense"]},
            {"addresses": ["10.244.1.7"], "conditions": {"ready": false}}],
    });
    edit(&mut slice);
    from_value(slice).unwrap()
}

#[test]
fn a_slice_says_who_answers_and_an_unreadable_endpoint_costs_only_itself() {
    let (service, slice) = crate::service::slice(&written_slice(|_| ())).unwrap().unwrap();
    assert_eq!(service, ObjectName::new("ns", "web"));
    assert_eq!(slice.ports.len(), 1);
    let said: Vec<_> =
        slice.endpoints.iter().map(|e| (e.address.to_string(), e.ready, e.serving, e.terminating)).collect();
    assert_eq!(
        said,
        [
            ("10.244.1.5".to_owned(), true, true, false),
            ("10.244.1.6".to_owned(), false, true, true),
            ("10.244.1.7".to_owned(), false, false, false),
        ]
    );
    assert_eq!(slice.endpoints[0].node.as_ref().unwrap().as_str(), "n1");
}

#[test]
fn a_slice_of_names_or_of_no_service_is_not_there() {
    let edits: [fn(&mut Value); 2] =
        [|s| s["addressType"] = json!("FQDN"), |s| s["metadata"]["labels"] = json!({})];
    for edit in edits {
        assert_eq!(crate::service::slice(&written_slice(edit)), Ok(None));
    }
    let wrong = written_slice(|s| s["ports"][0]["port"] = json!(70000));
    assert!(matches!(crate::service::slice(&wrong), Err(ServiceRefusal::Port(_))));
}

fn written_policy(spec: Value) -> k8s_openapi::api::networking::v1::NetworkPolicy {
    from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})).unwrap()
}

#[test]
fn which_directions_a_policy_speaks_of_follows_from_its_types_or_its_rules() {
    for (spec, ingress, egress) in [
        (json!({"podSelector": {}}), true, false),
        (json!({"podSelector": {}, "egress": [{}]}), true, true),
        (json!({"podSelector": {}, "policyTypes": ["Egress"]}), false, true),
        (json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}), true, true),
        (json!({"podSelector": {}, "policyTypes": ["Ingress"], "egress": [{}]}), true, false),
    ] {
        let (policy, left_out) = crate::policy::policy(&written_policy(spec.clone())).unwrap();
        assert_eq!((policy.ingress.is_some(), policy.egress.is_some()), (ingress, egress), "{spec}");
        assert_eq!(left_out, []);
    }
}

#[test]
fn a_policys_peers_and_ports_mean_what_they_say() {
    let (policy, left_out) = crate::policy::policy(&written_policy(json!({
        "podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        "ingress": [{
            "from": [
                {"podSelector": {}},
                {"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {"matchLabels": {"x": "y"}}},
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
            "ports": [{"port": 80}, {"port": 100, "endPort": 200, "protocol": "UDP"}, {"port": "http"},
                      {"protocol": "SCTP"}],
        }],
    })))
    .unwrap();
    assert_eq!(left_out, []);
    assert!(policy.pods.matches(&Labels::from_iter([("app", "web"), ("tier", "1")])));
    assert!(!policy.pods.matches(&Labels::from_iter([("app", "web")])));
    let port = |n| Port::new(n).unwrap();
    let expected = Rule {
        peers: vec![
            Peer::Pods { namespaces: None, pods: Some(LabelSelector::all()) },
            Peer::Pods {
                namespaces: Some(LabelSelector::equals("team", "a")),
                pods: Some(LabelSelector::equals("x", "y")),
            },
            Peer::Block { net: "10.0.0.0/8".parse().unwrap(), except: vec!["10.1.0.0/16".parse().unwrap()] },
        ],
        ports: vec![
            PolicyPort { protocol: Protocol::Tcp, ports: PortSet::Range(port(80), port(80)) },
            PolicyPort { protocol: Protocol::Udp, ports: PortSet::Range(port(100), port(200)) },
            PolicyPort { protocol: Protocol::Tcp, ports: PortSet::Named("http".into()) },
            PolicyPort { protocol: Protocol::Sctp, ports: PortSet::Any },
        ],
    };
    assert_eq!(policy.ingress, Some(vec![expected]));
}

#[test]
fn what_cannot_be_read_of_a_policy_allows_nothing() {
    for (rule, reason) in [
        (json!({"from": [{"ipBlock": {"cidr": "x"}}]}), LeftOut::Block("x".into())),
        (json!({"from": [{}]}), LeftOut::EmptyPeer),
        (json!({"ports": [{"port": 200, "endPort": 100}]}), LeftOut::EndPort(100)),
        (json!({"ports": [{"port": "http", "endPort": 100}]}), LeftOut::EndPort(100)),
        (json!({"ports": [{"protocol": "GRE"}]}), LeftOut::Protocol("GRE".into())),
    ] {
        let written = written_policy(json!({"podSelector": {}, "ingress": [rule]}));
        let (policy, left_out) = crate::policy::policy(&written).unwrap();
        assert_eq!(policy.ingress, Some(vec![]), "{rule}");
        assert_eq!(left_out, [reason]);
    }
    // One that can be read stays beside one that cannot.
    let some = json!({"podSelector": {}, "ingress": [{"from": [{}, {"podSelector": {}}]}]});
    let (policy, _) = crate::policy::policy(&written_policy(some)).unwrap();
    assert_eq!(policy.ingress.unwrap()[0].peers.len(), 1);
    let unknown = json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}});
    assert!(crate::policy::policy(&written_policy(unknown)).is_err());
}
