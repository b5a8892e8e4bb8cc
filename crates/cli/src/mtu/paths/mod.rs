//! Measuring what every kind of path takes: pods are put on every node, ask each other, say what they measured with their
//! last words, and are removed again.
//!
//! A container's last words (its termination message) need neither rights in the cluster nor a way from here to its
//! network.

mod objects;
pub(super) mod show;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use netferry_core::mtu::paths::judge::{Leg, Measured};
use netferry_core::mtu::paths::{Ask, Asker, Site, asks, is_over};
use netferry_core::name::NodeName;
use netferry_core::size::Mtu;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use self::objects::{END, LABEL, Role, Setting, service_name};
use super::seen::answer;
use crate::exit::Failure;
use crate::line::Line;
use crate::path_pod::{Question, Written};
use crate::time;

/// Between looks at pods.
const LOOK: Duration = Duration::from_millis(300);
/// What agents run where nobody says what they do.
const IMAGE: &str = "netferry";
/// How long pods live if nobody is left to remove them, beyond the time they are waited for.
const SPARE: Duration = Duration::from_secs(120);

/// How long the namespace of a measurement may take to be gone.
const REMOVAL: Duration = Duration::from_secs(90);
/// How long a new namespace may be without the account that its pods run as.
const ACCOUNT: Duration = Duration::from_secs(20);

/// How paths are measured.
#[derive(Debug, Args)]
pub(super) struct PathsArgs {
    /// Only show what nodes found out by themselves: put no pods into the cluster, and do not measure every kind of path
    #[arg(long)]
    reported: bool,
    /// An address beyond the cluster that answers pings, to measure what pods send to the outside; may be repeated
    #[arg(long, value_name = "ADDRESS", conflicts_with = "reported")]
    outside: Vec<IpAddr>,
    /// The image of the pods that measure; without it, the one that agents run
    #[arg(long, value_name = "IMAGE", conflicts_with = "reported")]
    image: Option<String>,
    /// The UDP port they answer at, also on hosts
    #[arg(long, value_name = "PORT", default_value_t = 9645, conflicts_with = "reported")]
    port: u16,
    /// How long they may take to start, and then to measure
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time::read, conflicts_with = "reported")]
    patience: Duration,
}

impl PathsArgs {
    /// Whether they are measured at all.
    pub(super) fn wanted(&self) -> bool {
        !self.reported
    }
}

/// Measures every kind of path between these nodes, where every node holds `pods`. However it ends, nothing of it is left
/// in the cluster.
pub(super) async fn measure(
    client: &Client,
    operator: &str,
    nodes: Vec<NodeName>,
    pods: Mtu,
    args: &PathsArgs,
) -> Result<Vec<Measured>, Failure> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let image = match &args.image {
        Some(image) => image.clone(),
        None => image(client, operator).await?,
    };
    let id = Uuid::new_v4();
    let setting = Setting {
        namespace: format!("netferry-verify-{}", &id.simple().to_string()[..8]),
        image,
        port: args.port,
        token: *Uuid::new_v4().as_bytes(),
        lifetime: args.patience.saturating_mul(2).saturating_add(SPARE),
    };
    let run = Run { client: client.clone(), setting, nodes, patience: args.patience };
    let mut told_to_end = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    run.remove_old().await?;
    let measured = tokio::select! {
        measured = run.measure(pods, &args.outside) => measured,
        _ = tokio::signal::ctrl_c() => Err(Failure::Failed(anyhow!("interrupted"))),
        _ = told_to_end.recv() => Err(Failure::Failed(anyhow!("told to end"))),
    };
    let removed = run.remove(&run.setting.namespace).await;
    let measured = measured?;
    removed?;
    Ok(measured)
}

/// The image that agents run.
async fn image(client: &Client, operator: &str) -> Result<String, Failure> {
    let api = Api::<DaemonSet>::namespaced(client.clone(), operator);
    let agents =
        answer(&format!("reading DaemonSet {operator}/netferry-agent"), api.get_opt("netferry-agent"))
            .await?;
    let image = agents.and_then(|set| set.spec?.template.spec?.containers.into_iter().next()?.image);
    Ok(image.unwrap_or_else(|| IMAGE.to_owned()))
}

struct Run {
    client: Client,
    setting: Setting,
    nodes: Vec<NodeName>,
    patience: Duration,
}

impl Run {
    async fn measure(&self, pods: Mtu, outside: &[IpAddr]) -> Result<Vec<Measured>, Failure> {
        let namespace = &self.setting.namespace;
        self.make::<Namespace>(self.setting.namespace(Timestamp::now())).await?;
        for (site, node) in self.nodes.iter().enumerate() {
            self.make::<Service>(self.setting.service(site)).await?;
            for role in [Role::PodAnswers, Role::HostAnswers] {
                self.make::<Pod>(self.setting.answers(role, site, node)).await?;
            }
        }
        let sites = self.sites().await?;
        let asks = asks(&sites, self.setting.port, outside, pods);
        let mut written = BTreeMap::new();
        let mut asking = Vec::new();
        for (site, node) in self.nodes.iter().enumerate() {
            for (role, asker) in [(Role::PodAsks, Asker::Pod), (Role::HostAsks, Asker::Host)] {
                let numbered = asks.iter().zip(0_u32..);
                let own = numbered.filter(|(ask, _)| ask.from == *node && ask.asker == asker);
                let questions: Vec<Question> = own.map(|(ask, number)| Question::of(number, ask)).collect();
                if !questions.is_empty() {
                    self.make::<Pod>(self.setting.asks(role, site, node, &questions)).await?;
                    asking.push(role.name(site));
                }
            }
        }
        for (pod, words) in self.last_words(&asking).await? {
            let all: Vec<Written> = serde_json::from_str(&words)
                .with_context(|| format!("reading what pod {namespace}/{pod} measured: {words:?}"))?;
            written.extend(all.into_iter().map(|one| (one.0, one)));
        }
        let leg = |(uses, passes)| Leg { uses, passes };
        let of = |(ask, number): (Ask, u32)| {
            let Written(_, there, back) =
                written.get(&number).copied().unwrap_or(Written(number, (0, 0), None));
            Measured { ask, there: leg(there), back: back.map(leg) }
        };
        Ok(asks.into_iter().zip(0_u32..).map(of).collect())
    }

    /// Waits until everybody answers who is to, and tells where.
    async fn sites(&self) -> Result<Vec<Site>, Failure> {
        let wanted: Vec<String> = (0..self.nodes.len())
            .flat_map(|site| [Role::PodAnswers.name(site), Role::HostAnswers.name(site)])
            .collect();
        let pods = self.wait("start", &wanted, started).await?;
        let api = Api::<Service>::namespaced(self.client.clone(), &self.setting.namespace);
        let services = answer("listing the Services that measure", api.list(&ListParams::default())).await?;
        let sites = self.nodes.iter().enumerate().map(|(site, node)| {
            let at = |role: Role| pods.get(&role.name(site)).cloned().unwrap_or_default();
            let named = services.iter().find(|service| service.name_any() == service_name(site));
            let spec = named.and_then(|service| service.spec.as_ref());
            let ports = spec.and_then(|spec| spec.ports.as_ref());
            let port = ports.and_then(|ports| ports.first()?.node_port);
            Site {
                node: node.clone(),
                pod: at(Role::PodAnswers),
                host: at(Role::HostAnswers),
                service: spec
                    .and_then(|spec| spec.cluster_ips.as_ref())
                    .map(|ips| parsed(ips.iter()))
                    .unwrap_or_default(),
                node_port: port.and_then(|port| u16::try_from(port).ok()),
            }
        });
        Ok(sites.collect())
    }

    /// What these pods said when they were done.
    async fn last_words(&self, asking: &[String]) -> Result<BTreeMap<String, String>, Failure> {
        self.wait("measure", asking, ended).await
    }

    /// Waits until something is known of all of these pods; who is not that far is named.
    async fn wait<T>(
        &self,
        what: &str,
        wanted: &[String],
        known: impl Fn(&Pod) -> State<T>,
    ) -> Result<BTreeMap<String, T>, Failure> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &self.setting.namespace);
        let (began, mut line) = (Instant::now(), Line::new());
        loop {
            let pods = answer("listing the pods that measure", api.list(&ListParams::default())).await?;
            let (mut done, mut waits) = (BTreeMap::new(), Vec::new());
            for name in wanted {
                let pod = pods.iter().find(|pod| pod.name_any() == *name);
                match pod.map_or(State::Waits("it is gone".to_owned()), &known) {
                    State::Known(value) => drop(done.insert(name.clone(), value)),
                    State::Waits(why) => waits.push((pod, why)),
                    State::Failed(why) => {
                        line.clear();
                        return Err(Failure::Failed(anyhow!("pod {} {why}", self.described(name, pod))));
                    }
                }
            }
            if waits.is_empty() {
                line.clear();
                return Ok(done);
            }
            if began.elapsed() >= self.patience {
                line.clear();
                let all: Vec<String> = waits
                    .iter()
                    .take(5)
                    .map(|(pod, why)| format!("{} ({why})", self.described("?", *pod)))
                    .collect();
                return Err(Failure::TimedOut(anyhow!(
                    "{} of {} pods did not {what} within {} s: {}; see kubectl describe, or wait longer with --patience",
                    waits.len(),
                    wanted.len(),
                    self.patience.as_secs(),
                    all.join(", ")
                )));
            }
            let said = format!("waiting for pods to {what}: {} of {}", done.len(), wanted.len());
            line.show_since(&said, began.elapsed().as_secs_f64());
            sleep(LOOK).await;
        }
    }

    fn described(&self, name: &str, pod: Option<&Pod>) -> String {
        let node = pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone());
        let name = pod.map_or_else(|| name.to_owned(), ResourceExt::name_any);
        let on = node.map(|node| format!(" on {node}")).unwrap_or_default();
        format!("{}/{name}{on}", self.setting.namespace)
    }

    /// Makes an object. Until its namespace has a service account a real API server lets no pod in.
    async fn make<K: kube::Resource<DynamicType = ()>>(&self, object: Value) -> Result<(), Failure> {
        let (client, kind) = (self.client.clone(), ApiResource::erase::<K>(&()));
        let object: DynamicObject = serde_json::from_value(object).context("writing an object down")?;
        let api = match &object.metadata.namespace {
            None => Api::all_with(client, &kind),
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        };
        let attempt = format!("making {} {}", kind.kind, object.name_any());
        let began = Instant::now();
        loop {
            let made = async {
                match api.create(&PostParams::default(), &object).await {
                    Err(kube::Error::Api(status))
                        if status.code == 403 && began.elapsed() < ACCOUNT && kind.kind == "Pod" =>
                    {
                        Ok(false)
                    }
                    done => done.map(|_| true),
                }
            };
            if answer(&attempt, made).await? {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// Removes what runs have left that nobody ended in time: they were killed.
    async fn remove_old(&self) -> Result<(), Failure> {
        let api = Api::<Namespace>::all(self.client.clone());
        let ours = ListParams::default().labels(LABEL);
        for left in answer("listing namespaces of earlier measurements", api.list(&ours)).await? {
            let end = left.annotations().get(END).and_then(|end| end.parse().ok());
            let made = left.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
            let over = made.is_some_and(|made| is_over(end, made, Timestamp::now().as_second()));
            if over && left.metadata.deletion_timestamp.is_none() {
                self.remove(&left.name_any()).await?;
            }
        }
        Ok(())
    }

    /// Removes a namespace and waits until it is gone: the next measurement answers at the same port of hosts.
    async fn remove(&self, namespace: &str) -> Result<(), Failure> {
        let api = Api::<Namespace>::all(self.client.clone());
        let (began, mut line) = (Instant::now(), Line::new());
        let attempt = format!("removing namespace {namespace}");
        let removed = async {
            match api.delete(namespace, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
                done => done.map(|_| false),
            }
        };
        let mut is_gone = answer(&attempt, removed).await?;
        while !is_gone {
            if began.elapsed() >= REMOVAL {
                line.clear();
                return Err(Failure::TimedOut(anyhow!(
                    "namespace {namespace} is still being removed after {} s; its pods end by themselves",
                    REMOVAL.as_secs()
                )));
            }
            line.show_since(
                &format!("waiting for namespace {namespace} to be gone"),
                began.elapsed().as_secs_f64(),
            );
            sleep(LOOK).await;
            let there = async { api.get_opt(namespace).await.map(|found| found.is_none()) };
            is_gone = answer(&attempt, there).await?;
        }
        line.clear();
        Ok(())
    }
}

/// What is known of a pod.
enum State<T> {
    Known(T),
    Waits(String),
    Failed(String),
}

/// Where a pod answers.
fn started(pod: &Pod) -> State<Vec<IpAddr>> {
    let status = pod.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let addresses = parsed(status.pod_ips.iter().flatten().map(|one| &one.ip));
    match status.phase.as_deref() {
        Some("Failed" | "Succeeded") => {
            State::Failed(format!("ended at once: {}", message(pod).unwrap_or_default()))
        }
        _ if ready && !addresses.is_empty() => State::Known(addresses),
        _ => State::Waits(reason(pod)),
    }
}

/// What a pod said at its end.
fn ended(pod: &Pod) -> State<String> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match (phase, message(pod)) {
        (Some("Succeeded"), Some(words)) => State::Known(words),
        (Some("Succeeded"), None) => State::Failed("measured and did not say what".to_owned()),
        (Some("Failed"), words) => State::Failed(format!("failed: {}", words.unwrap_or_else(|| reason(pod)))),
        _ => State::Waits(reason(pod)),
    }
}

fn message(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let ended = statuses.first()?.state.as_ref()?.terminated.as_ref()?;
    ended.message.clone().filter(|words| !words.is_empty())
}

/// Why a pod is not further.
fn reason(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let container = status.container_statuses.as_ref().and_then(|all| all.first()?.state.clone());
    let waiting = container.as_ref().and_then(|state| state.waiting.as_ref());
    let said = waiting.and_then(|waiting| waiting.message.clone().or_else(|| waiting.reason.clone()));
    let said = said.or(status.message).or(status.phase);
    said.unwrap_or_else(|| "its node has not taken it".to_owned())
}

fn parsed<'a>(addresses: impl Iterator<Item = &'a String>) -> Vec<IpAddr> {
    addresses.filter_map(|address| address.parse().ok()).collect()
}
