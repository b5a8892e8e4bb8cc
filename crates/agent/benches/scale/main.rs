//! What an agent costs in a large cluster: memory, time, and operations per change.
//!
//! The cluster is in the embedded API server; the agent is a process of its own with real databases, daemons and a
//! switch. `cargo bench -p netferry-agent --bench scale -- [NODES PODS SERVICES]`; with `NETFERRY_SCALE_API=FILE` the
//! filled API is kept there and used again.

#[path = "../../tests/real/world.rs"]
mod world;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, Patch, PatchParams, PostParams};
use netferry_agent::Config;
use netferry_core::overlay::zone::Datapath;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use world::World;

/// Namespaces the pods and Services are spread over.
const NAMESPACES: usize = 100;
/// The goal for a cluster of 1 000 nodes, 50 000 pods and 10 000 Services.
const GOAL_MB: f64 = 60.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if arguments.first().map(String::as_str) == Some("agent") {
        runtime.block_on(agent(&arguments[1], &arguments[2], &arguments[3]));
        return;
    }
    let number =
        |at: usize, otherwise: usize| arguments.get(at).map_or(otherwise, |n| n.parse().expect("a number"));
    let size = Size { nodes: number(0, 1_000), pods: number(1, 50_000), services: number(2, 10_000) };
    runtime.block_on(measure(size));
}

/// The process that is measured.
async fn agent(root: &str, kubeconfig: &str, switch: &str) {
    let mut config = Config::new("n1".parse().expect("a name"));
    config.paths = netferry_agent::Paths::below(Path::new(root));
    config.datapath = Some(Datapath::Userspace);
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let client = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
    let client = kube::Client::try_from(client.expect("a usable kubeconfig")).expect("a client");
    let namespace =
        netferry_kernel::Namespace::of_process(switch.parse().expect("a process")).expect("it runs");
    let kernel = std::sync::Arc::new(netferry_kernel::Kernel::inside(namespace).expect("root"));
    netferry_agent::run_on(kernel, config, client).await.expect("it runs");
}

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    pods: usize,
    services: usize,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(world: &World) -> Running {
        let kubeconfig = world.kubeconfig_file();
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args([Path::new("agent"), world.root(), &kubeconfig])
            .arg(world.switch_process().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn();
        Running(child.expect("this program runs"))
    }

    fn status(&self, key: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0
    }

    /// Seconds of processor time so far.
    fn cpu(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        let after = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks =
            |at: usize| after.split(' ').nth(at).and_then(|t| t.parse::<f64>().ok()).unwrap_or_default();
        (ticks(11) + ticks(12)) / 100.0
    }
}

async fn measure(size: Size) {
    // The filled API can be kept, for the next time.
    let file = std::env::var_os("NETFERRY_SCALE_API").map(std::path::PathBuf::from);
    let filled = file.as_ref().is_some_and(|file| file.exists());
    let Size { nodes, pods, services } = size;
    println!("{nodes} nodes, {pods} pods, {services} Services, {NAMESPACES} namespaces; 110 pods here");
    let world = World::start_with("10.128.0.0/9", file.clone()).await;
    let began = Instant::now();
    if !filled {
        fill(&world, size).await;
        println!("API filled in {:.1} s", began.elapsed().as_secs_f64());
    }

    let began = Instant::now();
    let agent = Running::start(&world);
    let rows = || {
        world
            .nbctl(&["--bare", "--columns=_uuid", "list", "load_balancer"])
            .map_or(0, |t| t.lines().filter(|l| !l.is_empty()).count())
    };
    wait(Duration::from_secs(300), || rows() > services).await;
    println!("all rows after {:.1} s", began.elapsed().as_secs_f64());
    quiet(&world).await;
    println!(
        "memory {:.1} MB (of it anonymous {:.1}), at most {:.1} MB; {:.1} s of processor",
        agent.status("VmRSS"),
        agent.status("RssAnon"),
        agent.status("VmHWM"),
        agent.cpu()
    );
    let met = agent.status("VmRSS") <= GOAL_MB;
    println!("goal of {GOAL_MB} MB: {}", if met { "met" } else { "missed" });

    let slices: Api<EndpointSlice> = Api::namespaced(world.client.clone(), "ns-7");
    let pods_api: Api<Pod> = Api::namespaced(world.client.clone(), "ns-7");
    let patches = PatchParams { field_manager: Some("bench".to_owned()), ..PatchParams::default() };
    for round in 0..3 {
        let endpoints =
            json!([{"addresses": [format!("10.200.9.{}", round + 1)], "conditions": {"ready": true}}]);
        let patch = json!({"endpoints": endpoints});
        change(&world, &agent, "one Service's endpoints", async {
            slices.patch("s-7", &patches, &Patch::Merge(patch)).await.expect("a patch");
        })
        .await;
        let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
        change(&world, &agent, "labels of a pod elsewhere that no policy speaks of", async {
            pods_api.patch("p-7", &patches, &Patch::Merge(patch)).await.expect("a patch");
        })
        .await;
        let app = if round % 2 == 0 { "gone" } else { "a0" };
        let patch = json!({"metadata": {"labels": {"app": app}}});
        change(&world, &agent, "a pod elsewhere enters or leaves a policy's peers", async {
            pods_api.patch("p-107", &patches, &Patch::Merge(patch)).await.expect("a patch");
        })
        .await;
    }
    println!("memory {:.1} MB after that", agent.status("VmRSS"));
    let before = agent.cpu();
    tokio::time::sleep(Duration::from_secs(10)).await;
    println!("idle: {:.2} % of a processor", (agent.cpu() - before) * 10.0);
}

/// Makes a change and says what it cost the databases and the agent.
async fn change(world: &World, agent: &Running, what: &str, make: impl Future<Output = ()>) {
    let (transactions, bytes, cpu) = (world.transactions(), world.bytes(), agent.cpu());
    let began = Instant::now();
    make.await;
    let mut seen = None;
    let waited = Instant::now();
    while waited.elapsed() < Duration::from_secs(3) {
        if world.bytes() != bytes && seen.is_none() {
            seen = Some(began.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = seen.map_or("-".to_owned(), |t| format!("{:.0} ms", t.as_secs_f64() * 1e3));
    println!(
        "{what}: {} transactions, {} bytes northbound, seen after {took}, {:.0} ms of processor",
        world.transactions() - transactions,
        world.bytes().saturating_sub(bytes),
        (agent.cpu() - cpu) * 1e3,
    );
}

async fn wait(most: Duration, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < most, "not within {most:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Until nothing was written for a while.
async fn quiet(world: &World) {
    let mut last = (world.bytes(), Instant::now());
    while last.1.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if world.bytes() != last.0 {
            last = (world.bytes(), Instant::now());
        }
    }
}

async fn fill(world: &World, size: Size) {
    let client = &world.client;
    let namespaces = (0..NAMESPACES).map(
        |n| json!({"metadata": {"name": format!("ns-{n}"), "labels": {"team": format!("t{}", n % 10)}}}),
    );
    create::<Namespace>(Api::all(client.clone()), namespaces).await;
    create::<Node>(Api::all(client.clone()), (1..=size.nodes).map(node)).await;
    for n in 0..NAMESPACES {
        let namespace = format!("ns-{n}");
        let mine = |all: usize| (0..all).filter(move |at| at % NAMESPACES == n);
        let pods = mine(size.pods).map(|at| pod(at, size.nodes));
        create::<Pod>(Api::namespaced(client.clone(), &namespace), pods).await;
        let services = mine(size.services).map(service);
        create::<Service>(Api::namespaced(client.clone(), &namespace), services).await;
        let slices = mine(size.services).map(slice);
        create::<EndpointSlice>(Api::namespaced(client.clone(), &namespace), slices).await;
    }
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "podSelector": {},
            "ingress": [{"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "a0"}}}]}],
        },
    });
    for n in 0..NAMESPACES.min(20) {
        let api = Api::<NetworkPolicy>::namespaced(client.clone(), &format!("ns-{n}"));
        create::<NetworkPolicy>(api, [policy.clone()].into_iter()).await;
    }
}

async fn create<K>(api: Api<K>, objects: impl Iterator<Item = Value>)
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let made = futures::stream::iter(objects).map(|object| {
        let api = api.clone();
        async move {
            let object: K = serde_json::from_value(object).expect("an object");
            api.create(&PostParams::default(), &object).await.expect("it is made");
        }
    });
    made.buffer_unordered(8).collect::<Vec<()>>().await;
}

/// Two bytes of an address out of a number.
fn place(n: usize) -> (usize, usize) {
    (n / 250, n % 250)
}

fn node(n: usize) -> Value {
    let (a, b) = place(n);
    let subnet = format!("10.{}.{}.0/24", 128 + n / 256, n % 256);
    json!({"metadata": {"name": format!("n{n}"), "annotations": {
        "k8s.ovn.org/node-id": (n + 1).to_string(),
        "k8s.ovn.org/node-subnets": format!(r#"{{"default":["{subnet}"]}}"#),
        "k8s.ovn.org/node-chassis-id": format!("chassis-{n}"),
        "k8s.ovn.org/node-primary-ifaddr": format!(r#"{{"ipv4":"172.30.{a}.{b}/16"}}"#),
        "k8s.ovn.org/host-cidrs": format!(r#"["172.30.{a}.{b}/16"]"#),
    }}})
}

/// 110 pods are on the first node, the others on the others.
fn pod(at: usize, nodes: usize) -> Value {
    let on = if at < 110 || nodes == 1 { 1 } else { 2 + at % (nodes - 1) };
    let last = if at < 110 { 3 + at } else { 3 + (at / nodes) % 250 };
    let (b, c) = (128 + on / 256, on % 256);
    let networks = format!(
        r#"{{"default":{{"ip_addresses":["10.{b}.{c}.{last}/24"],"mac_address":"0a:58:0a:{b:02x}:{c:02x}:{last:02x}"}}}}"#
    );
    json!({
        "metadata": {
            "name": format!("p-{at}"),
            "labels": {"app": format!("a{}", at % 50), "pod-template-hash": format!("h{}", at % 500)},
            "annotations": {"k8s.ovn.org/pod-networks": networks},
        },
        "spec": {"nodeName": format!("n{on}"), "containers": [{"name": "c", "image": "registry.example/app:1", "ports": [{"name": "http", "containerPort": 8080}]}]},
    })
}

fn service(at: usize) -> Value {
    json!({
        "metadata": {"name": format!("s-{at}")},
        "spec": {"ports": [{"port": 80, "targetPort": 8080}]},
    })
}

fn slice(at: usize) -> Value {
    let backends = (0..3).map(
        |n| json!({"addresses": [format!("10.128.{}.{}", at % 250, 3 + n)], "conditions": {"ready": true}}),
    );
    json!({
        "metadata": {"name": format!("s-{at}"), "labels": {"kubernetes.io/service-name": format!("s-{at}")}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": backends.collect::<Vec<_>>(),
    })
}
