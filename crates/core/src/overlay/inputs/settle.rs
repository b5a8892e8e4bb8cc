//! Computing the marked parts of the zone anew, and what that changes.

use std::collections::BTreeSet;

use crate::name::ObjectName;
use crate::overlay::cluster::{EndpointSlice, Node};
use crate::overlay::rows::{Change, Rows};
use crate::overlay::service::{Forward, datagrams_led};
use crate::overlay::zone::Zone;

use super::claim::Claim;
use super::{LeftOut, Model, Part, Refers, Settled};

/// What there is to say of a part.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) rows: Rows,
    /// Of a Service: what the host forwards to it.
    forward: Option<Forward>,
    /// Of a policy.
    refers: Refers,
}

impl Model {
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
        self.follow_place();
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
        settled.refused = self.distant.refused().collect();
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
    pub(super) fn said_of(&self, part: &Part) -> Result<Said, LeftOut> {
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
