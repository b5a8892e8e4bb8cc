//! The bridge carries what this boot made it carry, whoever gives it another size; the uplink is the host's.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use netferry_agent::host_init::{BridgeSize, prepare};
use netferry_agent::mtu::boot::Running;
use netferry_agent::mtu::sizes::trial::{Bridge, Parts, keep_trials};
use netferry_api::annotation::Annotation as _;
use netferry_api::mtu::MtuTrial;
use tokio::sync::watch;

use crate::init::{keeping_at, options, run_directory, wired};
use crate::world::{Switch, Wire, name, run, until};

/// What the row asks for, what the bridge carries, and what its uplink does.
fn sizes(wire: &Wire, switch: &Switch) -> (String, u32, u32) {
    let link = |link: &str| wire.host.links().named(&name(link)).unwrap().unwrap().mtu;
    (switch.vsctl("get interface br-ex mtu_request").trim().to_owned(), link("br-ex"), link("eth0"))
}

async fn until_at(what: &str, wire: &Wire, switch: &Switch, row: &str, bridge: u32, uplink: u32) {
    let shall = (row.to_owned(), bridge, uplink);
    until(what, async || {
        let are = sizes(wire, switch);
        if are == shall { Ok(()) } else { Err(format!("{are:?}, not {shall:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_bridge_that_somebody_gave_another_size_carries_again_what_this_boot_made_it_carry() {
    let wire = wired();
    let switch = Switch::start(&wire.host).await;
    prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
    let of_boot = || watch::channel(BridgeSize::default()).1;
    let keeping = keeping_at(&wire, &switch, of_boot()).await;
    let row = || drop(switch.vsctl("set interface br-ex mtu_request=1300"));
    let link = |mtu: u32| drop(run(&wire.host, &format!("ip link set br-ex mtu {mtu}")));
    row();
    until_at("another size in its row", &wire, &switch, "1500", 1500, 1500).await;
    for mtu in [1300, 9000] {
        link(mtu);
        until_at(&format!("a link of {mtu}"), &wire, &switch, "1500", 1500, 1500).await;
    }
    switch.vsctl("clear interface br-ex mtu_request");
    until_at("no size in its row", &wire, &switch, "1500", 1500, 1500).await;

    // What the host itself gives its uplink is not ours to undo, nor does the bridge follow it.
    run(&wire.host, "ip link set eth0 mtu 1400");
    link(1300);
    until_at("a smaller uplink, and a smaller bridge", &wire, &switch, "1500", 1500, 1400).await;

    // Nor does an agent that starts take for granted what it finds.
    keeping.abort();
    row();
    until_at("nobody looks", &wire, &switch, "1300", 1300, 1400).await;
    let keeping = keeping_at(&wire, &switch, of_boot()).await;
    until_at("a new agent", &wire, &switch, "1500", 1500, 1400).await;
    keeping.abort();
}

#[tokio::test]
async fn a_bridge_carries_more_while_that_is_tried_and_then_what_it_did() {
    let wire = wired();
    let switch = Switch::start(&wire.host).await;
    prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
    let size = watch::Sender::new(BridgeSize::default());
    let keeping = keeping_at(&wire, &switch, size.subscribe()).await;
    let ask = watch::Sender::new(None);
    let bridge = Bridge { name: name("br-ex"), switch: switch.client().await, size };
    let trials = tokio::spawn(keep_trials(
        Parts {
            kernel: Arc::clone(&wire.host),
            uplinks: vec![name("br-ex"), name("eth0")],
            bridge: Some(bridge),
            running: Running::open(&run_directory(&switch)),
            node: ask.subscribe(),
            run: run_directory(&switch),
        },
        watch::Sender::new(None),
    ));
    for _ in 0..2 {
        let until = Timestamp::now() + Duration::from_secs(600);
        let mut node = Node::default();
        node.metadata.annotations = Some([MtuTrial { host: 9000, until }.entry()].into());
        ask.send_replace(Some(node));
        until_at("a trial", &wire, &switch, "9000", 9000, 9000).await;
        run(&wire.host, "ip link set br-ex mtu 1300");
        until_at("a smaller bridge in a trial", &wire, &switch, "9000", 9000, 9000).await;
        ask.send_replace(Some(Node::default()));
        until_at("the end of a trial", &wire, &switch, "1500", 1500, 1500).await;
    }
    trials.abort();
    keeping.abort();
}
