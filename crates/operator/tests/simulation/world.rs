//! One run: a cluster, an administrator who changes their mind, and the weather.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuWaits;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::OperatorNetwork;
use netferry_api::rollout::annotations::{CordonedFor, ROLE_LABEL, Taken};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::mtu::Envelope;
use netferry_core::mtu::record::{Change, Record, Stage};
use netferry_translate::mtu as applied;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::chance::Chance;
use crate::support::machine::{Machine, Pace, Power, Truth, mtu};
use crate::support::{Cluster, Operator, network};

/// Which run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
}

/// The pods' sizes and the hosts'.
const PODS: (u32, u32) = (1400, 8900);
const HOSTS: (u32, u32) = (1500, 9000);

/// How long everything may take to come to rest, in virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);

struct World {
    cluster: Cluster,
    truth: Truth,
    chance: Chance,
    machines: BTreeMap<String, Plugged>,
    heard: Heard,
    operator: Option<Operator>,
    lives: usize,
    /// Most that may be away of the workers.
    limit: usize,
    done: Vec<String>,
}

struct Plugged {
    power: Power,
    task: JoinHandle<()>,
}

impl Drop for Plugged {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Channel = watch::Sender<Option<Arc<Node>>>;

/// What machines hear of their nodes.
#[derive(Clone, Default)]
struct Heard(Arc<std::sync::Mutex<BTreeMap<String, Channel>>>);

impl Heard {
    fn of(&self, name: &str) -> Channel {
        let mut channels = self.0.lock().expect("nobody panicked");
        channels.entry(name.to_owned()).or_insert_with(|| watch::Sender::new(None)).clone()
    }
}

/// Tells machines of their nodes, and watches that no more are taken away than may be.
async fn listen(client: Client, heard: Heard, truth: Truth, limit: usize) {
    let mut events = watcher(Api::<Node>::all(client), watcher::Config::default()).default_backoff().boxed();
    let mut away: BTreeMap<String, bool> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                let name = node.name_any();
                let cordoned = node.annotations().contains_key(CordonedFor::KEY);
                let control = node.labels().contains_key("node-role.kubernetes.io/control-plane");
                truth.with(|seen| {
                    let serves = seen.serving.contains_key(&name);
                    if cordoned && serves {
                        away.insert(name.clone(), control);
                    } else if serves {
                        away.remove(&name);
                    }
                    for (of, most) in [(true, 1), (false, limit)] {
                        let gone: Vec<&String> = away
                            .iter()
                            .filter(|(_, control)| **control == of)
                            .map(|(name, _)| name)
                            .collect();
                        if gone.len() > most {
                            seen.wrongs.push(format!("I2: {gone:?} are away, {most} may be"));
                        }
                    }
                });
                heard.of(&name).send_replace(Some(Arc::new(node)));
            }
            Ok(watcher::Event::Delete(node)) => {
                away.remove(&node.name_any());
                heard.of(&node.name_any()).send_replace(None);
            }
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
        }
    }
}

/// Tells a story; what happened, in a line.
pub(crate) async fn tell(story: Story) -> String {
    let mut chance = Chance::new(story.seed);
    let cluster = Cluster::new().await;
    let unattended = chance.percent(40);
    let limit = 1 + chance.below(3);
    let mut spec = network(&[("10.128.0.0/14", 23)], &["10.96.0.0/16"]);
    spec["defaultNetwork"] = json!({ "type": "OVNKubernetes", "ovnKubernetesConfig": { "mtu": PODS.0 } });
    cluster.ask(spec).await;
    let (truth, heard) = (Truth::default(), Heard::default());
    let listener = tokio::spawn(listen(cluster.client.clone(), heard.clone(), truth.clone(), limit));
    let operator = Some(cluster.operator("first"));
    let machines = BTreeMap::new();
    let done = Vec::new();
    let mut world = World { cluster, truth, chance, machines, heard, operator, lives: 1, limit, done };
    for at in 0..story.nodes {
        world.join(&format!("n{at:03}"), at < 3).await;
    }
    world.until("all serve and are done", async |world| world.settled().await.ok()).await;
    let limit_of_workers = json!({ "spec": { "maxUnavailable": world.limit } });
    world
        .pools()
        .patch("worker", &PatchParams::default(), &Patch::Merge(&limit_of_workers))
        .await
        .expect("a pool");
    if unattended {
        world.note("unattended".into());
        let patch = json!({ "metadata": { "annotations": { "netferry.dev/mtu-unattended": "true" } } });
        world
            .networks()
            .patch("cluster", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .expect("a network");
    }
    world.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    let happenings = 3 + world.chance.below(8);
    for _ in 0..happenings {
        let pause = world.chance.millis(100, 120_000);
        tokio::time::sleep(pause).await;
        world.something().await;
    }
    if world.operator.is_none() {
        world.lives += 1;
        world.operator = Some(world.cluster.operator(&format!("last-{}", world.lives)));
    }
    if let Some(operator) = &world.operator {
        operator.line.let_go();
    }
    let end = world.come_to_rest().await;
    world.cluster.historian.testify();
    listener.abort();
    let (reboots, done) = (world.truth.with(|seen| seen.reboots), world.done.join(", "));
    format!("seed {}: {} nodes, {reboots} reboots, ends at {end}: {done}", story.seed, world.machines.len())
}

impl World {
    fn note(&mut self, what: String) {
        self.done.push(what);
    }

    fn nodes(&self) -> Api<Node> {
        self.cluster.nodes()
    }

    fn pools(&self) -> Api<MachineConfigPool> {
        Api::all(self.cluster.client.clone())
    }

    fn networks(&self) -> Api<OperatorNetwork> {
        Api::all(self.cluster.client.clone())
    }

    /// A node joins; its machine is made, unless it is there already.
    async fn join(&mut self, name: &str, control: bool) {
        let role =
            if control { "node-role.kubernetes.io/control-plane" } else { "node-role.kubernetes.io/worker" };
        let node = json!({
            "metadata": { "name": name, "labels": { role: "", "topology.kubernetes.io/zone": format!("z{}", name.len() % 2) } },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "172.30.0.2" }],
                "conditions": [{ "type": "Ready", "status": "False" }],
            },
        });
        let made = serde_json::from_value(node.clone()).expect("a node");
        self.nodes().create(&PostParams::default(), &made).await.expect("a node");
        let status = json!({ "status": node["status"] });
        self.nodes()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .expect("a status");
        if !self.machines.contains_key(name) {
            let (power, lost) = watch::channel(0);
            let (client, truth) = (self.cluster.client.clone(), self.truth.clone());
            let machine = Machine::new(name, client, HOSTS.0, truth, self.chance.branch(), Pace::USUAL);
            let task = tokio::spawn(machine.live(self.heard.of(name).subscribe(), lost));
            self.machines.insert(name.to_owned(), Plugged { power, task });
        }
    }

    /// The pool of the workers, of which several may be away; the other is left to the operator to make.
    async fn make_workers_pool(&self) {
        let control = "node-role.kubernetes.io/control-plane";
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": { "name": "worker" },
            "spec": {
                "maxUnavailable": self.limit,
                "nodeSelector": { "matchExpressions": [{ "key": control, "operator": "DoesNotExist" }] },
                "machineConfigSelector": { "matchLabels": { ROLE_LABEL: "worker" } },
            },
        });
        let pool = serde_json::from_value(pool).expect("a pool");
        self.pools().create(&PostParams::default(), &pool).await.expect("a pool");
    }

    fn some_machine(&mut self) -> String {
        let at = self.chance.below(self.machines.len());
        self.machines.keys().nth(at).expect("there are machines").clone()
    }

    async fn something(&mut self) {
        match self.chance.below(12) {
            0 | 1 => {
                let name = self.some_machine();
                self.machines[&name].power.send_modify(|count| *count += 1);
                self.note(format!("{name} loses power"));
            }
            2 => {
                let name = format!("j{:03}", self.machines.len());
                self.join(&name, false).await;
                self.note(format!("{name} joins"));
            }
            3 => {
                let name = self.some_machine();
                if self.nodes().delete(&name, &DeleteParams::default()).await.is_ok() {
                    self.truth.with(|seen| seen.serving.remove(&name));
                    let pause = self.chance.millis(10, 60_000);
                    tokio::time::sleep(pause).await;
                    self.join(&name, false).await;
                    self.note(format!("{name} leaves and comes back"));
                }
            }
            4..=6 => self.replace_operator().await,
            7 => {
                // Requests on their way for a while: some arrive when nobody waits for them any more.
                if let Some(operator) = &self.operator {
                    operator.line.hold(|method, path| {
                        ["PATCH", "PUT", "POST"].contains(&method) && !path.contains("/leases")
                    });
                    let pause = self.chance.millis(100, 90_000);
                    tokio::time::sleep(pause).await;
                    operator.line.let_go();
                    self.note("writes of the operator are late".into());
                }
            }
            8 => {
                self.ask_change(1300, PODS.1, HOSTS.1).await;
                self.note("nonsense is asked".into());
            }
            9 => {
                self.ask_change(PODS.0, PODS.0, HOSTS.0).await;
                self.note("cancel".into());
            }
            10 => {
                self.ask_change(PODS.1, PODS.0, HOSTS.0).await;
                self.note("reverse".into());
            }
            _ => {
                self.finish(PODS.1).await;
                self.note("finish".into());
            }
        }
    }

    /// The operator ends, perhaps with writes on their way, and another one takes over.
    async fn replace_operator(&mut self) {
        let Some(old) = self.operator.take() else { return };
        let late = self.chance.percent(50);
        let line = old.line.clone();
        if late {
            line.hold(|method, path| method != "GET" && !path.contains("/leases"));
            let pause = self.chance.millis(10, 5_000);
            tokio::time::sleep(pause).await;
        }
        old.kill();
        self.lives += 1;
        self.operator = Some(self.cluster.operator(&format!("life-{}", self.lives)));
        if late {
            let pause = self.chance.millis(10, 120_000);
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                line.let_go();
            });
        }
        self.note(format!("the operator dies{}", if late { " with writes on their way" } else { "" }));
    }

    async fn ask_change(&self, from: u32, to: u32, machine: u32) {
        let patch = json!({ "spec": { "migration": { "mtu": {
            "network": { "from": from, "to": to }, "machine": { "to": machine },
        } } } });
        self.networks()
            .patch("cluster", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .expect("an edit");
    }

    async fn finish(&self, mtu: u32) {
        let patch = json!({ "spec": {
            "migration": null, "defaultNetwork": { "ovnKubernetesConfig": { "mtu": mtu } },
        } });
        self.networks()
            .patch("cluster", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .expect("an edit");
    }

    async fn record(&self) -> Option<Record> {
        let api = Api::<ConfigMap>::namespaced(self.cluster.client.clone(), "netferry");
        let map = api.get_opt(netferry_operator::mtu::APPLIED).await.expect("an answer")?;
        let data = map.data.unwrap_or_default();
        Some(applied::record(&data[netferry_operator::mtu::RECORD]).expect("a record"))
    }

    /// The MTU every machine has settled at; or what is missing.
    async fn settled(&self) -> Result<u32, String> {
        let record = self.record().await.ok_or("nothing is applied")?;
        let Record { mtu, change: None, .. } = record else { return Err(format!("{record:?}")) };
        let serving = self.truth.with(|seen| seen.serving.clone());
        for name in self.machines.keys() {
            match serving.get(name) {
                Some((pods, _)) if *pods == Envelope::settled(mtu) => {}
                other => return Err(format!("{name} serves {other:?}, not {mtu}")),
            }
        }
        let nodes = self.nodes().list(&ListParams::default()).await.expect("a list").items;
        for node in &nodes {
            let machine = netferry_translate::machine::machine(node).map_err(|wrong| wrong.to_string())?;
            if !machine.node.is_done() || !machine.node.is_ready() || machine.node.waits || machine.tainted {
                return Err(format!("{machine:?}"));
            }
        }
        for pool in self.pools().list(&ListParams::default()).await.expect("a list").items {
            let taken = Taken::read(pool.annotations()).expect("it can be read").unwrap_or_default();
            let status = pool.status.clone().unwrap_or_default();
            let updated = status.conditions.iter().any(|one| one.type_ == "Updated" && one.status == "True");
            if !taken.0.is_empty() || !updated {
                return Err(format!("pool {}: taken {taken}, {:?}", pool.name_any(), status.conditions));
            }
        }
        Ok(mtu.bytes())
    }

    /// Undisturbed from here on, everything arrives: wherever the change was, it is brought to an end.
    async fn come_to_rest(&mut self) -> u32 {
        let back = self.chance.percent(30);
        self.note(if back { "taken back".into() } else { "brought to its end".to_owned() });
        let began = tokio::time::Instant::now();
        let mut last = String::new();
        while began.elapsed() < PATIENCE {
            self.lawful();
            let Some(record) = self.record().await else {
                // Everything was refused so far.
                self.ask_change(PODS.0, PODS.1, HOSTS.1).await;
                tokio::time::sleep(Duration::from_secs(15)).await;
                continue;
            };
            {
                match record.change {
                    None => {
                        self.finish(record.mtu.bytes()).await;
                        match self.settled().await {
                            Ok(mtu) => {
                                self.told_the_truth(mtu).await;
                                return mtu;
                            }
                            Err(missing) => last = missing,
                        }
                        self.raise_what_came_too_late().await;
                    }
                    Some(Change { network, host, stage, .. }) => {
                        last = format!("{record:?}");
                        match stage {
                            Stage::Spreading { .. } if back => {
                                self.ask_change(
                                    network.from.bytes(),
                                    network.from.bytes(),
                                    host.from.bytes(),
                                )
                                .await;
                            }
                            Stage::Spreading { .. } | Stage::Settling => {
                                self.finish(network.to.bytes()).await
                            }
                            Stage::Returning => self.finish(network.from.bytes()).await,
                        }
                    }
                }
            }
            tokio::time::sleep(Duration::from_secs(15)).await;
        }
        let conditions = self.networks().get("cluster").await.expect("the network").status;
        panic!("it never comes to rest: {last}; {conditions:#?}; {:?}", self.done);
    }

    /// A machine that joined with a small uplink when all others had arrived at large ones serves nothing and says so;
    /// somebody has to raise it.
    async fn raise_what_came_too_late(&self) {
        for node in self.nodes().list(&ListParams::default()).await.expect("a list").items {
            let waits = node.annotations().get(MtuWaits::KEY).cloned().unwrap_or_default();
            if waits.contains("need at least") {
                let size = mtu(HOSTS.1);
                let first = self.truth.with(|seen| seen.raised.replace(size)).is_none();
                if first || !self.truth.with(|seen| seen.serving.contains_key(&node.name_any())) {
                    self.machines[&node.name_any()].power.send_modify(|count| *count += 1);
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
            }
        }
    }

    /// What is said at the end agrees with what is.
    async fn told_the_truth(&self, mtu: u32) {
        let published =
            self.cluster.published().await.expect("it is published").status.expect("with a status");
        assert_eq!((published.cluster_network_mtu, published.migration), (Some(mtu), None));
        self.until("conditions say that no change is under way", async |world| {
            let condition = world.cluster.condition(MtuConditionType::InProgress.as_str()).await?;
            (condition.status == "False").then_some(())
        })
        .await;
        let refused = self.cluster.condition(MtuConditionType::Refused.as_str()).await.expect("a condition");
        assert_eq!(refused.status, "False", "{refused:?}");
        // Rendered configurations that nobody uses are swept away.
        self.until("old configurations are gone", async |world| {
            let api = Api::<MachineConfig>::all(world.cluster.client.clone());
            let all = api.list(&ListParams::default()).await.expect("a list").items;
            (all.iter().filter(|config| config.name_any().starts_with("rendered-")).count() <= 2)
                .then_some(())
        })
        .await;
    }

    fn lawful(&self) {
        self.truth.with(|seen| assert!(seen.wrongs.is_empty(), "{:#?}; {:?}", seen.wrongs, self.done));
    }

    async fn until<T>(&self, what: &str, look: impl AsyncFn(&World) -> Option<T>) -> T {
        let began = tokio::time::Instant::now();
        loop {
            self.lawful();
            if let Some(found) = look(self).await {
                return found;
            }
            if began.elapsed() > PATIENCE {
                panic!("never happened: {what}; last seen: {:?}; {:?}", self.settled().await, self.done);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
