//! What a change costs, in operations on databases, rows compared for them, and messages to the kernel.
//!
//! The only test of its program: what is counted is counted for the whole process.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use netferry_agent::Paths;
use netferry_agent::cluster::{Basis, Written};
use netferry_agent::overlay::host;
use netferry_agent::overlay::ovn::{Heard, Keeper, Outlook, Stores, ZoneHandle};
use netferry_core::name::ObjectName;
use netferry_core::net::Stack;
use netferry_core::overlay::cluster::PodObject;
use netferry_core::overlay::inputs::{Model, News};
use netferry_core::overlay::zone::{Datapath, SwitchFacts};
use netferry_kernel::{Kernel, Namespace};
use netferry_testkit::wait::{PATIENCE, in_time, until};
use netferry_translate as translate;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The three databases of a node without the daemons that read them: what they would write is not ours to count.
struct Databases {
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Databases {
    fn start(paths: &Paths) -> Databases {
        let script = r#"
            serve() {
                ovsdb-tool create $2.db $1
                ovsdb-server $2.db --remote=punix:$2.sock --unixctl=$2.ctl --no-chdir </dev/null &
            }
            serve /usr/share/openvswitch/vswitch.ovsschema $1/db; switch=$!
            serve /usr/share/ovn/ovn-nb.ovsschema $2/ovnnb_db; northbound=$!
            serve /usr/share/ovn/ovn-sb.ovsschema $2/ovnsb_db; southbound=$!
            read _; kill -9 $switch $northbound $southbound; wait"#;
        for directory in [&paths.ovs_run, &paths.ovn_run] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        let mut shell = Command::new("unshare")
            .args(["--net", "sh", "-c", script, "sh"])
            .args([&paths.ovs_run, &paths.ovn_run])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare starts");
        Databases { leash: shell.stdin.take(), shell }
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.shell.wait();
    }
}

/// No change has so many rows compared: its own, those around it, and once more what comes back of them.
const ROWS: u64 = 100;

/// What was done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    operations: u64,
    messages: u64,
    compared: u64,
}

impl Cost {
    fn so_far() -> Cost {
        Cost {
            operations: netferry_ovs::count::operations(),
            messages: netferry_kernel::count::changes(),
            compared: netferry_ovs::count::rows_compared(),
        }
    }

    fn since(before: Cost) -> Cost {
        let now = Cost::so_far();
        Cost {
            operations: now.operations - before.operations,
            messages: now.messages - before.messages,
            compared: now.compared - before.compared,
        }
    }

    /// What is asked of others. How many rows are compared depends on how much of what was written comes back at once.
    fn asked(&self) -> (u64, u64) {
        (self.operations, self.messages)
    }
}

/// The zone of the first node of a cluster, and the host around it.
struct Zone {
    heard: mpsc::Sender<Heard>,
    handle: ZoneHandle,
    kernel: Arc<Kernel>,
    basis: Basis,
    _tasks: JoinSet<()>,
    _databases: Databases,
    _dir: tempfile::TempDir,
}

impl Zone {
    /// Of a cluster of so many other nodes, with as many pods and Services, that has come to rest.
    async fn of(others: usize) -> Zone {
        let dir = tempfile::Builder::new().prefix("nf").tempdir().expect("a directory");
        let paths = Paths::below(dir.path());
        let databases = Databases::start(&paths);
        let mut tasks = JoinSet::new();
        let stores = Stores::open(&paths, &mut tasks);
        in_time("databases", stores.ready()).await.expect("of a version we know");
        let mut open = netferry_ovs::Transaction::new();
        open.insert(&netferry_ovs::tables::vswitch::OpenVSwitch::default());
        stores.switch.transact(&open).await.expect("the one row of a switch");
        let kernel = Arc::new(Kernel::inside(Namespace::anonymous().expect("root")).expect("root"));
        let basis = basis();
        let facts = SwitchFacts {
            southbound: format!("unix:{}", paths.southbound_socket().display()),
            datapath: Datapath::Userspace,
            has_flows: false,
            follows_routes: true,
        };
        let me = "n1".parse().expect("a name");
        let model = Model::new(me, basis.networks.clone(), basis.mode.topology(), basis.mtu, facts);
        let (heard, hearing) = mpsc::channel(64);
        let (handle, requests) = ZoneHandle::new();
        let outlook = Outlook::default();
        let plan = outlook.host.subscribe();
        let mut keeper = Keeper::new(model, &stores, Datapath::Userspace, hearing, requests, outlook);
        // What takes longer is written a second time, which is not what is counted here.
        keeper.wait_for_databases(PATIENCE);
        let guarded = watch::channel(BTreeSet::new()).1;
        let inputs = host::Inputs {
            plan,
            guarded,
            uplink: None,
            resync: Duration::from_secs(3600),
            run: dir.path().join("run"),
        };
        tasks.spawn(keeper.run());
        let (state, _) = watch::channel(host::State::default());
        tasks.spawn(host::run(Arc::clone(&kernel), inputs, state));
        let zone = Zone { heard, handle, kernel, basis, _tasks: tasks, _databases: databases, _dir: dir };
        zone.hear((1..=others + 1).map(|n| zone.node(n)).collect()).await;
        zone.hear(vec![News::Namespace("default".to_owned(), Default::default())]).await;
        zone.hear((0..others).map(|n| pod(&format!("p{n}"), 2 + n, 5, "client")).collect()).await;
        zone.hear((0..others).flat_map(|n| [service(n), slice(n, 5)]).collect()).await;
        zone.hear(vec![pod("here", 1, 9, "server"), policy("first")]).await;
        zone.heard.send(Heard::Complete).await.expect("it runs");
        zone.attach("here", 9).await;
        zone.rest(0).await;
        zone
    }

    async fn hear(&self, news: Vec<News>) {
        self.heard.send(Heard::News(news)).await.expect("it runs");
    }

    /// Until the databases have what was heard: requests are answered after that.
    async fn written(&self) {
        let nobody = ObjectName::new("default", "nobody");
        let done = in_time("an answer", self.handle.remove(nobody, "nobody".to_owned())).await;
        done.expect("the databases take it");
    }

    /// The `n`th node, from 1.
    fn node(&self, n: usize) -> News {
        let (a, b) = (n / 250, 1 + n % 250);
        let subnet = format!("10.{}.{}.0/24", 128 + n / 256, n % 256);
        let node = object(json!({"metadata": {"name": format!("n{n}"), "annotations": {
            "k8s.ovn.org/node-id": (n + 1).to_string(),
            "k8s.ovn.org/node-subnets": format!(r#"{{"default":["{subnet}"]}}"#),
            "k8s.ovn.org/node-chassis-id": format!("chassis-{n}"),
            "k8s.ovn.org/node-primary-ifaddr": format!(r#"{{"ipv4":"172.30.{a}.{b}/16"}}"#),
            "k8s.ovn.org/host-cidrs": format!(r#"["172.30.{a}.{b}/16"]"#),
        }}}));
        News::Node(translate::node::node(&self.basis.networks, &node).expect("a node with a place"))
    }

    /// Everything said so far is done, by the host too: what is said last is seen in its kernel.
    async fn rest(&self, nth: usize) {
        self.written().await;
        let port = 30_000 + nth;
        self.hear(vec![fence(nth)]).await;
        self.written().await;
        until(&format!("port {port} on the host"), async || {
            let show = || Command::new("nft").args(["list", "ruleset"]).output();
            let shown = self.kernel.namespace().run(show).expect("its namespace").expect("nft runs");
            String::from_utf8_lossy(&shown.stdout).contains(&port.to_string())
        })
        .await;
        // What was written comes back from the databases, and is looked at once more.
        let (mut last, mut looks) = (Cost::so_far(), 0);
        until("nothing compared for a while", async || {
            let now = Cost::so_far();
            looks = if now == last { looks + 1 } else { 0 };
            last = now;
            if looks < 20 { Err(format!("{now:?}")) } else { Ok(()) }
        })
        .await;
    }

    /// Attaches a pod of this node.
    async fn attach(&self, name: &str, last: u8) {
        let addresses = Stack::V4([10, 128, 1, last].into());
        let pod = pod_object(name, 1, last, "server").attached_with(addresses);
        in_time("an answer", self.handle.put(pod)).await.expect("the databases take it");
    }

    async fn detach(&self, name: &str) {
        let done = self.handle.remove(ObjectName::new("default", name), name.to_owned());
        in_time("an answer", done).await.expect("the databases take it");
    }

    /// What a change costs, with the fence after it.
    async fn cost(&self, nth: usize, news: Vec<News>) -> Cost {
        self.cost_of(nth, self.hear(news)).await
    }

    async fn cost_of(&self, nth: usize, change: impl Future<Output = ()>) -> Cost {
        let before = Cost::so_far();
        change.await;
        self.rest(nth).await;
        Cost::since(before)
    }
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn basis() -> Basis {
    let ranges = json!({
        "clusterNetwork": [{"cidr": "10.128.0.0/9", "hostPrefix": 24}],
        "serviceNetwork": ["10.96.0.0/16"],
        "clusterNetworkMTU": 1400,
    });
    let written = Written { status: object(ranges), ..Written::default() };
    written.basis().expect("it makes sense").expect("it is published")
}

fn pod(name: &str, on: usize, last: u8, app: &str) -> News {
    News::Pod(pod_object(name, on, last, app))
}

fn pod_object(name: &str, on: usize, last: u8, app: &str) -> PodObject {
    let (b, c) = (128 + on / 256, on % 256);
    let pod = object(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {"nodeName": format!("n{on}"), "containers": [{"name": "c", "image": "i"}]},
        "status": {"podIPs": [{"ip": format!("10.{b}.{c}.{last}")}]},
    }));
    translate::pod::pod(&pod).expect("a pod").expect("bound to a node")
}

fn service(n: usize) -> News {
    let service = object(json!({
        "metadata": {"name": format!("s{n}"), "namespace": "default"},
        "spec": {"clusterIP": format!("10.96.{}.{}", n / 250, 1 + n % 250), "ports": [{"port": 80}]},
    }));
    News::Service(translate::service::service(&service).expect("a Service").expect("with an address"))
}

fn slice(n: usize, last: u8) -> News {
    let slice = object(json!({
        "metadata": {
            "name": format!("s{n}"), "namespace": "default",
            "labels": {"kubernetes.io/service-name": format!("s{n}")},
        },
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [IpAddr::from([10, 128, 2, last])], "conditions": {"ready": true}}],
    }));
    let (service, slice) = translate::service::slice(&slice).expect("a slice").expect("of a Service");
    News::Slice(ObjectName::new("default", format!("s{n}")), service, slice)
}

fn policy(name: &str) -> News {
    let policy: NetworkPolicy = object(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "server"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}],
        },
    }));
    News::Policy(translate::policy::policy(&policy).expect("a policy").0)
}

/// Something that the zone and the host both have to do something for.
fn fence(nth: usize) -> News {
    let service = object(json!({
        "metadata": {"name": format!("fence-{nth}"), "namespace": "default"},
        "spec": {
            "type": "NodePort", "clusterIP": format!("10.96.200.{}", 1 + nth),
            "ports": [{"port": 80, "nodePort": 30_000 + nth}],
        },
    }));
    News::Service(translate::service::service(&service).expect("a Service").expect("with an address"))
}

/// What each kind of change costs in a cluster of so many other nodes, pods and Services.
async fn costs(others: usize) -> Vec<(&'static str, Cost)> {
    let zone = Zone::of(others).await;
    let joined = zone.node(others + 2);
    let left = format!("n{}", others + 2).parse().expect("a name");
    vec![
        ("a Service with a node port", zone.cost(1, vec![]).await),
        ("a pod of this node", zone.cost_of(2, zone.attach("new", 10)).await),
        ("a pod elsewhere, a policy's peer", zone.cost(3, vec![pod("far", 2, 10, "client")]).await),
        ("a Service's endpoint", zone.cost(4, vec![slice(3, 6)]).await),
        ("a policy", zone.cost(5, vec![policy("second")]).await),
        ("a node", zone.cost(6, vec![joined]).await),
        ("a pod of this node that ends", zone.cost_of(7, zone.detach("new")).await),
        ("a Service", zone.cost(8, vec![service(others), slice(others, 5)]).await),
        ("a node that leaves", zone.cost(9, vec![News::NodeGone(left)]).await),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_change_costs_does_not_grow_with_the_cluster() {
    let small = costs(10).await;
    let large = costs(1000).await;
    for ((what, small), (_, large)) in small.iter().zip(&large) {
        println!("{what}: {small:?}, among many: {large:?}");
        assert_eq!(small.asked(), large.asked(), "{what}, with 10 others on the left, 1000 on the right");
        // There are thousands.
        assert!(large.compared < ROWS, "{what} has few rows compared: {large:?}");
    }
    let [(_, fence), changes @ ..] = small.as_slice() else { panic!("there are changes") };
    for (what, cost) in changes {
        // Each is measured with such a Service after it.
        assert!(cost.operations > fence.operations, "{what} is seen to cost something: {cost:?}");
        assert!(cost.operations < fence.operations + 20, "{what} costs little: {cost:?}");
    }
    assert!(fence.messages > 0, "what the host is told is counted");
    assert!(fence.compared > 0, "what is compared is counted");
}
