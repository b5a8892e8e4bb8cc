//! What one change of MTU costs the operator, in clusters of ten, a hundred and a thousand nodes.
//!
//! The operator is a process of its own that asks the embedded API server over the network; machines without a kernel,
//! which decide with what ships, are its nodes. `cargo bench -p netferry-operator --bench change -- [--write FILE] [NODES…]`.

#[path = "../../tests/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_operator::lead::Timing;
use netferry_testkit::page;
use tokio::net::TcpListener;

use support::chance::Chance;
use support::machine::Pace;
use support::site::{HOSTS, PODS, Site};

/// Of ten nodes, so many may be away at a time.
const AWAY: usize = 1;
/// How fast machines are: what is measured is the operator, and nobody wants to wait for boots.
const PACE: Pace = Pace { step: (1, 20), boot: (50, 200), anyway: Duration::from_secs(5) };
/// How much more a node may cost in the largest cluster than in one a tenth of its size.
const GOAL: f64 = 1.5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if let [word, address] = arguments.as_slice()
        && word == "operator"
    {
        runtime.block_on(operator(address));
        return;
    }
    let (mut write, mut sizes) = (None, Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--write" => write = Some(PathBuf::from(arguments.next().expect("--write needs a file"))),
            number => sizes.push(number.parse().expect("a number of nodes")),
        }
    }
    if sizes.is_empty() {
        sizes.extend([10, 100, 1000]);
    }
    let costs: Vec<Cost> = sizes.into_iter().map(|nodes| runtime.block_on(measure(nodes))).collect();
    let text = text(&costs);
    println!("{text}");
    if let Some(path) = write {
        page::put(&path, "The operator during a change of MTU", &text).expect("the page is written");
    }
}

/// The process that is measured.
async fn operator(address: &str) {
    let config = kube::Config::new(address.parse().expect("an address"));
    let client = kube::Client::try_from(config).expect("a client");
    let settings = netferry_operator::Settings {
        namespace: "netferry".into(),
        identity: "bench".into(),
        timing: Timing::default(),
        overlay: netferry_operator::overlay::Settings::default(),
        rollout: netferry_operator::rollout::Settings::default(),
        listen: None,
    };
    netferry_operator::run(client, settings, std::future::pending()).await;
}

/// What was asked of the server over the network.
#[derive(Default)]
struct Asked {
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl Asked {
    /// Answers over the network what this router answers, and counts; keeping the lease costs the same whatever happens,
    /// and is not counted.
    async fn count(router: Router) -> (SocketAddr, Arc<Asked>) {
        let asked = Arc::new(Asked::default());
        let counting = asked.clone();
        let router = router.layer(from_fn(move |request: Request, next: Next| {
            if !request.uri().path().contains("/leases") {
                let read = request.method() == http::Method::GET;
                let count = if read { &counting.reads } else { &counting.writes };
                count.fetch_add(1, Ordering::Relaxed);
            }
            next.run(request)
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        (address, asked)
    }

    fn so_far(&self) -> (usize, usize) {
        (self.reads.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed))
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(server: SocketAddr) -> Process {
        let program = std::env::current_exe().expect("this program");
        let process = Command::new(program).args(["operator", &format!("http://{server}")]).spawn();
        Process(process.expect("this program runs"))
    }

    /// Seconds of processor time so far.
    fn cpu(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        let after = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks = |at: usize| after.split(' ').nth(at).and_then(|ticks| ticks.parse::<f64>().ok());
        (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / 100.0
    }

    /// Megabytes, by their name in `/proc`.
    fn memory(&self, key: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0
    }
}

/// What a change cost.
struct Cost {
    nodes: usize,
    cpu: f64,
    reads: usize,
    writes: usize,
    /// Before the change, and at most until its end.
    memory: (f64, f64),
}

async fn measure(nodes: usize) -> Cost {
    let mut site = Site::new((nodes * AWAY / 10).max(1), Chance::new(1)).await;
    site.fleet.pace = PACE;
    let (address, asked) = Asked::count(site.cluster.server.router()).await;
    let process = Process::start(address);
    site.populate(nodes, 3).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    let (cpu, (reads, writes), rest) = (process.cpu(), asked.so_far(), process.memory("VmRSS"));
    let began = Instant::now();
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("all arrive", async |site| site.settled().await.ok().filter(|mtu| *mtu == PODS.1)).await;
    let (took, now) = (began.elapsed(), asked.so_far());
    let cost = Cost {
        nodes,
        cpu: process.cpu() - cpu,
        reads: now.0 - reads,
        writes: now.1 - writes,
        memory: (rest, process.memory("VmHWM")),
    };
    eprintln!("{nodes} nodes: {:.2} s of processor in {:.0} s", cost.cpu, took.as_secs_f64());
    cost
}

fn text(costs: &[Cost]) -> String {
    let mut text =
        "| nodes | processor | per node | reads | per node | writes | per node | memory before | at most |\n\
                    | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for Cost { nodes, cpu, reads, writes, memory, .. } in costs {
        let each = |sum: f64| sum / *nodes as f64;
        text += &format!(
            "| {nodes} | {cpu:.2} s | {:.1} ms | {reads} | {:.1} | {writes} | {:.1} | {:.0} MB | {:.0} MB |\n",
            each(cpu * 1e3),
            each(*reads as f64),
            each(*writes as f64),
            memory.0,
            memory.1,
        );
    }
    text += "\n";
    if let [.., smaller, largest] = costs {
        let each = |cost: &Cost| cost.cpu / cost.nodes as f64;
        let asked = |cost: &Cost| (cost.reads + cost.writes) as f64 / cost.nodes as f64;
        for (what, ratio) in
            [("processor", each(largest) / each(smaller)), ("requests", asked(largest) / asked(smaller))]
        {
            let goal = format!(
                "{what} per node with {} nodes at most {GOAL} times that with {}: {ratio:.2} times",
                largest.nodes, smaller.nodes
            );
            text += &page::goal(&goal, ratio <= GOAL);
        }
    }
    text += "\nOne unattended change from 1400 to 8900, every node restarting twice; one of ten workers may be away at a time,\n\
             of three control-plane nodes one. The operator is a process of its own that asks the embedded API server over\n\
             the network; nodes are machines without a kernel that decide with what ships and boot within 200 ms. Requests\n\
             for its lease are not counted.\n";
    text
}
