//! `netferry operator` as a process: stopped, continued, killed and asked to end, beside another.

mod common;

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use common::Server;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};
use netferry_api::overlay::OperatorNetwork;
use netferry_testkit::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

struct Operator(Child);

impl Operator {
    fn start(dir: &Path, name: &str, args: &[&str]) -> Operator {
        let log = std::fs::File::create(dir.join(format!("{name}.log"))).expect("a log file");
        let child = Command::new(env!("CARGO_BIN_EXE_netferry"))
            .current_dir(dir)
            .args(["operator", "--kubeconfig", "kubeconfig", "--identity", name, "--exit-with-parent"])
            .args(args)
            .stderr(Stdio::from(log))
            .spawn()
            .expect("the binary under test runs");
        Operator(child)
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("the operator is signalled");
    }

    fn end_with(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.0.wait().expect("the operator ends")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Cluster {
    client: Client,
}

impl Cluster {
    async fn new(dir: &Path) -> Cluster {
        let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .expect("a usable kubeconfig");
        let client = Client::try_from(config).expect("a client");
        let post = PostParams::default();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for (_, text) in netferry_api::crds() {
            let definition = serde_saphyr::from_str(&text).expect("a definition");
            definitions.create(&post, &definition).await.expect("a definition");
        }
        let namespace = json!({"metadata": {"name": "netferry"}});
        let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
        Api::all(client.clone()).create(&post, &namespace).await.expect("a namespace");
        let network = json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"},
            "spec": {
                "clusterNetwork": [{"cidr": "10.244.0.0/16", "hostPrefix": 24}],
                "serviceNetwork": ["10.96.0.0/16"],
            },
        });
        let network: OperatorNetwork = serde_json::from_value(network).expect("a network");
        Api::all(client.clone()).create(&post, &network).await.expect("a network");
        Cluster { client }
    }

    async fn join(&self, name: &str) {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a node");
        Api::all(self.client.clone()).create(&PostParams::default(), &node).await.expect("a node");
    }

    /// Every node's subnets and term, once all have them.
    async fn until_placed(&self, nodes: usize) -> Vec<(String, String, u32)> {
        let api: Api<Node> = Api::all(self.client.clone());
        let place = |node: &Node| {
            let subnets = node.annotations().get("k8s.ovn.org/node-subnets")?.clone();
            let term = node.annotations().get("netferry.dev/leadership")?.split('-').next()?.parse().ok()?;
            Some((node.name_any(), subnets, term))
        };
        until(&format!("{nodes} nodes have their places"), async || {
            let list = api.list(&ListParams::default()).await.ok()?;
            let placed: Vec<_> = list.items.iter().filter_map(place).collect();
            (placed.len() == nodes).then_some(placed)
        })
        .await
    }

    async fn holder(&self) -> String {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), "netferry");
        let lease = api.get_opt("netferry-operator").await.ok().flatten();
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        holder.split('_').next().unwrap_or_default().to_owned()
    }
}

const TIMES: [&str; 2] = ["--lease-duration", "3"];

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_was_stopped_for_longer_than_its_lease_does_not_act_when_it_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _server = Server::start(dir.path(), "127.0.0.1:0", &["--kubeconfig-out", "kubeconfig"]);
    let cluster = Cluster::new(dir.path()).await;
    let first = Operator::start(dir.path(), "first", &TIMES);
    cluster.join("a").await;
    cluster.until_placed(1).await;
    let second = Operator::start(dir.path(), "second", &TIMES);
    first.signal(Signal::SIGSTOP);
    until("the second leads", async || cluster.holder().await == "second").await;
    cluster.join("b").await;
    cluster.until_placed(2).await;
    first.signal(Signal::SIGCONT);
    for n in 0..10 {
        cluster.join(&format!("c{n}")).await;
    }
    let placed = cluster.until_placed(12).await;
    let terms: Vec<u32> = placed.iter().map(|(_, _, term)| *term).collect();
    assert_eq!(terms.iter().filter(|term| **term == 0).count(), 1, "only the first node: {placed:?}");
    let mut subnets: Vec<&String> = placed.iter().map(|(_, subnets, _)| subnets).collect();
    subnets.sort();
    subnets.dedup();
    assert_eq!(subnets.len(), 12, "{placed:?}");
    assert_eq!(cluster.holder().await, "second");
    // It noticed, and waits like everybody else: when the other is killed, it leads again.
    second.end_with(Signal::SIGKILL);
    until("the first leads again", async || cluster.holder().await == "first").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_asked_to_end_lets_go_of_the_lease_and_ends_with_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let _server = Server::start(dir.path(), "127.0.0.1:0", &["--kubeconfig-out", "kubeconfig"]);
        let cluster = Cluster::new(dir.path()).await;
        let operator = Operator::start(dir.path(), "only", &[]);
        cluster.join("a").await;
        cluster.until_placed(1).await;
        assert_eq!(operator.end_with(signal).code(), Some(0), "{signal}");
        assert_eq!(cluster.holder().await, "", "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_gets_over_a_server_that_was_killed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let keep = ["--data", "data.log", "--tls-dir", "tls", "--kubeconfig-out", "kubeconfig"];
    let server = Server::start(dir.path(), "127.0.0.1:0", &keep);
    let address = server.url.trim_start_matches("https://").to_owned();
    let cluster = Cluster::new(dir.path()).await;
    let _operator = Operator::start(dir.path(), "only", &TIMES);
    cluster.join("a").await;
    let before = cluster.until_placed(1).await;
    server.end_with(Signal::SIGKILL);
    let log = dir.path().join("only.log");
    until("it notices", async || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains("no longer leading").then_some(())
    })
    .await;
    let _server = Server::start(dir.path(), &address, &keep);
    cluster.join("b").await;
    let after = cluster.until_placed(2).await;
    assert_eq!(after[0].1, before[0].1);
}

#[test]
fn times_that_would_let_two_lead_are_refused_with_3() {
    let output = Command::new(env!("CARGO_BIN_EXE_netferry"))
        .args(["operator", "--lease-duration", "10", "--renew-deadline", "10", "--kubeconfig", "none"])
        .output()
        .expect("the binary under test runs");
    assert_eq!(output.status.code(), Some(3));
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(says.contains("choosing the lease's times"), "{says}");
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_netferry"))
        .args(["operator", "--kubeconfig", "/nowhere/kubeconfig"])
        .output()
        .expect("the binary under test runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/kubeconfig"));
}
