//! A cluster whose MTU is changed: its API, its machines, and the administrator's edits.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::{MtuOnLoss, MtuUnattended};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork};
use netferry_api::rollout::annotations::{ROLE_LABEL, Taken};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::mtu::record::Record;
use netferry_core::size::Envelope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::chance::Chance;
use super::fleet::{CONTROL_PLANE, Fleet};
use super::machine::mtu;
use super::{Cluster, Line, network};

/// The pods' MTU before and after.
pub(crate) const PODS: (u32, u32) = (1400, 8900);
/// The hosts' MTU before and after.
pub(crate) const HOSTS: (u32, u32) = (1500, 9000);

/// How often is looked whether something came about, in virtual time: every look costs as much as a step of a machine.
const LOOK: Duration = Duration::from_secs(5);

/// How long everything may take to come to rest, in virtual time, however few machines there are.
const PATIENCE: Duration = Duration::from_secs(3600);
/// And for each machine: it may have to go forth, back and to its end, none beside another.
const EACH: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) fleet: Fleet,
    /// The machines' line to the API.
    pub(crate) line: Line,
    /// What machines' own pace comes from.
    chance: Chance,
    /// The hosts' MTU where nothing changed it.
    host: u32,
    /// The pods'.
    pods: u32,
}

impl Site {
    /// A cluster without operator and nodes, of which so many workers may be away at a time.
    pub(crate) async fn new(limit: usize, chance: Chance) -> Site {
        Site::at(limit, chance, PODS.0, HOSTS.0).await
    }

    /// The same, at these sizes.
    pub(crate) async fn at(limit: usize, chance: Chance, pods: u32, host: u32) -> Site {
        let cluster = Cluster::new().await;
        let mut spec = network(&[("10.128.0.0/12", 23)], &["10.96.0.0/16"]);
        spec["defaultNetwork"] = json!({ "type": "OVNKubernetes", "ovnKubernetesConfig": { "mtu": pods } });
        cluster.ask(spec).await;
        let line = Line::default();
        let fleet = Fleet::new(line.client(&cluster.server), limit);
        let site = Site { cluster, fleet, line, chance, host, pods };
        site.make_workers_pool(limit).await;
        site
    }

    /// The pool of the workers, of which several may be away; the other is left to the operator to make.
    async fn make_workers_pool(&self, limit: usize) {
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": { "name": "worker" },
            "spec": {
                "maxUnavailable": limit,
                "nodeSelector": { "matchExpressions": [{ "key": CONTROL_PLANE, "operator": "DoesNotExist" }] },
                "machineConfigSelector": { "matchLabels": { ROLE_LABEL: "worker" } },
            },
        });
        let pool = serde_json::from_value(pool).expect("a pool");
        self.pools().create(&PostParams::default(), &pool).await.expect("a pool");
    }

    pub(crate) async fn join(&mut self, name: &str, control: bool) {
        let chance = self.chance.branch();
        self.fleet.join(name, control, self.host, chance).await;
    }

    /// So many nodes join, up to three of them the control plane, and serve.
    pub(crate) async fn populate(&mut self, nodes: usize, control: usize) {
        for at in 0..nodes {
            self.join(&format!("n{at:03}"), at < control).await;
        }
        self.until("all serve", async |site| site.serve(site.pods).is_ok().then_some(())).await;
    }

    /// How long everything may take to come to rest, in virtual time.
    pub(crate) fn patience(&self) -> Duration {
        PATIENCE + EACH * u32::try_from(self.fleet.names().count()).expect("machines are few")
    }

    pub(crate) fn pools(&self) -> Api<MachineConfigPool> {
        Api::all(self.cluster.client.clone())
    }

    pub(crate) fn networks(&self) -> Api<OperatorNetwork> {
        Api::all(self.cluster.client.clone())
    }

    /// The administrator edits the operator's `Network`.
    pub(crate) async fn edit(&self, patch: Value) -> OperatorNetwork {
        let patch = Patch::Merge(patch);
        self.networks().patch("cluster", &PatchParams::default(), &patch).await.expect("an edit")
    }

    /// Somebody writes into what is published, by hand.
    pub(crate) async fn publish(&self, status: Value) {
        let api = Api::<ConfigNetwork>::all(self.cluster.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status("cluster", &PatchParams::default(), &patch).await.expect("a status");
    }

    /// The administrator annotates it.
    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) {
        self.edit(json!({ "metadata": { "annotations": { key: value } } })).await;
    }

    /// The annotations that say how far a change goes by itself, without the one that pauses it.
    pub(crate) async fn said_of_the_change(&self) -> Vec<String> {
        let network = self.cluster.network().await;
        let keys = [MtuUnattended::KEY, MtuOnLoss::KEY];
        network.annotations().keys().filter(|key| keys.contains(&key.as_str())).cloned().collect()
    }

    /// Asks for a change.
    pub(crate) async fn ask_change(&self, from: u32, to: u32, machine: u32) {
        let mtu = json!({ "network": { "from": from, "to": to }, "machine": { "to": machine } });
        self.edit(json!({ "spec": { "migration": { "mtu": mtu } } })).await;
    }

    /// The second edit.
    pub(crate) async fn finish(&self, mtu: u32) {
        let config = json!({ "ovnKubernetesConfig": { "mtu": mtu } });
        self.edit(json!({ "spec": { "migration": null, "defaultNetwork": config } })).await;
    }

    /// What is applied.
    pub(crate) async fn record(&self) -> Option<Record> {
        let api = Api::<ConfigMap>::namespaced(self.cluster.client.clone(), "netferry");
        let map = api.get_opt(netferry_translate::mtu::APPLIED).await.expect("an answer")?;
        Some(netferry_translate::mtu::applied(&map).expect("a record"))
    }

    /// Whether all machines serve pods at this size.
    ///
    /// # Errors
    /// The first that does not.
    pub(crate) fn serve(&self, size: u32) -> Result<(), String> {
        let serving = self.fleet.truth.with(|seen| seen.serving.clone());
        let wrong = self.fleet.names().find_map(|name| match serving.get(name) {
            Some((pods, _)) if *pods == Envelope::settled(mtu(size)) => None,
            other => Some(format!("{name} serves {other:?}, not {size}")),
        });
        wrong.map_or(Ok(()), Err)
    }

    /// The MTU everything has settled at.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) async fn settled(&self) -> Result<u32, String> {
        let record = self.record().await.ok_or("nothing is applied")?;
        let Record { mtu, change: None, .. } = record else { return Err(format!("{record:?}")) };
        self.serve(mtu.bytes())?;
        for node in self.cluster.nodes().list(&ListParams::default()).await.expect("a list").items {
            let machine = netferry_translate::machine::machine(&node).map_err(|wrong| wrong.to_string())?;
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

    /// Every object there is but Events and leases, by kind and name.
    pub(crate) async fn everything(&self) -> BTreeMap<String, Value> {
        async fn all<K>(client: &Client, into: &mut BTreeMap<String, Value>)
        where
            K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
        {
            for object in Api::<K>::all(client.clone()).list(&ListParams::default()).await.expect("a list") {
                let name = format!("{} {}", K::kind(&()), object.name_any());
                into.insert(name, serde_json::to_value(object).expect("an object is JSON"));
            }
        }
        let (client, mut found) = (&self.cluster.client, BTreeMap::new());
        all::<Node>(client, &mut found).await;
        all::<ConfigMap>(client, &mut found).await;
        all::<MachineConfig>(client, &mut found).await;
        all::<MachineConfigPool>(client, &mut found).await;
        all::<OperatorNetwork>(client, &mut found).await;
        // Of the same kind as the one before.
        let config = self.cluster.published().await.map(|config| json!(config));
        found.extend(config.map(|config| ("published".to_owned(), config)));
        found
    }

    /// What the change is held for, once it is held for this reason.
    pub(crate) async fn held(&self, reason: &str) -> String {
        let kind = MtuConditionType::Held.as_str();
        self.until(&format!("it is held: {reason}"), async |site| {
            let conditions = site.cluster.network().await.status?.conditions;
            let held = conditions.into_iter().find(|one| one.type_ == kind && one.status == "True")?;
            (held.reason.as_deref() == Some(reason)).then_some(held.message?)
        })
        .await
    }

    /// Waits for something, and that no promise is broken meanwhile.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn(&Site) -> Option<T>) -> T {
        let began = tokio::time::Instant::now();
        loop {
            self.fleet.lawful();
            if let Some(found) = look(self).await {
                return found;
            }
            if began.elapsed() > self.patience() {
                let (record, settled) = (self.record().await, self.settled().await);
                let status = self.cluster.network().await.status;
                panic!("never happened: {what}; last seen: {settled:?}; {record:?}; {status:#?}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
