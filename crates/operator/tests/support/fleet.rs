//! The machines of a cluster, and what is true of all of them together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::annotations::CordonedFor;
use netferry_translate::mtu::observed;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::chance::Chance;
use super::machine::{Machine, Pace, Power, Truth};

/// The label of the control plane's nodes.
pub(crate) const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// Machines that are switched on, each with its node.
pub(crate) struct Fleet {
    pub(crate) truth: Truth,
    /// How fast machines are that join.
    pub(crate) pace: Pace,
    client: Client,
    heard: Heard,
    machines: BTreeMap<String, Plugged>,
    listener: JoinHandle<()>,
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

impl Drop for Fleet {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Fleet {
    /// No machines yet; of those that are no control plane, `limit` may be away at a time.
    pub(crate) fn new(client: Client, limit: usize) -> Fleet {
        let (truth, heard) = (Truth::default(), Heard::default());
        let listener = tokio::spawn(listen(client.clone(), heard.clone(), truth.clone(), limit));
        Fleet { truth, pace: Pace::USUAL, client, heard, machines: BTreeMap::new(), listener }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.machines.keys()
    }

    /// A node joins; its machine, whose uplink comes up at `host`, is made unless it is there already.
    pub(crate) async fn join(&mut self, name: &str, control: bool, host: u32, chance: Chance) {
        let role = if control { CONTROL_PLANE } else { "node-role.kubernetes.io/worker" };
        let zone = format!("z{}", name.len() % 2);
        let node = json!({
            "metadata": { "name": name, "labels": { role: "", "topology.kubernetes.io/zone": zone } },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "172.30.0.2" }],
                "conditions": [{ "type": "Ready", "status": "False" }],
            },
        });
        let nodes = Api::<Node>::all(self.client.clone());
        let made = serde_json::from_value(node.clone()).expect("a node");
        nodes.create(&PostParams::default(), &made).await.expect("a node");
        let status = Patch::Merge(json!({ "status": node["status"] }));
        nodes.patch_status(name, &PatchParams::default(), &status).await.expect("a status");
        if !self.machines.contains_key(name) {
            self.plug_in(name, host, chance, self.pace);
        }
    }

    /// Gives a node that is there a machine.
    pub(crate) fn plug_in(&mut self, name: &str, host: u32, chance: Chance, pace: Pace) {
        let (power, lost) = watch::channel(0);
        let machine = Machine::new(name, self.client.clone(), host, self.truth.clone(), chance, pace);
        let task = tokio::spawn(machine.live(self.heard.of(name).subscribe(), lost));
        self.machines.insert(name.to_owned(), Plugged { power, task });
    }

    /// Takes a machine's power away; it boots again from what its disk holds.
    pub(crate) fn cut_power(&self, name: &str) {
        self.machines[name].power.send_modify(|count| *count += 1);
    }

    /// Panics if a promise was ever broken.
    #[track_caller]
    pub(crate) fn lawful(&self) {
        self.truth.with(|seen| assert!(seen.wrongs.is_empty(), "{:#?}", seen.wrongs));
    }
}

type Channel = watch::Sender<Option<Arc<Node>>>;

/// What machines hear of their nodes.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<BTreeMap<String, Channel>>>);

impl Heard {
    fn of(&self, name: &str) -> Channel {
        let mut channels = self.0.lock().expect("nobody panicked");
        channels.entry(name.to_owned()).or_insert_with(|| watch::Sender::new(None)).clone()
    }
}

/// Tells machines of their nodes, and watches that no more are taken away than may be.
async fn listen(client: Client, heard: Heard, truth: Truth, limit: usize) {
    let mut events = watcher(Api::<Node>::all(client), watcher::Config::default()).default_backoff().boxed();
    // Nodes that we cordoned while they served, and whether they are of the control plane.
    let mut away: BTreeMap<String, bool> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                let name = node.name_any();
                let cordoned = node.annotations().contains_key(CordonedFor::KEY);
                let control = node.labels().contains_key(CONTROL_PLANE);
                let runs = observed(Some(node.annotations())).ok().flatten().map(|observed| observed.epoch);
                truth.with(|seen| {
                    seen.known.insert(name.clone(), (node.uid().unwrap_or_default(), runs));
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
                truth.with(|seen| seen.known.remove(&node.name_any()));
                heard.of(&node.name_any()).send_replace(None);
            }
            // Those that are gone since are not among the ones to come.
            Ok(watcher::Event::Init) => truth.with(|seen| seen.known.clear()),
            Ok(watcher::Event::InitDone) | Err(_) => {}
        }
    }
}
