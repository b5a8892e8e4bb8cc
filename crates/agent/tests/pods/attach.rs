//! Attaching, detaching, and what stays the same.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netferry_testkit::wait::until;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::node;
use crate::world::{NAMESPACE, Plan, Sandbox, World, addresses, first_packet_arrives, message};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_packet_after_an_add_arrives_in_both_families() {
    let world = World::with(Plan { sends: Some(1300), ..Plan::default() }).await;
    let mut made = Vec::new();
    for name in ["a", "b"] {
        let uid = world.pod(name).await;
        let sandbox = world.sandbox(name, &uid);
        let result = sandbox.add().await;
        made.push((sandbox, result));
    }
    let [(a, of_a), (b, of_b)] = &made[..] else { unreachable!() };
    for address in addresses(of_b) {
        assert!(first_packet_arrives(a, b, address), "{address}");
    }

    // what the runtime is told
    assert_eq!(of_a["ips"][0]["address"], "10.244.1.4/24");
    assert_eq!(of_a["ips"][0]["gateway"], "10.244.1.1");
    assert_eq!(of_a["ips"][1]["address"], "fd00:10:244:1::4/64");
    assert_eq!(of_a["ips"][1]["interface"], 1);
    assert_eq!(of_a["interfaces"][0]["name"], a.container[..15]);
    assert_eq!(of_a["interfaces"][1]["sandbox"], a.netns.as_str());
    assert_eq!(of_a["interfaces"][1]["mac"], "0a:58:0a:f4:01:04");
    assert_eq!(of_a["interfaces"][1]["mtu"], 1400);
    let routes = of_a["routes"].as_array().unwrap();
    assert!(routes.contains(&json!({ "dst": "0.0.0.0/0", "gw": "10.244.1.1", "mtu": 1300 })), "{routes:?}");

    // what is true inside and on the host
    let inside = node::run(&a.kernel, "ip -o link show eth0; ip route; ip -6 route");
    assert!(inside.contains("mtu 1400") && inside.contains("0a:58:0a:f4:01:04"), "{inside}");
    for route in [
        "default via 10.244.1.1 dev eth0 proto 110 mtu 1300",
        "10.244.1.0/24 dev eth0 proto 110 scope link mtu 1300",
        "10.96.0.0/16 via 10.244.1.1 dev eth0 proto 110 mtu 1300",
        "default via fd00:10:244:1::1 dev eth0 proto 110 metric 1024 mtu 1300",
    ] {
        assert!(inside.contains(route), "no {route:?} in\n{inside}");
    }
    let host = node::run(&world.host, &format!("ip -o link show {}; nft list ruleset", &a.container[..15]));
    assert!(host.contains("mtu 9000"), "the host's end stays at the largest: {host}");
    assert!(host.contains(&format!("device \"{}\"", &a.container[..15])), "guarded: {host}");

    // what the API and the switch are told
    assert_eq!(
        world.annotation("a").await["default"]["ip_addresses"],
        json!(["10.244.1.4/24", "fd00:10:244:1::4/64"])
    );
    let [claim] = &world.claims("a")[..] else { panic!("one port claims it") };
    assert_eq!(claim.external_ids["sandbox"], a.container);
    assert_eq!(claim.external_ids["attached_mac"], "0a:58:0a:f4:01:04");
    assert_eq!(claim.external_ids["ip_addresses"], "10.244.1.4/24,fd00:10:244:1::4/64");
    assert_eq!(claim.external_ids["ovn-installed"], "true");
}

/// A guard of a pod's traffic must hold before its first packet.
#[tokio::test(flavor = "multi_thread")]
async fn an_add_is_answered_only_once_every_hook_is_done_and_one_that_fails_leaves_nothing_attached() {
    let world = World::new().await;
    let uid = world.pod("a").await;
    let (allow, allowed) = watch::channel(None);
    world.hooks.before_reply("guard", move |pod| {
        let (mut allowed, pod) = (allowed.clone(), pod.name.clone());
        Box::pin(async move {
            let answer: Option<bool> = *allowed.wait_for(Option::is_some).await?;
            if answer == Some(true) { Ok(()) } else { Err(format!("{pod} is not guarded").into()) }
        })
    });
    let a = world.sandbox("a", &uid);
    allow.send_replace(Some(false));
    let error = a.ask("ADD").await.unwrap_err();
    assert!(message(&error).contains("guard does not let the pod start"), "{error}");
    assert!(message(&error).contains("a is not guarded"), "{error}");
    assert!(world.claims("a").is_empty() && world.pod_links().is_empty(), "nothing is left of it");

    allow.send_replace(None);
    let mut add = std::pin::pin!(a.add());
    // Its port is in the datapath, and still there is no answer.
    let installed = || {
        let claims = world.claims("a");
        claims
            .iter()
            .any(|claim| claim.external_ids.get("ovn-installed").is_some_and(|value| value == "true"))
    };
    let is_installed = until("its port is in the datapath", async || installed().then_some(()));
    tokio::select! {
        result = &mut add => panic!("answered before the hook was done: {result}"),
        () = is_installed => {}
    }
    allow.send_replace(Some(true));
    let result = add.await;
    assert_eq!(addresses(&result).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_attached_is_gone_after_a_del_and_a_second_one_finds_nothing_wrong() {
    let mut world = World::new().await;
    let uid = world.pod("a").await;
    let a = world.sandbox("a", &uid);
    let result = a.add().await;
    assert_eq!(a.add().await, result, "the same container twice is the same answer");
    assert_eq!(world.claims("a").len(), 1);

    // an agent that knows nothing but what it finds
    world.start_agent();
    assert_eq!(a.check(&result).await, Ok(Value::Null));
    assert_eq!(a.add().await, result, "the same answer from the next agent");
    a.del().await;
    assert!(world.claims("a").is_empty());
    assert!(world.logical_port("a").is_none());
    assert!(world.pod_links().is_empty());
    assert!(node::try_run(&a.kernel, "ip link show eth0").is_err(), "the other end went with it");
    assert!(!node::run(&world.host, "nft list ruleset").contains("link-"), "so did the guard");
    a.del().await;

    // a namespace that is gone, and one nobody remembers
    let result = a.add().await;
    let mut gone = Sandbox::new(&world.socket(), a.container.clone(), "a", &uid);
    gone.netns = "/run/netns/gone".to_owned();
    gone.del().await;
    assert!(world.claims("a").is_empty());
    gone.netns = String::new();
    gone.del().await;
    let error = a.check(&result).await.unwrap_err();
    assert_eq!(error["code"], 3, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_container_of_a_pod_takes_its_port_and_address_and_the_old_ones_del_harms_nobody() {
    let world = World::new().await;
    let uid = world.pod("a").await;
    let (old, new) = (world.sandbox("a", &uid), world.sandbox("a", &uid));
    let before = old.add().await;
    let after = new.add().await;
    assert_eq!(addresses(&before), addresses(&after));
    let [claim] = &world.claims("a")[..] else { panic!("one port claims it") };
    assert_eq!(claim.external_ids["sandbox"], new.container);
    assert_eq!(world.pod_links(), [&new.container[..15]], "the old link went with its port");
    old.del().await;
    assert_eq!(new.check(&after).await, Ok(Value::Null));
    assert!(world.logical_port("a").is_some());

    // a pod of the same name that comes after
    world.api().delete("a", &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    let next_uid = world.pod("a").await;
    // Answered once the agent has heard of it; until then the one before is the pod of that name.
    let next = world.sandbox("a", &next_uid);
    let result = next.add().await;
    let stale = world.sandbox("a", &uid);
    let error = stale.ask("ADD").await.unwrap_err();
    assert_eq!(error["code"], 3, "{error}");
    assert!(message(&error).contains(&next_uid) && message(&error).contains(&uid), "{error}");
    assert_eq!(world.logical_port("a").unwrap().options["iface-id-ver"], next_uid);
    new.del().await;
    assert_eq!(next.check(&result).await, Ok(Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_come_at_once_all_get_addresses_of_their_own() {
    let world = World::new().await;
    let mut adds = tokio::task::JoinSet::new();
    for n in 0..16 {
        let name = format!("p{n}");
        let uid = world.pod(&name).await;
        let sandbox = world.sandbox(&name, &uid);
        adds.spawn(async move {
            let result = sandbox.add().await;
            (sandbox, result)
        });
    }
    let made = node::in_time("all of them", adds.join_all()).await;
    let distinct: BTreeSet<IpAddr> = made.iter().flat_map(|(_, result)| addresses(result)).collect();
    assert_eq!(distinct.len(), 32);
    let (first, last) = (&made[0], &made[15]);
    assert!(first_packet_arrives(&first.0, &last.0, addresses(&last.1)[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_a_pod_carries_is_kept_and_nobody_elses_is_given() {
    let world = World::with(Plan { v4: "10.244.1.0/29", v6: None, ..Plan::default() }).await;
    let network = json!({ "default": { "ip_addresses": ["10.244.1.5/29"], "mac_address": "0a:58:0a:f4:01:05",
        "gateway_ips": ["10.244.1.1"], "ip_address": "10.244.1.5/29", "gateway_ip": "10.244.1.1" } });
    let carried = json!({ "k8s.ovn.org/pod-networks": network.to_string() });
    let uid = world.pod_with("carries", carried).await;
    let mut held = Vec::new();
    for (name, expected) in [("x", "10.244.1.4"), ("y", "10.244.1.6")] {
        let sandbox = world.sandbox(name, &world.pod(name).await);
        assert_eq!(addresses(&sandbox.add().await), [expected.parse::<IpAddr>().unwrap()], "{name}");
        held.push(sandbox);
    }
    let sandbox = world.sandbox("z", &world.pod("z").await);
    let error = sandbox.ask("ADD").await.unwrap_err();
    assert_eq!(error["code"], 11, "{error}");
    assert!(message(&error).contains("10.244.1.0/29"), "the subnet that is full: {error}");
    assert_eq!(world.annotation("z").await, Value::Null, "a refusal changes nothing");
    assert_eq!(world.pod_links().len(), 2);

    let carries = world.sandbox("carries", &uid);
    assert_eq!(addresses(&carries.add().await), ["10.244.1.5".parse::<IpAddr>().unwrap()]);
    assert_eq!(world.annotation("carries").await, network, "not a letter of it is changed");

    // one that is somebody else's already
    let text = network.to_string().replace("10.244.1.5", "10.244.1.4").replace(":05", ":04");
    let uid = world.pod_with("thief", json!({ "k8s.ovn.org/pod-networks": text })).await;
    let error = world.sandbox("thief", &uid).ask("ADD").await.unwrap_err();
    assert!(message(&error).contains(&format!("in use by pod {NAMESPACE}/x")), "{error}");
    // and one of another node
    let text = network.to_string().replace("10.244.1.5", "10.244.2.5");
    let uid = world.pod_with("stray", json!({ "k8s.ovn.org/pod-networks": text })).await;
    let error = world.sandbox("stray", &uid).ask("ADD").await.unwrap_err();
    assert!(message(&error).contains("10.244.2.5 is in no subnet of its node"), "{error}");
}
