//! What the network of one machine costs it, beside that of a node among many with the same work.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, PostParams};
use netferry_lab::paths::in_lab;
use netferry_lab::{Families, Lab, Lifetime, Options, Parts};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::ground::PATIENCE;

pub(crate) const TITLE: &str = "One machine";

const NODE: &str = "node-1";
const SERVICES: usize = 200;
/// Of a machine that has many other things to do.
const POD_WITHIN: Duration = Duration::from_secs(600);
/// Goals: bytes of memory with fifty pods, and how soon the first pod sends.
const GOAL: (u64, Duration) = (100_000_000, Duration::from_secs(5));
/// Our processes on a node and OVN's and Open vSwitch's: kilobytes of their own and their share of what they share.
const MEMORY: &str = r#"for p in /proc/[0-9]*; do
  case "$(tr '\0' ' ' < $p/cmdline 2>/dev/null)" in
    *netferry*agent\ --node*|*netferry*solo\ --node*|*netferry*\ operator*|*ovsdb-server*|*ovs-vswitchd*|*ovn-northd*|*ovn-controller*)
      awk '/^Pss:/ { print $2 }' $p/smaps_rollup 2>/dev/null ;;
  esac
done | awk '{ sum += $1 } END { print sum + 0 }'"#;
const DISK: &str = "du -skc /var/lib/ovn /etc/openvswitch /var/lib/netferry | tail -n 1 | cut -f 1";

/// What was found of one kind of network.
struct Found {
    /// With so many pods: kilobytes.
    memory: Vec<(usize, u64)>,
    disk: u64,
}

pub(crate) fn measure(program: &Path) -> anyhow::Result<String> {
    let runtime = Runtime::new()?;
    let first = first_pod(program, &runtime)?;
    let one = costs(program, &runtime, true)?;
    let many = costs(program, &runtime, false)?;
    let mut out = format!(
        "Agent, operator, OVN and Open vSwitch together, with {SERVICES} Services; for many: one node of such a cluster, \
         with the operator it has elsewhere.\n\n| | for one machine | for many |\n| --- | ---: | ---: |\n"
    );
    for ((pods, one), (_, many)) in one.memory.iter().zip(&many.memory) {
        let _ =
            writeln!(out, "| memory with {pods} pods (PSS) | {} | {} |", megabytes(*one), megabytes(*many));
    }
    let _ = writeln!(out, "| disk | {} | {} |", megabytes(one.disk), megabytes(many.disk));
    let _ = writeln!(
        out,
        "| from `netferry solo` to the first packet of a pod | {:.1} s | |",
        first.as_secs_f32()
    );
    let at_fifty =
        one.memory.iter().find(|(pods, _)| *pods == 50).map_or(0, |(_, kilobytes)| kilobytes * 1024);
    let met = |met: bool| if met { "met" } else { "not met" };
    let _ = writeln!(
        out,
        "\nGoals: less than {} MB with 50 pods: {}; less than {} s: {}.",
        GOAL.0 / 1_000_000,
        met(at_fifty < GOAL.0),
        GOAL.1.as_secs(),
        met(first < GOAL.1)
    );
    Ok(out)
}

fn megabytes(kilobytes: u64) -> String {
    format!("{} MB", kilobytes * 1024 / 1_000_000)
}

fn lab(program: &Path, single_node: bool, parts: Parts) -> anyhow::Result<Lab> {
    let name = format!("bench-{}-{single_node}", std::process::id()).parse().map_err(anyhow::Error::msg)?;
    let mut options = Options::new(name, program.to_owned(), program.with_file_name("netferry-cni"));
    (options.nodes, options.single_node, options.parts) = (1, single_node, parts);
    options.lifetime = Lifetime::OfCaller;
    let lab = Lab::up(&options)?;
    lab.wait_ready(PATIENCE, |_| {})?;
    Ok(lab)
}

/// From the start of the process, on a machine that has never had one, to a pod that is answered.
fn first_pod(program: &Path, runtime: &Runtime) -> anyhow::Result<Duration> {
    eprintln!("one machine, from nothing to its first pod");
    let lab = lab(program, true, Parts::NONE)?;
    put_pods(&lab, runtime, 0..1)?;
    let mut world = start(&lab, "outside", &["lab-pod", "--port", "8080"])?;
    let to = format!("{}:8080", Families::V4.outside()[0].addr());
    let began = Instant::now();
    let mut solo = start(&lab, NODE, &["--kubeconfig", "/etc/netferry/kubeconfig", "solo", "--node", NODE])?;
    let took = loop {
        let probe = ["lab-pod", "probe", "--timeout", "200ms", &to];
        if lab.exec("default/bench-0", "netferry", &probe).is_ok_and(|done| done.status.success()) {
            break began.elapsed();
        }
        ensure!(began.elapsed() < POD_WITHIN, "no pod came up");
        std::thread::sleep(Duration::from_millis(20));
    };
    for process in [&mut solo, &mut world] {
        process.kill().and_then(|()| process.wait()).context("ending what was started")?;
    }
    lab.down()?;
    Ok(took)
}

fn start(lab: &Lab, target: &str, arguments: &[&str]) -> anyhow::Result<Child> {
    let mut command = Command::new("netferry");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(lab.spawn(target, command)?)
}

fn costs(program: &Path, runtime: &Runtime, single_node: bool) -> anyhow::Result<Found> {
    eprintln!("memory, {}", if single_node { "for one machine" } else { "for many" });
    let lab = lab(program, single_node, Parts::ALL)?;
    put_services(&lab, runtime)?;
    let (mut memory, mut there) = (vec![], 0);
    for pods in [1, 50, 110] {
        put_pods(&lab, runtime, there..pods)?;
        there = pods;
        wait_for_pods(&lab, runtime, pods)?;
        let operator = if single_node { 0 } else { number(&lab, "control", MEMORY)? };
        memory.push((pods, number(&lab, NODE, MEMORY)? + operator));
    }
    let disk = number(&lab, NODE, DISK)?;
    lab.down()?;
    Ok(Found { memory, disk })
}

fn number(lab: &Lab, target: &str, script: &str) -> anyhow::Result<u64> {
    let done = lab.exec(target, "sh", &["-c", script])?;
    let text = String::from_utf8_lossy(&done.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("in {target}: {text}{}", String::from_utf8_lossy(&done.stderr)))
}

fn put_pods(lab: &Lab, runtime: &Runtime, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    runtime.block_on(async {
        let pods: Api<Pod> = Api::default_namespaced(in_lab::client(&lab.state().kubeconfig()).await?);
        for number in numbers {
            let pod = serde_json::from_value(json!({
                "metadata": {"name": format!("bench-{number}"), "labels": {"bench": format!("{}", number % 10)}},
                "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "none"}]},
            }))?;
            pods.create(&PostParams::default(), &pod).await?;
        }
        Ok(())
    })
}

fn put_services(lab: &Lab, runtime: &Runtime) -> anyhow::Result<()> {
    runtime.block_on(async {
        let services: Api<Service> =
            Api::default_namespaced(in_lab::client(&lab.state().kubeconfig()).await?);
        for number in 0..SERVICES {
            let service = serde_json::from_value(json!({
                "metadata": {"name": format!("bench-{number}")},
                "spec": {
                    "selector": {"bench": format!("{}", number % 10)},
                    "ports": [{"port": 80, "targetPort": 8080}],
                },
            }))?;
            services.create(&PostParams::default(), &service).await?;
        }
        Ok(())
    })
}

fn wait_for_pods(lab: &Lab, runtime: &Runtime, wanted: usize) -> anyhow::Result<()> {
    runtime.block_on(async {
        let pods: Api<Pod> = Api::default_namespaced(in_lab::client(&lab.state().kubeconfig()).await?);
        let deadline = Instant::now() + POD_WITHIN;
        loop {
            let ready = |pod: &Pod| {
                let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
                conditions
                    .is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
            };
            let there = pods.list(&Default::default()).await?.items.iter().filter(|pod| ready(pod)).count();
            if there >= wanted {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{there} of {wanted} pods are ready");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
}
