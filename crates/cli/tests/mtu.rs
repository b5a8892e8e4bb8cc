//! `netferry mtu` against a cluster whose nodes say what they run: what is planned, refused, asked for, held and taken back.

mod common;
mod following;
mod hosts_apart;
mod planned;
mod verified;

use std::path::Path;
use std::process::Command;

use common::Server;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork};
use netferry_api::rollout::MachineConfigPool;
use netferry_core::name::NodeName;
use netferry_core::probe::Roll;
use netferry_operator::lead::Timing;
use netferry_testkit::wait::until;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// A cluster of nodes that report what they run and otherwise do nothing, with an operator.
struct Cluster {
    dir: tempfile::TempDir,
    client: Client,
    _server: Server,
}

/// What a command printed, and how it ended.
struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl Cluster {
    async fn new(nodes: &[&str]) -> Cluster {
        let dir = tempfile::tempdir().expect("a directory");
        let server = Server::start(dir.path(), "127.0.0.1:0", &["--kubeconfig-out", "kubeconfig"]);
        let client = client(dir.path()).await;
        let cluster = Cluster { dir, client, _server: server };
        for (_, text) in netferry_api::crds() {
            let definition: CustomResourceDefinition = serde_saphyr::from_str(&text).expect("a definition");
            let api = Api::all(cluster.client.clone());
            api.create(&PostParams::default(), &definition).await.expect("a definition");
        }
        cluster.make::<Namespace>(None, json!({ "metadata": { "name": "netferry" } })).await;
        let spec = json!({
            "clusterNetwork": [{ "cidr": "10.244.0.0/16", "hostPrefix": 24 }], "serviceNetwork": ["10.96.0.0/16"],
            "defaultNetwork": { "type": "OVNKubernetes", "ovnKubernetesConfig": { "mtu": 1400 } },
        });
        let network = json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "Network",
            "metadata": { "name": "cluster" }, "spec": spec,
        });
        cluster.make::<OperatorNetwork>(None, network).await;
        for name in nodes {
            cluster.join(name).await;
        }
        cluster.probed(&[]).await;
        cluster
    }

    /// Every node has tried all that there are; on these ways, from and to, nothing above a size got through.
    async fn probed(&self, narrow: &[Narrow]) {
        found(&Api::all(self.client.clone()), 1500, narrow).await;
    }

    async fn make<K>(&self, namespace: Option<&str>, object: Value)
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let (client, kind) = (self.client.clone(), ApiResource::erase::<K>(&()));
        let api = match namespace {
            None => Api::all_with(client, &kind),
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        };
        api.create(&PostParams::default(), &object).await.expect("an object");
    }

    /// A node that is ready and says that pods run at 1400 and its uplink, whose card takes 9000, at 1500.
    async fn join(&self, name: &str) {
        let annotations = json!({ "netferry.dev/mtu-observed": observed(1500, None).to_string() });
        self.make::<Node>(None, json!({ "metadata": { "name": name, "annotations": annotations } })).await;
        self.ready(name, "True").await;
    }

    /// A node says that its uplink runs at this.
    async fn runs_at(&self, node: &str, size: u64) {
        let says = json!({ "netferry.dev/mtu-observed": observed(size, None).to_string() });
        annotate(&Api::all(self.client.clone()), node, says).await;
    }

    /// Plays the agents of all nodes until the test or the task ends: what they are asked to carry they carry, but for those
    /// that `refuse`, and what was found out then of the ways between them is `narrow`, as in [`Cluster::probed`].
    fn play_agents(&self, refuse: &'static [&'static str], narrow: &'static [Narrow]) -> JoinHandle<()> {
        let api = Api::<Node>::all(self.client.clone());
        tokio::spawn(async move {
            loop {
                let nodes = api.list(&ListParams::default()).await.expect("a list").items;
                let asked = |node: &Node| {
                    let ask: Value =
                        serde_json::from_str(node.annotations().get("netferry.dev/mtu-trial")?).ok()?;
                    ask["host"].as_u64()
                };
                for node in &nodes {
                    let name = node.name_any();
                    let says = match asked(node) {
                        None => observed(1500, None),
                        Some(_) if refuse.contains(&name.as_str()) => observed(
                            1500,
                            Some(json!({ "refused": "host-init has not run since this node came up" })),
                        ),
                        Some(size) => observed(size, Some(json!({ "before": 1500 }))),
                    };
                    annotate(&api, &name, json!({ "netferry.dev/mtu-observed": says.to_string() })).await;
                }
                let all = nodes.iter().map(asked).min().flatten();
                found(&api, all.unwrap_or(1500), if all.is_some() { narrow } else { &[] }).await;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        })
    }

    async fn ready(&self, name: &str, status: &str) {
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": "172.30.0.2" }],
            "conditions": [{ "type": "Ready", "status": status }],
        } });
        let api = Api::<Node>::all(self.client.clone());
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.expect("a status");
    }

    /// Runs an operator for as long as the test does, once the network is published.
    async fn operate(&self) {
        let settings = netferry_operator::Settings {
            namespace: "netferry".into(),
            identity: "tested".into(),
            timing: Timing::default(),
            overlay: netferry_operator::overlay::Settings::default(),
            rollout: netferry_operator::rollout::Settings::default(),
            listen: None,
        };
        tokio::spawn(netferry_operator::run(self.client.clone(), settings, std::future::pending()));
        until("the MTU is published", async || {
            let api = Api::<ConfigNetwork>::all(self.client.clone());
            let status = api.get_opt("cluster").await.ok()??.status?;
            status.cluster_network_mtu
        })
        .await;
    }

    fn run(&self, args: &[&str]) -> Answer {
        let done = Command::new(env!("CARGO_BIN_EXE_netferry"))
            .current_dir(self.dir.path())
            .args(["--kubeconfig", "kubeconfig", "mtu"])
            .args(args)
            .output()
            .expect("the binary under test runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let code = done.status.code().expect("it ends by itself");
        Answer { code, out: text(done.stdout), err: text(done.stderr) }
    }

    fn json(&self, args: &[&str]) -> Value {
        let answer = self.run(args);
        assert_eq!(answer.code, 0, "{args:?}: {}", answer.err);
        serde_json::from_str(&answer.out).expect("JSON")
    }

    /// Waits until `status` says this of the phase.
    async fn until_phase(&self, phase: &str) -> Value {
        until(&format!("the phase is {phase}"), async || {
            Some(self.json(&["status", "-o", "json"])).filter(|status| status["phase"] == phase)
        })
        .await
    }

    async fn asked(&self) -> Value {
        let network =
            Api::<OperatorNetwork>::all(self.client.clone()).get("cluster").await.expect("the network");
        json!({ "spec": network.spec, "annotations": network.metadata.annotations })
    }
}

/// A way on which nothing above a size gets through: from, to, how.
type Narrow = (&'static str, &'static str, &'static str, u32);

/// Every node reports that it has tried all others, and that packets of hosts of this size get through but on some ways.
async fn found(api: &Api<Node>, width: u64, narrow: &[Narrow]) {
    let nodes = api.list(&ListParams::default()).await.expect("a list").items;
    for node in &nodes {
        let report = report(&nodes, &node.name_any(), 0, width, narrow);
        annotate(api, &node.name_any(), json!({ "netferry.dev/mtu-probes": report.to_string() })).await;
    }
}

/// What a node reports that has tried all others at an epoch.
fn report(nodes: &[Node], from: &str, epoch: u64, width: u64, narrow: &[Narrow]) -> Value {
    let names: Vec<(NodeName, String)> = nodes
        .iter()
        .map(|node| (NodeName::new(node.name_any()).expect("a name"), node.uid().unwrap_or_default()))
        .collect();
    let roll = Roll::of(names.iter().map(|(name, uid)| (name, uid.as_str())));
    let narrow = narrow.iter().filter(|(node, ..)| *node == from);
    let narrow: Vec<Value> = narrow
        .map(|(_, to, way, passes)| json!({ "to": to, "way": way, "tried": passes + 1, "passes": passes }))
        .collect();
    json!({
        "epoch": epoch, "roll": roll.to_string(), "narrow": narrow,
        "widths": { "hosts-ipv4": width, "pods-ipv4": 1400 },
    })
}

async fn annotate(api: &Api<Node>, name: &str, annotations: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    api.patch(name, &PatchParams::default(), &patch).await.expect("a node");
}

/// What a node says whose uplink carries this and sends no more than 1500, in a trial or not.
fn observed(carries: u64, trial: Option<Value>) -> Value {
    let mut observed = json!({
        "version": 1, "epoch": 0, "cni": { "mtu": 1400 },
        "interfaces": [{ "name": "eth0", "role": "uplink", "mtu": carries, "nic": { "min": 68, "max": 9000 } }],
        "routes": [{ "to": "0.0.0.0/0", "interface": "eth0" }],
    });
    if let Some(trial) = trial {
        observed["routes"][0]["mtu"] = json!(1500);
        observed["trial"] = trial;
    }
    observed
}

async fn client(dir: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a usable kubeconfig");
    Client::try_from(config).expect("a client")
}

const UP: [&str; 4] = ["--to", "8900", "--host-to", "9000"];

fn with<'a>(command: &'a str, args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&[command], args, more].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_every_node_and_changes_nothing() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let before = cluster.asked().await;
    let shown = cluster.run(&with("plan", &UP, &[]));
    assert_eq!(shown.code, 0, "{}", shown.err);
    for part in [
        "pods 1400 to 8900, hosts 1500 to 9000: 4 restarts, about 8 min",
        "phase one",
        "a  restarts  pods 1400 -> 8900 (routes 1400), host 1500 -> 9000 (routes 1500)",
        "phase two",
        "b  restarts  pods 8900 (routes 1400) -> 8900, host 9000 (routes 1500) -> 9000",
    ] {
        assert!(shown.out.contains(part), "{part:?} is not in\n{}", shown.out);
    }
    let kept = cluster.json(&with("plan", &UP, &["-o", "json"]));
    assert_eq!((&kept["restarts"], &kept["findings"]), (&json!(4), &json!([])));
    assert_eq!(cluster.asked().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_its_numbers_and_nothing_is_written() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let before = cluster.asked().await;
    cluster.ready("b", "False").await;
    kept_pod(&cluster, "web", "a").await;
    #[rustfmt::skip]
    let rows: [(&[&str], &str); 5] = [
        (&["--to", "100"], "576"),
        (&["--to", "8900", "--host-to", "8950"], "must be at least 9000"),
        (&["--to", "9000", "--host-to", "9100"], "card eth0 of node a takes at most 9000, and 9100 is needed"),
        (&["--to", "8900", "--host-to", "9000"], "node b is not ready; others wait for it (NotReady/b)"),
        (&["--to", "8900", "--host-to", "9000", "--accept", "NotReady/c"], "--accept NotReady/c: there is no such finding"),
    ];
    for (args, said) in rows {
        let answer = cluster.run(&with("apply", args, &[]));
        assert_eq!(answer.code, 3, "{args:?}: {}{}", answer.out, answer.err);
        assert!(answer.err.contains(said), "{args:?}: {}", answer.err);
    }
    let accepted = ["--accept", "NotReady/b"];
    let answer = cluster.run(&with("apply", &UP, &accepted));
    assert!(
        answer.err.contains("PodDisruptionBudget default/web allows no disruption now"),
        "{}",
        answer.err
    );
    assert_eq!(cluster.asked().await, before);
    let answer =
        cluster.run(&with("apply", &UP, &[&accepted[..], &["--accept", "Budget/default/web"]].concat()));
    assert_eq!(answer.code, 0, "{}", answer.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_made_for_the_network_that_is_deployed() {
    // What the operator's own says is what is asked for, and a running cluster stays what it is.
    let cluster = Cluster::new(&["a"]).await;
    let topology = |mode: &str| json!({ "metadata": { "annotations": { "netferry.dev/topology": mode } } });
    let deployed = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": { "name": "cluster" }, "spec": {},
    });
    cluster.make::<ConfigNetwork>(None, deployed).await;
    let configs = Api::<ConfigNetwork>::all(cluster.client.clone());
    let networks = Api::<OperatorNetwork>::all(cluster.client.clone());
    let params = PatchParams::default();
    let status = Patch::Merge(json!({ "status": { "clusterNetworkMTU": 1400 } }));
    configs.patch_status("cluster", &params, &status).await.expect("a status");
    for (asked, runs, code) in [("single-node", "multi-node", 0), ("multi-node", "single-node", 3)] {
        networks.patch("cluster", &params, &Patch::Merge(topology(asked))).await.expect("a network");
        configs.patch("cluster", &params, &Patch::Merge(topology(runs))).await.expect("a network");
        let answer = cluster.run(&with("plan", &UP, &[]));
        assert_eq!(answer.code, code, "{runs}: {}{}", answer.out, answer.err);
    }
}

/// A pod on a node, kept there by a budget.
async fn kept_pod(cluster: &Cluster, name: &str, node: &str) {
    let pod = json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "none" }] },
    });
    cluster.make::<Pod>(Some("default"), pod).await;
    let selector = json!({ "matchLabels": { "app": name } });
    let budget = json!({ "metadata": { "name": name }, "spec": { "minAvailable": 1, "selector": selector } });
    cluster.make::<PodDisruptionBudget>(Some("default"), budget).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_run_another_system_speak_neither_for_nor_against_a_change() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let labels = json!({ "kubernetes.io/os": "windows" });
    cluster.make::<Node>(None, json!({ "metadata": { "name": "w", "labels": labels } })).await;
    cluster.ready("w", "False").await;
    kept_pod(&cluster, "web", "w").await;
    let kept = cluster.json(&with("plan", &UP, &["-o", "json"]));
    assert_eq!((&kept["restarts"], &kept["findings"]), (&json!(4), &json!([])));
    let status = cluster.json(&["status", "-o", "json"]);
    let names: Vec<&Value> =
        status["nodes"].as_array().expect("nodes").iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    let answer = cluster.run(&with("apply", &UP, &[]));
    assert_eq!(answer.code, 0, "{}", answer.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_no_pool_selects_speaks_against_a_change() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    assert_eq!(cluster.run(&with("plan", &UP, &[])).code, 0, "pools that are not made are no obstacle");
    let label = "node-role.kubernetes.io/worker";
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": { "name": "worker" },
        "spec": { "nodeSelector": { "matchExpressions": [{ "key": label, "operator": "Exists" }] } },
    });
    cluster.make::<MachineConfigPool>(None, pool).await;
    let labelled = Patch::Merge(json!({ "metadata": { "labels": { label: "" } } }));
    let nodes = Api::<Node>::all(cluster.client.clone());
    nodes.patch("a", &PatchParams::default(), &labelled).await.expect("a label");
    let answer = cluster.run(&with("apply", &UP, &[]));
    assert_eq!(answer.code, 3, "{}", answer.err);
    assert!(answer.err.contains("(NoPool/b)") && !answer.err.contains("NoPool/a"), "{}", answer.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_budget_is_in_the_way_of_the_only_node_which_is_not_drained() {
    let cluster = Cluster::new(&["a"]).await;
    cluster.operate().await;
    kept_pod(&cluster, "web", "a").await;
    let kept = cluster.json(&with("plan", &UP, &["-o", "json"]));
    assert_eq!(kept["findings"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_between_nodes_that_do_not_reach_each_other_today_is_refused() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let before = cluster.asked().await;
    cluster.probed(&[("a", "b", "hosts-ipv4", 1480)]).await;
    let answer = cluster.run(&with("apply", &UP, &["--accept", "Unreachable/a/b"]));
    assert_eq!(answer.code, 3, "{}", answer.err);
    let said = "packets of 1500 are lost today from a to b (hosts, IPv4: all above 1480) (Unreachable/a/b)";
    assert!(answer.err.contains(said), "{}", answer.err);
    assert_eq!(cluster.asked().await, before);
}

/// Nobody is asked to carry more any longer.
async fn asked_of_nobody(cluster: &Cluster) -> bool {
    let nodes = Api::<Node>::all(cluster.client.clone()).list(&ListParams::default()).await.expect("a list");
    nodes.iter().all(|node| !node.annotations().contains_key("netferry.dev/mtu-trial"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_wire_does_not_carry_is_found_out_beforehand_and_named() {
    let cluster = Cluster::new(&["a", "b", "c"]).await;
    cluster.operate().await;
    let before = cluster.asked().await;
    cluster.play_agents(&[], &[("a", "b", "hosts-ipv4", 1500), ("b", "a", "hosts-ipv4", 1500)]);
    let said = "packets of 9000 do not get through from a to b (hosts, IPv4: all above 1500)";
    let plan = cluster.run(&with("plan", &UP, &["--probe-underlay", "-o", "json"]));
    assert_eq!(plan.code, 3, "{}", plan.err);
    assert!(plan.out.contains(said), "{}", plan.out);
    let answer = cluster.run(&with("apply", &UP, &["--probe-underlay", "--accept", "Underlay/a/b"]));
    assert_eq!(answer.code, 3, "{}{}", answer.out, answer.err);
    assert!(answer.err.contains(&format!("{said} (Underlay/a/b)")), "{}", answer.err);
    assert!(
        answer.err.contains("trying whether packets of 9000 get through: 0 of 3 nodes know"),
        "{}",
        answer.err
    );
    assert!(asked_of_nobody(&cluster).await);
    assert_eq!(cluster.asked().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_take_part_in_a_trial_says_why_and_may_be_gone_on_without() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    cluster.play_agents(&["b"], &[]);
    let answer = cluster.run(&with("apply", &UP, &["--probe-underlay"]));
    assert_eq!(answer.code, 3, "{}{}", answer.out, answer.err);
    let said =
        "node b does not try larger packets: host-init has not run since this node came up (NoTrial/b)";
    assert!(answer.err.contains(said), "{}", answer.err);
    assert!(asked_of_nobody(&cluster).await);
    let accepted = cluster.run(&with("apply", &UP, &["--probe-underlay", "--accept", "NoTrial/b"]));
    assert_eq!(accepted.code, 0, "{}", accepted.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_begins_once_the_wire_was_found_to_carry_it() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    cluster.play_agents(&[], &[]);
    let begun = cluster.run(&with("apply", &UP, &["--probe-underlay"]));
    assert_eq!(begun.code, 0, "{}", begun.err);
    assert!(asked_of_nobody(&cluster).await);
    cluster.until_phase("PhaseOne").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_asked_for_paused_resumed_and_taken_back() {
    let cluster = Cluster::new(&["a", "b"]).await;
    cluster.operate().await;
    let none = cluster.run(&["cancel"]);
    assert_eq!(none.code, 3, "{}", none.err);
    assert!(none.err.contains("no change of MTU is under way"), "{}", none.err);
    let over = cluster.run(&["watch"]);
    assert_eq!((over.code, over.out.as_str()), (0, "no change is under way; the MTU of pods is 1400\n"));
    let paused = cluster.run(&["pause"]);
    assert_eq!(paused.code, 0, "{}", paused.err);
    assert!(paused.out.contains("no change of MTU is under way"), "{}", paused.out);
    let asked = cluster.run(&with("apply", &UP, &["--unattended", "--on-loss", "reverse"]));
    assert_eq!(asked.code, 0, "{}", asked.err);
    assert!(asked.out.contains("paused: no node is taken until netferry mtu resume"), "{}", asked.out);
    let status = cluster.until_phase("PhaseOne").await;
    assert_eq!(status["change"]["network"], json!({ "from": 1400, "to": 8900 }));
    let asked = cluster.asked().await;
    assert_eq!(asked["annotations"]["netferry.dev/mtu-on-loss"], "reverse");
    assert_eq!(asked["annotations"]["netferry.dev/mtu-unattended"], "true");
    until("the pause is reported", async || {
        let status = cluster.json(&["status", "-o", "json"]);
        status["conditions"].as_array()?.iter().any(|one| one["reason"] == "Paused").then_some(())
    })
    .await;
    let table = cluster.run(&["status"]).out;
    assert!(
        table.starts_with("pods 1400 to 8900, hosts 1500 to 9000: PhaseOne, 0 of 2 nodes there\n"),
        "{table}"
    );
    assert!(table.contains("MTUChangeHeld        True   Paused"), "{table}");
    let again = cluster.run(&with("apply", &UP, &[]));
    assert_eq!(again.code, 3, "{}", again.err);
    assert!(again.err.contains("the MTU is being changed from 1400 to 8900"), "{}", again.err);
    let watched = cluster.run(&["watch", "--timeout", "1s"]);
    assert_eq!(watched.code, 4, "{}", watched.err);
    assert!(watched.out.contains("PhaseOne        a waiting\n"), "{}", watched.out);
    assert_eq!(cluster.run(&["pause"]).out, "paused: no further node is taken\n");
    let cancelled = "every node goes back to 1400 after netferry mtu resume: the change is paused\n";
    assert_eq!(cluster.run(&["cancel"]).out, cancelled);
    cluster.until_phase("Returning").await;
    assert_eq!(cluster.run(&["resume"]).out, "resumed\n");
    assert_eq!(cluster.run(&["cancel"]).out, "every node is on its way back already\n");
}
