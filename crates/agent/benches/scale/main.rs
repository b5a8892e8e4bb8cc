//! What an agent costs in a large cluster: memory, processor, and operations per change.
//!
//! The cluster is in the embedded API server; the agent is a process of its own with real databases, daemons and a
//! switch. `cargo bench -p netferry-agent --bench scale -- [--write FILE] [NODES PODS SERVICES]`; with
//! `NETFERRY_SCALE_API=FILE` the filled API is kept there and used again.

#[path = "../../tests/real/world.rs"]
mod world;

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use netferry_agent::Config;
use netferry_core::overlay::zone::Datapath;
use netferry_testkit::page;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use world::World;

/// Namespaces the pods and Services are spread over.
const NAMESPACES: usize = 100;
/// Pods on the agent's own node.
const LOCAL: usize = 110;
/// The goal for a cluster of 1 000 nodes, 50 000 pods and 10 000 Services.
const GOAL_MB: f64 = 60.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    netferry_kernel::memory::share_one_heap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if arguments.first().map(String::as_str) == Some("agent") {
        runtime.block_on(agent(&arguments[1], &arguments[2], &arguments[3]));
        return;
    }
    let (mut write, mut numbers) = (None, Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--write" => write = Some(PathBuf::from(arguments.next().expect("--write needs a file"))),
            number => numbers.push(number.parse().expect("a number")),
        }
    }
    let number = |at: usize, otherwise: usize| numbers.get(at).copied().unwrap_or(otherwise);
    let size = Size { nodes: number(0, 1_000), pods: number(1, 50_000), services: number(2, 10_000) };
    let text = runtime.block_on(measure(size));
    println!("{text}");
    if let Some(path) = write {
        page::put(&path, "The agent in a large cluster", &text).expect("the page is written");
    }
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
    std::thread::spawn(tell_counts);
    netferry_agent::run_on(kernel, config, client).await.expect("it runs");
}

/// Answers every line with what was counted so far, or with what the allocator has: to learn that costs it more than
/// most of what is counted.
fn tell_counts() {
    for asked in std::io::stdin().lines() {
        if asked.is_ok_and(|asked| asked == "memory") {
            let (used, kept) = netferry_kernel::memory::allocated();
            println!("{used} {kept}");
        } else {
            println!(
                "{} {} {} {}",
                netferry_ovs::count::operations(),
                netferry_ovs::count::rows_compared(),
                netferry_kernel::count::changes(),
                netferry_kernel::count::questions()
            );
        }
    }
}

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    pods: usize,
    services: usize,
}

struct Running {
    process: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What an agent has done so far: operations on databases, rows compared for them, messages to the kernel that change
/// something, and such that ask.
type Counts = [u64; 4];

impl Running {
    fn start(world: &World) -> Running {
        let kubeconfig = world.kubeconfig_file();
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .args([Path::new("agent"), world.root(), &kubeconfig])
            .arg(world.switch_process().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("this program runs");
        let asks = process.stdin.take().expect("its input");
        let answers = BufReader::new(process.stdout.take().expect("its output")).lines();
        Running { process, asks, answers }
    }

    fn counts(&mut self) -> Counts {
        self.numbers("counts")
    }

    /// What its allocator has in use, and free but kept, in megabytes.
    fn allocated(&mut self) -> (f64, f64) {
        let [used, kept] = self.numbers("memory");
        (used as f64 / 1048576.0, kept as f64 / 1048576.0)
    }

    fn numbers<const N: usize>(&mut self, of: &str) -> [u64; N] {
        writeln!(self.asks, "{of}").expect("the agent runs");
        let line = self.answers.next().expect("the agent runs").expect("a line");
        let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        std::array::from_fn(|_| numbers.next().expect("as many numbers"))
    }

    /// A number of kilobytes out of a file of `/proc`, in megabytes.
    fn megabytes(&self, file: &str, key: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.process.id())).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0
    }

    fn resident(&self) -> f64 {
        self.megabytes("status", "VmRSS")
    }

    /// Seconds of processor time so far.
    fn cpu(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        let after = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks =
            |at: usize| after.split(' ').nth(at).and_then(|t| t.parse::<f64>().ok()).unwrap_or_default();
        (ticks(11) + ticks(12)) / 100.0
    }
}

async fn measure(size: Size) -> String {
    // The filled API can be kept, for the next time.
    let file = std::env::var_os("NETFERRY_SCALE_API").map(PathBuf::from);
    let filled = file.as_ref().is_some_and(|file| file.exists());
    let Size { nodes, pods, services } = size;
    eprintln!("{nodes} nodes, {pods} pods, {services} Services, {NAMESPACES} namespaces; {LOCAL} pods here");
    let world = World::start_with("10.128.0.0/9", file.clone()).await;
    let began = Instant::now();
    if !filled {
        fill(&world, size).await;
        eprintln!("API filled in {:.1} s", began.elapsed().as_secs_f64());
    }
    attach(&world).await;

    let began = Instant::now();
    let mut agent = Running::start(&world);
    let rows = || {
        world
            .nbctl(&["--bare", "--columns=_uuid", "list", "load_balancer"])
            .map_or(0, |t| t.lines().filter(|l| !l.is_empty()).count())
    };
    wait(Duration::from_secs(600), || rows() > services).await;
    let all_rows = began.elapsed().as_secs_f64();
    quiet(&world, &mut agent).await;
    let (resident, own) = (agent.resident(), agent.megabytes("status", "RssAnon"));
    let share = agent.megabytes("smaps_rollup", "Pss:");
    let (most, start) = (agent.megabytes("status", "VmHWM"), agent.cpu());
    let (used, kept) = agent.allocated();
    eprintln!("allocated {used:.1} MB, free but kept {kept:.1} MB");
    eprintln!("all rows after {all_rows:.1} s; {resident:.1} MB, own {own:.1}, at most {most:.1}");

    let slices: Api<EndpointSlice> = Api::namespaced(world.client.clone(), "ns-7");
    let pods_api: Api<Pod> = Api::namespaced(world.client.clone(), "ns-7");
    let policies: Api<NetworkPolicy> = Api::namespaced(world.client.clone(), "ns-7");
    let nodes_api: Api<Node> = Api::all(world.client.clone());
    let patches = PatchParams { field_manager: Some("bench".to_owned()), ..PatchParams::default() };
    let mut changes = String::new();
    let endpoints = json!([{"addresses": ["10.200.9.1"], "conditions": {"ready": true}}]);
    let patch = json!({"endpoints": endpoints});
    changes += &change(&mut agent, "a Service's endpoint", async {
        slices.patch("s-7", &patches, &Patch::Merge(patch)).await.expect("a patch");
    })
    .await;
    let patch = json!({"metadata": {"labels": {"round": "1"}}});
    changes += &change(&mut agent, "labels of a pod elsewhere that no policy speaks of", async {
        pods_api.patch("p-1007", &patches, &Patch::Merge(patch)).await.expect("a patch");
    })
    .await;
    let patch = json!({"metadata": {"labels": {"app": "gone"}}});
    let peers: Api<Pod> = Api::namespaced(world.client.clone(), "ns-0");
    changes += &change(&mut agent, "a pod elsewhere leaves a policy's peers", async {
        peers.patch("p-1000", &patches, &Patch::Merge(patch)).await.expect("a patch");
    })
    .await;
    let one = serde_json::from_value(pod(size.pods + 7, 1)).expect("a pod");
    changes += &change(&mut agent, "a pod of this node", async {
        let made = pods_api.create(&PostParams::default(), &one).await.expect("a pod").metadata;
        let text = |text: Option<String>| text.expect("the API has it");
        world.attach("ns-7", &text(made.name), &text(made.uid), "10.128.1.250");
    })
    .await;
    let mut another = policy();
    // An API that was kept has those of earlier runs.
    another["metadata"]["name"] = json!(format!("another-{}", std::process::id()));
    let one = serde_json::from_value(another).expect("a policy");
    changes += &change(&mut agent, "a policy", async {
        policies.create(&PostParams::default(), &one).await.expect("a policy");
    })
    .await;
    let one = serde_json::from_value(node(size.nodes + 1)).expect("a node");
    changes += &change(&mut agent, "a node", async {
        nodes_api.create(&PostParams::default(), &one).await.expect("a node");
    })
    .await;
    let after = agent.resident();
    let before = agent.cpu();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let idle = (agent.cpu() - before) * 10.0;
    let mut text = format!(
        "{nodes} nodes, {pods} pods, {services} Services and {NAMESPACES} namespaces in the API, {LOCAL} of the pods on the agent's node.\n\n\
         | | |\n| --- | ---: |\n\
         | memory at rest, resident | {resident:.1} MB |\n\
         | of it the process's own | {own:.1} MB |\n\
         | its share of what it shares (PSS) | {share:.1} MB |\n\
         | in use by its allocator | {used:.1} MB |\n\
         | free, and not given back | {kept:.1} MB |\n\
         | after the changes below | {after:.1} MB |\n\
         | at most, while everything was compared | {most:.1} MB |\n\
         | from its start until every row was written | {all_rows:.1} s |\n\
         | processor for that | {start:.1} s |\n\
         | processor at rest | {idle:.2} % |\n\n"
    );
    text += &page::goal(&format!("at rest below {GOAL_MB} MB: {resident:.1} MB"), resident < GOAL_MB);
    text += "\n| change | OVSDB operations | rows compared | netlink messages that change | that ask | processor of the agent |\n";
    text += "| --- | ---: | ---: | ---: | ---: | ---: |\n";
    text += &changes;
    text += "\nThe agent is a process of its own with real databases, OVN daemons and a switch; the other nodes are objects in\n\
             the API. That the numbers of operations, rows and messages do not grow with the cluster is a test:\n\
             `what_a_change_costs_does_not_grow_with_the_cluster`.\n";
    text
}

/// Makes a change and says what it cost.
async fn change(agent: &mut Running, what: &str, make: impl Future<Output = ()>) -> String {
    let (before, cpu) = (agent.counts(), agent.cpu());
    make.await;
    // Until nothing was asked of anybody for a while.
    let mut last = (agent.counts(), Instant::now());
    while last.1.elapsed() < Duration::from_secs(3) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = agent.counts();
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    let [operations, compared, changing, asking] = std::array::from_fn(|at| last.0[at] - before[at]);
    let spent = (agent.cpu() - cpu) * 1e3;
    eprintln!(
        "{what}: {operations} operations, {compared} rows compared, {changing} + {asking} messages, {spent:.0} ms"
    );
    format!("| {what} | {operations} | {compared} | {changing} | {asking} | {spent:.0} ms |\n")
}

async fn wait(most: Duration, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < most, "not within {most:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Until every node's port is bound and nothing was asked of anybody for a while.
async fn quiet(world: &World, agent: &mut Running) {
    let unbound = || {
        let find = ["--bare", "--columns=_uuid", "find", "port_binding", "type=remote", "chassis=[]"];
        world.sbctl(&find).is_none_or(|text| !text.is_empty())
    };
    wait(Duration::from_secs(300), || !unbound()).await;
    let mut last = (agent.counts(), Instant::now());
    while last.1.elapsed() < Duration::from_secs(8) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = agent.counts();
        if now != last.0 {
            last = (now, Instant::now());
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
        let api = Api::<Pod>::namespaced(client.clone(), &namespace);
        create(api.clone(), pods).await;
        let reports = mine(size.pods).map(|at| (at, address(at, size.nodes)));
        let done = futures::stream::iter(reports).map(|(at, address)| {
            let api = api.clone();
            async move {
                let status = Patch::Merge(json!({"status": {"podIPs": [{"ip": address}]}}));
                api.patch_status(&format!("p-{at}"), &PatchParams::default(), &status)
                    .await
                    .expect("a status");
            }
        });
        done.buffer_unordered(8).collect::<Vec<()>>().await;
        let services = mine(size.services).map(service);
        create::<Service>(Api::namespaced(client.clone(), &namespace), services).await;
        let slices = mine(size.services).map(slice);
        create::<EndpointSlice>(Api::namespaced(client.clone(), &namespace), slices).await;
    }
    for n in 0..NAMESPACES.min(20) {
        let api = Api::<NetworkPolicy>::namespaced(client.clone(), &format!("ns-{n}"));
        create::<NetworkPolicy>(api, [policy()].into_iter()).await;
    }
}

fn policy() -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {
            "podSelector": {},
            "ingress": [{"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "a0"}}}]}],
        },
    })
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

/// Some pods are on the first node, the others on the others.
fn node_of(at: usize, nodes: usize) -> usize {
    if at < LOCAL || nodes == 1 { 1 } else { 2 + at % (nodes - 1) }
}

fn address(at: usize, nodes: usize) -> String {
    let on = node_of(at, nodes);
    let last = if at < LOCAL { 4 + at } else { 4 + (at / nodes) % 250 };
    format!("10.{}.{}.{last}", 128 + on / 256, on % 256)
}

fn pod(at: usize, nodes: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("p-{at}"),
            "labels": {"app": format!("a{}", at % 50), "pod-template-hash": format!("h{}", at % 500)},
        },
        "spec": {"nodeName": format!("n{}", node_of(at, nodes)), "containers": [{"name": "c", "image": "registry.example/app:1", "ports": [{"name": "http", "containerPort": 8080}]}]},
    })
}

/// Puts the ports of the first node's pods on its switch, as CNI requests do.
async fn attach(world: &World) {
    let here = ListParams::default().fields("spec.nodeName=n1");
    for pod in Api::<Pod>::all(world.client.clone()).list(&here).await.expect("a list") {
        let text = |text: Option<String>| text.expect("the API has it");
        let (namespace, name) = (text(pod.metadata.namespace), text(pod.metadata.name));
        let reported = pod.status.and_then(|status| status.pod_ip);
        world.attach(&namespace, &name, &text(pod.metadata.uid), &text(reported));
    }
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
