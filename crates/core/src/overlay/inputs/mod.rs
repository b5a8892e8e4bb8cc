//! The zone as a function of the cluster, followed one object at a time.
//!
//! What is heard of the cluster marks parts of the zone; [`Model::settle`] computes the marked parts anew and says
//! what that changes. However large the cluster, the work is that of the parts and the change that of the rows.
//! Pure: everything it knows was told, and a new one that is told the same is the same.

mod claim;
mod common;
mod distant;
mod hear;
mod local;
mod mark;
mod moved;
mod news;
mod place;
mod settle;

use std::collections::{BTreeMap, BTreeSet};

use crate::name::{NodeName, ObjectName};
use crate::overlay::allocate::Assignment;
use crate::overlay::cluster::{Cluster, EndpointSlice, Node};
use crate::overlay::host::HostPlan;
use crate::overlay::networks::Networks;
use crate::overlay::policy::PeerSet;
use crate::overlay::rows::{Change, Clash, RowName, Rows, Union};
use crate::overlay::service::{Forward, Led};
use crate::overlay::topology::Topology;
use crate::overlay::zone::{SwitchFacts, Zone};
use crate::size::Mtu;

use claim::Claim;
use common::Common;
use distant::DistantPods;
pub use distant::Refused;
pub use moved::Moved;
pub use news::{Kind, News};

pub use local::{Attached, LocalPods};

/// The namespace that stands for the hosts' own network, where an administrator made it.
const HOST_NAMESPACE: &str = "openshift-host-network";

/// A part of the zone: what one object is answered with. In the order they are computed in: policies say which sets of
/// peers there are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The node itself and its switch.
    Node,
    /// Another node.
    Peer(NodeName),
    /// A pod of this node.
    Pod(ObjectName),
    /// A Service.
    Service(ObjectName),
    /// A policy.
    Policy(ObjectName),
    /// What isolates the pods of a namespace.
    Namespace(String),
    /// A set of addresses policies refer to.
    PeerSet(PeerSet),
}

/// Why a part is not in the zone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeftOut {
    /// Another part wants something else of the same row.
    #[error(transparent)]
    Clash(#[from] Clash),
    /// Another node has what can be only one's.
    #[error("node {of} has {what} too")]
    Taken {
        /// What both have.
        what: String,
        /// Who keeps it.
        of: NodeName,
    },
}

/// What a policy refers to.
#[derive(Debug, Default)]
struct Refers {
    peers: BTreeSet<PeerSet>,
    follows_all_pods: bool,
}

/// What is new since the last time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settled {
    /// How the zone's rows change.
    pub change: Change,
    /// Whether what the host must have may be different.
    pub host: bool,
    /// The parts that are not in the zone, and why.
    pub left_out: BTreeMap<Part, LeftOut>,
    /// Pods of other nodes whose reported addresses are refused, and why.
    pub refused: BTreeMap<ObjectName, Refused>,
    /// Which backends datagrams go to now, and which they do not any more.
    pub moved: Moved,
}

/// The zone of one node.
#[derive(Debug)]
pub struct Model {
    me: NodeName,
    networks: Networks,
    topology: Topology,
    mtu: Mtu,
    sends: Option<Mtu>,
    switch: SwitchFacts,
    cluster: Cluster,
    /// Where the cluster says this node is, while it runs elsewhere.
    told: Option<Assignment>,
    common: Common,
    local: LocalPods,
    distant: DistantPods,
    claims: BTreeMap<Claim, BTreeSet<NodeName>>,
    services_of_slices: BTreeMap<ObjectName, ObjectName>,
    /// Of each Service, in the order of their names.
    slices: BTreeMap<ObjectName, Vec<(ObjectName, EndpointSlice)>>,
    refers: BTreeMap<ObjectName, Refers>,
    sets: BTreeMap<PeerSet, usize>,
    forwards: BTreeMap<ObjectName, Forward>,
    /// Where datagrams to each Service go. Few Services have any.
    led: BTreeMap<ObjectName, BTreeSet<Led>>,
    union: Union<Part>,
    dirty: BTreeSet<Part>,
    left_out: BTreeMap<Part, LeftOut>,
    host_changed: bool,
}

impl Model {
    /// The zone of a node of which nothing is known yet.
    pub fn new(me: NodeName, networks: Networks, topology: Topology, mtu: Mtu, switch: SwitchFacts) -> Model {
        Model {
            local: LocalPods::new(me.clone()),
            me,
            networks,
            topology,
            mtu,
            sends: None,
            switch,
            cluster: Cluster { host_namespace: Some(HOST_NAMESPACE.to_owned()), ..Cluster::default() },
            told: None,
            common: Common::default(),
            distant: DistantPods::default(),
            claims: BTreeMap::new(),
            services_of_slices: BTreeMap::new(),
            slices: BTreeMap::new(),
            refers: BTreeMap::new(),
            sets: BTreeMap::new(),
            forwards: BTreeMap::new(),
            led: BTreeMap::new(),
            union: Union::default(),
            dirty: BTreeSet::new(),
            left_out: BTreeMap::new(),
            host_changed: false,
        }
    }

    /// The same zone, whose host and pods send no more than this although their links carry more.
    #[must_use]
    pub fn sending(self, sends: Option<Mtu>) -> Model {
        Model { sends, ..self }
    }

    /// The most that its host and pods send, where it is less than their links carry.
    pub fn sends(&self) -> Option<Mtu> {
        self.sends
    }

    /// All rows of the zone, as of the last [`settle`](Model::settle). Computed anew.
    pub fn rows(&self) -> Rows {
        self.rows_in(|_| true)
    }

    /// Of those the ones whose part of the zone has rows in such tables, and perhaps others.
    pub fn rows_in(&self, table: impl Fn(&str) -> bool) -> Rows {
        self.rows_of_parts(self.union.parts_in(table))
    }

    /// Those of these rows that are in the zone. Computed anew.
    pub fn pick<'n>(&self, names: impl IntoIterator<Item = &'n RowName>) -> Rows {
        let names: Vec<&RowName> = names.into_iter().collect();
        let parts: BTreeSet<&Part> =
            names.iter().filter_map(|(table, key)| self.union.part_of(table, key)).collect();
        self.rows_of_parts(parts.into_iter()).pick(names)
    }

    /// Whether the zone has such a row.
    pub fn contains(&self, table: &str, key: &str) -> bool {
        self.union.contains(table, key)
    }

    /// The keys of the zone's rows in a table.
    pub fn keys(&self, table: &str) -> impl Iterator<Item = &str> {
        self.union.keys(table)
    }

    fn rows_of_parts<'p>(&self, parts: impl Iterator<Item = &'p Part>) -> Rows {
        let mut all = Rows::default();
        for rows in parts.filter_map(|part| self.said_of(part).ok()) {
            // What is in the union does not clash; what was heard since may, and is settled before it is written.
            let _ = all.join(rows.rows);
        }
        all
    }

    /// What is known of the cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The node itself, once it has a place.
    pub fn node(&self) -> Option<&Node> {
        self.cluster.nodes.get(&self.me)
    }

    /// What the switch is set up with.
    pub fn switch(&self) -> &SwitchFacts {
        &self.switch
    }

    /// The pods of this node, from all who know of them.
    pub fn local_pods(&self) -> &LocalPods {
        &self.local
    }

    /// The zone, once the node has a place.
    pub fn zone(&self) -> Option<Zone<'_>> {
        let node = self.node()?;
        Some(Zone { networks: &self.networks, topology: &self.topology, node, mtu: self.mtu })
    }

    /// What the host forwards to all Services.
    pub fn forward(&self) -> Forward {
        let mut all = Forward::default();
        self.forwards.values().cloned().for_each(|forward| all.join(forward));
        all
    }

    /// What the host must have to forward this, once the node has a place.
    pub fn host(&self, forward: Forward) -> Option<HostPlan> {
        self.zone().map(|zone| zone.host(self.sends, forward))
    }

    /// Packs what is known closely. Maps that grew one entry at a time are half empty.
    pub fn pack(&mut self) {
        fn pack<K: Ord, V>(map: &mut BTreeMap<K, V>) {
            *map = std::mem::take(map).into_iter().collect();
        }
        pack(&mut self.cluster.pods);
        pack(&mut self.cluster.services);
        pack(&mut self.services_of_slices);
        pack(&mut self.slices);
        self.union.pack();
    }
}

#[cfg(test)]
mod tests;
