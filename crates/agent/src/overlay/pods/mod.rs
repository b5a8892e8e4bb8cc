//! Pods: what the CNI plugin asks for is done here.
//!
//! An ADD finds the pod in the API, chooses its addresses, commits its port to the zone, makes the pair of links and
//! puts the host's end on the switch, all at once as far as one does not need the other, and answers when OVN says
//! that the port's flows are in the datapath. Whatever fails, what was made is taken away again.
//!
//! Nothing is remembered: an attachment is its row in the switch's database ([`record`]), which says whose it is, and
//! its link, which carries our mark. So a new agent continues where the last one died, and DEL needs no API.
//!
//! [`server`] is the socket, [`objects`] the API, [`port`] the switch, [`wire`] the kernel.

mod add;
mod annotations;
mod check;
pub mod conflist;
mod del;
mod hooks;
pub mod links;
mod locks;
mod metrics;
pub mod objects;
pub mod port;
pub mod ready;
pub mod record;
mod repair;
mod reserve;
pub mod server;
pub mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use netferry_cni::{Answer, Ask, CniError, CniResult, Code, Spent};
use netferry_core::error::chain;
use netferry_core::name::ObjectName;
use netferry_core::overlay::cluster::{Node, Pod};
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::topology::Topology;
use netferry_core::overlay::zone::{Datapath, Zone};
use netferry_core::size::Mtu;
use netferry_kernel::Kernel;
use netferry_ovs::Client;
use tokio::sync::watch;

pub(crate) use add::blocking;
pub use hooks::{HookError, PodHooks};
use locks::Locks;
pub use metrics::Metrics;
use objects::PodObjects;
use reserve::Reservations;

/// What attaching a pod asks of the zone.
pub trait PodPorts: Send + Sync + 'static {
    /// Commits the pod's port and everything policies say of it, in one transaction; returns when the northbound
    /// database has it.
    fn put(&self, pod: Pod) -> BoxFuture<'_, Result<(), ZoneUnavailable>>;

    /// Withdraws it, if it is still this UID's.
    fn remove(&self, pod: ObjectName, uid: String) -> BoxFuture<'_, Result<(), ZoneUnavailable>>;
}

/// The zone cannot take or withdraw a port now.
#[derive(Debug, thiserror::Error)]
#[error("the zone is not available")]
pub struct ZoneUnavailable(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The node's place in the overlay, as far as its pods need it.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// The cluster's ranges.
    pub networks: Networks,
    /// What a zone is made of.
    pub topology: Topology,
    /// The node.
    pub node: Node,
    /// The largest packet a pod's link carries.
    pub mtu: Mtu,
    /// The largest packet a pod sends, where it is less.
    pub sends: Option<Mtu>,
    /// Who moves the packets.
    pub datapath: Datapath,
}

impl Place {
    fn zone(&self) -> Zone<'_> {
        Zone { networks: &self.networks, topology: &self.topology, node: &self.node, mtu: self.mtu }
    }
}

/// Whether pods can be attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// They can.
    Ready,
    /// They cannot; those that are attached are well.
    NotReady(String),
    /// They cannot, and those that are attached may be cut off.
    Limited(String),
}

/// How pods are attached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where OVN's daemons have their control sockets; read only to say which of them is missing.
    pub ovn_run: PathBuf,
    /// Where the switch has its control socket; read for STATUS only, and not at all where it is not said.
    pub ovs_run: Option<PathBuf>,
    /// How long the API may take to show a pod that the runtime already starts.
    pub pod_limit: Duration,
    /// How long the zone may take to commit a port.
    pub zone_limit: Duration,
    /// How long OVN may take to have a port in the datapath.
    pub installed_limit: Duration,
}

impl Default for Settings {
    /// Together less than [`netferry_cni::protocol::REQUEST_LIMIT`], so that the error that names the cause arrives
    /// before the one that only says it took too long.
    fn default() -> Settings {
        Settings {
            ovn_run: PathBuf::from("/run/ovn"),
            ovs_run: None,
            pod_limit: Duration::from_secs(10),
            zone_limit: Duration::from_secs(10),
            installed_limit: Duration::from_secs(30),
        }
    }
}

/// What pods are attached with; cheap to clone.
#[derive(Clone)]
pub struct Pods(Arc<Inner>);

struct Inner {
    settings: Settings,
    kernel: Arc<Kernel>,
    switch: Client,
    southbound: Option<Client>,
    ports: Arc<dyn PodPorts>,
    objects: Arc<dyn PodObjects>,
    place: watch::Receiver<Option<Arc<Place>>>,
    readiness: watch::Receiver<Readiness>,
    hooks: PodHooks,
    metrics: Metrics,
    locks: Locks,
    reservations: Arc<Reservations>,
    /// Links whose ports we are taking off the switch: the one disappearance that is not to be repaired.
    leaving: Locks,
}

/// Everything around [`Pods`].
pub struct Parts {
    /// See [`Settings`].
    pub settings: Settings,
    /// The host's kernel.
    pub kernel: Arc<Kernel>,
    /// The local switch's database: bridges, ports, interfaces.
    pub switch: Client,
    /// The zone's southbound database: port bindings. Only to say what is missing when a port does not come up.
    pub southbound: Option<Client>,
    /// The zone.
    pub ports: Arc<dyn PodPorts>,
    /// The API.
    pub objects: Arc<dyn PodObjects>,
    /// The node's place; none while it has none.
    pub place: watch::Receiver<Option<Arc<Place>>>,
    /// What STATUS answers.
    pub readiness: watch::Receiver<Readiness>,
    /// What must be done for a pod before ADD answers.
    pub hooks: PodHooks,
    /// What is measured.
    pub metrics: Metrics,
}

impl Pods {
    /// Pods can be attached from now on, by whoever asks through [`Pods::answer`].
    pub fn new(parts: Parts) -> Pods {
        let Parts { settings, kernel, switch, southbound, ports, objects, place, readiness, hooks, metrics } =
            parts;
        Pods(Arc::new(Inner {
            settings,
            kernel,
            switch,
            southbound,
            ports,
            objects,
            place,
            readiness,
            hooks,
            metrics,
            locks: Locks::default(),
            reservations: Arc::default(),
            leaving: Locks::default(),
        }))
    }

    /// Answers one question, however long it takes. Questions about one container, and about one pod, wait for each
    /// other; all others do not.
    pub async fn answer(&self, ask: Ask) -> Answer {
        let started = Instant::now();
        let mut spent = Spent::default();
        let measured = Metrics::begin(&ask);
        let (result, error) = match self.answered(ask, &mut spent).await {
            Ok(result) => (result, None),
            Err(error) => (None, Some(error)),
        };
        let took = started.elapsed();
        spent.total_us = micros(took);
        self.0.metrics.end(measured, took, error.is_none());
        Answer { result, error, spent }
    }

    async fn answered(&self, ask: Ask, spent: &mut Spent) -> Result<Option<CniResult>, CniError> {
        match ask {
            Ask::Add { attachment, network, netns, pod } => {
                self.add(add::Wanted { attachment, network, netns, pod }, spent).await.map(Some)
            }
            Ask::Del { attachment, network: _ } => self.del(&attachment).await.map(|()| None),
            Ask::Check { attachment, network: _, netns, previous } => {
                self.check(&attachment, &netns, &previous).await.map(|()| None)
            }
            Ask::Status => self.status().await.map(|()| None),
            Ask::Gc { network, valid } => self.gc(&network, &valid).await.map(|()| None),
        }
    }

    async fn status(&self) -> Result<(), CniError> {
        if let Some(run) = &self.0.settings.ovs_run
            && !ready::is_switching(run).await
        {
            let text = "ovs-vswitchd is not running: no packet of any pod moves";
            return Err(CniError::new(Code::LimitedConnectivity, text));
        }
        match &*self.0.readiness.borrow() {
            Readiness::Ready => Ok(()),
            Readiness::NotReady(why) => Err(CniError::new(Code::NotAvailable, why.clone())),
            Readiness::Limited(why) => Err(CniError::new(Code::LimitedConnectivity, why.clone())),
        }
    }

    fn place(&self) -> Result<Arc<Place>, CniError> {
        self.0.place.borrow().clone().ok_or_else(|| {
            CniError::new(Code::TryAgain, "this node has no subnet for pods yet; is the operator running?")
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
