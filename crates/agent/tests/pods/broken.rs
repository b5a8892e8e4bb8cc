//! What is broken is found, named and repaired.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use netferry_agent::overlay::pods::Readiness;
use netferry_kernel::link::Want;
use netferry_kernel::{IfName, Objects};
use serde_json::{Value, json};

use crate::node;
use crate::world::{Plan, World, addresses, message, packet_arrives};

fn impatient() -> Plan {
    Plan { installed_limit: Duration::from_secs(2), ..Plan::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_that_waits_in_vain_names_what_is_missing_and_leaves_nothing_behind() {
    let mut world = World::with(impatient()).await;
    let uid = world.pod("a").await;
    let a = world.sandbox("a", &uid);
    for (daemon, named) in [("ovn-controller", "ovn-controller is not running"), ("ovn-northd", "ovn-northd")]
    {
        world.kill(daemon);
        let error = a.ask("ADD").await.unwrap_err();
        assert_eq!(error["code"], 11, "{error}");
        assert!(message(&error).contains(named), "{error}");
        assert!(message(&error).contains("web_a"), "{error}");
        assert!(world.claims("a").is_empty(), "{daemon}");
        assert!(world.logical_port("a").is_none(), "{daemon}");
        assert!(world.pod_links().is_empty(), "{daemon}");
        assert!(node::try_run(&a.kernel, "ip link show eth0").is_err(), "{daemon}");
        world.start(daemon);
    }
    world.ports.refuse.store(true, Ordering::Relaxed);
    let error = a.ask("ADD").await.unwrap_err();
    assert_eq!(error["code"], 11, "{error}");
    assert!(message(&error).contains("the zone is not available"), "{error}");
    assert!(world.pod_links().is_empty());
    world.ports.refuse.store(false, Ordering::Relaxed);

    world.place.send_replace(None);
    let error = a.ask("ADD").await.unwrap_err();
    assert_eq!((&error["code"], message(&error).contains("no subnet")), (&json!(11), true), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_every_single_thing_that_is_not_as_it_was_made() {
    let world = World::with(Plan { sends: Some(1300), ..Plan::default() }).await;
    let uid = world.pod("a").await;
    let a = world.sandbox("a", &uid);
    let link = a.container[..15].to_owned();
    for (breaks, named) in [
        ("ip addr del 10.244.1.4/24 dev eth0", "lacks address 10.244.1.4/24"),
        ("ip -6 addr del fd00:10:244:1::4/64 dev eth0", "lacks address fd00:10:244:1::4/64"),
        ("ip link set eth0 address 02:00:00:00:00:01", "has hardware address 02:00:00:00:00:01"),
        ("ip route del default", "the route to 0.0.0.0/0 is gone"),
        ("ip -6 route del fd00:10:96::/112", "the route to fd00:10:96::/112 is gone"),
        (
            "ip route change default via 10.244.1.1 proto 110",
            "the route to 0.0.0.0/0 has no MTU, not MTU 1300",
        ),
        ("ip link set eth0 down", "eth0 is switched off"),
        ("ip link set eth0 down; ip link set eth0 name eth7", "eth0 is gone"),
    ] {
        let result = a.add().await;
        assert_eq!(a.check(&result).await, Ok(Value::Null), "before {breaks}");
        node::run(&a.kernel, breaks);
        let error = a.check(&result).await.unwrap_err();
        assert_eq!(error["code"], 101, "{breaks}: {error}");
        assert!(message(&error).contains(named), "{breaks}: {error}");
        // an ADD of the same container makes it whole again
    }
    let result = a.add().await;
    node::run(&world.host, &format!("ip link set {link} down"));
    let error = a.check(&result).await.unwrap_err();
    assert!(message(&error).contains("switched off"), "{error}");
    node::run(&world.host, &format!("ip link set {link} up"));
    // what the runtime kept is compared as well
    for (pointer, value, named) in [
        ("/interfaces/1/mac", json!("02:00:00:00:00:01"), "hardware address"),
        ("/ips/0/address", json!("10.244.1.9/24"), "10.244.1.9/24"),
        ("/interfaces/1/name", json!("eth1"), "no interface eth0"),
    ] {
        let mut previous = result.clone();
        *previous.pointer_mut(pointer).unwrap() = value;
        let error = a.check(&previous).await.unwrap_err();
        assert!(message(&error).contains(named), "{pointer}: {error}");
    }
    // plugins behind us may have added theirs
    let mut previous = result.clone();
    previous["interfaces"].as_array_mut().unwrap().push(json!({ "name": "bandwidth0" }));
    previous["routes"].as_array_mut().unwrap().push(json!({ "dst": "198.51.100.0/24", "gw": "192.0.2.1" }));
    assert_eq!(a.check(&previous).await, Ok(Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_that_somebody_takes_away_or_spoils_is_written_again() {
    let mut world = World::new().await;
    let a = world.sandbox("a", &world.pod("a").await);
    let result = a.add().await;
    let wanted = world.annotation("a").await;
    assert_eq!(wanted["default"]["ip_addresses"][0], format!("{}/24", addresses(&result)[0]), "{wanted}");
    let spoiled = "{\"default\":{\"ip_addresses\":[\"10.244.1.200/24\"]}}";
    for (restart, harm) in [(false, json!(null)), (false, json!("what?")), (true, json!(spoiled))] {
        if restart {
            world.agent = None;
        }
        let patch = json!({ "metadata": { "annotations": { "k8s.ovn.org/pod-networks": harm } } });
        world.api().patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        if restart {
            world.start_agent();
        }
        let text = || async { world.api().get("a").await.unwrap().metadata.annotations.unwrap_or_default() };
        node::until(&format!("it is there again after {harm}"), async || {
            let text = text().await.remove("k8s.ovn.org/pod-networks").unwrap_or_default();
            serde_json::from_str::<Value>(&text).ok() == Some(wanted.clone())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_taken_off_the_switch_by_hand_comes_back() {
    let world = World::new().await;
    let mut made = Vec::new();
    for name in ["a", "b"] {
        let sandbox = world.sandbox(name, &world.pod(name).await);
        let result = sandbox.add().await;
        made.push((sandbox, result));
    }
    let [(a, _), (b, of_b)] = &made[..] else { unreachable!() };
    let link = IfName::new(&b.container[..15]).unwrap();
    let mut links = world.agent.as_ref().unwrap().links.clone();
    node::in_time("the links are told", links.wait_for(|links| links.contains(&link))).await.unwrap();
    for harm in [
        format!("--no-wait del-port {link}"),
        format!("--no-wait remove interface {link} external_ids iface-id"),
    ] {
        let row = |now: &netferry_ovs::Snapshot| {
            now.named::<netferry_ovs::tables::vswitch::Interface>(link.as_str())
                .unwrap()
                .map(|found| found.uuid)
        };
        let before = row(&world.vswitch.snapshot());
        world.switch.vsctl(&harm);
        let installed = |now: &netferry_ovs::Snapshot| {
            if row(now) == before {
                return None;
            }
            let found = now.named::<netferry_ovs::tables::vswitch::Interface>(link.as_str()).unwrap()?;
            let is = |key: &str, value: &str| found.external_ids.get(key).is_some_and(|v| v == value);
            (is("iface-id", "web_b") && is("sandbox", &b.container) && is("ovn-installed", "true"))
                .then_some(())
        };
        node::in_time(&harm, world.vswitch.until(installed)).await;
        // what tells that the old claim is gone and what tells that the new one is there may be one update
        node::until(&harm, async || packet_arrives(a, b, addresses(of_b)[0], Duration::from_secs(5))).await;
    }
    b.del().await;
    assert!(world.claims("b").is_empty(), "what we take off stays off");
    node::in_time("the links are told", links.wait_for(|links| !links.contains(&link))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_port_that_somebody_made_outlive_a_boot_is_put_right() {
    let mut world = World::new().await;
    let a = world.sandbox("a", &world.pod("a").await);
    a.add().await;
    let link = &a.container[..15];
    for (restart, harm) in [
        (false, format!("--no-wait clear port {link} other_config")),
        (false, format!("--no-wait set port {link} other_config:transient=false")),
        (true, format!("--no-wait clear port {link} other_config")),
    ] {
        if restart {
            world.agent = None;
        }
        world.switch.vsctl(&harm);
        if restart {
            world.start_agent();
        }
        node::until(&harm, async || {
            let now = world.switch.vsctl(&format!("get port {link} other_config"));
            if now.trim() == "{transient=\"true\"}" { Ok(()) } else { Err(now) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_whose_link_is_gone_is_taken_off_and_its_address_is_free_again() {
    let mut world = World::with(Plan { v4: "10.244.1.0/29", v6: None, ..Plan::default() }).await;
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        let sandbox = world.sandbox(name, &world.pod(name).await);
        sandbox.add().await;
        held.push(sandbox);
    }
    let [a, b, _] = &held[..] else { unreachable!() };
    let gone =
        |world: &World, name: &str| world.claims(name).is_empty() && world.logical_port(name).is_none();
    // while somebody looks
    node::run(&a.kernel, "ip link del eth0");
    node::until("the port of a", async || gone(&world, "a")).await;
    // while nobody does, as in a power cut
    world.agent = None;
    node::run(&b.kernel, "ip link del eth0");
    world.start_agent();
    node::until("the port of b", async || gone(&world, "b")).await;
    assert_eq!(world.claims("c").len(), 1, "the others stay");
    for name in ["a", "b"] {
        world.api().delete(name, &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    }
    let sandbox = world.sandbox("d", &world.pod("d").await);
    sandbox.add().await;
    a.del().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_what_the_runtime_does_not_list() {
    let world = World::new().await;
    let mut sandboxes = Vec::new();
    for name in ["keep", "drop", "other"] {
        let mut sandbox = world.sandbox(name, &world.pod(name).await);
        if name == "other" {
            sandbox.config["name"] = "another".into();
        }
        let result = sandbox.add().await;
        sandboxes.push((sandbox, result));
    }
    let [(keep, of_keep), (dropped, _), (other, of_other)] = &sandboxes[..] else { unreachable!() };
    // a link an agent was killed over before it was on the switch
    let mark = netferry_agent::ownership::pod_links();
    let peer = netferry_kernel::link::VethPeer::named(IfName::new("peer").unwrap());
    let make = netferry_kernel::link::Make::Veth(peer);
    let lost = Want::make(IfName::new("lost").unwrap(), make).note("web/lost");
    let create = netferry_kernel::link::diff(&[lost], &[], &mark);
    world.host.links().apply(&create).unwrap();

    let mut asked = world.sandbox("keep", "u");
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        asked.config[key] = json!([{ "containerID": keep.container, "ifname": "eth0" }]);
        assert_eq!(asked.ask("GC").await, Ok(Value::Null));
        assert!(world.claims("drop").is_empty());
        let left = [&keep.container[..15], &other.container[..15]].map(str::to_owned);
        let mut links = world.pod_links();
        links.sort();
        assert_eq!(links, left, "{key}");
        assert_eq!(keep.check(of_keep).await, Ok(Value::Null), "{key}");
        assert_eq!(other.check(of_other).await, Ok(Value::Null), "another network's are not ours to judge");
        asked.config.as_object_mut().unwrap().remove(key);
    }
    dropped.del().await;
    assert_eq!(asked.ask("GC").await, Ok(Value::Null), "nothing listed is nothing kept");
    assert!(world.claims("keep").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_what_the_node_is_ready_for() {
    let mut world = World::new().await;
    let asked = world.sandbox("none", "u");
    assert_eq!(asked.ask("STATUS").await, Ok(Value::Null));
    for (readiness, code) in [
        (Readiness::NotReady("the zone is being set up".into()), 50),
        (Readiness::Limited("the uplink is down".into()), 51),
    ] {
        world.readiness.send_replace(readiness);
        let error = asked.ask("STATUS").await.unwrap_err();
        assert_eq!(error["code"], code, "{error}");
    }
    world.readiness.send_replace(Readiness::Ready);
    world.switch.kill_daemon();
    let error = asked.ask("STATUS").await.unwrap_err();
    assert_eq!(error["code"], 51, "without its switch no pod reaches anything: {error}");
}
