//! Whether this node serves pods, and at which sizes: asked at every boot, and again when its object in the API is another.
//!
//! A node that goes with the rest of the cluster serves at once. One that does not, because it is new or was away while
//! the cluster moved on, says that it waits, and is told its configuration; see `docs/adr/0009`. What is decided here is
//! written into this boot's record and stays until the next boot.
//!
//! Who removes a node's object takes the node out of a change: nobody waits for it any more. What it serves goes on, but
//! the object it registers as next is another node's, of which nothing that others need to reach its pods is said before
//! that one was let in ([`Door::keep`], `admitted`).

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
use netferry_api::rollout::Waits;
use netferry_core::mtu::SOURCE;
use netferry_core::mtu::admit::{Admit, Arrival, admit, admit_alone, admit_unsized};
use netferry_core::mtu::boot::{Booted, effect};
use netferry_core::mtu::file;
use netferry_core::mtu::record::Record;
use netferry_core::overlay::topology::Mode;
use netferry_core::rollout::effect::Effect;
use netferry_core::size::{Envelope, Mtu};
use netferry_translate::machine::{NotAMachine, machine};
use netferry_translate::mtu::{self as translate, APPLIED, RECORD};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use crate::cluster::Written;
use crate::kept;
use crate::machine::disk::{Disk, DiskError};
use crate::mtu::boot::Running;
use crate::node::gate::Verdict;
use crate::node::publisher::MANAGER;
use crate::pause::Patience;

/// What is remembered: in our data directory for later boots, and in our run directory for this one. A data directory that is
/// full must not make a node that serves a newcomer for its next agent: it would be restarted beside others that are away.
const FILE: &str = "served.json";
/// How long the API may take to answer before the node goes by what it last knew.
const ANSWERS: Duration = Duration::from_secs(10);
/// How soon what could not be remembered is written again.
const REMEMBERS: Duration = Duration::from_secs(30);
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
    fn read(directory: &Path) -> Option<Served> {
        kept::read(directory, FILE).ok().flatten()
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
    /// Our run directory, which does not outlive a boot.
    pub run: PathBuf,
    /// The host's files, of which the next boot reads its sizes.
    pub disk: Arc<Disk>,
    /// What this boot runs at.
    pub running: Running,
    /// The cluster's networks.
    pub networks: watch::Receiver<Option<Written>>,
    /// This node's object.
    pub own: watch::Receiver<Option<Node>>,
    /// Whether pods may start here, as far as their size is concerned.
    pub verdict: watch::Sender<Verdict>,
}

/// How a node was let in.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    /// What its pods run at.
    network: Envelope,
    /// As which object of the API; empty where that was never known.
    uid: String,
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
    /// Decides whether to serve, and goes on remembering what is applied.
    ///
    /// `serve` hears the size once; it stays so until the next boot. `admitted` hears as which object of the API the node was
    /// let in, and again when it was let in as another.
    pub async fn keep(
        mut self,
        serve: watch::Sender<Option<Envelope>>,
        admitted: watch::Sender<Option<String>>,
    ) {
        let mut served = false;
        loop {
            let Entry { network, uid } = self.let_in(served).await;
            if !served {
                tracing::info!(%network, "pods are served at this size until the next boot");
                self.verdict.send_replace(Verdict::Serve);
                serve.send_replace(Some(network));
                served = true;
            }
            admitted.send_replace(Some(uid.clone()));
            self.follow(&uid).await;
            tracing::warn!(
                node = self.name,
                "the node's object is another one: it is asked anew whether it goes with the cluster"
            );
        }
    }

    /// Asks until it may serve. One that serves already, as another object, goes on meanwhile: there is nothing to fall back
    /// to, and what it would be let in as is to be known.
    async fn let_in(&mut self, serves: bool) -> Entry {
        let mut pause = AGAIN.0;
        loop {
            let trouble = match tokio::time::timeout(ANSWERS, self.decide(serves)).await {
                Ok(Ok(Some(entry))) => return entry,
                Ok(Ok(None)) => None,
                Ok(Err(trouble)) => Some(trouble),
                Err(_) => Some(Trouble::Silent),
            };
            if let Some(trouble) = trouble {
                let error = &trouble as &dyn std::error::Error;
                tracing::warn!(error, "whether to serve pods was not decided");
                if let Some(entry) = self.as_before().filter(|_| !serves) {
                    tracing::warn!(network = %entry.network, "pods are served as the cluster was last known");
                    return entry;
                }
            }
            // Nobody tells what the networks are when this fails, and that is found out again.
            let _ = tokio::time::timeout(pause, self.networks.changed()).await;
            pause = (pause * 2).min(AGAIN.1);
        }
    }

    /// Remembers what is applied, for a boot without the API, until this node's object is another than the one that was let
    /// in.
    async fn follow(&mut self, uid: &str) {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let applied = watch_object(maps, APPLIED).backoff(Patience::default());
        pin_mut!(applied);
        let mut latest = None;
        loop {
            tokio::select! {
                Some(event) = applied.next() => {
                    let record = event.ok().flatten().and_then(|map| translate::applied(&map).ok());
                    latest = record.or(latest);
                }
                Ok(()) = self.own.changed() => {
                    let now = self.own.borrow_and_update().as_ref().and_then(Node::uid);
                    if now.is_some_and(|now| now != uid) {
                        return;
                    }
                }
                // What a full disk did not take is written when there is room.
                () = tokio::time::sleep(REMEMBERS) => {}
            }
            if let (Some(record), false) = (&latest, uid.is_empty()) {
                self.remember(uid, Some(record));
            }
        }
    }

    /// As whom this node served last: in this boot, or else before it.
    fn served(&self) -> Served {
        Served::read(&self.run).or_else(|| Served::read(&self.data)).unwrap_or_default()
    }

    async fn decide(&mut self, serves: bool) -> Result<Option<Entry>, Trouble> {
        let booted = self.running.get();
        // The order is the point: what is applied is read after the node's own object exists.
        let Some(node) = self.node().await? else {
            // It registers in a moment, or somebody removed it: pods that it served before are not cut off for that.
            let known = booted.is_none() || !self.served().uid.is_empty();
            return Ok(self.as_before().filter(|_| known && !serves));
        };
        // Before what is applied: a change is stored first, and published after that.
        let published = self.published();
        let record = self.record().await?;
        let newcomer = self.served().uid != node.uid().unwrap_or_default();
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
        let unstarted = effect(&booted, text.as_deref()) == Effect::Restart;
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
    ) -> Result<Option<Entry>, Trouble> {
        if said(node).is_some() {
            let patch = json!({"metadata": {
                "resourceVersion": node.metadata.resource_version, "annotations": {Waits::key(SOURCE): null},
            }});
            match self.patch(&patch).await {
                Err(Trouble::Api(_, kube::Error::Api(status))) if status.code == 409 => return Ok(None),
                done => done?,
            }
        }
        if let Some(booted) = booted {
            self.running.set(Booted { network: Some(network), ..booted }).map_err(Trouble::Remember)?;
        }
        let uid = node.uid().unwrap_or_default();
        self.remember(&uid, record);
        Ok(Some(Entry { network, uid }))
    }

    async fn wait(&self, node: &Node, why: &str) -> Result<(), Trouble> {
        self.verdict.send_if_modified(|verdict| {
            let waits =
                *verdict == Verdict::Undecided || matches!(verdict, Verdict::Wait(before) if before != why);
            if waits {
                *verdict = Verdict::Wait(why.to_owned());
            }
            waits
        });
        if said(node) == Some(why) {
            return Ok(());
        }
        tracing::warn!(why, "no pods are served yet");
        self.patch(&json!({"metadata": {"annotations": {Waits::key(SOURCE): why}}})).await
    }

    /// What the node serves at without the API, by what was applied when it last knew.
    fn as_before(&self) -> Option<Entry> {
        let Served { uid, record } = self.served();
        let known = record.map(|text| translate::record(&text)).transpose().ok()?;
        let network = match self.running.get() {
            Some(booted) => admit_alone(booted.network, known.as_ref(), self.published()),
            None => admit_unsized(known.as_ref(), false, self.published()).ok().flatten(),
        };
        network.map(|network| Entry { network, uid })
    }

    fn remember(&self, uid: &str, record: Option<&Record>) {
        let now = Served { uid: uid.to_owned(), record: record.map(translate::printed_record) };
        for directory in [&self.run, &self.data] {
            if Served::read(directory).as_ref() != Some(&now)
                && let Err(error) = kept::write(directory, FILE, &now)
            {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, directory = %directory.display(), "what is applied was not remembered");
            }
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
    node.metadata.annotations.as_ref()?.get(&Waits::key(SOURCE)).map(String::as_str)
}
