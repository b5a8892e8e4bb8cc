//! Keeps the databases as the model says.
//!
//! One task, one change at a time: what is heard of the cluster, asked by CNI requests, or changed in the databases by
//! others. A database that did not take something is brought in line as a whole once it does again.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use netferry_core::name::{NodeName, ObjectName};
use netferry_core::net::Mac;
use netferry_core::overlay::allocate::Assignment;
use netferry_core::overlay::host::HostPlan;
use netferry_core::overlay::inputs::{Kind, LeftOut, Model, Moved, News, Part, Refused};
use netferry_core::overlay::names;
use netferry_core::overlay::rows::{Change, LogicalSwitchPort, Row as _};
use netferry_core::overlay::service::Forward;
use netferry_core::overlay::zone::{Datapath, SwitchProcess};
use netferry_ovs::RowKey;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::drift::{self, Look};
use super::handle::{Request, Requests, Unavailable};
use super::stores::Stores;
use super::write::{Store, Which};
use crate::overlay::follow::fingerprint;
use crate::overlay::host::neighbours::{Peers, TunnelNeighbours};
use crate::overlay::pods::{Place, Readiness};

/// Between attempts to bring a database in line that did not take what was wanted.
const RETRY: Duration = Duration::from_millis(500);
/// After a whole comparison, until its echo is over: what was written comes back from the databases.
const ECHO: Duration = Duration::from_secs(5);

/// What the keeper is told.
#[derive(Debug)]
pub enum Heard {
    /// This and that of the cluster.
    News(Vec<News>),
    /// Where frames for the end of a node's tunnels go.
    Neighbour(NodeName, Option<(IpAddr, Mac)>),
    /// What the switch's process is like.
    Process(SwitchProcess),
    /// Of a kind there are these only, by their fingerprints.
    Only(Kind, HashSet<u64>),
    /// Everything there is was heard by now: what is not known does not exist.
    Complete,
}

/// What the zone tells others.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// What the host must have; nothing while the node has no place.
    pub host: watch::Sender<Option<HostPlan>>,
    /// What the host forwards to Services, to be remembered; what was remembered, until everything was heard.
    pub forward: watch::Sender<Option<Forward>>,
    /// The node's place, for its pods; nothing while it has none.
    pub place: watch::Sender<Option<Arc<Place>>>,
    /// Whether pods can be attached.
    pub readiness: watch::Sender<Readiness>,
}

impl Default for Outlook {
    fn default() -> Outlook {
        let waiting = Readiness::NotReady(Unavailable::NotYet.to_string());
        Outlook {
            host: watch::Sender::new(None),
            forward: watch::Sender::new(None),
            place: watch::Sender::new(None),
            readiness: watch::Sender::new(waiting),
        }
    }
}

/// The task.
#[derive(Debug)]
pub struct Keeper {
    model: Model,
    northbound: Store,
    southbound: Store,
    switch: Store,
    requests: Requests,
    heard: mpsc::Receiver<Heard>,
    outlook: Outlook,
    datapath: Datapath,
    neighbours: BTreeMap<NodeName, (IpAddr, Mac)>,
    tunnels: Option<(TunnelNeighbours, watch::Sender<Peers>)>,
    /// Whoever wants to know which backends of datagrams come and leave.
    moved: Option<mpsc::UnboundedSender<Moved>>,
    complete: bool,
    reported: BTreeMap<Part, LeftOut>,
    reported_refused: BTreeMap<ObjectName, Refused>,
    /// Where the cluster says the node is, if it was reported that it runs elsewhere.
    reported_place: Option<Assignment>,
    /// How often everything is compared although nothing was heard.
    pub resync: Duration,
}

impl Keeper {
    /// A keeper of the zone of `model` that obeys `requests` and tells others its `outlook`.
    pub fn new(
        model: Model,
        stores: &Stores,
        datapath: Datapath,
        heard: mpsc::Receiver<Heard>,
        requests: Requests,
        outlook: Outlook,
    ) -> Keeper {
        Keeper {
            model,
            northbound: Store::new(Which::Northbound, &stores.northbound),
            southbound: Store::new(Which::Southbound, &stores.southbound),
            switch: Store::new(Which::Switch(datapath), &stores.switch),
            requests,
            heard,
            outlook,
            datapath,
            neighbours: BTreeMap::new(),
            tunnels: None,
            moved: None,
            complete: false,
            reported: BTreeMap::new(),
            reported_refused: BTreeMap::new(),
            reported_place: None,
            resync: Duration::from_secs(300),
        }
    }

    /// Has the ends of peers' tunnels made known to the switch before they are used; all of them are told.
    pub fn know_tunnels(&mut self, tunnels: TunnelNeighbours) -> watch::Receiver<Peers> {
        let (sender, receiver) = watch::channel(Peers::new());
        self.tunnels = Some((tunnels, sender));
        receiver
    }

    /// Waits longer than usual for a database that is slow to answer.
    pub fn wait_for_databases(&mut self, within: Duration) {
        for store in [&mut self.northbound, &mut self.southbound, &mut self.switch] {
            store.within = within;
        }
    }

    /// Tells which backends of datagrams come and leave, when the zone has it so.
    pub fn tell_moved(&mut self) -> mpsc::UnboundedReceiver<Moved> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.moved = Some(sender);
        receiver
    }

    /// Keeps the zone until nobody tells it anything any more.
    pub async fn run(mut self) {
        let requests = Arc::clone(&self.requests.0);
        let mut requests = requests.lock().await;
        let mut resync = tokio::time::interval(self.resync);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        resync.reset();
        let mut retry = tokio::time::interval(RETRY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut answers = Vec::new();
            tokio::select! {
                heard = self.heard.recv() => match heard {
                    Some(heard) => self.hear(heard),
                    None => return,
                },
                Some(request) = requests.recv() => self.obey(request, &mut answers),
                changes = self.northbound.changes.next() => {
                    let look = drift::in_northbound(&changes, &self.model, &self.northbound.client.snapshot());
                    self.northbound.look(look);
                }
                changes = self.southbound.changes.next() => {
                    let look = drift::in_southbound(&changes, &self.model, &self.southbound.client.snapshot());
                    self.southbound.look(look);
                }
                changes = self.switch.changes.next() => self.look_at_switch(&changes),
                _ = resync.tick() => self.look_at_everything(),
                _ = retry.tick() => {
                    if ![&self.northbound, &self.southbound, &self.switch].iter().any(|store| store.is_behind()) {
                        continue;
                    }
                }
            }
            // Whatever else is there by now goes into the same transaction.
            while let Ok(request) = requests.try_recv() {
                self.obey(request, &mut answers);
            }
            while let Ok(heard) = self.heard.try_recv() {
                self.hear(heard);
            }
            let changes = self.switch.changes.now();
            self.look_at_switch(&changes);
            self.turn(answers).await;
        }
    }

    fn look_at_everything(&mut self) {
        for store in [&mut self.northbound, &mut self.southbound, &mut self.switch] {
            store.look(Look::everywhere());
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::News(news) => news.into_iter().for_each(|one| self.model.hear(one)),
            Heard::Neighbour(node, Some(neighbour)) => drop(self.neighbours.insert(node, neighbour)),
            Heard::Neighbour(node, None) => drop(self.neighbours.remove(&node)),
            Heard::Process(process) => self.model.hear_process(process),
            Heard::Only(kind, there) => self.model.retain(kind, |name| there.contains(&fingerprint(name))),
            Heard::Complete => {
                self.complete = true;
                self.look_at_everything();
            }
        }
    }

    fn look_at_switch(&mut self, changes: &[netferry_ovs::Change]) {
        if changes.is_empty() {
            return;
        }
        let now = self.switch.client.snapshot();
        for (name, attached) in drift::attachments(changes, &now) {
            self.model.hear_local(&name, |local| local.switch_says(&name, attached));
        }
        self.switch.look(drift::in_switch(changes, &self.model, &now));
    }

    fn obey(&mut self, request: Request, answers: &mut Vec<Answer>) {
        match request {
            Request::Put(pod, answer) => {
                let name = pod.name.clone();
                self.model.hear_local(&name, |local| local.put(*pod));
                answers.push(Answer { pod: name, put: true, answer });
            }
            Request::Remove(name, uid, answer) => {
                self.model.hear_local(&name, |local| local.withdraw(&name, &uid));
                answers.push(Answer { pod: name, put: false, answer });
            }
        }
    }

    /// Brings the databases to what is known by now.
    ///
    /// Before everything was heard only the switch is told what follows from the node alone: rows computed from half
    /// of what there is would take the other half's network away.
    async fn turn(&mut self, answers: Vec<Answer>) {
        if !self.complete {
            if let Some(zone) = self.model.zone() {
                let rows = zone.rows_of_switch(self.model.switch());
                self.switch.bring(&rows, &Change { put: rows.clone(), ..Change::default() }).await;
                self.tell_host_what_was_remembered();
            }
            return refuse(answers, &Unavailable::NotYet);
        }
        let stores = [&self.northbound, &self.southbound, &self.switch];
        let afresh = stores.into_iter().all(Store::looks_everywhere);
        let settled = if afresh { self.model.settle_afresh() } else { self.model.settle() };
        if self.model.node().is_none() {
            self.ready(Readiness::NotReady(Unavailable::NoPlace.to_string()));
            return refuse(answers, &Unavailable::NoPlace);
        }
        self.report(settled.left_out);
        self.report_refused(settled.refused);
        self.report_place();
        // Before the databases are: a backend that is back must be known before anybody is sent to it, or what is sent
        // there would be taken for astray. Nobody listening any more is fine.
        if let Some(moved) = self.moved.as_ref().filter(|_| !settled.moved.is_empty()) {
            let _ = moved.send(settled.moved);
        }
        self.introduce(&settled.change).await;
        self.switch.bring(&self.model, &settled.change).await;
        let southbound = self.southbound.bring(&self.model, &settled.change).await;
        let northbound = self.northbound.bring(&self.model, &settled.change).await;
        let failed = northbound.failed;
        if settled.host {
            let forward = self.model.forward();
            // Noted before it is done: whoever comes next must not take back what the host has by then.
            self.outlook.forward.send_replace(Some(forward.clone()));
            self.outlook.host.send_replace(self.model.host(forward));
        }
        self.tell_place();
        if southbound.everything || northbound.everything {
            self.model.pack();
            give_memory_back();
        }
        self.ready(match &failed {
            None => Readiness::Ready,
            Some(why) => Readiness::NotReady(Unavailable::Database(why.clone()).to_string()),
        });
        for Answer { pod, put, answer } in answers {
            let row = RowKey::new(LogicalSwitchPort::TABLE, names::pod_port(&pod));
            let trouble = failed.as_ref().or(self.northbound.trouble_with(&row));
            let said = match (self.reported.get(&Part::Pod(pod)), trouble) {
                (Some(why), _) if put => Err(Unavailable::LeftOut(why.to_string())),
                (_, None) => Ok(()),
                (_, Some(why)) => Err(Unavailable::Database(why.clone())),
            };
            // Nobody waiting any more is fine.
            let _ = answer.send(said);
        }
    }

    /// A host that boots without the API gets what it had; without anything remembered, what it has is left alone.
    fn tell_host_what_was_remembered(&self) {
        let Some(remembered) = self.outlook.forward.borrow().clone() else { return };
        let plan = self.model.host(remembered);
        self.outlook.host.send_if_modified(|last| {
            let differs = *last != plan;
            *last = plan;
            differs
        });
    }

    fn ready(&self, now: Readiness) {
        self.outlook.readiness.send_if_modified(|last| {
            let differs = *last != now;
            *last = now;
            differs
        });
    }

    fn tell_place(&self) {
        let Some(zone) = self.model.zone() else { return };
        let sends = self.model.sends();
        let same = |place: &Place| {
            (&place.node, &place.networks, &place.topology, place.mtu, place.sends)
                == (zone.node, zone.networks, zone.topology, zone.mtu, sends)
        };
        if !self.outlook.place.borrow().as_deref().is_some_and(same) {
            self.outlook.place.send_replace(Some(Arc::new(Place {
                networks: zone.networks.clone(),
                topology: zone.topology.clone(),
                node: zone.node.clone(),
                mtu: zone.mtu,
                sends,
                datapath: self.datapath,
            })));
        }
    }

    /// Makes the ends of peers' tunnels known before anything is sent there. A switch that does not answer is told by
    /// whoever keeps them: it forwards nothing meanwhile.
    async fn introduce(&self, change: &Change) {
        let Some((tunnels, all)) = &self.tunnels else { return };
        let known: Peers = self.neighbours.values().copied().collect();
        let new = change.put.remote_chassis.values().map(|row| row.encap);
        let new: Peers = new.filter_map(|end| Some((end, *known.get(&end)?))).collect();
        if let Err(error) = tunnels.load(&new).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "tunnel neighbours were not loaded");
        }
        all.send_if_modified(|last| {
            let differs = *last != known;
            *last = known;
            differs
        });
    }

    fn report_place(&mut self) {
        let told = self.model.told_elsewhere().copied();
        if told == self.reported_place {
            return;
        }
        let runs = self.model.node().map(|node| node.assignment);
        match &told {
            Some(told) => {
                tracing::error!(?told, ?runs, "the node's annotations say another place than it runs with")
            }
            None => tracing::info!(?runs, "the node runs with the place its annotations say"),
        }
        self.reported_place = told;
    }

    fn report(&mut self, left_out: BTreeMap<Part, LeftOut>) {
        for (part, why) in &left_out {
            if self.reported.get(part) != Some(why) {
                tracing::error!(?part, %why, "left out of the zone; the rest goes on");
            }
        }
        for part in self.reported.keys().filter(|part| !left_out.contains_key(part)) {
            tracing::info!(?part, "no longer left out of the zone");
        }
        self.reported = left_out;
    }

    fn report_refused(&mut self, refused: BTreeMap<ObjectName, Refused>) {
        for (pod, why) in &refused {
            if self.reported_refused.get(pod) != Some(why) {
                tracing::error!(%pod, %why, "addresses refused");
            }
        }
        self.reported_refused = refused;
    }
}

struct Answer {
    pod: ObjectName,
    put: bool,
    answer: oneshot::Sender<Result<(), Unavailable>>,
}

/// Gives back what a whole comparison took: now, and once more what its echo took.
fn give_memory_back() {
    netferry_kernel::memory::give_back();
    tokio::spawn(async {
        tokio::time::sleep(ECHO).await;
        netferry_kernel::memory::give_back();
    });
}

fn refuse(answers: Vec<Answer>, why: &Unavailable) {
    for Answer { answer, .. } in answers {
        let _ = answer.send(Err(why.clone()));
    }
}
