//! A scenario with real packets.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::held::Held;
use super::load::Load;
use super::raise::MANAGER;
use super::scenario::{Answered, Line, Scenario, Step, Written};
use super::world::{Standing, Table};
use crate::error::LabError;

/// What went wrong while a scenario ran.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The API said no.
    #[error("{title:?}: {attempt}: {source}")]
    Api {
        /// Which scenario.
        title: String,
        /// What was tried.
        attempt: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A pod.
    #[error("{title:?}: {}", .source.chain())]
    Lab {
        /// Which scenario.
        title: String,
        /// Why.
        #[source]
        source: Box<LabError>,
    },
    /// The scenario says something that means nothing.
    #[error("{title:?}: {why}")]
    Unreadable {
        /// Which scenario.
        title: String,
        /// What is wrong.
        why: String,
    },
    /// A namespace.
    #[error("entering a namespace: {0}")]
    Enter(#[source] Box<netferry_kernel::Error>),
    /// Answers are not what they should be.
    #[error("{title:?}, step {step}: {} of {of} are wrong after {} s:\n  {}", .wrong.len(), .within.as_secs(), .wrong.join("\n  "))]
    Wrong {
        /// Which scenario.
        title: String,
        /// Which of its steps; what is true at first is step 0.
        step: usize,
        /// What, in words.
        wrong: Vec<String>,
        /// Of how many.
        of: usize,
        /// How long it was waited for.
        within: Duration,
    },
    /// Requests were lost.
    #[error("{title:?}: {lost} of {of} requests were lost:\n  {}", .told.join("\n  "))]
    Lost {
        /// Which scenario.
        title: String,
        /// How many.
        lost: u64,
        /// Of how many.
        of: u64,
        /// Of each client.
        told: Vec<String>,
    },
}

/// What a scenario that went well came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Client, address and protocol: so many different questions were asked and answered right.
    pub questions: usize,
    /// Requests that were sent while backends came and went. None was lost.
    pub requests: u64,
}

/// A scenario on its way.
pub(super) struct Run<'t, 'l> {
    pub(super) table: &'t Table<'l>,
    pub(super) scenario: &'t Scenario,
    pub(super) patience: Duration,
    pub(super) pods: BTreeMap<String, Standing>,
    pub(super) services: BTreeMap<String, Service>,
}

impl Table<'_> {
    /// Whether this cluster can show it.
    pub fn can(&self, scenario: &Scenario) -> bool {
        !scenario.dual || self.families.len() == 2
    }

    /// Runs scenarios, several at a time, in any order. Each tells by its title how it went.
    pub async fn run_all<'s>(
        &self,
        scenarios: &'s [Scenario],
        at_once: usize,
        patience: Duration,
    ) -> Vec<(&'s str, Result<Told, LiveError>)> {
        let runs = scenarios
            .iter()
            .filter(|scenario| self.can(scenario))
            .map(|scenario| async move { (scenario.title.as_str(), self.run(scenario, patience).await) });
        futures::stream::iter(runs).buffer_unordered(at_once.max(1)).collect().await
    }

    /// Runs a scenario and takes away what it made.
    pub async fn run(&self, scenario: &Scenario, patience: Duration) -> Result<Told, LiveError> {
        let (pods, services) = (BTreeMap::new(), BTreeMap::new());
        let mut run = Run { table: self, scenario, patience, pods, services };
        let told = run.play().await;
        let cleared = run.clear().await;
        let told = told?;
        cleared.map(|()| told)
    }
}

impl Run<'_, '_> {
    async fn play(&mut self) -> Result<Told, LiveError> {
        let scenario = self.scenario;
        let first =
            Step { start: scenario.pods.clone(), services: scenario.services.clone(), ..Step::default() };
        self.act(&first).await?;
        for (service, pods) in &scenario.slices {
            self.write_slices(service, pods).await?;
        }
        let mut told = Told { questions: self.compare(0, &scenario.asks).await?, requests: 0 };
        let held = self.lines(&scenario.held, Held::start)?;
        let load = self.lines(&scenario.load, Load::start)?;
        let held_from = Instant::now();
        // A scenario may begin with a conversation nobody answers yet.
        if !scenario.services.is_empty() {
            self.compare_held(0, &held, held_from, None).await?;
        }
        for (at, step) in scenario.steps.iter().enumerate() {
            let since = Instant::now();
            self.let_go(at + 1, &load, &step.kill).await?;
            self.act(step).await?;
            told.questions += self.compare(at + 1, &step.asks).await?;
            match &step.held {
                Some(Answered::By(names)) => self.compare_held(at + 1, &held, since, Some(names)).await?,
                Some(Answered::Not(_)) => self.compare_held(at + 1, &held, since, None).await?,
                None => {}
            }
        }
        told.requests = self.judge(load)?;
        Ok(told)
    }

    /// Everything of one kind that the scenario keeps up.
    fn lines<T>(
        &self,
        lines: &[Line],
        start: fn(&super::world::Asker, &super::world::Target) -> T,
    ) -> Result<Vec<T>, LiveError> {
        let unreadable = |why| self.unreadable(why);
        let mut all = Vec::new();
        for line in lines {
            let service = self.service(line.service.as_deref()).map_err(unreadable)?;
            for from in &line.from {
                for asker in self.table.askers(from, &self.pods).map_err(unreadable)? {
                    let targets = self.table.targets(&asker, &line.to, service, line.protocol, line.port);
                    all.extend(targets.map_err(unreadable)?.iter().map(|target| start(&asker, target)));
                }
            }
        }
        Ok(all)
    }

    async fn compare_held(
        &self,
        step: usize,
        held: &[Held],
        since: Instant,
        names: Option<&[String]>,
    ) -> Result<(), LiveError> {
        let wrong = || held.iter().filter_map(|one| one.wrong(since, names)).collect();
        self.until_right(step, held.len(), wrong).await
    }

    /// Waits until nobody is sent to backends any more that are about to go: they have left, but switches follow what
    /// they decided before for a moment longer, each client's own.
    async fn let_go(&self, step: usize, load: &[Load], leaving: &[String]) -> Result<(), LiveError> {
        self.until_right(step, load.len(), || load.iter().filter_map(|one| one.still_at(leaving)).collect())
            .await
    }

    async fn until_right(
        &self,
        step: usize,
        of: usize,
        wrong: impl Fn() -> Vec<String>,
    ) -> Result<(), LiveError> {
        let end = Instant::now() + self.patience;
        loop {
            let wrong = wrong();
            if wrong.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                let title = self.scenario.title.clone();
                return Err(LiveError::Wrong { title, step, wrong, of, within: self.patience });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn judge(&self, load: Vec<Load>) -> Result<u64, LiveError> {
        let (mut lost, mut of, mut told) = (0, 0, Vec::new());
        for (name, tally) in load.into_iter().map(Load::finish) {
            lost += tally.lost.values().sum::<u64>();
            of += tally.lost.values().chain(tally.answered.values()).sum::<u64>();
            told.push(format!("{name}: lost {:?}, answered {:?}", tally.lost, tally.answered));
        }
        if lost > 0 {
            return Err(LiveError::Lost { title: self.scenario.title.clone(), lost, of, told });
        }
        Ok(of)
    }

    pub(super) fn unreadable(&self, why: String) -> LiveError {
        LiveError::Unreadable { title: self.scenario.title.clone(), why }
    }

    fn api(&self, attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> LiveError {
        let (title, attempt) = (self.scenario.title.clone(), attempt.into());
        |source| LiveError::Api { title, attempt, source: Box::new(source) }
    }

    /// The Service that is meant; none if the scenario has none yet.
    pub(super) fn service(&self, name: Option<&str>) -> Result<Option<&Service>, String> {
        match name {
            Some(name) => {
                self.services.get(name).map(Some).ok_or_else(|| format!("there is no Service {name}"))
            }
            None if self.services.len() > 1 => Err("which of several Services?".to_owned()),
            None => Ok(self.services.values().next()),
        }
    }

    async fn act(&mut self, step: &Step) -> Result<(), LiveError> {
        let pods: Api<Pod> = Api::namespaced(self.table.client.clone(), &self.table.namespace);
        let services: Api<Service> = Api::namespaced(self.table.client.clone(), &self.table.namespace);
        for (name, written) in &step.services {
            self.make_service(name, written).await?;
        }
        for name in &step.unmake {
            services
                .delete(name, &DeleteParams::default())
                .await
                .map_err(self.api(format!("removing Service {name}")))?;
            self.services.remove(name);
        }
        if !step.start.is_empty() {
            let started = self.table.start(&step.start, self.patience).await;
            let title = || self.scenario.title.clone();
            let started =
                started.map_err(|source| LiveError::Lab { title: title(), source: Box::new(source) })?;
            self.pods.extend(started);
        }
        for name in &step.end {
            let done = pods.delete(name, &DeleteParams::default()).await;
            done.map_err(self.api(format!("ending pod {name}")))?;
        }
        for name in &step.kill {
            let done = pods.delete(name, &DeleteParams::default().grace_period(0)).await;
            done.map_err(self.api(format!("killing pod {name}")))?;
        }
        Ok(())
    }

    async fn make_service(&mut self, name: &str, written: &Written) -> Result<(), LiveError> {
        let api: Api<Service> = Api::namespaced(self.table.client.clone(), &self.table.namespace);
        let mut spec = written.spec.clone();
        self.fit(&mut spec);
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": self.table.namespace}, "spec": spec,
        });
        let made = api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await;
        let mut made = made.map_err(self.api(format!("making Service {name}")))?;
        if !written.balancer.is_empty() {
            let speaks = |ip: &&std::net::IpAddr| self.table.families.contains(&ip.is_ipv6());
            let ingress: Vec<Value> =
                written.balancer.iter().filter(speaks).map(|ip| json!({"ip": ip})).collect();
            let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
            let done = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await;
            made = done.map_err(self.api(format!("saying the addresses of Service {name}")))?;
        }
        self.services.insert(name.to_owned(), made);
        Ok(())
    }

    /// Leaves out addresses of families the cluster does not speak, and asks for all it speaks.
    fn fit(&self, spec: &mut Value) {
        let speaks = |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            self.table.families.contains(&text.contains(':'))
        };
        for list in ["externalIPs", "clusterIPs", "loadBalancerSourceRanges"] {
            if let Some(items) = spec[list].as_array_mut() {
                items.retain(speaks);
            }
        }
        if let Some(first) = spec["clusterIPs"].get(0).cloned() {
            spec["clusterIP"] = first;
        }
        if spec.get("ipFamilies").is_none() {
            spec["ipFamilyPolicy"] = "PreferDualStack".into();
        }
        if let Value::Object(fields) = spec {
            fields.retain(|_, value| !value.is_null());
        }
    }

    /// Slices of a Service nobody but us writes, in every family it has.
    async fn write_slices(&self, service: &str, pods: &[String]) -> Result<(), LiveError> {
        let api: Api<EndpointSlice> = Api::namespaced(self.table.client.clone(), &self.table.namespace);
        let made = self.services.get(service).and_then(|service| service.spec.as_ref());
        let ports: Vec<Value> = made
            .and_then(|spec| spec.ports.as_ref())
            .into_iter()
            .flatten()
            .map(|port| json!({"name": port.name, "protocol": port.protocol, "port": 8080}))
            .collect();
        for v6 in &self.table.families {
            let mut endpoints = Vec::new();
            for name in pods {
                let pod = self.pods.get(name).or_else(|| self.table.pods.get(name));
                let pod = pod.ok_or_else(|| self.unreadable(format!("there is no {name}")))?;
                let address = super::world::of_family(&pod.site.addresses, *v6);
                endpoints.push(json!({
                    "addresses": [address], "nodeName": self.table.nodes[pod.node].name,
                    "conditions": {"ready": true},
                }));
            }
            let name = format!("{service}-by-hand-{}", if *v6 { "v6" } else { "v4" });
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": name, "namespace": self.table.namespace,
                    "labels": {"kubernetes.io/service-name": service},
                },
                "addressType": if *v6 { "IPv6" } else { "IPv4" },
                "ports": ports,
                "endpoints": endpoints,
            });
            let done = api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&slice)).await;
            done.map_err(self.api(format!("writing slice {name}")))?;
        }
        Ok(())
    }

    /// Takes away what the scenario made, whatever has become of it.
    async fn clear(&mut self) -> Result<(), LiveError> {
        let pods: Api<Pod> = Api::namespaced(self.table.client.clone(), &self.table.namespace);
        let services: Api<Service> = Api::namespaced(self.table.client.clone(), &self.table.namespace);
        let slices: Api<EndpointSlice> = Api::namespaced(self.table.client.clone(), &self.table.namespace);
        let gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
        let starts = self.scenario.steps.iter().flat_map(|step| step.start.keys());
        for name in self.scenario.pods.keys().chain(starts) {
            match pods.delete(name, &DeleteParams::default().grace_period(0)).await {
                Err(error) if !gone(&error) => return Err(self.api(format!("removing pod {name}"))(error)),
                Ok(_) | Err(_) => {}
            }
        }
        for name in self.scenario.slices.keys() {
            for family in ["v4", "v6"] {
                let name = format!("{name}-by-hand-{family}");
                match slices.delete(&name, &DeleteParams::default()).await {
                    Err(error) if !gone(&error) => {
                        return Err(self.api(format!("removing slice {name}"))(error));
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        for name in self.services.keys() {
            match services.delete(name, &DeleteParams::default()).await {
                Err(error) if !gone(&error) => {
                    return Err(self.api(format!("removing Service {name}"))(error));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }
}
