//! The operator on the embedded API server: places, what is published, and what is reported.

mod support;

use netferry_apiserver::faults::{Calls, Fault};
use netferry_apiserver::status::ApiError;
use serde_json::{Value, json};

use support::{Cluster, Operator, network, pass};

const SUBNETS: &str = "k8s.ovn.org/node-subnets";
const ID: &str = "k8s.ovn.org/node-id";

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_is_given_its_place_and_the_network_is_published() {
    let cluster = Cluster::new().await;
    let _operator = cluster.operator("a");
    cluster
        .ask(network(
            &[("10.244.0.0/16", 24), ("fd00:10:244::/48", 64)],
            &["10.96.0.0/16", "fd00:10:96::/112"],
        ))
        .await;
    cluster.join("worker-1").await;
    cluster.until_placed(1).await;
    let annotations = cluster.annotations("worker-1").await;
    for (key, value) in [
        ("k8s.ovn.org/node-subnets", r#"{"default":["10.244.0.0/24","fd00:10:244::/64"]}"#),
        ("k8s.ovn.org/node-id", "2"),
        ("k8s.ovn.org/network-ids", r#"{"default":"0"}"#),
        ("k8s.ovn.org/node-transit-switch-port-ifaddr", r#"{"ipv4":"100.88.0.2/16","ipv6":"fd97::2/64"}"#),
        (
            "k8s.ovn.org/node-gateway-router-lrp-ifaddrs",
            r#"{"default":{"ipv4":"100.64.0.2/16","ipv6":"fd98::2/64"}}"#,
        ),
    ] {
        assert_eq!(annotations.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(annotations["netferry.dev/leadership"].starts_with("0-"), "{annotations:?}");
    let status = cluster.published().await.expect("it was made").status.expect("it says something");
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "clusterNetwork": [
                {"cidr": "10.244.0.0/16", "hostPrefix": 24},
                {"cidr": "fd00:10:244::/48", "hostPrefix": 64},
            ],
            "serviceNetwork": ["10.96.0.0/16", "fd00:10:96::/112"],
            "networkType": "OVNKubernetes",
            "clusterNetworkMTU": 1400,
        })
    );
    cluster.until_condition("Available", "True").await;
    cluster.until_condition("Degraded", "False").await;
    assert_eq!(cluster.network().await.status.unwrap().observed_generation, Some(1));
}

#[tokio::test(start_paused = true)]
async fn three_hundred_nodes_get_three_hundred_places_and_a_restart_changes_none() {
    let cluster = Cluster::new().await;
    cluster.ask(network(&[("10.244.0.0/16", 24), ("10.128.0.0/14", 23)], &["10.96.0.0/16"])).await;
    let operator = cluster.operator("a");
    for n in 0..300 {
        cluster.join(&format!("node-{n:03}")).await;
    }
    let places = cluster.until_placed(300).await;
    // 256 subnets fit the first range; the others come from the second.
    assert_eq!(places.values().filter(|(_, net)| net.ends_with("/23")).count(), 44);
    assert_eq!(cluster.historian.writes(), 300, "each was written once");
    operator.stop().await;
    let _second = cluster.operator("b");
    cluster.join("late").await;
    let after = cluster.until_placed(301).await;
    assert!(places.iter().all(|(name, place)| after.get(name) == Some(place)));
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn the_subnet_of_a_deleted_node_is_given_to_another() {
    let cluster = Cluster::new().await;
    cluster.ask(network(&[("10.244.0.0/23", 24)], &["10.96.0.0/16"])).await;
    let _operator = cluster.operator("a");
    cluster.join("a").await;
    cluster.join("b").await;
    let before = cluster.until_placed(2).await;
    cluster.join("c").await;
    let (reason, message) = cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "SubnetsExhausted");
    assert_eq!(
        message,
        "node c has no place in the overlay: all 2 IPv4 subnets of 10.244.0.0/23 (/24 per node) are taken; \
         add a range to spec.clusterNetwork"
    );
    cluster.remove("a").await;
    let after = cluster.until("c has the place of a", async || cluster.places().await.remove("c")).await;
    assert_eq!(after, before["a"]);
    cluster.until_condition("Degraded", "False").await;
    assert_eq!(cluster.events("Node", "c").await[0].0, "SubnetsExhausted");
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn a_range_that_is_added_gives_room_to_a_node_that_had_none() {
    let cluster = Cluster::new().await;
    cluster.ask(network(&[("10.244.0.0/24", 24)], &["10.96.0.0/16"])).await;
    let _operator = cluster.operator("a");
    cluster.join("a").await;
    cluster.join("b").await;
    cluster.until_condition("Degraded", "True").await;
    cluster.ask(network(&[("10.244.0.0/24", 24), ("10.9.0.0/24", 24)], &["10.96.0.0/16"])).await;
    let places = cluster.until_placed(2).await;
    assert_eq!(places["b"].1, "10.9.0.0/24");
    cluster.until_condition("Degraded", "False").await;
    let published = cluster.published().await.unwrap().status.unwrap();
    assert_eq!(published.cluster_network.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_network_that_cannot_be_is_refused_with_its_fields_and_nothing_else_happens() {
    for (wrong, says) in [
        (
            network(&[("10.244.0.0/16", 24)], &["10.244.128.0/17"]),
            "spec.clusterNetwork[0].cidr 10.244.0.0/16, spec.serviceNetwork[0] 10.244.128.0/17: overlap",
        ),
        (
            network(&[("10.244.0.0/24", 31)], &["10.96.0.0/16"]),
            "spec.clusterNetwork[0].hostPrefix 31: must be between 24 and 30 for the range 10.244.0.0/24",
        ),
        (
            network(&[("ten", 24)], &["10.96.0.0/16"]),
            "spec.clusterNetwork[0].cidr \"ten\": is not a network in CIDR notation",
        ),
    ] {
        let cluster = Cluster::new().await;
        let _operator = cluster.operator("a");
        cluster.join("a").await;
        cluster.ask(wrong).await;
        let (reason, message) = cluster.until_condition("Degraded", "True").await;
        assert_eq!((reason.as_str(), message.as_str()), ("InvalidOperatorConfig", says));
        cluster.until_condition("Available", "False").await;
        let told = cluster.events("Network", "cluster").await;
        assert_eq!(told, [("InvalidOperatorConfig".to_owned(), says.to_owned())]);
        pass(60).await;
        assert!(cluster.places().await.is_empty() && cluster.published().await.is_none());
        assert_eq!(cluster.events("Network", "cluster").await.len(), 1, "it is told once");
        cluster.ask(network(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"])).await;
        cluster.until_placed(1).await;
        cluster.until_condition("Degraded", "False").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_cluster_keeps_its_ranges_when_they_are_edited_away() {
    let cluster = Cluster::usual().await;
    let _operator = cluster.operator("a");
    cluster.join("a").await;
    let before = cluster.until_placed(1).await;
    cluster.ask(network(&[("10.99.0.0/16", 24)], &["10.96.0.0/16"])).await;
    let (reason, message) = cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "InvalidOperatorConfig");
    assert!(message.contains("pods of node a live in 10.244.0.0/24"), "{message}");
    cluster.join("b").await;
    let after = cluster.until_placed(2).await;
    assert_eq!(after["a"], before["a"]);
    assert_eq!(after["b"].1, "10.244.1.0/24", "newcomers go on being placed");
    let published = cluster.published().await.unwrap().status.unwrap();
    assert_eq!(published.cluster_network[0].cidr.as_deref(), Some("10.244.0.0/16"));
}

#[tokio::test(start_paused = true)]
async fn annotations_mangled_by_hand_are_reported_and_put_right_from_what_the_node_runs_with() {
    let cluster = Cluster::usual().await;
    let _operator = cluster.operator("a");
    let running = r#"{"id":40,"subnets":["10.244.9.0/24"]}"#;
    let place = [
        (SUBNETS, r#"{"default":["10.244.9.0/24"]}"#),
        (ID, "40"),
        ("netferry.dev/overlay-running", running),
    ];
    cluster.join_with("a", &place).await;
    cluster.join("b").await;
    let before = cluster.until_placed(2).await;
    assert_eq!(before["a"], (40, "10.244.9.0/24".to_owned()));
    for (key, value) in
        [(SUBNETS, json!("{\"default\":")), (SUBNETS, Value::Null), (ID, json!("forty")), (ID, Value::Null)]
    {
        cluster.scribble("a", key, value.clone()).await;
        let after = cluster.until_placed(2).await;
        assert_eq!(after, before, "{key} {value}");
    }
    let (reason, message) = cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "NodeAnnotationUnusable");
    assert!(message.contains("k8s.ovn.org/node-id cannot be read (\"forty\"); it has id 40"), "{message}");
    let told: Vec<String> = cluster.events("Node", "a").await.into_iter().map(|event| event.0).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    cluster.until_condition("Degraded", "False").await;
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn annotations_edited_into_something_well_formed_do_not_move_a_node_that_runs() {
    let cluster = Cluster::usual().await;
    let _operator = cluster.operator("a");
    // The oldest, to whom others would have to give way.
    for (name, id, subnet) in [("old", "40", "10.244.1.0/24"), ("b", "41", "10.244.2.0/24")] {
        let (place, running) =
            (format!(r#"{{"default":["{subnet}"]}}"#), format!(r#"{{"id":{id},"subnets":["{subnet}"]}}"#));
        let annotations = [(SUBNETS, place.as_str()), (ID, id), ("netferry.dev/overlay-running", &running)];
        cluster.join_with(name, &annotations).await;
        pass(5).await;
    }
    cluster.join("c").await;
    let before = cluster.until_placed(3).await;
    for (edit, says) in [
        ("10.244.9.0/24", "says 10.244.9.0/24, and the node runs with 10.244.1.0/24"),
        ("10.244.2.0/24", "says 10.244.2.0/24, and the node runs with 10.244.1.0/24"),
        ("10.244.0.0/20", "says 10.244.0.0/20, where the subnets of nodes are /24 (10.244.0.0/16)"),
        ("0.0.0.0/1", "says 0.0.0.0/1, which is no subnet of the cluster's ranges"),
    ] {
        let edited = format!(r#"{{"default":["{edit}"]}}"#);
        cluster.scribble("old", SUBNETS, json!(edited)).await;
        cluster
            .until("the edit is undone", async || {
                let now = cluster.annotations("old").await;
                (now.get(SUBNETS).map(String::as_str) == Some(r#"{"default":["10.244.1.0/24"]}"#))
                    .then_some(())
            })
            .await;
        assert_eq!(cluster.places().await, before, "{edit}");
        let (reason, message) = cluster.until_condition("Degraded", "True").await;
        assert_eq!(reason, "NodeAnnotationUnusable");
        let told = format!("node old: annotation {SUBNETS} {says}; it has id 40 and 10.244.1.0/24");
        assert_eq!(message, told);
        // Events about one annotation are counted as one, which tells of the first.
        let events = cluster.events("Node", "old").await;
        let about = format!("node old: annotation {SUBNETS} says ");
        assert!(events.iter().any(|(why, note)| *why == reason && note.starts_with(&about)), "{events:?}");
        cluster.until_condition("Degraded", "False").await;
    }
    cluster.scribble("old", ID, json!("41")).await;
    let (_, message) = cluster.until_condition("Degraded", "True").await;
    assert!(message.contains("k8s.ovn.org/node-id says 41, and the node runs with 40"), "{message}");
    cluster.until_condition("Degraded", "False").await;
    assert_eq!(cluster.places().await, before);
    for other in ["b", "c"] {
        assert!(cluster.events("Node", other).await.is_empty(), "{other} is not concerned");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_nodes_with_one_id_the_older_keeps_it_and_both_are_told_apart() {
    let cluster = Cluster::usual().await;
    cluster.join_with("old", &[(ID, "7"), (SUBNETS, r#"{"default":["10.244.3.0/24"]}"#)]).await;
    pass(5).await;
    cluster.join_with("young", &[(ID, "7"), (SUBNETS, r#"{"default":["10.244.3.0/24"]}"#)]).await;
    cluster.join("other").await;
    let _operator = cluster.operator("a");
    cluster
        .until("they differ", async || {
            let places = cluster.places().await;
            (places.len() == 3 && places["old"] != places["young"]).then_some(())
        })
        .await;
    let places = cluster.places().await;
    assert_eq!(places["old"], (7, "10.244.3.0/24".to_owned()));
    assert_ne!(places["young"].0, places["other"].0);
    let (reason, message) = cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "NodeClaimTaken");
    assert!(
        message.contains("node young: annotation k8s.ovn.org/node-id claims what is node old's"),
        "{message}"
    );
    assert_eq!(cluster.events("Node", "young").await.len(), 2);
    assert!(cluster.events("Node", "old").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_addresses_is_reported_until_it_has_one() {
    let cluster = Cluster::usual().await;
    let _operator = cluster.operator("a");
    let node = serde_json::from_value(json!({"metadata": {"name": "lost"}})).unwrap();
    cluster.nodes().create(&Default::default(), &node).await.unwrap();
    let (reason, message) = cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "NodeWithoutAddress");
    assert_eq!(message, "node lost has no InternalIP; no other node can reach it");
    assert_eq!(cluster.events("Node", "lost").await.len(), 1);
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "172.30.0.9"}]}});
    let patch = kube::api::Patch::Merge(&status);
    cluster.nodes().patch_status("lost", &Default::default(), &patch).await.unwrap();
    cluster.until_condition("Degraded", "False").await;
    cluster.until_placed(1).await;
}

#[tokio::test(start_paused = true)]
async fn an_unmanaged_network_is_left_alone() {
    let cluster = Cluster::new().await;
    let mut unmanaged = network(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"]);
    unmanaged["managementState"] = json!("Unmanaged");
    cluster.ask(unmanaged).await;
    cluster.join("a").await;
    let _operator = cluster.operator("a");
    pass(60).await;
    assert!(cluster.places().await.is_empty() && cluster.published().await.is_none());
    cluster.ask(json!({"managementState": "Managed"})).await;
}

/// A small generator: what matters is that a seed that fails can be run again.
struct Lots(u64);

impl Lots {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_api_does_wrong_places_never_overlap_and_everybody_gets_one() {
    for seed in 1..=8 {
        let mut lots = Lots(seed);
        let cluster = Cluster::usual().await;
        let _operators = [cluster.operator("a"), cluster.operator("b")];
        let mut there: Vec<String> = Vec::new();
        for round in 0..40 {
            let broken = || ApiError::internal("drawn by lot");
            let (verb, fault) = match lots.draw(8) {
                0 => ("patch", Fault::Refuse(broken())),
                1 => ("patch", Fault::Conflict),
                2 => ("patch", Fault::LoseAnswer(broken())),
                3 => ("watch", Fault::RepeatEvent),
                4 => ("watch", Fault::CutWatch),
                5 => ("list", Fault::Refuse(broken())),
                6 => ("watch", Fault::ExpireWatch),
                _ => ("update", Fault::LoseAnswer(broken())),
            };
            let resource = if verb == "update" { "leases" } else { "nodes" };
            let calls = Calls {
                verb: verb.into(),
                resource: resource.into(),
                skip: u32::try_from(lots.draw(3)).unwrap(),
                times: u32::try_from(1 + lots.draw(3)).unwrap(),
                ..Calls::default()
            };
            if there.len() > 3 && lots.draw(4) == 0 {
                let gone = there.swap_remove(usize::try_from(lots.draw(there.len() as u64)).unwrap());
                cluster.remove(&gone).await;
            } else {
                let name = format!("n{round}");
                cluster.join(&name).await;
                there.push(name);
            }
            cluster.server.faults().arm(calls, fault);
            tokio::time::sleep(std::time::Duration::from_millis(lots.draw(3000))).await;
        }
        cluster.server.faults().clear();
        let places = cluster.until_placed(there.len()).await;
        assert_eq!(places.len(), there.len(), "seed {seed}");
        cluster.historian.testify();
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_nobody_told_us_of_is_found_by_the_look_that_needs_no_reason() {
    let cluster = Cluster::usual().await;
    let _operator = cluster.operator("a");
    cluster.join("a").await;
    cluster.until_placed(1).await;
    let calls =
        Calls { verb: "watch".into(), resource: "nodes".into(), name: "b".into(), ..Calls::default() };
    let fault = cluster.server.faults().arm(calls, Fault::DropEvent);
    cluster.join("b").await;
    cluster.until_placed(2).await;
    cluster.server.faults().disarm(fault);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_written_keeps_nobody_else_waiting() {
    let cluster = Cluster::usual().await;
    let broken = Fault::Refuse(ApiError::internal("this one never"));
    let calls =
        Calls { verb: "patch".into(), resource: "nodes".into(), name: "b".into(), ..Calls::default() };
    let fault = cluster.server.faults().arm(calls, broken);
    for name in ["a", "b", "c"] {
        cluster.join(name).await;
    }
    let _operator = cluster.operator("a");
    cluster.until_placed(2).await;
    cluster.server.faults().disarm(fault);
    cluster.until_placed(3).await;
    cluster.historian.testify();
}

#[tokio::test(start_paused = true)]
async fn a_condition_tells_for_a_while_of_what_was_put_right() {
    let cluster = Cluster::usual().await;
    let linger = std::time::Duration::from_secs(30);
    let _operator = Operator::start(
        &cluster.server,
        "a",
        cluster.timing,
        netferry_operator::overlay::Settings { linger },
        None,
    );
    cluster.join_with("a", &[(ID, "x")]).await;
    cluster.until_placed(1).await;
    let since = tokio::time::Instant::now();
    cluster.until_condition("Degraded", "True").await;
    cluster.until_condition("Degraded", "False").await;
    let lingered = since.elapsed();
    assert!(lingered >= std::time::Duration::from_secs(25), "{lingered:?}");
    assert!(lingered <= std::time::Duration::from_secs(35), "{lingered:?}");
}

#[tokio::test(start_paused = true)]
async fn a_network_for_one_machine_is_published_as_such_and_a_second_node_is_refused() {
    let cluster = Cluster::new().await;
    let _operator = cluster.operator("a");
    let spec = network(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"]);
    cluster.ask_with(&[("netferry.dev/topology", "single-node")], spec.clone()).await;
    cluster.join("box").await;
    let places = cluster.until_placed(1).await;
    let published = cluster.published().await.expect("it was made");
    let says = published.metadata.annotations.expect("annotations");
    assert_eq!(says["netferry.dev/topology"], "single-node");
    assert_eq!(published.status.expect("a status").cluster_network_mtu, Some(1500));

    cluster.join("second").await;
    let (reason, message) = cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "SingleNodeTaken");
    assert!(message.starts_with("node second has no place in the overlay"), "{message}");
    assert_eq!(cluster.events("Node", "second").await[0].0, "SingleNodeTaken");
    assert_eq!(cluster.places().await, places, "nothing that worked is touched");
    cluster.remove("second").await;
    cluster.until_condition("Degraded", "False").await;

    cluster.ask_with(&[("netferry.dev/topology", "multi-node")], spec).await;
    let (reason, message) = cluster.until_condition("Degraded", "True").await;
    assert_eq!(reason, "InvalidOperatorConfig");
    assert!(message.contains("make a new cluster that is multi-node"), "{message}");
    let published = cluster.published().await.expect("it is there");
    assert_eq!(published.metadata.annotations.expect("annotations")["netferry.dev/topology"], "single-node");
}

#[tokio::test(start_paused = true)]
async fn a_network_published_before_anybody_lives_in_it_becomes_one_for_one_machine() {
    let cluster = Cluster::usual().await;
    let _operator = cluster.operator("a");
    cluster.until_condition("Available", "True").await;
    let spec = network(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"]);
    cluster.ask_with(&[("netferry.dev/topology", "single-node")], spec).await;
    cluster
        .until("the network is for one machine", async || {
            let published = cluster.published().await?;
            let says = published.metadata.annotations?.get("netferry.dev/topology").cloned()?;
            (says == "single-node" && published.status?.cluster_network_mtu == Some(1500)).then_some(())
        })
        .await;
}
