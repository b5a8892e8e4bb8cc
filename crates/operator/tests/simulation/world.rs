//! One run: a cluster, an administrator who changes their mind, and the weather.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::{MtuOnLoss, MtuPaused, MtuUnattended};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::rollout::{MachineConfig, Waits};
use netferry_core::mtu::SOURCE;
use netferry_core::mtu::probe::judge::untried;
use netferry_core::mtu::record::{Change, Stage};
use netferry_core::name::NodeName;
use netferry_core::probe::Report;
use netferry_operator::lead::Timing;
use netferry_translate::probe;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::blows::{Part, Steps};
use crate::support::chance::Chance;
use crate::support::machine::{Pace, mtu};
use crate::support::site::{HOSTS, PODS, Site};
use crate::support::{Line, Operator};

/// Which run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
}

/// How often the administrator looks at the end.
const LOOK: Duration = Duration::from_secs(15);

struct World {
    site: Site,
    chance: Chance,
    operator: Operator,
    lives: usize,
    /// Writes of operators that are no more, until they arrive.
    late: Vec<JoinHandle<()>>,
    /// Whoever takes back, some time later, what holds the change up.
    passing: Vec<JoinHandle<()>>,
    /// What somebody said is to be done when packets are lost.
    on_loss: Option<&'static str>,
    done: Vec<String>,
}

/// What became of a story; the same every time it is told.
pub(crate) struct Told {
    nodes: usize,
    reboots: usize,
    /// What all ended at.
    end: u32,
    /// How many writes it took.
    version: String,
    /// How long it lasted, in virtual time.
    lasted: Duration,
    /// What happened.
    done: Vec<String>,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { nodes, reboots, end, version, lasted, done } = self;
        let (minutes, done) = (lasted.as_secs() / 60, done.join(", "));
        write!(
            f,
            "{nodes} nodes, {reboots} restarts, ends at {end} after {minutes} min, version {version}: {done}"
        )
    }
}

/// What became of many.
#[derive(Default)]
pub(crate) struct Sum {
    restarts: usize,
    happened: usize,
    lasted: Duration,
}

impl Sum {
    pub(crate) fn add(&mut self, told: &Told) {
        self.restarts += told.reboots;
        self.happened += told.done.len();
        self.lasted += told.lasted;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sum { restarts, happened, lasted } = self;
        let days = lasted.as_secs_f64() / 86400.0;
        write!(
            f,
            "{happened} edits, faults, joins and the like, {restarts} restarts, {days:.0} days of virtual time"
        )
    }
}

/// Tells a story.
pub(crate) async fn tell(story: Story) -> Told {
    let began = Instant::now();
    let mut chance = Chance::new(story.seed);
    let (unattended, limit) = (chance.percent(40), 1 + chance.below(3));
    let on_loss = [None, None, Some("reverse"), Some("pause")][chance.below(4)];
    let mut site = Site::new(limit, chance.branch()).await;
    let seconds = Duration::from_secs;
    // As long as usual, and renewed half as often: most of what is written in quiet hours would be that.
    site.cluster.timing = Timing::new(seconds(15), seconds(10), seconds(4)).expect("it is safe");
    site.fleet.pace = Pace { anyway: seconds(60), ..Pace::USUAL };
    let operator = site.cluster.operator("life-1");
    let (late, passing, done) = (Vec::new(), Vec::new(), Vec::new());
    let mut world = World { site, chance, operator, lives: 1, late, passing, on_loss, done };
    world.site.populate(story.nodes, 3).await;
    if unattended {
        world.note("unattended");
        world.site.annotate(MtuUnattended::KEY, Some("true")).await;
    }
    if let Some(on_loss) = on_loss {
        world.note(format!("{on_loss} on loss"));
        world.site.annotate(MtuOnLoss::KEY, Some(on_loss)).await;
    }
    world.site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    for _ in 0..3 + world.chance.below(8) {
        let pause = world.chance.millis(100, 120_000);
        sleep(pause).await;
        world.something().await;
    }
    let end = world.come_to_rest().await;
    world.site.cluster.historian.testify();
    let version = world.site.networks().list(&ListParams::default()).await.expect("a list").metadata;
    Told {
        nodes: world.site.fleet.names().count(),
        reboots: world.site.fleet.truth.with(|seen| seen.reboots),
        end,
        version: version.resource_version.unwrap_or_default(),
        lasted: began.elapsed(),
        done: world.done,
    }
}

impl World {
    fn note(&mut self, what: impl Into<String>) {
        self.done.push(what.into());
    }

    fn some_machine(&mut self) -> String {
        let at = self.chance.below(self.site.fleet.names().count());
        self.site.fleet.names().nth(at).expect("there are machines").clone()
    }

    async fn something(&mut self) {
        match self.chance.below(20) {
            0 | 1 => {
                let name = self.some_machine();
                self.site.fleet.cut_power(&name);
                self.note(format!("{name} loses power"));
            }
            2 => {
                let name = format!("j{:03}", self.site.fleet.names().count());
                self.site.join(&name, false).await;
                self.note(format!("{name} joins"));
            }
            3 => self.leave_and_come_back().await,
            4..=6 => self.replace_operator().await,
            7 => {
                // Requests on their way for a while: some arrive when nobody waits for them any more.
                self.operator.line.hold(|method, path| {
                    ["PATCH", "PUT", "POST"].contains(&method) && !path.contains("/leases")
                });
                let pause = self.chance.millis(100, 90_000);
                sleep(pause).await;
                self.operator.line.let_go();
                self.note("writes of the operator are late");
            }
            8 => {
                self.site.ask_change(1300, PODS.1, HOSTS.1).await;
                self.note("nonsense is asked");
            }
            9 => {
                self.site.ask_change(PODS.0, PODS.0, HOSTS.0).await;
                self.note("cancel");
            }
            10 => {
                self.site.ask_change(PODS.1, PODS.0, HOSTS.0).await;
                self.note("reverse");
            }
            11 => {
                self.site.finish(PODS.1).await;
                self.note("finish");
            }
            12 => self.end_at_some_step(Part::Agent, 40),
            13 => self.end_at_some_step(Part::HostInit, 6),
            14 => self.end_at_some_step(Part::Power, 40),
            15 => {
                let lines = [self.site.line.clone(), self.operator.line.clone()];
                lines.iter().for_each(|line| line.hold(|_, _| true));
                let pause = self.chance.millis(100, 90_000);
                sleep(pause).await;
                lines.iter().for_each(Line::let_go);
                self.note("the API falls silent");
            }
            16 => self.pause_the_change().await,
            17 => self.pause_the_workers().await,
            18 => {
                let (from, to) = self.some_way();
                self.note(format!("the way from {from} to {to} becomes narrow"));
                self.site.fleet.truth.with(|seen| seen.narrow = Some((from, to, mtu(HOSTS.0))));
                let (time, truth) = (self.a_while(), self.site.fleet.truth.clone());
                self.passes(async move {
                    sleep(time).await;
                    truth.with(|seen| seen.narrow = None);
                });
            }
            _ => {
                let ((from, to), lost) = (self.some_way(), 1 + self.chance.below(19));
                self.note(format!("{lost} of 20 are lost on the way from {from} to {to}"));
                let lost = u32::try_from(lost).expect("it is below 20");
                self.site.fleet.truth.with(|seen| seen.lossy = Some((from, to, lost)));
                let (time, truth) = (self.a_while(), self.site.fleet.truth.clone());
                self.passes(async move {
                    sleep(time).await;
                    truth.with(|seen| seen.lossy = None);
                });
            }
        }
    }

    /// A way from one machine to another.
    fn some_way(&mut self) -> (String, String) {
        let names: Vec<&String> = self.site.fleet.names().collect();
        let from = self.chance.below(names.len());
        let to = (from + 1 + self.chance.below(names.len() - 1)) % names.len();
        (names[from].clone(), names[to].clone())
    }

    /// Long enough for nodes to notice, or not.
    fn a_while(&mut self) -> Duration {
        self.chance.millis(1_000, 600_000)
    }

    fn passes(&mut self, end: impl Future<Output = ()> + Send + 'static) {
        self.passing.push(tokio::spawn(end));
    }

    /// Somebody pauses the change, and resumes it some time later.
    async fn pause_the_change(&mut self) {
        self.note("the change is paused");
        self.site.annotate(MtuPaused::KEY, Some("true")).await;
        let (time, networks) = (self.a_while(), self.site.networks());
        self.passes(async move {
            sleep(time).await;
            let resumed = Patch::Merge(json!({ "metadata": { "annotations": { MtuPaused::KEY: null } } }));
            networks.patch("cluster", &PatchParams::default(), &resumed).await.expect("the change goes on");
        });
    }

    /// Somebody pauses the pool of the workers, and unpauses it some time later.
    async fn pause_the_workers(&mut self) {
        self.note("the workers are paused");
        let paused = |paused: bool| Patch::Merge(json!({ "spec": { "paused": paused } }));
        let (time, pools) = (self.a_while(), self.site.pools());
        pools.patch("worker", &PatchParams::default(), &paused(true)).await.expect("the pool waits");
        self.passes(async move {
            sleep(time).await;
            pools.patch("worker", &PatchParams::default(), &paused(false)).await.expect("the pool goes on");
        });
    }

    /// This part of whichever machine makes one of the next steps ends there.
    fn end_at_some_step(&mut self, part: Part, within: usize) {
        let steps = self.chance.below(within);
        self.site.fleet.truth.with(|seen| seen.steps.end_after(part, steps));
        self.note(format!("{part:?} ends at a step of a machine"));
    }

    async fn leave_and_come_back(&mut self) {
        let name = self.some_machine();
        if self.site.cluster.nodes().delete(&name, &DeleteParams::default()).await.is_err() {
            return;
        }
        self.site.fleet.truth.with(|seen| seen.serving.remove(&name));
        let pause = self.chance.millis(10, 60_000);
        sleep(pause).await;
        self.site.join(&name, false).await;
        self.note(format!("{name} leaves and comes back"));
    }

    /// The operator ends, perhaps with writes on their way, and another one takes over.
    async fn replace_operator(&mut self) {
        let late = self.chance.percent(50);
        let line = self.operator.line.clone();
        if late {
            line.hold(|method, path| !["GET", "WATCH"].contains(&method) && !path.contains("/leases"));
            let pause = self.chance.millis(10, 5_000);
            sleep(pause).await;
        }
        self.lives += 1;
        // Replaced, the old one ends without a goodbye.
        self.operator = self.site.cluster.operator(&format!("life-{}", self.lives));
        if late {
            let pause = self.chance.millis(10, 120_000);
            self.late.push(tokio::spawn(async move {
                sleep(pause).await;
                line.let_go();
            }));
        }
        self.note(if late { "the operator dies with writes on their way" } else { "the operator dies" });
    }

    /// Undisturbed from here on, everything arrives: wherever the change was, it is brought to an end.
    async fn come_to_rest(&mut self) -> u32 {
        self.site.fleet.truth.with(|seen| seen.steps = Steps::default());
        let back = self.chance.percent(30);
        self.note(if back { "taken back" } else { "brought to its end" });
        self.a_way_stays_narrow().await;
        let began = Instant::now();
        let mut last = String::new();
        while began.elapsed() < self.site.patience() {
            self.what_is_told_turns_it_around().await;
            let site = &self.site;
            site.fleet.lawful();
            match site.record().await {
                // Everything was refused so far.
                None => site.ask_change(PODS.0, PODS.1, HOSTS.1).await,
                Some(record) => match record.change {
                    None => {
                        site.finish(record.mtu.bytes()).await;
                        match site.settled().await {
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
                        let (from, to) = (network.from.bytes(), network.to.bytes());
                        match stage {
                            Stage::Spreading { .. } if back => {
                                site.ask_change(from, from, host.from.bytes()).await
                            }
                            Stage::Spreading { .. } | Stage::Settling => site.finish(to).await,
                            Stage::Returning => site.finish(from).await,
                        }
                    }
                },
            }
            sleep(LOOK).await;
        }
        let status = self.site.cluster.network().await.status;
        panic!("it never comes to rest: {last}; {status:#?}; {:?}", self.done);
    }

    /// What holds the change up ends when whoever sees to it does. By chance a way stays narrow for good, unless somebody
    /// said that the change is to wait for such a way.
    async fn a_way_stays_narrow(&mut self) {
        let stays = self.chance.percent(30) && self.on_loss != Some("pause");
        let (from, to) = self.some_way();
        for passing in std::mem::take(&mut self.passing) {
            passing.await.expect("it only waits");
        }
        // What was taken back just now is still to be said.
        sleep(LOOK).await;
        if stays {
            self.note(format!("the way from {from} to {to} stays narrow"));
            self.site.fleet.truth.with(|seen| seen.narrow = Some((from, to, mtu(HOSTS.0))));
        }
    }

    /// A change that leads to more than some machine says gets through does not go on. One that is over before any machine
    /// has tried again may.
    async fn what_is_told_turns_it_around(&self) {
        if self.site.fleet.truth.with(|seen| seen.narrow.is_none()) {
            return;
        }
        let told = Instant::now();
        while self.goes_on_against_what_is_told().await {
            // As long as it takes another operator to lead.
            assert!(told.elapsed() < Duration::from_secs(60), "too narrow, it goes on: {:?}", self.done);
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn goes_on_against_what_is_told(&self) -> bool {
        let nodes = self.site.cluster.nodes().list(&ListParams::default()).await.expect("a list").items;
        let told = |node: &Node| probe::report(Some(node.annotations())).expect("it can be read");
        let narrow = nodes.iter().filter_map(told).any(|report| !report.narrow.is_empty());
        let change = self.site.record().await.and_then(|record| record.change);
        narrow
            && change.is_some_and(|change| {
                change.network.to == mtu(PODS.1) && !change.back && change.stage != Stage::Returning
            })
    }

    /// A machine that joined with a small uplink when all others had arrived at large ones serves nothing and says so;
    /// somebody has to raise it.
    async fn raise_what_came_too_late(&self) {
        let truth = &self.site.fleet.truth;
        for node in self.site.cluster.nodes().list(&ListParams::default()).await.expect("a list").items {
            let waits = node.annotations().get(&Waits::key(SOURCE)).cloned().unwrap_or_default();
            if waits.contains("need at least") {
                let first = truth.with(|seen| seen.raised.replace(mtu(HOSTS.1))).is_none();
                if first || !truth.with(|seen| seen.serving.contains_key(&node.name_any())) {
                    self.site.fleet.cut_power(&node.name_any());
                    sleep(Duration::from_secs(60)).await;
                }
            }
        }
    }

    /// What is said at the end agrees with what is.
    async fn told_the_truth(&mut self, mtu: u32) {
        let cluster = &self.site.cluster;
        let published = cluster.published().await.expect("it is published").status.expect("with a status");
        assert_eq!((published.cluster_network_mtu, published.migration), (Some(mtu), None));
        for kind in [MtuConditionType::InProgress, MtuConditionType::Held, MtuConditionType::Refused] {
            cluster.until_condition(kind.as_str(), "False").await;
        }
        // Rendered configurations that nobody uses are swept away.
        self.site
            .until("old configurations are gone", async |site| {
                let api = Api::<MachineConfig>::all(site.cluster.client.clone());
                let all = api.list(&ListParams::default()).await.expect("a list").items;
                let rendered = all.iter().filter(|config| config.name_any().starts_with("rendered-"));
                (rendered.count() <= 2).then_some(())
            })
            .await;
        self.site
            .until("every machine has tried all others and says what it finds now", async |site| {
                let epoch = site.record().await?.epoch;
                let nodes = site.cluster.nodes().list(&ListParams::default()).await.expect("a list").items;
                let name = |node: &Node| NodeName::new(node.name_any()).expect("a node's name");
                let uids = nodes.iter().map(|node| (name(node), node.uid().unwrap_or_default())).collect();
                let reports = nodes
                    .iter()
                    .filter_map(|node| Some((name(node), probe::report(Some(node.annotations())).ok()??)));
                let reports: BTreeMap<NodeName, Report> = reports.collect();
                let narrow = site.fleet.truth.with(|seen| {
                    let (from, to, passes) = seen.narrow.clone()?;
                    let takes =
                        |name| seen.serving.get(name).is_some_and(|(_, host)| host.carries() > passes);
                    (takes(&from) && takes(&to)).then_some((from, to))
                });
                let says = |(name, report): (&NodeName, &Report)| {
                    let from_here = narrow.iter().filter(|(from, _)| from == name.as_str());
                    let told = report.narrow.iter().map(|narrow| narrow.to.as_str());
                    report.losses.is_empty() && told.eq(from_here.map(|(_, to)| to.as_str()))
                };
                let all = untried(|_| Some(epoch), &uids, &reports).is_empty() && reports.iter().all(says);
                all.then_some(())
            })
            .await;
        // The last edit may have come just before everything was found at rest.
        self.site
            .until("the operator has seen the last edit", async |site| {
                let network = site.cluster.network().await;
                (network.status?.observed_generation == network.metadata.generation).then_some(())
            })
            .await;
        // A dead operator's last write may still be on its way. It tells nothing new, but when it thought so.
        for late in std::mem::take(&mut self.late) {
            late.await.expect("it only waits");
            sleep(Duration::from_secs(10)).await;
        }
        let rests = self.site.everything().await;
        // Longer than anybody takes to look again without a reason.
        sleep(Duration::from_secs(240)).await;
        assert_eq!(self.site.everything().await, rests, "what is at rest is written to");
    }
}
