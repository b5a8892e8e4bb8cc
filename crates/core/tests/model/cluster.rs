//! A cluster small enough to visit every state of it.
//!
//! Three machines with disks, a kernel each, a daemon and an agent; an API; an operator that reads, sleeps and writes;
//! an administrator with a few edits to spend; and the weather: power that fails, operators that die with a write still
//! on its way, writes that arrive late or twice, nodes that join, leave and come back. What decides is the code that
//! ships; the model only carries out what it says.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use netferry_core::label::{LabelSelector, Labels};
use netferry_core::mtu::boot::{self, Admit, Arrival, BootFacts, BootStep, Booted, CatchUp, NotYet, Saved};
use netferry_core::mtu::check::{Asked, AskedChange, AskedEnds, Cluster, Plugin, Transport};
use netferry_core::mtu::file::HostFile;
use netferry_core::mtu::plan::{Decision, Facts, Mode, NodeFacts, Observed, Probes, SpecEdit};
use netferry_core::mtu::record::{Record, Rendering};
use netferry_core::mtu::{Envelope, Mtu};
use netferry_core::name::NodeName;
use netferry_core::rollout::choose::Choice;
use netferry_core::rollout::daemon::{self, Named, Said};
use netferry_core::rollout::drain::{self, Request};
use netferry_core::rollout::pool::{Identity, MaxUnavailable, Node, NodeState, Pool, Truth};

use crate::explore::Model;
use crate::promises;

pub(crate) const NODES: usize = 3;
/// What Geneve over IPv4 adds.
pub(crate) const HEADERS: u32 = 58;

pub(crate) static NAMES: LazyLock<[NodeName; NODES]> =
    LazyLock::new(|| ["a", "b", "c"].map(|name| NodeName::new(name).expect("it is one")));

pub(crate) fn mtu(bytes: u32) -> Mtu {
    Mtu::new(bytes).expect("the model's sizes are sizes")
}

/// What ships, and what stands in for it when a mutant is tried.
#[derive(Clone, Copy)]
pub(crate) struct Planner {
    pub(crate) decide: fn(&Record, &Facts) -> Decision,
    pub(crate) choose: fn(&Pool, &[Node], Option<&NodeName>, Option<&str>) -> Choice,
    pub(crate) daemon: fn(&daemon::Facts) -> daemon::Step,
    pub(crate) admit: fn(&Arrival) -> Admit,
}

impl Planner {
    /// What ships.
    pub(crate) const SHIPPING: Planner = Planner {
        decide: netferry_core::mtu::plan::decide,
        choose: netferry_core::rollout::choose::choose,
        daemon: daemon::decide,
        admit: boot::admit,
    };
}

/// Which cluster, and how much may happen to it.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) planner: Planner,
    /// The pods' sizes: from, to.
    pub(crate) network: (u32, u32),
    /// The hosts' sizes: from, to.
    pub(crate) host: (u32, u32),
    pub(crate) unattended: bool,
    /// Nodes that are there from the beginning; the others may join.
    pub(crate) nodes: usize,
    pub(crate) edits: u8,
    pub(crate) power_losses: u8,
    /// Operators that die with a write on its way, which may arrive any time later and any number of times.
    pub(crate) late_writes: u8,
    pub(crate) leavings: u8,
    /// Whether the operator may decide on news of nodes from any time in the past.
    pub(crate) old_news: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Edit {
    Start,
    Finish,
    Cancel,
    Reverse,
    FinishReverse,
    Nonsense,
}

const EDITS: [Edit; 6] =
    [Edit::Start, Edit::Finish, Edit::Cancel, Edit::Reverse, Edit::FinishReverse, Edit::Nonsense];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PoolObject {
    pub(crate) target: u64,
    /// Which life of each node was taken.
    pub(crate) taken: [Option<u8>; NODES],
}

/// Something an operator is about to write. What carries what it read is refused if that is no longer so.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Write {
    Record { read: Record, new: Record },
    Spec { read: Asked, new: Asked },
    Pool { read: PoolObject, new: PoolObject },
    Tell { node: usize, epoch: u64, if_waiting: bool },
}

/// A request of a node, by epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ask {
    Drain(u64),
    Uncordon(u64),
}

/// The node's object in the API.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Object {
    pub(crate) life: u8,
    pub(crate) desired: Option<u64>,
    pub(crate) current: Option<u64>,
    pub(crate) state: Option<NodeState>,
    pub(crate) reason: String,
    pub(crate) asked: Option<Ask>,
    pub(crate) fulfilled: Option<Ask>,
    pub(crate) cordoned: bool,
    pub(crate) observed: Option<Observed>,
    pub(crate) waits: bool,
    pub(crate) ready: bool,
}

/// The machine itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Machine {
    pub(crate) object: Option<Object>,
    /// What its uplink comes up with where nothing is configured.
    pub(crate) default: Mtu,
    /// The epoch of the configuration on its disk.
    pub(crate) disk: Option<u64>,
    pub(crate) saved: Option<Saved>,
    pub(crate) configured: Option<Mtu>,
    /// What it runs; nothing while it is off.
    pub(crate) booted: Option<Booted>,
    /// What its agent was told to serve at, before it does.
    pub(crate) admitted: Option<Envelope>,
    pub(crate) serving: Option<Envelope>,
    /// We took it away while it served, and it is not back.
    pub(crate) taken_away: bool,
    /// It left the cluster once.
    pub(crate) left: bool,
    /// How many times it joined.
    pub(crate) life: u8,
    /// It served as the node it is in the API.
    pub(crate) known: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) edits: u8,
    pub(crate) power_losses: u8,
    pub(crate) late_writes: u8,
    pub(crate) leavings: u8,
    pub(crate) spec: Asked,
    pub(crate) record: Record,
    pub(crate) pool: PoolObject,
    /// What each epoch renders, as objects of the API that are never changed.
    pub(crate) renderings: Vec<Rendering>,
    pub(crate) machines: [Machine; NODES],
    /// What the operator is about to write, in order.
    pub(crate) todo: Vec<Write>,
    /// What it last heard of nodes, where that may be old.
    pub(crate) heard: Option<[Option<Object>; NODES]>,
    /// A write of an operator that is no more.
    pub(crate) late: Option<Write>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Action {
    Edit(Edit),
    Think(Vec<Write>),
    Hear,
    Write,
    Die,
    LateWrite { again: bool },
    Daemon(usize, daemon::Step),
    CatchUp(usize),
    Drain(usize),
    Boot(usize),
    Agent(usize),
    PowerLoss(usize),
    Join(usize),
    Leave(usize),
}

impl World {
    pub(crate) fn asked(&self, edit: Edit) -> Asked {
        let ((from, to), (host_from, host_to)) = (self.network, self.host);
        let change = |from, to, machine| {
            let ends = |from, to| Some(AskedEnds { from, to: Some(to) });
            let (network, machine) = (ends(Some(from), to), ends(None, machine));
            Asked { mtu: Some(from), migration: Some(AskedChange { network, machine }) }
        };
        match edit {
            Edit::Start => change(from, to, host_to),
            Edit::Finish => Asked { mtu: Some(to), migration: None },
            Edit::Cancel => change(from, from, host_from),
            Edit::Reverse => change(to, from, host_from),
            Edit::FinishReverse => Asked { mtu: Some(from), migration: None },
            Edit::Nonsense => change(1300, to, host_to),
        }
    }

    fn fresh(&self) -> Machine {
        let host = mtu(self.host.0);
        let booted =
            Booted { epoch: 0, network: None, host: Envelope::settled(host), own: host, original: host };
        Machine {
            object: None,
            default: host,
            disk: None,
            saved: None,
            configured: None,
            booted: Some(booted),
            admitted: None,
            serving: None,
            taken_away: false,
            left: false,
            life: 0,
            known: false,
        }
    }

    pub(crate) fn facts_of(object: &Object) -> NodeFacts {
        let done = object
            .current
            .filter(|_| object.current == object.desired && object.state == Some(NodeState::Done));
        NodeFacts { done, observed: object.observed }
    }

    fn node_of(at: usize, object: &Object) -> Node {
        Node {
            name: NAMES[at].clone(),
            uid: object.life.to_string(),
            labels: Labels::default(),
            created: at as u64,
            ready: Some(if object.ready { Truth::True } else { Truth::False }),
            disk_pressure: None,
            network_unavailable: None,
            unschedulable: object.cordoned,
            current: object.current.map(config),
            desired: object.desired.map(config),
            state: object.state,
            reason: object.reason.clone(),
            waits: object.waits,
        }
    }

    /// One pass of the operator: what it writes, from what it read.
    fn think(&self, state: &State, objects: &[Option<Object>; NODES]) -> Vec<Write> {
        let nodes: BTreeMap<NodeName, NodeFacts> = objects
            .iter()
            .enumerate()
            .filter_map(|(at, object)| Some((NAMES[at].clone(), World::facts_of(object.as_ref()?))))
            .collect();
        let probes = Probes::default();
        let mode = Mode { unattended: self.unattended, ..Mode::default() };
        let cluster = Cluster { plugin: Plugin::OvnKubernetes(Transport::Geneve), v6: false };
        let facts = Facts { cluster, asked: state.spec, mode, nodes: &nodes, probes: &probes };
        let decision = (self.planner.decide)(&state.record, &facts);
        if decision.record != state.record {
            return vec![Write::Record { read: state.record, new: decision.record }];
        }
        if let Some(edit) = decision.edit {
            let new = match edit {
                SpecEdit::Finish(mtu) => Asked { mtu: Some(mtu.bytes()), migration: None },
                SpecEdit::Migrate { from, to, machine_to } => Asked {
                    mtu: state.spec.mtu,
                    migration: Some(AskedChange {
                        network: Some(AskedEnds { from: Some(from.bytes()), to: Some(to.bytes()) }),
                        machine: Some(AskedEnds { from: None, to: Some(machine_to.bytes()) }),
                    }),
                },
            };
            return vec![Write::Spec { read: state.spec, new }];
        }
        if state.pool.target != state.record.epoch {
            let new = PoolObject { target: state.record.epoch, ..state.pool };
            return vec![Write::Pool { read: state.pool, new }];
        }
        let pool = Pool {
            name: "worker".into(),
            nodes: Some(LabelSelector::all()),
            configs: None,
            paused: false,
            max_unavailable: MaxUnavailable::Number(1),
            target: Some(config(state.pool.target)),
            finished: None,
            taken: (0..NODES).filter_map(|at| Some(identity(at, state.pool.taken[at]?))).collect(),
        };
        let nodes: Vec<Node> = objects
            .iter()
            .enumerate()
            .filter_map(|(at, object)| Some(World::node_of(at, object.as_ref()?)))
            .collect();
        let Choice { taken, tell: told, tell_waiting, .. } = (self.planner.choose)(&pool, &nodes, None, None);
        let life = |at: usize| {
            let taken = taken.iter().find(|taken| taken.name == NAMES[at])?;
            Some(taken.uid.parse().expect("the model gave it"))
        };
        let new = PoolObject { taken: std::array::from_fn(life), ..state.pool };
        let mut writes = Vec::new();
        if new != state.pool {
            writes.push(Write::Pool { read: state.pool, new });
        }
        let index = |name: &NodeName| NAMES.iter().position(|n| n == name).expect("it was given");
        let epoch = state.pool.target;
        let tell = |if_waiting| move |name: &NodeName| Write::Tell { node: index(name), epoch, if_waiting };
        writes.extend(told.iter().map(tell(false)).chain(tell_waiting.iter().map(tell(true))));
        writes
    }

    /// Carries a write out; whether it was accepted.
    fn write(&self, state: &mut State, write: Write) -> Result<bool, String> {
        match write {
            Write::Record { read, new } if read == state.record => {
                promises::advance(self, state, &new)?;
                if new.epoch != state.record.epoch {
                    assert_eq!(new.epoch as usize, state.renderings.len(), "epochs are counted one by one");
                    state.renderings.push(new.rendering());
                }
                state.record = new;
                Ok(true)
            }
            Write::Spec { read, new } if read == state.spec => {
                state.spec = new;
                Ok(true)
            }
            Write::Pool { read, new } if read == state.pool => {
                state.pool = new;
                Ok(true)
            }
            Write::Tell { node, epoch, if_waiting } => {
                let object = state.machines[node].object.as_mut();
                if let Some(object) = object.filter(|object| object.waits || !if_waiting) {
                    object.desired = Some(epoch);
                }
                Ok(true)
            }
            Write::Record { .. } | Write::Spec { .. } | Write::Pool { .. } => Ok(false),
        }
    }

    fn daemon_step(&self, state: &State, at: usize) -> Option<daemon::Step> {
        let machine = &state.machines[at];
        let (object, booted) = (machine.object.as_ref()?, machine.booted.as_ref()?);
        let named = |epoch: u64| Named { name: config(epoch), epoch };
        let file = |epoch: u64| HostFile::of(&state.renderings[epoch as usize]);
        let (desired, disk) = (object.desired.map(named), machine.disk.map(named));
        let restart =
            |epoch: Option<u64>| epoch.is_some_and(|epoch| boot::needs_restart(booted, &file(epoch)));
        let said =
            Said { current: object.current.map(config), state: object.state, reason: object.reason.clone() };
        let (asked, fulfilled) = (object.asked.map(request), object.fulfilled.map(request));
        let step = (self.planner.daemon)(&daemon::Facts {
            desired: desired.as_ref(),
            disk: disk.as_ref(),
            restart_due: restart(machine.disk),
            restart_needed: restart(object.desired),
            drift: &[],
            forced: false,
            said: &said,
            asked: asked.as_ref(),
            fulfilled: fulfilled.as_ref(),
            alone: false,
        });
        match step {
            daemon::Step::Rest | daemon::Step::AwaitDrain => None,
            step @ (daemon::Step::Say(_)
            | daemon::Step::Ask(_)
            | daemon::Step::Take
            | daemon::Step::Restart) => Some(step),
        }
    }

    fn do_daemon(state: &mut State, at: usize, step: &daemon::Step) {
        let desired = state.machines[at].object.as_ref().and_then(|object| object.desired);
        let machine = &mut state.machines[at];
        let Some(object) = machine.object.as_mut() else { return };
        match step {
            daemon::Step::Say(said) => {
                object.current = said.current.as_deref().map(epoch);
                (object.state, object.reason) = (said.state, said.reason.clone());
            }
            daemon::Step::Ask(asked) => object.asked = Some(ask(asked)),
            daemon::Step::Take => machine.disk = desired,
            daemon::Step::Restart => off(machine),
            daemon::Step::AwaitDrain | daemon::Step::Rest => {}
        }
    }

    fn caught_up(state: &State, at: usize) -> Option<CatchUp> {
        let machine = &state.machines[at];
        let rendering = &state.renderings[machine.disk? as usize];
        boot::catch_up(machine.booted.as_ref()?, &HostFile::of(rendering))
    }

    fn do_catch_up(state: &mut State, at: usize) {
        let Some(CatchUp { booted, forget }) = World::caught_up(state, at) else { return };
        let machine = &mut state.machines[at];
        machine.booted = Some(booted);
        machine.saved = machine.saved.filter(|_| !forget);
        if let (Some(object), Some(_)) = (&mut machine.object, machine.serving) {
            object.observed = Some(observed(&booted));
        }
    }

    fn do_drain(state: &mut State, at: usize) {
        let machine = &mut state.machines[at];
        let Some(object) = machine.object.as_mut() else { return };
        let Some(asked) = object.asked else { return };
        let (wanted, refused) = (request(asked), BTreeMap::new());
        loop {
            let fulfilled = object.fulfilled.map(request);
            let decision = drain::decide(&drain::Facts {
                request: &wanted,
                fulfilled: fulfilled.as_ref(),
                cordoned: object.cordoned,
                ours: true,
                pods: &[],
                refused: &refused,
                since: std::time::Duration::ZERO,
                now: std::time::Duration::ZERO,
                told: None,
            });
            match decision.step {
                drain::Step::Cordon => {
                    object.cordoned = true;
                    machine.taken_away |= machine.serving.is_some();
                }
                drain::Step::Uncordon => {
                    object.cordoned = false;
                    machine.taken_away &= machine.serving.is_none();
                }
                drain::Step::Fulfilled => object.fulfilled = Some(asked),
                drain::Step::Rest | drain::Step::Evict(_) | drain::Step::Wait(_) => return,
            }
        }
    }

    fn do_boot(state: &mut State, at: usize) {
        let rendering = state.machines[at].disk.map(|epoch| state.renderings[epoch as usize]);
        let file = rendering.as_ref().map(HostFile::of);
        let machine = &mut state.machines[at];
        let uplink = machine.configured.unwrap_or(machine.default);
        let facts =
            BootFacts { file: file.as_ref(), saved: machine.saved, uplink, configured: machine.configured };
        for step in boot::boot(&facts) {
            match step {
                BootStep::Save(saved) => machine.saved = Some(saved),
                BootStep::Persist(size) => machine.configured = size,
                BootStep::Run(_) => {}
                BootStep::Record(booted) => machine.booted = Some(booted),
                BootStep::Forget => machine.saved = None,
            }
        }
    }

    pub(crate) fn admit(&self, state: &State, at: usize) -> Option<Admit> {
        let machine = &state.machines[at];
        let booted = machine.object.as_ref().and(machine.booted.as_ref())?;
        let told = machine.object.as_ref().is_some_and(|object| World::node_of(at, object).is_told_waiting());
        let (record, newcomer) = (&state.record, !machine.known);
        Some((self.planner.admit)(&Arrival { booted, record, headers: HEADERS, newcomer, told }))
    }

    fn agent_acts(&self, state: &State, at: usize) -> bool {
        let machine = &state.machines[at];
        let waits = machine.object.as_ref().is_some_and(|object| object.waits);
        match self.admit(state, at) {
            None => false,
            Some(_) if machine.serving.is_some() => false,
            Some(Admit::Serve(_)) => true,
            Some(Admit::Wait(_)) => machine.admitted.is_some() || !waits,
        }
    }

    fn do_agent(&self, state: &mut State, at: usize) {
        let verdict = self.admit(state, at);
        let told = verdict == Some(Admit::Wait(NotYet::Told));
        let machine = &mut state.machines[at];
        let (Some(object), Some(booted)) = (machine.object.as_mut(), machine.booted.as_mut()) else { return };
        // It reads, and acts on it some time later, unless it was told something meanwhile.
        match (machine.admitted.take(), verdict) {
            (Some(network), _) if !told => {
                booted.network = Some(network);
                (machine.serving, machine.known) = (Some(network), true);
                (object.waits, object.ready) = (false, true);
                object.observed = Some(observed(booted));
                machine.taken_away &= object.cordoned;
            }
            (Some(_), _) | (None, None) => {}
            (None, Some(Admit::Serve(network))) => machine.admitted = Some(network),
            (None, Some(Admit::Wait(_))) => object.waits = true,
        }
    }
}

fn observed(booted: &Booted) -> Observed {
    Observed { epoch: booted.epoch, network: booted.network, host: booted.host }
}

fn off(machine: &mut Machine) {
    machine.taken_away |= machine.serving.is_some() && machine.object.as_ref().is_some_and(|o| o.cordoned);
    machine.booted = None;
    machine.admitted = None;
    machine.serving = None;
    if let Some(object) = &mut machine.object {
        object.ready = false;
    }
}

fn identity(at: usize, life: u8) -> Identity {
    Identity { name: NAMES[at].clone(), uid: life.to_string() }
}

fn config(epoch: u64) -> String {
    format!("r{epoch}")
}

fn epoch(config: &str) -> u64 {
    config[1..].parse().expect("the model named it")
}

fn request(ask: Ask) -> Request {
    match ask {
        Ask::Drain(epoch) => Request::Drain(config(epoch)),
        Ask::Uncordon(epoch) => Request::Uncordon(config(epoch)),
    }
}

fn ask(request: &Request) -> Ask {
    match request {
        Request::Drain(config) => Ask::Drain(epoch(config)),
        Request::Uncordon(config) => Ask::Uncordon(epoch(config)),
    }
}

pub(crate) fn objects(state: &State) -> [Option<Object>; NODES] {
    std::array::from_fn(|at| state.machines[at].object.clone())
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn begin(&self) -> State {
        let record = Record::settled(mtu(self.network.0));
        let network = Some(Envelope::settled(mtu(self.network.0)));
        let machines: [Machine; NODES] = std::array::from_fn(|at| {
            let mut machine = self.fresh();
            if at < self.nodes {
                let booted = machine.booted.as_mut().expect("a fresh machine is on");
                booted.network = network;
                machine.serving = network;
                machine.disk = Some(0);
                machine.known = true;
                machine.object = Some(Object {
                    desired: Some(0),
                    current: Some(0),
                    state: Some(NodeState::Done),
                    observed: Some(observed(booted)),
                    ready: true,
                    ..Object::new()
                });
            }
            machine
        });
        let heard = self.old_news.then(|| machines.clone().map(|machine| machine.object));
        State {
            edits: self.edits,
            power_losses: self.power_losses,
            late_writes: self.late_writes,
            leavings: self.leavings,
            spec: Asked { mtu: Some(self.network.0), migration: None },
            record,
            pool: PoolObject { target: 0, taken: [None; NODES] },
            renderings: vec![record.rendering()],
            machines,
            todo: Vec::new(),
            heard,
            late: None,
        }
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        if state.edits > 0 {
            let edits = EDITS.into_iter().filter(|edit| self.asked(*edit) != state.spec);
            actions.extend(edits.map(Action::Edit));
        }
        if state.todo.is_empty() {
            let heard = state.heard.clone().unwrap_or_else(|| objects(state));
            if self.old_news && heard != objects(state) {
                actions.push(Action::Hear);
            }
            let writes = self.think(state, &heard);
            if !writes.is_empty() {
                actions.push(Action::Think(writes));
            }
        } else {
            actions.push(Action::Write);
            // A write that is lost is one that is decided again; one that is late is one of an operator that died.
            actions.push(Action::Die);
        }
        if state.late.is_some() {
            actions.extend([Action::LateWrite { again: false }, Action::LateWrite { again: true }]);
        }
        for (at, machine) in state.machines.iter().enumerate() {
            match &machine.object {
                None => {
                    actions.push(Action::Join(at));
                    continue;
                }
                Some(object) => {
                    if object.asked.is_some() && object.asked != object.fulfilled {
                        actions.push(Action::Drain(at));
                    }
                    if state.leavings > 0 {
                        actions.push(Action::Leave(at));
                    }
                }
            }
            if machine.booted.is_none() {
                actions.push(Action::Boot(at));
                continue;
            }
            if World::caught_up(state, at).is_some() {
                actions.push(Action::CatchUp(at));
            }
            if let Some(step) = self.daemon_step(state, at) {
                actions.push(Action::Daemon(at, step));
            }
            if self.agent_acts(state, at) {
                actions.push(Action::Agent(at));
            }
            if state.power_losses > 0 {
                actions.push(Action::PowerLoss(at));
            }
        }
        actions
    }

    fn step(&self, before: &State, action: &Action) -> Result<State, String> {
        let mut state = before.clone();
        match action {
            Action::Edit(edit) => {
                state.edits -= 1;
                state.spec = self.asked(*edit);
            }
            Action::Hear => state.heard = Some(objects(&state)),
            Action::Think(writes) => state.todo.clone_from(writes),
            Action::Write => {
                let write = state.todo.remove(0);
                if !self.write(&mut state, write)? {
                    state.todo.clear();
                }
            }
            Action::Die => {
                if state.late_writes > 0 {
                    state.late_writes -= 1;
                    state.late = state.todo.first().copied();
                }
                state.todo.clear();
            }
            Action::LateWrite { again } => {
                let write = state.late.take();
                if let Some(write) = write {
                    self.write(&mut state, write)?;
                }
                state.late = write.filter(|_| *again);
            }
            Action::Daemon(at, step) => World::do_daemon(&mut state, *at, step),
            Action::CatchUp(at) => World::do_catch_up(&mut state, *at),
            Action::Drain(at) => World::do_drain(&mut state, *at),
            Action::Boot(at) => World::do_boot(&mut state, *at),
            Action::Agent(at) => self.do_agent(&mut state, *at),
            Action::PowerLoss(at) => {
                state.power_losses -= 1;
                off(&mut state.machines[*at]);
            }
            Action::Join(at) => {
                let machine = &mut state.machines[*at];
                machine.life += 1;
                machine.object = Some(Object { life: machine.life, ..Object::new() });
            }
            Action::Leave(at) => {
                state.leavings -= 1;
                let machine = &mut state.machines[*at];
                (machine.object, machine.serving, machine.admitted) = (None, None, None);
                (machine.left, machine.known, machine.taken_away) = (true, false, false);
            }
        }
        Ok(state)
    }

    fn holds(&self, state: &State, actions: &[Action]) -> Result<(), String> {
        promises::hold(self, state, actions)
    }
}

impl Object {
    fn new() -> Object {
        Object {
            life: 0,
            desired: None,
            current: None,
            state: None,
            reason: String::new(),
            asked: None,
            fulfilled: None,
            cordoned: false,
            observed: None,
            waits: false,
            ready: false,
        }
    }
}
