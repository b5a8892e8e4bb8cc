//! A machine of the cluster without a kernel: its disk, what it runs, its daemon and its agent, with the decisions that
//! ship. What it would do to its host it only writes down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::{FixedMtu, InterfaceMtu, InterfaceRole, MtuObserved, MtuProbes, NicRange, RouteMtu};
use netferry_api::overlay::ConfigNetwork;
use netferry_api::rollout::annotations::{CurrentConfig, DesiredDrain, NodeState as WrittenState, Reason};
use netferry_api::rollout::{MachineConfig, Waits};
use netferry_core::mtu::SOURCE;
use netferry_core::mtu::admit::{Admit, Arrival, admit};
use netferry_core::mtu::boot::{self, BootFacts, BootStep, Booted, Saved};
use netferry_core::mtu::file::{HostFile, PATH};
use netferry_core::mtu::record::Record;
use netferry_core::rollout::config::Spec;
use netferry_core::rollout::daemon::{self, Named, Said, Step};
use netferry_core::rollout::effect::{Effect, effect};
use netferry_core::rollout::epochs::Epochs;
use netferry_core::rollout::merge::Rendered;
use netferry_core::size::{Envelope, Mtu};
use netferry_translate::{machine as read, machine_config, mtu as applied, probe};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::blows::{Part, Steps};
use super::chance::Chance;
use super::ways;

/// What Geneve over IPv4 adds.
pub(crate) const HEADERS: u32 = 58;

pub(crate) fn mtu(bytes: u32) -> Mtu {
    Mtu::new(bytes).expect("it is a size")
}

/// What everybody can see of machines without asking the API: what is really running.
#[derive(Clone, Default)]
pub(crate) struct Truth(pub(crate) Arc<Mutex<Seen>>);

#[derive(Default)]
pub(crate) struct Seen {
    /// Pods and host of every machine that serves.
    pub(crate) serving: BTreeMap<String, (Envelope, Envelope)>,
    /// Machines that are off.
    pub(crate) off: usize,
    pub(crate) reboots: usize,
    /// Every node that was heard of: which object it is, and by which rendering it says it runs.
    pub(crate) known: BTreeMap<String, (String, Option<u64>)>,
    /// A way from one machine to another that is too narrow.
    pub(crate) narrow: Option<(String, String, Mtu)>,
    /// A way from one machine to another on which so many of twenty trials are lost.
    pub(crate) lossy: Option<(String, String, u32)>,
    /// What cards of machines take, where they say it.
    pub(crate) cards: Option<NicRange>,
    /// Why the configuration of machines' hosts cannot be told a larger size.
    pub(crate) fixed: Option<String>,
    /// What somebody sees to that hosts come up with at least.
    pub(crate) raised: Option<Mtu>,
    /// Machines that do not come up, once they are off.
    pub(crate) dark: BTreeSet<String>,
    /// What machines do, step by step.
    pub(crate) steps: Steps,
    pub(crate) wrongs: Vec<String>,
}

impl Truth {
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Seen) -> T) -> T {
        act(&mut self.0.lock().expect("nobody panicked"))
    }

    /// I1 of all machines at once: the most that is sent fits the least that is carried.
    fn check(&self, what: &str) {
        self.with(|seen| {
            let least = |of: fn(&(Envelope, Envelope)) -> u32| {
                seen.serving
                    .iter()
                    .map(|(name, one)| (of(one), name))
                    .min()
                    .map(|(size, name)| (size, name.clone()))
            };
            let most = |of: fn(&(Envelope, Envelope)) -> u32| {
                seen.serving
                    .iter()
                    .map(|(name, one)| (of(one), name))
                    .max()
                    .map(|(size, name)| (size, name.clone()))
            };
            let pairs = [
                ("pods", most(|one| one.0.sends().bytes()), least(|one| one.0.carries().bytes())),
                ("hosts", most(|one| one.1.sends().bytes()), least(|one| one.1.carries().bytes())),
                (
                    "wrapped pods",
                    most(|one| one.0.sends().bytes() + HEADERS),
                    least(|one| one.1.carries().bytes()),
                ),
            ];
            let own = seen
                .serving
                .iter()
                .find(|(_, (pods, host))| pods.sends().bytes() + HEADERS > host.sends().bytes());
            let own = own.map(|(name, (pods, host))| {
                format!("I1: pods on {name} ({pods}) do not fit its host ({host})")
            });
            seen.wrongs.extend(own);
            for (kind, sent, carried) in pairs {
                let (Some((sent, from)), Some((carried, to))) = (sent, carried) else { continue };
                if sent > carried {
                    let wrong =
                        format!("I1, {kind}: {from} sends {sent}, {to} carries {carried}, after {what}");
                    seen.wrongs.push(wrong);
                }
            }
        });
    }
}

/// What outlives a restart.
#[derive(Clone)]
struct Disk {
    /// What the uplink comes up with where nothing is configured.
    default: Mtu,
    config: Option<Rendered>,
    saved: Option<Saved>,
    configured: Option<Mtu>,
    /// The object it served as.
    known: Option<String>,
}

/// What does not.
struct Run {
    booted: Booted,
    /// The configuration it booted by.
    by: Rendered,
    serving: Option<Envelope>,
}

/// What was left under `/run` and in the kernel by a boot that was cut off.
#[derive(Default)]
struct Left {
    uplink: Option<Mtu>,
    run: Option<Run>,
}

/// How long things take on a machine.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// Between two steps, in milliseconds.
    pub(crate) step: (usize, usize),
    /// A boot, in milliseconds.
    pub(crate) boot: (usize, usize),
    /// How soon it looks again although nothing changed.
    pub(crate) anyway: Duration,
}

impl Pace {
    pub(crate) const USUAL: Pace =
        Pace { step: (1, 400), boot: (2_000, 20_000), anyway: Duration::from_secs(20) };
}

/// How long an agent that ended takes to be there again.
const AGENT_STARTS: Duration = Duration::from_secs(10);

/// One machine.
pub(crate) struct Machine {
    name: String,
    client: Client,
    disk: Disk,
    run: Option<Run>,
    left: Left,
    /// What ended at the step it just made.
    ended: Option<Part>,
    truth: Truth,
    chance: Chance,
    pace: Pace,
}

/// Power, as somebody outside may take it away: counts how often.
pub(crate) type Power = watch::Sender<u64>;

impl Machine {
    pub(crate) fn new(
        name: &str,
        client: Client,
        host: u32,
        truth: Truth,
        chance: Chance,
        pace: Pace,
    ) -> Machine {
        let disk = Disk { default: mtu(host), config: None, saved: None, configured: None, known: None };
        truth.with(|seen| seen.off += 1);
        let (name, left) = (name.to_owned(), Left::default());
        Machine { name, client, disk, run: None, left, ended: None, truth, chance, pace }
    }

    /// Lives until its task is aborted; `object` is what is heard of its node.
    pub(crate) async fn live(
        mut self,
        mut object: watch::Receiver<Option<Arc<Node>>>,
        mut power: watch::Receiver<u64>,
    ) {
        loop {
            if self.run.is_none() {
                let time = self.chance.millis(self.pace.boot.0, self.pace.boot.1);
                tokio::time::sleep(time).await;
                while self.truth.with(|seen| seen.dark.contains(&self.name)) {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
                power.mark_unchanged();
                self.boot();
                if self.run.is_none() {
                    continue;
                }
            }
            object.mark_unchanged();
            let acted = tokio::select! {
                biased;
                _ = power.changed() => {
                    self.off().await;
                    true
                }
                acted = self.act() => acted,
            };
            match self.ended.take() {
                None | Some(Part::HostInit) => {}
                Some(Part::Power) => self.off().await,
                Some(Part::Agent) => {
                    // Whether pods are served is asked anew; those that are go on meanwhile.
                    self.run.iter_mut().for_each(|run| run.serving = None);
                    tokio::time::sleep(AGENT_STARTS).await;
                }
            }
            let time = self.chance.millis(self.pace.step.0, self.pace.step.1);
            let idle = async {
                if acted {
                    tokio::time::sleep(time).await;
                } else {
                    // A request that was lost is tried again.
                    let _ = tokio::time::timeout(self.pace.anyway, object.changed()).await;
                    tokio::time::sleep(time).await;
                }
            };
            let lost = tokio::select! {
                biased;
                _ = power.changed() => true,
                () = idle => false,
            };
            if lost {
                self.off().await;
            }
        }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn boot(&mut self) {
        let raised = self.truth.with(|seen| seen.raised);
        self.disk.default = raised.map_or(self.disk.default, |raised| raised.max(self.disk.default));
        // What an earlier run of this boot wrote down stands.
        if let Some(run) = self.left.run.take() {
            self.run = Some(run);
            return self.truth.with(|seen| seen.off -= 1);
        }
        let file = self.disk.config.as_ref().and_then(file_of);
        let uplink = self.left.uplink.or(self.disk.configured).unwrap_or(self.disk.default);
        let facts = BootFacts {
            file: file.as_ref(),
            saved: self.disk.saved,
            uplink,
            configured: self.disk.configured,
        };
        let by = self.disk.config.clone().unwrap_or_else(nothing);
        for step in boot::boot(&facts) {
            match self.truth.with(|seen| seen.steps.make([Part::HostInit, Part::Power])) {
                None => {}
                Some(Part::Power) => return self.left = Left::default(),
                Some(Part::HostInit | Part::Agent) => return,
            }
            match step {
                BootStep::Save(saved) => self.disk.saved = Some(saved),
                BootStep::Persist(size) => self.disk.configured = size,
                BootStep::Run(host) => self.left.uplink = Some(host.carries()),
                BootStep::Record(booted) => {
                    self.left.run = Some(Run { booted, by: by.clone(), serving: None });
                }
                BootStep::Forget => self.disk.saved = None,
            }
        }
        self.run = self.left.run.take();
        self.truth.with(|seen| seen.off -= 1);
    }

    /// A point at which the agent or the machine can end; whether one does.
    fn ends(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.truth.with(|seen| seen.steps.make([Part::Agent, Part::Power]));
        }
        self.ended.is_some()
    }

    async fn off(&mut self) {
        if self.run.take().is_none() {
            return;
        }
        self.left = Left::default();
        self.truth.with(|seen| {
            seen.serving.remove(&self.name);
            seen.off += 1;
            seen.reboots += 1;
        });
        // Said by others: it cannot.
        self.say_ready("Unknown").await;
    }

    async fn ready(&mut self, status: &str) -> bool {
        !self.ends() && self.say_ready(status).await && !self.ends()
    }

    async fn say_ready(&self, status: &str) -> bool {
        let patch = json!({ "status": { "conditions": [
            { "type": "Ready", "status": status, "reason": "Sim", "message": "" },
        ] } });
        self.nodes()
            .patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(&patch))
            .await
            .is_ok()
    }

    /// Writes to its node. Whether it knows that it did.
    async fn annotate(&mut self, annotations: Value, version: Option<String>) -> bool {
        if self.ends() {
            return false;
        }
        let mut patch = json!({ "metadata": { "annotations": annotations } });
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = json!(version);
        }
        let nodes = self.nodes();
        let written = nodes.patch_metadata(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        !self.ends() && written.is_ok()
    }

    /// Does one thing, if there is something to do.
    async fn act(&mut self) -> bool {
        // Read anew before every decision.
        let node = match self.nodes().get_opt(&self.name).await {
            Ok(Some(node)) => node,
            // An API that does not answer takes nothing away from a machine.
            Err(_) => return false,
            // A machine whose node was removed serves nobody.
            Ok(None) => {
                if let Some(run) = &mut self.run {
                    run.serving = None;
                }
                self.truth.with(|seen| seen.serving.remove(&self.name));
                return false;
            }
        };
        if let Some(run) = &mut self.run
            && run.serving.is_some()
            && self.disk.known != node.uid()
        {
            // It was removed and is back: another node, which has to be let in anew.
            run.serving = None;
            self.truth.with(|seen| seen.serving.remove(&self.name));
        }
        let first = self.chance.below(2);
        for turn in 0..2 {
            let acted = if turn == first { self.daemon(&node).await } else { self.agent(&node).await };
            if acted || self.run.is_none() || self.ended.is_some() {
                return acted;
            }
        }
        false
    }

    async fn config(&self, name: &str) -> Option<Rendered> {
        let api = Api::<MachineConfig>::all(self.client.clone());
        machine_config::rendered(&api.get_opt(name).await.ok()??).ok()
    }

    async fn daemon(&mut self, node: &Node) -> bool {
        let Ok(machine) = read::machine(node) else { return false };
        let desired = match &machine.node.desired {
            None => None,
            Some(name) => match self.config(name).await {
                None => return false,
                found => found,
            },
        };
        let Some(run) = &self.run else { return false };
        let named = |config: &Rendered| Named { name: config.name.clone(), epochs: config.epochs.clone() };
        let effect = |config: Option<&Rendered>| {
            let of = |_: &str, was: Option<&[u8]>, is: Option<&[u8]>| {
                if was == is { Effect::Nothing } else { boot::effect(&run.booted, is) }
            };
            config.map(|config| effect(&run.by, config, &[PATH], of)).unwrap_or_default()
        };
        let said = Said {
            current: machine.node.current.clone(),
            state: machine.node.state,
            reason: machine.node.reason.clone(),
        };
        let step = daemon::decide(&daemon::Facts {
            desired: desired.as_ref().map(named).as_ref(),
            disk: self.disk.config.as_ref().map(named).as_ref(),
            due: effect(self.disk.config.as_ref()),
            needed: effect(desired.as_ref()),
            drift: &[],
            forced: false,
            said: &said,
            asked: machine.asked.as_ref(),
            fulfilled: machine.fulfilled.as_ref(),
            cordoned: machine.cordoned_by_us,
            alone: machine.alone,
        });
        match step {
            Step::Rest | Step::AwaitDrain => false,
            Step::Say(said) => {
                let state = said.state.map(|state| read::printed_state(state).to_string());
                let says = json!({
                    CurrentConfig::KEY: said.current, WrittenState::KEY: state, Reason::KEY: said.reason,
                });
                self.annotate(says, None).await
            }
            Step::Ask(request) => {
                let asked = DesiredDrain(read::printed_request(&request)).to_string();
                self.annotate(json!({ DesiredDrain::KEY: asked }), None).await
            }
            Step::Take => {
                if !self.ends() {
                    self.disk.config = desired;
                    self.ends();
                }
                true
            }
            Step::Apply => {
                self.apply();
                true
            }
            Step::Restart => {
                if !self.ends() {
                    self.off().await;
                }
                true
            }
        }
    }

    /// The capability applies its file to the running node.
    fn apply(&mut self) {
        let Some(file) = self.disk.config.as_ref().and_then(file_of) else { return };
        let Some(run) = &self.run else { return };
        let Some(over) = boot::catch_up(&run.booted, &file) else { return };
        if self.ends() {
            return;
        }
        if over.forget {
            self.disk.saved = None;
        }
        if !self.ends() {
            self.run.iter_mut().for_each(|run| run.booted = over.booted);
        }
    }

    async fn agent(&mut self, node: &Node) -> bool {
        let Some(run) = &self.run else { return false };
        if run.serving.is_some() {
            return self.observe(node).await;
        }
        let Ok(machine) = read::machine(node) else { return false };
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), "netferry");
        let Ok(found) = api.get_opt(applied::APPLIED).await else { return false };
        let record = match found {
            Some(map) => applied::applied(&map).expect("what the operator wrote is a record"),
            // Where no change was ever accepted, what is published is what runs.
            None => {
                let api = Api::<ConfigNetwork>::all(self.client.clone());
                let Ok(Some(config)) = api.get_opt("cluster").await else { return false };
                let Some(size) = config.status.and_then(|status| status.cluster_network_mtu) else {
                    return false;
                };
                Record::settled(mtu(size))
            }
        };
        let file = self.disk.config.as_ref().and_then(file_of);
        let arrival = Arrival {
            booted: &run.booted,
            record: &record,
            headers: HEADERS,
            newcomer: self.disk.known.is_none() || self.disk.known != node.uid(),
            told: machine.node.is_told_waiting(),
            unstarted: file.is_some_and(|file| boot::needs_restart(&run.booted, &file)),
        };
        match admit(&arrival) {
            Admit::Wait(why) => {
                !machine.node.waits
                    && self
                        .annotate(json!({ Waits::key(SOURCE): why.to_string() }), node.resource_version())
                        .await
            }
            Admit::Serve(network) => {
                let booted = Booted { network: Some(network), ..run.booted };
                let seen = self.observed(&booted).to_string();
                let says = json!({ Waits::key(SOURCE): null, MtuObserved::KEY: seen });
                // In one write, and only if nothing was told meanwhile.
                if !self.annotate(says, node.resource_version()).await {
                    return true;
                }
                let Some(run) = &mut self.run else { return true };
                (run.booted, run.serving) = (booted, Some(network));
                self.disk.known = node.uid();
                self.truth.with(|seen| seen.serving.insert(self.name.clone(), (network, booted.host)));
                self.truth.check(&format!("{} began to serve", self.name));
                self.ready("True").await;
                true
            }
        }
    }

    /// Says what it runs, if that was not said.
    async fn observe(&mut self, node: &Node) -> bool {
        let Some(run) = &self.run else { return false };
        let text = self.observed(&run.booted).to_string();
        if node.annotations().get(MtuObserved::KEY) != Some(&text) {
            return self.annotate(json!({ MtuObserved::KEY: text }), None).await;
        }
        let (said, found) = (
            probe::report(node.metadata.annotations.as_ref()),
            self.truth.with(|seen| ways::found(seen, &self.name, &run.booted)),
        );
        if found.is_news(said.expect("what a machine wrote can be read").as_ref()) {
            let text = probe::printed(&found).to_string();
            return self.annotate(json!({ MtuProbes::KEY: text }), None).await;
        }
        let conditions =
            node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        !ready && self.ready("True").await
    }

    fn observed(&self, booted: &Booted) -> MtuObserved {
        let uplink = InterfaceMtu {
            name: "eth0".into(),
            role: InterfaceRole::Uplink,
            mtu: booted.host.carries().bytes(),
            nic: self.truth.with(|seen| seen.cards),
        };
        let route = RouteMtu {
            to: "0.0.0.0/0".parse().expect("it is a network"),
            interface: "eth0".into(),
            mtu: booted.host.pin().map(Mtu::bytes),
        };
        let cni = booted.network.map(applied::printed_envelope);
        MtuObserved::new(vec![uplink], vec![route], cni)
            .expect("it does not contradict itself")
            .at_epoch(booted.epoch)
            .on_host(FixedMtu { change: None, growth: self.truth.with(|seen| seen.fixed.clone()) })
    }
}

fn file_of(config: &Rendered) -> Option<HostFile> {
    let file = config.spec.files.iter().find(|file| file.path == PATH)?;
    Some(
        HostFile::parse(&String::from_utf8_lossy(&file.contents))
            .expect("what the operator wrote is a host file"),
    )
}

fn nothing() -> Rendered {
    Rendered { name: String::new(), spec: Spec::default(), sources: Vec::new(), epochs: Epochs::default() }
}
