//! Following a change of nodes that do what they are told.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use netferry_api::mtu::{InterfaceMtu, InterfaceRole, MtuObserved, RouteMtu};
use netferry_api::overlay::OperatorNetwork;
use netferry_api::rollout::MachineConfig;
use netferry_core::mtu::record::{HostRendering, Record, Stage};
use netferry_core::size::Envelope;
use netferry_testkit::wait::PATIENCE;
use netferry_translate::mtu as wire;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Cluster, UP, until, with};

const MCO: &str = "machineconfiguration.openshift.io";

/// Ways on which nothing above a size gets through.
type Narrow = &'static [super::Narrow];

/// Does what nodes are told, for all of them; goes back only once that is allowed.
async fn obey(client: Client, narrow: Narrow, back: watch::Receiver<bool>) {
    loop {
        // What could not be done now is done the next time.
        let back = *back.borrow();
        let _ = obey_once(&client, narrow, back).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn obey_once(client: &Client, narrow: Narrow, back: bool) -> Option<()> {
    let applied = Api::<ConfigMap>::namespaced(client.clone(), "netferry");
    let record = wire::applied(&applied.get_opt(wire::APPLIED).await.ok()??).ok()?;
    let returns = record.change.is_some_and(|change| change.stage == Stage::Returning);
    if returns && !back {
        return None;
    }
    let api = Api::<Node>::all(client.clone());
    let nodes = api.list(&ListParams::default()).await.ok()?.items;
    for node in &nodes {
        let said = node.annotations();
        let Some(told) = said.get(&format!("{MCO}/desiredConfig")) else { continue };
        let done = said.get(&format!("{MCO}/currentConfig")) == Some(told);
        let config = Api::<MachineConfig>::all(client.clone()).get_opt(told).await.ok()??;
        let epoch = netferry_translate::machine_config::epochs(&config.metadata).ok()?.get("mtu")?;
        if done || epoch != record.epoch {
            continue;
        }
        let found = super::report(&nodes, &node.name_any(), epoch, 1500, narrow);
        let says = json!({
            format!("{MCO}/currentConfig"): told, format!("{MCO}/state"): "Done",
            "netferry.dev/mtu-observed": observed(&record, node)?, "netferry.dev/mtu-probes": found.to_string(),
        });
        let patch = Patch::Merge(json!({ "metadata": { "annotations": says } }));
        api.patch(&node.name_any(), &PatchParams::default(), &patch).await.ok()?;
    }
    Some(())
}

/// What a node says it runs that runs what is applied.
fn observed(record: &Record, node: &Node) -> Option<String> {
    let told = record.rendering();
    let host = match told.host {
        HostRendering::Own { .. } => wire::observed(node.metadata.annotations.as_ref()).ok()??.host,
        HostRendering::Towards { run, .. } => run,
        HostRendering::At(mtu) => Envelope::settled(mtu),
    };
    let (role, mtu) = (InterfaceRole::Uplink, host.carries().bytes());
    let uplink = InterfaceMtu { name: "eth0".into(), role, mtu, nic: None };
    let to = "0.0.0.0/0".parse().ok()?;
    let route = RouteMtu { to, interface: "eth0".into(), mtu: host.pin().map(|mtu| mtu.bytes()) };
    let cni = Some(wire::printed_envelope(told.network));
    Some(MtuObserved::new(vec![uplink], vec![route], cni).ok()?.at_epoch(told.epoch).to_string())
}

/// A command that runs while the test goes on.
struct Running {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

impl Running {
    fn start(cluster: &Cluster, args: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_netferry"))
            .current_dir(cluster.dir.path())
            .args(["--kubeconfig", "kubeconfig", "mtu"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary under test runs");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        let (tell, lines) = channel();
        // Ends with the command.
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Running { child, lines, said: String::new() }
    }

    /// The next line it prints; none when it has ended.
    fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.said += &format!("{line}\n");
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it says nothing more, and said:\n{}", self.said),
        }
    }

    /// Reads what it prints until a line contains this.
    fn until(&mut self, part: &str) {
        while let Some(line) = self.line() {
            if line.contains(part) {
                return;
            }
        }
        let (code, said, err) = self.end();
        panic!("it never said {part:?}, ended with {code:?} and said:\n{said}{err}");
    }

    /// Waits until it has ended; how, and all it said.
    fn end(&mut self) -> (Option<i32>, String, String) {
        while self.line().is_some() {}
        let mut err = String::new();
        self.child.stderr.take().expect("its errors").read_to_string(&mut err).expect("text");
        let code = self.child.wait().expect("it ends").code();
        (code, self.said.clone(), err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_turns_around_by_itself_is_a_failure_that_says_why() {
    const NARROW: Narrow = &[("a", "b", "hosts-ipv4", 1500)];
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let (back, may_go_back) = watch::channel(false);
    tokio::spawn(obey(cluster.client.clone(), NARROW, may_go_back));
    let mut applied = Running::start(&cluster, &with("apply", &UP, &["--unattended", "--wait"]));
    applied.until("turned around, goes to 1400");
    let mut watched = Running::start(&cluster, &["watch"]);
    watched.until("goes to 1400");
    back.send_replace(true);
    let (code, said, err) = applied.end();
    assert_eq!(code, Some(1), "{said}{err}");
    let why = "error: the change went back: the MTU of pods is 1400, not 8900; packets were lost from a to b \
               (hosts, IPv4: all above 1500)";
    assert!(err.contains(why), "{err}");
    assert!(said.contains("packets are lost from a to b (hosts, IPv4: all above 1500)"), "{said}");
    // To whoever came later it ends where it was going.
    let (code, said, err) = watched.end();
    assert_eq!(code, Some(0), "{said}{err}");
    assert!(said.ends_with("the change has ended; the MTU of pods is 1400\n"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_a_change_is_told_what_it_waits_for_how_to_go_on_and_that_it_arrived() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let (_back, may_go_back) = watch::channel(true);
    tokio::spawn(obey(cluster.client.clone(), &[], may_go_back));
    let mut applied = Running::start(&cluster, &with("apply", &UP, &["--wait"]));
    applied.until("waits (AwaitingFinish): every node is ready for phase two");
    applied.until(
        "go on with: kubectl patch network.operator.openshift.io cluster --type merge -p \
         '{\"spec\":{\"defaultNetwork\":{\"ovnKubernetesConfig\":{\"mtu\":8900}},\"migration\":null}}'",
    );
    let edit: Value = cluster.json(&["status", "-o", "json"])["edit"].take();
    let api = Api::<OperatorNetwork>::all(cluster.client.clone());
    api.patch("cluster", &PatchParams::default(), &Patch::Merge(&edit)).await.expect("the edit");
    let (code, said, err) = applied.end();
    assert_eq!(code, Some(0), "{said}{err}");
    assert!(said.contains("goes on\n"), "{said}");
    assert!(said.ends_with("the change has ended; the MTU of pods is 8900\n"), "{said}");
    assert!(err.contains("no losses seen"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_a_change_is_told_how_long_it_may_still_take() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    assert_eq!(cluster.run(&with("apply", &UP, &["--unattended"])).code, 0);
    until("a node is told", async || {
        let status = cluster.json(&["status", "-o", "json"]);
        let told = status["nodes"].as_array()?.iter().any(|node| node["progress"] == "told");
        (told && status["phase"] == "PhaseOne").then_some(())
    })
    .await;
    let watched = cluster.run(&["watch", "--timeout", "1s"]);
    assert_eq!(watched.code, 4, "{}", watched.err);
    let line = "PhaseOne, 0 of 2 nodes there, no losses seen, about 8 min left";
    assert!(watched.err.contains(line), "{}", watched.err);
    let watched = cluster.run(&["watch", "--timeout", "1s", "-o", "json"]);
    let first: Value = serde_json::from_str(watched.out.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["secondsLeft"], &first["losses"]), (&json!(480), &json!([])));
}
