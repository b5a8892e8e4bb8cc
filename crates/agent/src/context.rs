//! What every part of a running agent works with.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use netferry_core::overlay::zone::Datapath;
use netferry_core::probe::round::Peers;
use netferry_core::size::Envelope;
use netferry_kernel::{IfName, Kernel};
use tokio::sync::watch;

use crate::cluster::Written;
use crate::config::Config;
use crate::host_init::{BridgeSize, Record};
use crate::machine::Disk;
use crate::node::NodeFacts;
use crate::node::gate::Gate;
use crate::overlay::ovn::Stores;
use crate::overlay::pods::PodHooks;

/// What every part of a running agent works with: handles, and the values one part publishes for others.
pub struct Context {
    /// The agent's settings.
    pub config: Config,
    /// The API.
    pub client: kube::Client,
    /// The host's kernel.
    pub kernel: Arc<Kernel>,
    /// The node's databases.
    pub stores: Stores,
    /// Which datapath moves the packets.
    pub datapath: Datapath,
    /// The host's files.
    pub disk: Arc<Disk>,
    /// What host-init did at this boot, if it ran.
    pub host_init: Option<Record>,
    /// Who has a say in whether pods may start here.
    pub gate: Gate,
    /// What must be done for each pod before it starts.
    pub pod_hooks: PodHooks,
    /// This node's object in the API.
    pub own: watch::Receiver<Option<Node>>,
    /// The cluster's networks.
    pub networks: watch::Receiver<Option<Written>>,
    /// What is true of this node.
    pub facts: watch::Receiver<Option<NodeFacts>>,
    /// The nodes of the cluster as they probe each other.
    pub peers: watch::Sender<Peers>,
    /// The sizes pods are served at in this boot; `None` until that is decided.
    pub served: watch::Sender<Option<Envelope>>,
    /// The UID this node was admitted as.
    pub admitted: watch::Sender<Option<String>>,
    /// What the uplink's bridge is to carry.
    pub bridge_size: watch::Sender<BridgeSize>,
}

impl Context {
    /// The bridge that host-init made and its uplink, if it made one.
    pub fn bridge(&self) -> Option<(IfName, IfName)> {
        let bridge = self.host_init.as_ref()?.bridge.as_ref()?;
        IfName::new(bridge.name.clone()).ok().zip(IfName::new(bridge.uplink.clone()).ok())
    }
}
