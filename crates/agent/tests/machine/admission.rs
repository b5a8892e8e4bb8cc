use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use netferry_agent::cluster::Written;
use netferry_agent::mtu::admission::Door;
use netferry_agent::mtu::boot::{self, Running};
use netferry_agent::node::gate::Verdict;
use netferry_agent::node::own;
use netferry_core::mtu::file;
use netferry_core::mtu::record::{Change, Ends, Record, Stage};
use netferry_core::size::Envelope;
use netferry_testkit::wait::{in_time, until};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::world::{MCO, NODE, World, size};

const WAITS: &str = "waits.netferry.dev/mtu";

fn published(mtu: u32) -> Written {
    let ranges = json!({
        "clusterNetwork": [{"cidr": "10.244.0.0/16", "hostPrefix": 24}], "serviceNetwork": ["10.96.0.0/16"],
    });
    let mut status = ranges.clone();
    status["clusterNetworkMTU"] = json!(mtu);
    serde_json::from_value(json!({"status": status, "spec": ranges})).unwrap()
}

struct Agent {
    task: JoinHandle<()>,
    served: watch::Receiver<Option<Envelope>>,
    admitted: watch::Receiver<Option<String>>,
    /// Whether pods may start.
    may_start: watch::Receiver<Verdict>,
    _networks: watch::Sender<Option<Written>>,
}

impl Agent {
    fn start(world: &World, published_mtu: u32) -> Agent {
        let (networks, seen) = watch::channel(Some(published(published_mtu)));
        let (serve, served) = watch::channel(None);
        let (admit, admitted) = watch::channel(None);
        let (tell_own, own_seen) = watch::channel(None);
        let (verdict, may_start) = watch::channel(Verdict::default());
        let door = Door {
            client: world.client.clone(),
            name: NODE.to_owned(),
            namespace: "netferry".to_owned(),
            data: world.dir.path().join("data"),
            run: world.run(),
            disk: Arc::new(world.disk()),
            running: Running::open(&world.run()),
            networks: seen,
            own: own_seen,
            verdict,
        };
        let nodes = world.nodes.clone();
        let follow = own::follow(nodes, NODE.to_owned(), tell_own);
        let task = tokio::spawn(async { tokio::join!(door.keep(serve, admit), follow).1 });
        Agent { task, served, admitted, may_start, _networks: networks }
    }

    async fn serves(&mut self) -> Envelope {
        let waiting = self.served.wait_for(Option::is_some);
        in_time("it serves", waiting).await.unwrap().expect("just waited for")
    }

    /// Waits until it is let in as the object there is now.
    async fn is_let_in(&mut self, world: &World) {
        let uid = world.nodes.get(NODE).await.unwrap().uid();
        in_time("it is let in", self.admitted.wait_for(|admitted| *admitted == uid)).await.unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn apply(world: &World, record: &Record) {
    let spaces: Api<Namespace> = Api::all(world.client.clone());
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "netferry"}});
    let _ = spaces.create(&PostParams::default(), &serde_json::from_value(space).unwrap()).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "netferry");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied-cluster"},
        "data": {"mtu": netferry_translate::mtu::printed_record(record)},
    });
    let params = PatchParams::apply("test").force();
    maps.patch("applied-cluster", &params, &Patch::Apply(map)).await.unwrap();
}

fn spreading() -> Record {
    let ends = |from, to| Ends { from: size(from), to: size(to) };
    let change = Change {
        network: ends(1400, 1300),
        host: ends(1500, 1500),
        stage: Stage::Spreading { finish: false },
        back: false,
    };
    Record::settled(size(1400)).with(Some(change))
}

#[tokio::test]
async fn a_node_that_was_never_told_serves_at_what_is_published_and_stays_there_until_it_boots() {
    let world = World::new().await;
    world.boot(0, None);
    let mut agent = Agent::start(&world, 1400);
    assert_eq!(agent.serves().await, Envelope::settled(size(1400)));
    let record = boot::read(&world.run()).unwrap().unwrap();
    assert_eq!(record.network, Some(Envelope::settled(size(1400))));
    drop(agent);
    // An agent that restarts finds a newer object, and does not follow it.
    apply(&world, &spreading()).await;
    let mut agent = Agent::start(&world, 1300);
    assert_eq!(agent.serves().await, Envelope::settled(size(1400)));
    assert_eq!(world.annotation(WAITS).await, "");
}

/// `host-init` found no link it could give a size to, so there is no record of this boot.
#[tokio::test]
async fn a_node_whose_link_nobody_gave_a_size_joins_no_change_and_follows_none() {
    let world = World::new().await;
    apply(&world, &spreading()).await;
    let mut agent = Agent::start(&world, 1300);
    let why = "netferry host-init gave its link no size";
    world.until(WAITS, |said| said.starts_with(why), why).await;
    assert_eq!(*agent.served.borrow(), None);
    let waits = |now: &Verdict| matches!(now, Verdict::Wait(reason) if reason.starts_with(why));
    in_time("pods wait for that reason", agent.may_start.wait_for(waits)).await.unwrap();
    apply(&world, &Record::settled(size(1400))).await;
    assert_eq!(agent.serves().await, Envelope::settled(size(1400)));
    assert_eq!(world.annotation(WAITS).await, "");
    in_time("pods may start", agent.may_start.wait_for(|now| *now == Verdict::Serve)).await.unwrap();
    drop(agent);
    // A change begins, and its agent starts again: what is published by now is where the cluster goes.
    apply(&world, &spreading()).await;
    let mut agent = Agent::start(&world, 1300);
    assert_eq!(agent.serves().await, Envelope::settled(size(1400)));
    assert_eq!(world.annotation(WAITS).await, "");
}

#[tokio::test]
async fn a_newcomer_that_does_not_go_with_a_change_waits_until_it_is_done_with_what_it_is_told() {
    let world = World::new().await;
    apply(&world, &spreading()).await;
    // Installed with the old size in its file.
    world.boot(0, Some(1400));
    let agent = Agent::start(&world, 1300);
    let why = "pods here would run at 1400";
    world.until(WAITS, |said| said.starts_with(why), why).await;
    assert_eq!(*agent.served.borrow(), None);
    // It is told, takes it, and boots.
    world.tell("rendered-worker-1").await;
    let why = "the node must take the configuration it was told first";
    world.until(WAITS, |said| said == why, why).await;
    drop(agent);
    world.boot(1, None);
    let span = Envelope::spanning(size(1400), size(1300));
    let booted = boot::read(&world.run()).unwrap().unwrap();
    boot::write(&world.run(), &netferry_core::mtu::boot::Booted { network: Some(span), ..booted }).unwrap();
    // What it says now is what it decided now.
    world.annotate(WAITS, Some("for another reason")).await;
    let mut agent = Agent::start(&world, 1300);
    world.until(WAITS, |said| said == why, why).await;
    assert_eq!(*agent.served.borrow(), None, "it has not said that it is done");
    world.annotate(&format!("{MCO}/currentConfig"), Some("rendered-worker-1")).await;
    world.annotate(&format!("{MCO}/state"), Some("Done")).await;
    assert_eq!(agent.serves().await, span);
    assert_eq!(world.annotation(WAITS).await, "");
}

/// It left with a configuration on its disk that it was about to restart into, and comes back: what it runs goes with the
/// cluster, and what it would run once its power failed does not.
#[tokio::test]
async fn a_newcomer_whose_next_boot_would_run_something_else_waits_for_its_own_configuration() {
    let world = World::new().await;
    apply(&world, &Record::settled(size(1400))).await;
    world.boot(1, Some(1400));
    world.write(file::PATH, "EPOCH=2\nCNI_MTU=1300\n");
    let mut agent = Agent::start(&world, 1400);
    let why =
        "the node has a configuration on its disk that it did not start with; it must take its own first";
    world.until(WAITS, |said| said == why, why).await;
    assert_eq!(*agent.served.borrow(), None);
    world.write(file::PATH, "EPOCH=3\nCNI_MTU=1400\n");
    assert_eq!(agent.serves().await, Envelope::settled(size(1400)));
    assert_eq!(world.annotation(WAITS).await, "");
    drop(agent);
    // From now on it is one of those that were there.
    world.write(file::PATH, "EPOCH=4\nCNI_MTU=1300\n");
    assert_eq!(Agent::start(&world, 1400).serves().await, Envelope::settled(size(1400)));
}

#[tokio::test]
async fn a_host_too_small_for_the_pods_packets_is_said_with_the_numbers() {
    let world = World::new().await;
    apply(&world, &Record::settled(size(1480))).await;
    world.boot(0, None);
    let _agent = Agent::start(&world, 1480);
    let why = "the host's uplink has MTU 1500; pods at 1480 need at least 1538";
    world.until(WAITS, |said| said == why, why).await;
}

#[tokio::test]
async fn without_the_api_a_node_goes_by_what_it_last_knew() {
    let mut world = World::new().await;
    apply(&world, &spreading()).await;
    let span = Envelope::spanning(size(1400), size(1300));
    world.boot(1, None);
    let booted = boot::read(&world.run()).unwrap().unwrap();
    let booted = netferry_core::mtu::boot::Booted { network: Some(span), ..booted };
    boot::write(&world.run(), &booted).unwrap();
    assert_eq!(Agent::start(&world, 1300).serves().await, span);
    let asked = Arc::new(AtomicU32::new(0));
    world.client = nobody(&asked);
    assert_eq!(Agent::start(&world, 1300).serves().await, span);
    let alien = netferry_core::mtu::boot::Booted { network: Some(Envelope::settled(size(9000))), ..booted };
    boot::write(&world.run(), &alien).unwrap();
    asked.store(0, Ordering::SeqCst);
    let agent = Agent::start(&world, 1300);
    // By the third time it has decided twice.
    until("it asks again", async || match asked.load(Ordering::SeqCst) {
        3.. => Ok(()),
        times => Err(format!("asked {times} times")),
    })
    .await;
    assert_eq!(*agent.served.borrow(), None, "what it would run does not go with what the others hold");
}

/// Somebody removes the object of a node whose agent lives on, and the kubelet registers it again.
async fn registered_anew(world: &World) {
    world.nodes.delete(NODE, &DeleteParams::default()).await.unwrap();
    let node = json!({"metadata": {"name": NODE}});
    world.nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_node_that_was_removed_and_is_back_is_let_in_anew_though_its_agent_lived_on() {
    let world = World::new().await;
    apply(&world, &Record::settled(size(1400))).await;
    world.boot(0, Some(1400));
    let mut agent = Agent::start(&world, 1400);
    agent.is_let_in(&world).await;
    // It goes with the cluster: nothing changes for it.
    registered_anew(&world).await;
    agent.is_let_in(&world).await;
    assert_eq!(world.annotation(WAITS).await, "");
    // A change began without it, and nobody waits any more for the one that was removed.
    apply(&world, &spreading()).await;
    let before = agent.admitted.borrow().clone();
    registered_anew(&world).await;
    let why = "pods here would run at 1400";
    world.until(WAITS, |said| said.starts_with(why), why).await;
    assert_eq!(*agent.admitted.borrow(), before, "nothing is said of it that others need to reach its pods");
    assert_eq!(agent.serves().await, Envelope::settled(size(1400)), "what it has goes on meanwhile");
    // The change is taken back, so it goes with the cluster again.
    apply(&world, &Record::settled(size(1400))).await;
    agent.is_let_in(&world).await;
    assert_eq!(world.annotation(WAITS).await, "");
}

/// Whatever kept it from being written, the next agent of this boot must not take its node for a new one: it would be told to
/// restart beside others that are away.
#[tokio::test]
async fn a_node_that_serves_is_no_newcomer_to_its_next_agent_though_its_disk_was_full() {
    let world = World::new().await;
    apply(&world, &Record::settled(size(1400))).await;
    world.boot(0, Some(1400));
    // No directory can be made where a file is.
    let data = world.dir.path().join("data");
    std::fs::write(&data, "").unwrap();
    let mut agent = Agent::start(&world, 1400);
    agent.is_let_in(&world).await;
    drop(agent);
    apply(&world, &spreading()).await;
    let mut agent = Agent::start(&world, 1300);
    agent.is_let_in(&world).await;
    assert_eq!(
        (agent.serves().await, world.annotation(WAITS).await),
        (Envelope::settled(size(1400)), String::new())
    );
    drop(agent);
    // There is room again, and another boot.
    std::fs::remove_file(&data).unwrap();
    let mut agent = Agent::start(&world, 1300);
    agent.is_let_in(&world).await;
    until("it is remembered", async || {
        let text = std::fs::read_to_string(data.join("served.json"));
        text.map(drop).map_err(|error| error.to_string())
    })
    .await;
    world.boot(0, Some(1400));
    let mut agent = Agent::start(&world, 1300);
    agent.is_let_in(&world).await;
    assert_eq!(world.annotation(WAITS).await, "");
}

/// An API nobody reaches, which counts who tries.
fn nobody(asked: &Arc<AtomicU32>) -> kube::Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        asked.fetch_add(1, Ordering::SeqCst);
        async {
            Err::<http::Response<kube::client::Body>, _>(io::Error::from(io::ErrorKind::ConnectionRefused))
        }
    });
    kube::Client::new(service, "default")
}
