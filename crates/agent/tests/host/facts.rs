//! What is true of a host, told to an API.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use netferry_agent::node::annotations::{FACT_KEYS, of_facts};
use netferry_agent::node::publisher::{Publisher, When};
use netferry_agent::node::{HostFacts, NodeFacts, Sources, observe};
use netferry_apiserver::{ApiServer, Settings};
use netferry_ovs::tables::vswitch::OpenVSwitch;
use netferry_ovs::{Options, Spec};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::world::{Switch, Wire, in_time, run, until};

/// Publishes facts as the agent of a node does.
fn publish(
    tasks: &mut JoinSet<()>,
    nodes: &Api<Node>,
    name: &'static str,
    facts: watch::Receiver<Option<NodeFacts>>,
    own: watch::Receiver<Option<Node>>,
    admitted: watch::Receiver<Option<String>>,
) {
    let mut publisher = Publisher::default();
    let owned = ("node", &FACT_KEYS[..], When::Admitted);
    publisher.add_printed(tasks, owned, facts, move |facts| of_facts(name, facts));
    tasks.spawn(publisher.run(nodes.clone(), name.to_owned(), own, admitted));
}

async fn node_with(nodes: &Api<Node>, key: &str, part: &str) -> Node {
    until(&format!("{key} with {part}"), async || {
        let node = nodes.get("n1").await.unwrap();
        let value = node.metadata.annotations.as_ref()?.get(key)?;
        value.contains(part).then_some(node)
    })
    .await
}

#[tokio::test]
async fn a_nodes_annotations_follow_what_is_true_of_it() {
    let Wire { host, peer: _peer } = Wire::new();
    let switch = Switch::start(&host).await;
    let spec = Spec::new("Open_vSwitch").table::<OpenVSwitch>();
    let database = netferry_ovs::Client::connect(spec, vec![switch.remote()], Options::default());
    let database = in_time("the database", database).await.unwrap();
    let server = ApiServer::open(Settings::default()).unwrap();
    let nodes: Api<Node> = Api::all(Client::new(server.router(), "default"));

    let (facts, seen) = watch::channel(None);
    let (own, own_seen) = watch::channel::<Option<Node>>(None);
    let sources =
        Sources { kernel: Arc::clone(&host), switch: database, bridge: None, node: own_seen.clone() };
    let mut tasks = JoinSet::new();
    tasks.spawn(observe(sources, facts));
    let (admit, admitted) = watch::channel(None);
    publish(&mut tasks, &nodes, "n1", seen.clone(), own_seen, admitted);

    // All of it comes late: the identity, the addresses, the node itself.
    switch.vsctl("--no-wait set open . external_ids:system-id=me");
    run(&host, "ip addr add 172.30.0.2/16 dev eth0; ip route add default via 172.30.255.254");
    in_time("the facts", seen.clone().wait_for(Option::is_some)).await.unwrap();
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
    let node = nodes.create(&PostParams::default(), &node).await.unwrap();
    admit.send(node.metadata.uid.clone()).unwrap();
    own.send(Some(node)).unwrap();
    let node = node_with(&nodes, "k8s.ovn.org/node-primary-ifaddr", "172.30.0.2/16").await;
    let annotations = node.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["k8s.ovn.org/node-chassis-id"], "me");
    assert_eq!(annotations["k8s.ovn.org/zone-name"], "n1");
    let mac = host.links().named(&crate::world::name("eth0")).unwrap().unwrap().mac.unwrap();
    assert!(annotations["k8s.ovn.org/l3-gateway-config"].contains(&mac.to_string()));

    run(&host, "ip addr add fd00:172:30::2/64 dev eth0 nodad");
    node_with(&nodes, "k8s.ovn.org/host-cidrs", "fd00:172:30::2/64").await;

    // Somebody writes nonsense over it.
    let wrong = json!({"metadata": {"annotations": {"k8s.ovn.org/node-chassis-id": "you"}}});
    let node = nodes.patch("n1", &PatchParams::default(), &Patch::Merge(wrong)).await.unwrap();
    own.send(Some(node)).unwrap();
    node_with(&nodes, "k8s.ovn.org/node-chassis-id", "me").await;

    // What cannot be seen for a moment stays as it was.
    run(&host, "ip addr flush dev eth0");
    run(&host, "ip addr add 172.30.0.7/16 dev eth0; ip route add default via 172.30.255.254");
    let node = node_with(&nodes, "k8s.ovn.org/node-primary-ifaddr", "172.30.0.7/16").await;

    // Nobody is told how to reach pods of a node that was let in as another one. By the time one that was let in has told it,
    // this one would have.
    own.send(Some(node)).unwrap();
    admit.send(Some("the last one".to_owned())).unwrap();
    let other: Node = serde_json::from_value(json!({"metadata": {"name": "n2"}})).unwrap();
    let other = nodes.create(&PostParams::default(), &other).await.unwrap();
    let (_let_in, let_in) = watch::channel(other.metadata.uid.clone());
    let (_own, own_seen) = watch::channel(Some(other));
    publish(&mut tasks, &nodes, "n2", seen, own_seen, let_in);
    run(&host, "ip addr add 172.30.7.7/16 dev eth0");
    until("the other tells", async || {
        let annotations = nodes.get("n2").await.unwrap().metadata.annotations?;
        annotations.get("k8s.ovn.org/host-cidrs")?.contains("172.30.7.7").then_some(())
    })
    .await;
    let said = nodes.get("n1").await.unwrap().metadata.annotations.unwrap();
    assert!(!said["k8s.ovn.org/host-cidrs"].contains("172.30.7.7"), "{said:?}");
}

/// A host whose way to the other nodes is `eth0`, of this size.
fn on_eth0(mtu: u32) -> NodeFacts {
    on_link("eth0", mtu)
}

pub(crate) fn on_link(link: &str, mtu: u32) -> NodeFacts {
    let host = HostFacts {
        link: crate::world::name(link),
        mac: "02:00:00:00:00:01".parse().unwrap(),
        mtu,
        primary: netferry_api::annotation::FamilyPair::new("172.30.0.2/16".parse().ok(), None).unwrap(),
        gateways: vec![],
        addresses: vec![],
        management: None,
    };
    NodeFacts { host, chassis: "me".to_owned() }
}

#[tokio::test]
async fn a_node_whose_link_is_too_small_is_tainted_until_it_has_grown() {
    use netferry_agent::mtu::fit;
    use netferry_core::size::{Envelope, Mtu};

    let server = ApiServer::open(Settings::default()).unwrap();
    let nodes: Api<Node> = Api::all(Client::new(server.router(), "default"));
    let theirs = json!({"key": "theirs", "effect": "NoSchedule"});
    let node = json!({"metadata": {"name": "n1"}, "spec": {"taints": [theirs]}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let (facts, seen) = watch::channel(Some(on_eth0(1450)));
    let written = serde_json::from_value(json!({
        "status": {
            "clusterNetwork": [{"cidr": "10.244.0.0/16", "hostPrefix": 24}],
            "serviceNetwork": ["10.96.0.0/16"],
        },
        "spec": {},
    }));
    let (_networks, networks) = watch::channel(Some(written.unwrap()));
    let served = Envelope::settled(Mtu::new(1400).unwrap());
    let (_served, served) = watch::channel(Some(served));
    let mut tasks = JoinSet::new();
    tasks.spawn(fit::keep(nodes.clone(), "n1".to_owned(), seen, networks, served));

    let state = async || {
        let node = nodes.get("n1").await.unwrap();
        let taints: Vec<String> =
            node.spec.unwrap().taints.unwrap_or_default().into_iter().map(|taint| taint.key).collect();
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition.type_ == fit::CONDITION);
        (taints, condition.map(|condition| (condition.status, condition.message.unwrap_or_default())))
    };
    let reaches = async |tainted: bool, value: &str| {
        until(value, async || {
            let (taints, condition) = state().await;
            assert_eq!(taints[0], "theirs");
            let (status, message) = condition?;
            let is_tainted = taints.iter().any(|key| key == "k8s.ovn.org/mtu-too-small");
            (status == value && is_tainted == tainted).then_some(message)
        })
        .await
    };
    let why = reaches(true, "True").await;
    assert!(why.contains("eth0") && why.contains("raise its MTU by 8"), "{why}");
    facts.send(Some(on_eth0(1458))).unwrap();
    reaches(false, "False").await;
}

/// Phase two begins only when every node was seen in phase one: what was decided is not what was seen.
#[tokio::test(flavor = "multi_thread")]
async fn what_pods_run_at_is_read_from_the_kernel_and_follows_what_anybody_does_to_it() {
    use netferry_agent::machine::Disk;
    use netferry_agent::mtu::host::preview::Foresight;
    use netferry_agent::mtu::observed::{Sources, observe};
    use netferry_api::mtu::{CniMtu, MtuObserved};
    use netferry_core::mtu::boot::Booted;
    use netferry_core::size::{Envelope, Mtu};

    let Wire { host, peer: _peer } = Wire::new();
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("etc")).unwrap();
    let size = |bytes| Mtu::new(bytes).unwrap();
    let (small, decided) = (Envelope::settled(size(1500)), Envelope::spanning(size(1400), size(8900)));
    let booted =
        Booted { epoch: 4, network: Some(decided), host: small, own: size(1500), original: size(1500) };
    let (_running, running) = watch::channel(Some(booted));
    let (_served, pods) = watch::channel(Some(decided));
    let (_facts, facts) = watch::channel(Some(on_eth0(1500)));
    let (_trial, trial) = watch::channel(None);
    let disk = Arc::new(Disk::open(root.path()).unwrap());
    let foresight = Foresight {
        kernel: Arc::clone(&host),
        disk: Arc::clone(&disk),
        run: root.path().join("run"),
        facts: facts.clone(),
    };
    let kernel = Arc::clone(&host);
    let sources = Sources { kernel, disk, bridge: None, sized: None, facts, running, pods, trial, foresight };
    let (tell, told) = watch::channel(None);
    let mut tasks = JoinSet::new();
    tasks.spawn(observe(sources, tell));
    let says = async |what: &str, mtu: Option<(u32, Option<u32>)>| {
        let cni = mtu.map(|(mtu, routable_mtu)| CniMtu { mtu, routable_mtu });
        let is = |now: &Option<MtuObserved>| now.as_ref().is_some_and(|now| now.cni() == cni);
        in_time(what, told.clone().wait_for(is)).await.unwrap();
    };

    says("nothing is there yet", None).await;
    let ours = netferry_kernel::Mark::default().protocol;
    let route = |verb: &str, mtu: &str| {
        let to = "10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0";
        run(&host, &format!("ip route {verb} {to} proto {ours} {mtu}"));
    };
    run(
        &host,
        "ip link add ovn-k8s-mp0 mtu 8900 type veth peer name pods; ip link set pods up; ip link set ovn-k8s-mp0 up",
    );
    run(&host, "ip addr add 10.244.1.2/24 dev ovn-k8s-mp0");
    route("add", "mtu 1400");
    says("as decided", Some((8900, Some(1400)))).await;
    run(&host, "ip link add pod-1 mtu 9000 type veth peer name pod-1p");
    run(&host, "ip link set pod-1 alias netferry-pod:default/pod-1");

    run(&host, "ip link set ovn-k8s-mp0 mtu 8000");
    says("the link is smaller", Some((8000, Some(1400)))).await;
    run(&host, "ip link set ovn-k8s-mp0 mtu 8900");
    says("the link is as it was", Some((8900, Some(1400)))).await;
    route("replace", "");
    says("the route lets out all", Some((8900, None))).await;
    route("replace", "mtu 1400");
    says("the route holds back", Some((8900, Some(1400)))).await;
    run(&host, "ip link set pod-1 mtu 1300");
    says("a pod's link is smaller", Some((1300, None))).await;
    run(&host, "ip link set pod-1 mtu 9000");
    says("a pod's link is as it was", Some((8900, Some(1400)))).await;
    run(&host, "ip link del ovn-k8s-mp0");
    says("the link is gone", None).await;
}
