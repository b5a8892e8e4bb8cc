//! Static pods: the runtime knows one UID, and the API shows a mirror with another, which comes and goes.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::node;
use crate::world::{Sandbox, World, addresses, first_packet_arrives};

/// The UID a kubelet gives the pod of a manifest: a hash of it.
const UID: &str = "6d8b71f6c2a04c7dbd0b4b1d4d7a9f10";

/// What a kubelet writes of it; answers the mirror's own UID.
async fn mirror(world: &World) -> String {
    let annotations = json!({
        "kubernetes.io/config.hash": UID,
        "kubernetes.io/config.mirror": UID,
        "kubernetes.io/config.source": "file",
    });
    world.pod_with("static", annotations).await
}

/// `kubectl delete pod`, upon which the kubelet writes another mirror, and starts nothing.
async fn mirror_anew(world: &World) {
    let before = world.api().get("static").await.unwrap().metadata.uid;
    world.api().delete("static", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_ne!(Some(mirror(world).await), before);
}

async fn until_annotated(world: &World, wanted: &Value) {
    node::until("the new mirror says what the pod has", async || {
        let says = world.annotation("static").await;
        if says == *wanted { Ok(()) } else { Err(says.to_string()) }
    })
    .await;
}

/// Which pair of links it is: one that was made anew has other numbers.
fn pair(world: &World, sandbox: &Sandbox) -> (String, String) {
    let number = |kernel, link: &str| node::run(kernel, &format!("ip -o link show {link} | cut -d: -f1"));
    (number(&world.host, &sandbox.container[..15]), number(&sandbox.kernel, "eth0"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_pod_is_the_same_pod_by_whatever_mirror_the_api_shows_it() {
    let mut world = World::new().await;
    let peer = world.sandbox("peer", &world.pod("peer").await);
    peer.add().await;
    mirror(&world).await;
    let sandbox = world.sandbox("static", UID);
    let made = sandbox.add().await;
    let (says, links) = (world.annotation("static").await, pair(&world, &sandbox));
    assert_eq!(sandbox.add().await, made, "the same container again");
    assert_eq!(pair(&world, &sandbox), links);
    for restart in [false, true] {
        if restart {
            world.agent = None;
        }
        mirror_anew(&world).await;
        if restart {
            world.start_agent();
        }
        until_annotated(&world, &says).await;
        assert_eq!(sandbox.add().await, made);
        assert_eq!(pair(&world, &sandbox), links, "nothing is made anew");
        assert!(first_packet_arrives(&peer, &sandbox, addresses(&made)[0]));
    }
    sandbox.del().await;
    assert!(world.claims("static").is_empty() && world.logical_port("static").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_pod_that_an_earlier_agent_attached_is_known_by_its_runtimes_uid_from_then_on() {
    let mut world = World::new().await;
    let of_mirror = mirror(&world).await;
    let sandbox = world.sandbox("static", UID);
    let made = sandbox.add().await;
    let (says, links) = (world.annotation("static").await, pair(&world, &sandbox));
    // As an earlier agent left it.
    world.agent = None;
    let link = &sandbox.container[..15];
    world.switch.vsctl(&format!("--no-wait set interface {link} external_ids:iface-id-ver={of_mirror}"));
    world.nbctl(&format!("--wait=hv set Logical_Switch_Port web_static options:iface-id-ver={of_mirror}"));
    node::until("OVN has it in the datapath", async || {
        world.claims("static")[0].external_ids.get("ovn-installed").is_some_and(|is| is == "true")
    })
    .await;
    world.start_agent();
    node::until("the runtime's UID is noted", async || {
        let [claim] = &world.claims("static")[..] else { return Err("not one port".to_owned()) };
        let noted = claim.external_ids.get("netferry.dev/runtime-uid");
        if noted.is_some_and(|uid| uid == UID) { Ok(()) } else { Err(format!("{:?}", claim.external_ids)) }
    })
    .await;
    assert_eq!(world.claims("static")[0].external_ids["iface-id-ver"], of_mirror, "OVN notices nothing");
    mirror_anew(&world).await;
    until_annotated(&world, &says).await;
    assert_eq!(sandbox.add().await, made);
    assert_eq!(pair(&world, &sandbox), links);
}
