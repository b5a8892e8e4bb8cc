//! Whether this node serves pods, and at which sizes: asked once at every boot.
//!
//! A node that goes with the rest of the cluster serves at once. One that does not, because it is new or was away while
//! the cluster moved on, says that it waits, and is told its configuration; see `docs/adr/0009`. What is decided here is
//! written into this boot's record and stays until the next boot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Client, ResourceExt};
use netferry_api::annotation::Annotation as _;
use netferry_api::mtu::annotations::MtuWaits;
use netferry_core::mtu::admit::{Admit, Arrival, admit, admit_alone, admit_unsized};
use netferry_core::mtu::boot::{Booted, quiet};
use netferry_core::mtu::file;
use netferry_core::mtu::record::Record;
use netferry_core::mtu::{Envelope, Mtu};
use netferry_core::overlay::topology::Mode;
use netferry_translate::machine::{NotAMachine, machine};
use netferry_translate::mtu::{self as translate, APPLIED, RECORD};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use crate::boot::Running;
use crate::cluster::{Patience, Written};
use crate::facts::publish::MANAGER;
use crate::kept;
use crate::machine::disk::{Disk, DiskError};

/// What is remembered, in our data directory.
const FILE: &str = "served.json";
/// How long the API may take to answer before the node goes by what it last knew.
const ANSWERS: Duration = Duration::from_secs(10);
/// Between attempts: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// As whom this node served last, and what was applied then.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Served {
    /// The identity of the node's object.
    uid: String,
    /// What was applied, as the operator writes it.
    record: Option<String>,
}

impl Served {
    fn read(data: &Path) -> Served {
        kept::read(data, FILE).ok().flatten().unwrap_or_default()
    }
}

/// What admission works with.
pub struct Door {
    /// The API.
    pub client: Client,
    /// The node.
    pub name: String,
    /// The operator's namespace.
    pub namespace: String,
    /// Our data directory.
    pub data: PathBuf,
    /// The host's files, of which the next boot reads its sizes.
    pub disk: Arc<Disk>,
    /// What this boot runs at.
    pub running: Running,
    /// The cluster's networks.
    pub networks: watch::Receiver<Option<Written>>,
}

/// Why nothing could be decided.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the API did not answer within {} s", ANSWERS.as_secs())]
    Silent,
    #[error("asking the API about {0}")]
    Api(&'static str, #[source] kube::Error),
    #[error(transparent)]
    Node(#[from] NotAMachine),
    #[error("ConfigMap {APPLIED} in namespace {namespace}, {RECORD}")]
    Record {
        namespace: String,
        #[source]
        source: translate::NotARecord,
    },
    #[error("reading what the next boot runs at")]
    Disk(#[source] DiskError),
    #[error("writing down what was decided")]
    Remember(#[source] io::Error),
}

impl Door {
    /// Decides whether to serve, and goes on remembering what is applied. `serve` hears of it once; it stays so until the
    /// next boot.
    pub async fn keep(mut self, serve: watch::Sender<Option<Envelope>>) {
        let mut pause = AGAIN.0;
        let network = loop {
            let trouble = match tokio::time::timeout(ANSWERS, self.decide()).await {
                Ok(Ok(Some(network))) => break network,
                Ok(Ok(None)) => None,
                Ok(Err(trouble)) => Some(trouble),
                Err(_) => Some(Trouble::Silent),
            };
            if let Some(trouble) = trouble {
                let error = &trouble as &dyn std::error::Error;
                tracing::warn!(error, "whether to serve pods was not decided");
                if let Some(network) = self.as_before() {
                    tracing::warn!(%network, "pods are served as the cluster was last known");
                    break network;
                }
            }
            // Nobody tells what the networks are when this fails, and that is found out again.
            let _ = tokio::time::timeout(pause, self.networks.changed()).await;
            pause = (pause * 2).min(AGAIN.1);
        };
        tracing::info!(%network, "pods are served at this size until the next boot");
        serve.send_replace(Some(network));
        self.follow().await;
    }

    /// Remembers what is applied, for a boot without the API.
    async fn follow(&self) {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let events = watch_object(api, APPLIED).backoff(Patience::default());
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let record = event.ok().flatten().and_then(|map| translate::applied(&map).ok());
            let uid = Served::read(&self.data).uid;
            if let (Some(record), false) = (record, uid.is_empty()) {
                self.remember(uid, Some(&record));
            }
        }
    }

    async fn decide(&mut self) -> Result<Option<Envelope>, Trouble> {
        let booted = self.running.get();
        // The order is the point: what is applied is read after the node's own object exists.
        let Some(node) = self.node().await? else {
            // It registers in a moment, or somebody removed it: pods that it served before are not cut off for that.
            let served = !Served::read(&self.data).uid.is_empty();
            return Ok(if served || booted.is_none() { self.as_before() } else { None });
        };
        // Before what is applied: a change is stored first, and published after that.
        let published = self.published();
        let record = self.record().await?;
        let newcomer = Served::read(&self.data).uid != node.uid().unwrap_or_default();
        let Some(booted) = booted else {
            return match admit_unsized(record.as_ref(), newcomer, published) {
                Ok(Some(network)) => self.serve(&node, None, network, record.as_ref()).await,
                Ok(None) => Ok(None),
                Err(why) => self.wait(&node, &why.to_string()).await.map(|()| None),
            };
        };
        let Some(record) = record else {
            // No operator that changes sizes.
            return match admit_alone(booted.network, None, published) {
                Some(network) => self.serve(&node, Some(booted), network, None).await,
                None => Ok(None),
            };
        };
        let known = machine(&node)?.node;
        let headers = self.headers(&node);
        let told = known.is_told_waiting();
        let text = self.disk.read(file::PATH).map_err(Trouble::Disk)?;
        let unstarted = !quiet(&booted, file::PATH, text.as_deref());
        match admit(&Arrival { booted: &booted, record: &record, headers, newcomer, told, unstarted }) {
            Admit::Serve(network) => self.serve(&node, Some(booted), network, Some(&record)).await,
            Admit::Wait(why) => self.wait(&node, &why.to_string()).await.map(|()| None),
        }
    }

    /// Takes back that it waits, in one write that fails if it was told anything meanwhile; then serves.
    async fn serve(
        &self,
        node: &Node,
        booted: Option<Booted>,
        network: Envelope,
        record: Option<&Record>,
    ) -> Result<Option<Envelope>, Trouble> {
        if said(node).is_some() {
            let patch = json!({"metadata": {
                "resourceVersion": node.metadata.resource_version, "annotations": {MtuWaits::KEY: null},
            }});
            match self.patch(&patch).await {
                Err(Trouble::Api(_, kube::Error::Api(status))) if status.code == 409 => return Ok(None),
                done => done?,
            }
        }
        if let Some(booted) = booted {
            self.running.set(Booted { network: Some(network), ..booted }).map_err(Trouble::Remember)?;
        }
        self.remember(node.uid().unwrap_or_default(), record);
        Ok(Some(network))
    }

    async fn wait(&self, node: &Node, why: &str) -> Result<(), Trouble> {
        if said(node) == Some(why) {
            return Ok(());
        }
        tracing::warn!(why, "no pods are served yet");
        match MtuWaits::new(why) {
            Some(waits) => {
                let (key, value) = waits.entry();
                self.patch(&json!({"metadata": {"annotations": {key: value}}})).await
            }
            None => Ok(()),
        }
    }

    /// What the node serves at without the API, by what was applied when it last knew.
    fn as_before(&self) -> Option<Envelope> {
        let known = Served::read(&self.data).record.map(|text| translate::record(&text)).transpose().ok()?;
        match self.running.get() {
            Some(booted) => admit_alone(booted.network, known.as_ref(), self.published()),
            None => admit_unsized(known.as_ref(), false, self.published()).ok().flatten(),
        }
    }

    fn remember(&self, uid: String, record: Option<&Record>) {
        let now = Served { uid, record: record.map(translate::printed_record) };
        if now != Served::read(&self.data)
            && let Err(error) = kept::write(&self.data, FILE, &now)
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "what is applied was not remembered");
        }
    }

    /// What is published as the pods' size.
    fn published(&self) -> Option<Envelope> {
        let basis = self.networks.borrow().as_ref().and_then(|written| written.basis().ok().flatten());
        basis.map(|basis| Envelope::settled(basis.mtu))
    }

    fn headers(&self, node: &Node) -> u32 {
        let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
        let inner = addresses.into_iter().flatten().filter(|address| address.type_ == "InternalIP");
        let encap = inner.filter_map(|address| address.address.parse().ok()).next();
        let encap = encap.unwrap_or(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
        let most = Mtu::new(Mtu::MAX).expect("the largest there is");
        let way_out = self.networks.borrow().as_ref().and_then(Written::way_out);
        let way_out = way_out.unwrap_or_else(|| Mode::default().topology().way_out);
        way_out.room(most, encap).map_or(0, |room| most.bytes() - room.bytes())
    }

    async fn node(&self) -> Result<Option<Node>, Trouble> {
        let nodes = Api::<Node>::all(self.client.clone());
        nodes.get_opt(&self.name).await.map_err(|source| Trouble::Api("this node", source))
    }

    async fn record(&self) -> Result<Option<Record>, Trouble> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(APPLIED).await.map_err(|source| Trouble::Api("what is applied", source))?;
        let read = found.as_ref().map(translate::applied).transpose();
        read.map_err(|source| Trouble::Record { namespace: self.namespace.clone(), source })
    }

    async fn patch(&self, patch: &serde_json::Value) -> Result<(), Trouble> {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let nodes = Api::<Node>::all(self.client.clone());
        let written = nodes.patch_metadata(&self.name, &params, &Patch::Merge(patch)).await;
        written.map(drop).map_err(|source| Trouble::Api("this node", source))
    }
}

fn said(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(MtuWaits::KEY).map(String::as_str)
}
