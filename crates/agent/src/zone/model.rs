//! The zone as a function of the cluster, followed one object at a time.
//!
//! What is heard of the cluster marks parts of the zone; [`Model::settle`] computes the marked parts anew and says
//! what that changes. However large the cluster, the work is that of the parts and the change that of the rows.
//! Pure: everything it knows was told, and a new one that is told the same is the same.

mod claim;
mod common;
mod mark;
mod moved;
mod news;

use std::collections::{BTreeMap, BTreeSet};

use netferry_core::mtu::Mtu;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::overlay::cluster::{Cluster, EndpointSlice, Node, Pod};
use netferry_core::overlay::host::HostPlan;
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::policy::PeerSet;
use netferry_core::overlay::rows::{Change, Clash, RowName, Rows, Union};
use netferry_core::overlay::service::{Forward, Led, datagrams_led};
use netferry_core::overlay::topology::Topology;
use netferry_core::overlay::zone::{SwitchFacts, Zone};

use claim::Claim;
use common::Common;
pub use moved::Moved;
pub use news::{Kind, News};

use super::local::LocalPods;

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

/// What there is to say of a part.
#[derive(Debug, Default)]
struct Said {
    rows: Rows,
    /// Of a Service: what the host forwards to it.
    forward: Option<Forward>,
    /// Of a policy.
    refers: Refers,
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
    common: Common,
    local: LocalPods,
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
    pub fn new(me: NodeName, networks: Networks, mtu: Mtu, switch: SwitchFacts) -> Model {
        Model {
            local: LocalPods::new(me.clone()),
            me,
            networks,
            topology: Topology::multi_node(),
            mtu,
            sends: None,
            switch,
            cluster: Cluster { host_namespace: Some(HOST_NAMESPACE.to_owned()), ..Cluster::default() },
            common: Common::default(),
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

    /// Takes in whether the switch has flows of an earlier controller.
    pub fn hear_flows(&mut self, has_flows: bool) {
        if std::mem::replace(&mut self.switch.has_flows, has_flows) != has_flows {
            self.dirty.insert(Part::Node);
        }
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

    /// Takes in one thing.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Node(node) => self.hear_node(node),
            // Whoever asks about this node's own end is told by its agent ending.
            News::NodeGone(name) if name == self.me => {}
            News::NodeGone(name) => {
                if let Some(node) = self.cluster.nodes.remove(&name) {
                    self.release(&node);
                    self.dirty.insert(Part::Peer(name));
                    self.mark_sets_of_hosts();
                }
            }
            News::Namespace(name, labels) => {
                let before = self.cluster.namespaces.insert(name.clone(), labels.clone());
                if before.as_ref() != Some(&labels) {
                    self.mark_namespace(&name);
                }
            }
            News::NamespaceGone(name) => {
                if self.cluster.namespaces.remove(&name).is_some() {
                    self.mark_namespace(&name);
                }
            }
            News::Pod(mut pod) => {
                self.common.in_pod(&mut pod);
                let name = pod.name.clone();
                if pod.node == self.me {
                    self.local.api_says(&name, Some(pod));
                    self.set_pod(&name, self.local.pod(&name));
                } else {
                    // A pod of that name here can only be ending.
                    self.local.api_says(&name, None);
                    // Nobody asks which of several pods of a name another node has, and there are many.
                    self.set_pod(&name, Some(Pod { uid: String::new(), ..pod }));
                }
            }
            News::PodGone(name) => {
                self.local.api_says(&name, None);
                self.set_pod(&name, self.local.pod(&name));
            }
            News::Service(mut service) => {
                self.common.namespaces.share(&mut service.name.namespace);
                service.ports.shrink_to_fit();
                let name = service.name.clone();
                let before = self.cluster.services.insert(name.clone(), service);
                if before.as_ref() != self.cluster.services.get(&name) {
                    self.dirty.insert(Part::Service(name));
                }
            }
            News::ServiceGone(name) => {
                if self.cluster.services.remove(&name).is_some() {
                    self.dirty.insert(Part::Service(name));
                }
            }
            News::Slice(name, service, slice) => self.hear_slice(name, Some((service, slice))),
            News::SliceGone(name) => self.hear_slice(name, None),
            News::Policy(policy) => {
                let name = policy.name.clone();
                let before = self.cluster.policies.insert(name.clone(), policy);
                if before.as_ref() != self.cluster.policies.get(&name) {
                    self.mark_policy(name);
                }
            }
            News::PolicyGone(name) => {
                if self.cluster.policies.remove(&name).is_some() {
                    self.mark_policy(name);
                }
            }
        }
    }

    /// Of a kind there are only those `there` says; nodes and namespaces are in no namespace.
    pub fn retain(&mut self, kind: Kind, there: impl Fn(&ObjectName) -> bool) {
        fn gone<'n>(
            names: impl Iterator<Item = &'n ObjectName>,
            there: impl Fn(&ObjectName) -> bool,
            news: fn(ObjectName) -> News,
        ) -> Vec<News> {
            names.filter(|name| !there(name)).cloned().map(news).collect()
        }
        let cluster = &self.cluster;
        let news = match kind {
            Kind::Node => {
                let gone = cluster.nodes.keys().filter(|name| !there(&ObjectName::new("", name.as_str())));
                gone.cloned().map(News::NodeGone).collect()
            }
            Kind::Namespace => {
                let gone =
                    cluster.namespaces.keys().filter(|name| !there(&ObjectName::new("", name.as_str())));
                gone.cloned().map(News::NamespaceGone).collect()
            }
            Kind::Pod => gone(cluster.pods.keys().chain(self.local.from_api()), there, News::PodGone),
            Kind::Service => gone(cluster.services.keys(), there, News::ServiceGone),
            Kind::Slice => gone(self.services_of_slices.keys(), there, News::SliceGone),
            Kind::Policy => gone(cluster.policies.keys(), there, News::PolicyGone),
        };
        news.into_iter().for_each(|one| self.hear(one));
    }

    fn hear_node(&mut self, node: Node) {
        let name = node.name.clone();
        let before = self.cluster.nodes.insert(name.clone(), node.clone());
        if before.as_ref() == Some(&node) {
            return;
        }
        if let Some(before) = before {
            self.release(&before);
        }
        for claim in Claim::of(&node) {
            let others = self.claims.entry(claim).or_default();
            self.dirty.extend(others.iter().cloned().map(Part::Peer));
            others.insert(name.clone());
        }
        if name == self.me {
            self.mark_everything();
        } else {
            self.dirty.insert(Part::Peer(name));
        }
        self.mark_sets_of_hosts();
    }

    fn release(&mut self, node: &Node) {
        for claim in Claim::of(node) {
            let Some(others) = self.claims.get_mut(&claim) else { continue };
            others.remove(&node.name);
            self.dirty.extend(others.iter().cloned().map(Part::Peer));
            if others.is_empty() {
                self.claims.remove(&claim);
            }
        }
    }

    fn hear_slice(&mut self, mut name: ObjectName, mut said: Option<(ObjectName, EndpointSlice)>) {
        self.common.namespaces.share(&mut name.namespace);
        if let Some((service, slice)) = &mut said {
            if let Some((known, _)) = self.cluster.services.get_key_value(service) {
                *service = known.clone();
            }
            self.common.in_slice(slice);
        }
        let service = said.as_ref().map(|(service, _)| service.clone());
        let before = match &service {
            Some(service) => self.services_of_slices.insert(name.clone(), service.clone()),
            None => self.services_of_slices.remove(&name),
        };
        if let Some(before) = before.filter(|before| service.as_ref() != Some(before))
            && let Some(slices) = self.slices.get_mut(&before)
        {
            slices.retain(|(known, _)| *known != name);
            if slices.is_empty() {
                self.slices.remove(&before);
            }
            self.dirty.insert(Part::Service(before));
        }
        if let Some((service, slice)) = said {
            let slices = self.slices.entry(service.clone()).or_default();
            match slices.binary_search_by(|(known, _)| known.cmp(&name)) {
                Ok(at) if slices[at].1 == slice => return,
                Ok(at) => slices[at].1 = slice,
                Err(at) => {
                    // Most Services have one for ever.
                    slices.reserve_exact(1);
                    slices.insert(at, (name, slice));
                }
            }
            self.dirty.insert(Part::Service(service));
        }
    }

    /// Takes in something that was said of a pod of this node by others than the API.
    pub fn hear_local(&mut self, name: &ObjectName, how: impl FnOnce(&mut LocalPods)) {
        how(&mut self.local);
        if self.cluster.pods.get(name).is_none_or(|pod| pod.node == self.me) {
            self.set_pod(name, self.local.pod(name));
        }
    }

    fn set_pod(&mut self, name: &ObjectName, now: Option<Pod>) {
        let before = match &now {
            Some(pod) => self.cluster.pods.insert(name.clone(), pod.clone()),
            None => self.cluster.pods.remove(name),
        };
        if before != now {
            self.mark_pod(name, before.as_ref(), now.as_ref());
        }
    }

    /// Brings the zone to what is known by now and says what that changes. Nothing while the node has no place.
    ///
    /// # Guarantees
    ///
    /// After it [`rows`](Model::rows) are those of [`Zone::rows`] for everything known, whatever the order it was
    /// heard in, without the parts that are left out.
    pub fn settle(&mut self) -> Settled {
        self.settle_and_keep(|change| change)
    }

    /// [`settle`](Model::settle) for who is about to compare everything anyway: of what is new only chassis are
    /// said. In a large cluster the rest would be most of an agent's memory, with what is kept scattered among it.
    pub fn settle_afresh(&mut self) -> Settled {
        self.settle_and_keep(|change| {
            let remote_chassis = change.put.remote_chassis;
            Change { put: Rows { remote_chassis, ..Rows::default() }, gone: change.gone }
        })
    }

    fn settle_and_keep(&mut self, keep: fn(Change) -> Change) -> Settled {
        let mut settled = Settled::default();
        if self.node().is_none() {
            return settled;
        }
        let mut in_the_way = BTreeSet::new();
        while let Some(part) = self.dirty.pop_first() {
            let rows = self.rows_of(&part);
            if let (Part::Service(name), Ok(rows)) = (&part, &rows) {
                let now = datagrams_led(name, &self.me, rows);
                let before = if now.is_empty() {
                    self.led.remove(name)
                } else {
                    self.led.insert(name.clone(), now.clone())
                };
                settled.moved.note(&before.unwrap_or_default(), &now);
            }
            match rows.and_then(|rows| Ok(self.union.replace(part.clone(), rows)?)) {
                Ok(change) => {
                    self.left_out.remove(&part);
                    settled.change.then(keep(change));
                }
                Err(_) => {
                    in_the_way.insert(part);
                }
            }
        }
        self.settle_clashes(in_the_way, &mut settled.change);
        settled.host = std::mem::take(&mut self.host_changed);
        settled.left_out = self.left_out.clone();
        settled
    }

    /// Parts that did not fit may have stood in each other's way, or in that of others that have moved on since: all
    /// of them make room before any of them is put in again.
    fn settle_clashes(&mut self, mut parts: BTreeSet<Part>, change: &mut Change) {
        parts.extend(self.left_out.keys().cloned());
        for part in &parts {
            let gone = self.union.replace(part.clone(), Rows::default());
            change.then(gone.expect("no rows clash with nothing"));
        }
        for part in parts {
            let rows = self.rows_of(&part);
            match rows.and_then(|rows| Ok(self.union.replace(part.clone(), rows)?)) {
                Ok(new) => {
                    self.left_out.remove(&part);
                    change.then(new);
                }
                Err(why) => {
                    self.left_out.insert(part, why);
                }
            }
        }
    }

    /// The rows of a part as of now, and takes in what else follows from it.
    fn rows_of(&mut self, part: &Part) -> Result<Rows, LeftOut> {
        let said = self.said_of(part)?;
        match part {
            Part::Node => self.host_changed = true,
            Part::Service(name) if self.forwards.get(name) != said.forward.as_ref() => {
                self.host_changed = true;
                match said.forward {
                    Some(forward) => self.forwards.insert(name.clone(), forward),
                    None => self.forwards.remove(name),
                };
            }
            Part::Policy(name) => self.refer(name, said.refers),
            Part::Peer(_) | Part::Pod(_) | Part::Service(_) | Part::Namespace(_) | Part::PeerSet(_) => {}
        }
        Ok(said.rows)
    }

    /// What there is to say of a part as of now; nothing of one that is no more.
    fn said_of(&self, part: &Part) -> Result<Said, LeftOut> {
        let Some(node) = self.cluster.nodes.get(&self.me) else { return Ok(Said::default()) };
        let zone = Zone { networks: &self.networks, topology: &self.topology, node, mtu: self.mtu };
        let cluster = &self.cluster;
        let rows = match part {
            Part::Node => {
                let mut rows = zone.rows_of_node();
                rows.join(zone.rows_of_switch(&self.switch))?;
                rows
            }
            Part::Peer(name) if *name == self.me => Rows::default(),
            Part::Peer(name) => match cluster.nodes.get(name) {
                None => Rows::default(),
                Some(peer) => {
                    self.untaken(peer)?;
                    zone.rows_of_peer(peer)
                }
            },
            Part::Pod(name) => cluster.pods.get(name).map(|pod| zone.rows_of_pod(pod)).unwrap_or_default(),
            Part::Service(name) => {
                let Some(service) = cluster.services.get(name) else { return Ok(Said::default()) };
                let slices = self.slices.get(name).into_iter().flatten();
                let slices: Vec<EndpointSlice> = slices.map(|(_, slice)| slice.clone()).collect();
                let forward = zone.forward_of_service(service, &slices);
                return Ok(Said {
                    rows: zone.rows_of_service(service, &slices),
                    forward: Some(forward).filter(|forward| *forward != Forward::default()),
                    ..Said::default()
                });
            }
            Part::Policy(name) => {
                let policy = cluster.policies.get(name);
                let said = policy.map(|policy| zone.rows_of_policy(policy, cluster)).unwrap_or_default();
                let refers = Refers { peers: said.peers, follows_all_pods: said.follows_all_pods };
                return Ok(Said { rows: said.rows, refers, ..Said::default() });
            }
            Part::Namespace(name) => zone.rows_of_namespace(name, cluster),
            Part::PeerSet(set) if self.sets.contains_key(set) => zone.rows_of_peer_set(set, cluster),
            Part::PeerSet(_) => Rows::default(),
        };
        Ok(Said { rows, ..Said::default() })
    }

    /// Of two nodes with the same id, chassis or tunnel address this node keeps its own, else the first by name.
    fn untaken(&self, peer: &Node) -> Result<(), LeftOut> {
        for claim in Claim::of(peer) {
            let all = self.claims.get(&claim).into_iter().flatten();
            let keeper = all.min_by_key(|name| (**name != self.me, *name));
            if let Some(keeper) = keeper.filter(|keeper| **keeper != peer.name) {
                return Err(LeftOut::Taken { what: claim.text(), of: keeper.clone() });
            }
        }
        Ok(())
    }

    fn refer(&mut self, policy: &ObjectName, now: Refers) {
        for set in &now.peers {
            let count = self.sets.entry(set.clone()).or_insert(0);
            if *count == 0 {
                self.dirty.insert(Part::PeerSet(set.clone()));
            }
            *count += 1;
        }
        let before = if now.peers.is_empty() && !now.follows_all_pods {
            self.refers.remove(policy)
        } else {
            self.refers.insert(policy.clone(), now)
        };
        for set in before.into_iter().flat_map(|refers| refers.peers) {
            if let Some(count) = self.sets.get_mut(&set) {
                *count -= 1;
                if *count == 0 {
                    self.sets.remove(&set);
                    self.dirty.insert(Part::PeerSet(set));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
