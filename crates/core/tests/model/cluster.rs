//! A cluster small enough to visit every state of it.
//!
//! Three machines with disks, a kernel each, a daemon and an agent; an API; an operator that reads, sleeps and writes;
//! an administrator with a few edits to spend, who pauses and resumes; and the weather: power that fails, operators that
//! die with a write still on its way, writes that arrive late or twice, nodes that join, leave and come back, ways between
//! them that become too narrow. What decides is the code that ships; the model only carries out what it says.

use std::sync::LazyLock;

use netferry_core::mtu::admit::{self, Admit, Arrival};
use netferry_core::mtu::boot::{Booted, Saved};
use netferry_core::mtu::check::{Asked, AskedChange, AskedEnds};
use netferry_core::mtu::plan::{Decision, Facts, Observed, OnLoss};
use netferry_core::mtu::record::{Record, Rendering};
use netferry_core::name::NodeName;
use netferry_core::rollout::choose::{Choice, Hold};
use netferry_core::rollout::daemon;
use netferry_core::rollout::pool::{Node, NodeState, Pool};
use netferry_core::size::{Envelope, Mtu};

use crate::explore::{Model, fingerprint};
use crate::machine::{self, observed};
use crate::promises;

pub(crate) const NODES: usize = 3;
/// How many nodes the pool lets be away.
pub(crate) const MOST_AWAY: usize = 1;
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
    pub(crate) choose: fn(&Pool, &[Node], Option<&NodeName>, Option<&Hold>) -> Choice,
    pub(crate) daemon: fn(&daemon::Facts) -> daemon::Step,
    pub(crate) admit: fn(&Arrival) -> Admit,
}

impl Planner {
    /// What ships.
    pub(crate) const SHIPPING: Planner = Planner {
        decide: netferry_core::mtu::plan::decide,
        choose: netferry_core::rollout::choose::choose,
        daemon: daemon::decide,
        admit: admit::admit,
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
    /// Whether whoever edits says that the change finishes by itself.
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
    /// Whether a node is told something only while it is as it was read. In earnest that is always asked; where it is not
    /// asked here, no promise needs it.
    pub(crate) versions: bool,
    /// How often the change may be paused, and resumed any time later.
    pub(crate) pauses: u8,
    /// How often a way may become too narrow for what the change leads to, and wide enough any time later.
    pub(crate) narrows: u8,
    /// What whoever edits says is to be done then.
    pub(crate) on_loss: Option<OnLoss>,
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
    Record {
        read: Record,
        new: Record,
    },
    Spec {
        read: Asked,
        paused: bool,
        new: Asked,
    },
    Forget {
        read: Asked,
        paused: bool,
    },
    Pool {
        read: PoolObject,
        new: PoolObject,
    },
    /// Carries which life of the node was read, and which version of it where that is asked.
    Tell {
        node: usize,
        life: u8,
        version: Option<u64>,
        epoch: u64,
        if_waiting: bool,
    },
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
    pub(crate) pauses: u8,
    pub(crate) narrows: u8,
    pub(crate) spec: Asked,
    /// What stands beside it: whether it finishes by itself.
    pub(crate) unattended: bool,
    /// And what is to be done when a way is too narrow.
    pub(crate) on_loss: Option<OnLoss>,
    /// And whether it is to wait.
    pub(crate) paused: bool,
    /// Whether nodes find that a way is too narrow for what the change leads to.
    pub(crate) narrow: bool,
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
    Pause,
    Resume,
    Narrow,
    Widen,
    Think(Vec<Write>),
    Hear,
    Write,
    Die,
    LateWrite { again: bool },
    Daemon(usize, daemon::Step),
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
}

pub(crate) fn config(epoch: u64) -> String {
    format!("r{epoch}")
}

pub(crate) fn objects(state: &State) -> [Option<Object>; NODES] {
    std::array::from_fn(|at| state.machines[at].object.clone())
}

/// The nodes as the operator knows them.
pub(crate) fn heard(state: &State) -> [Option<Object>; NODES] {
    state.heard.clone().unwrap_or_else(|| objects(state))
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
            pauses: self.pauses,
            narrows: self.narrows,
            spec: Asked { mtu: Some(self.network.0), migration: None },
            unattended: self.unattended,
            on_loss: self.on_loss,
            paused: false,
            narrow: false,
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
        if state.paused {
            actions.push(Action::Resume);
        } else if state.pauses > 0 {
            actions.push(Action::Pause);
        }
        if state.narrow {
            actions.push(Action::Widen);
        } else if state.narrows > 0 {
            actions.push(Action::Narrow);
        }
        if state.todo.is_empty() {
            let heard = heard(state);
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
                (state.unattended, state.on_loss) = (self.unattended, self.on_loss);
            }
            Action::Pause => (state.pauses, state.paused) = (state.pauses - 1, true),
            Action::Resume => state.paused = false,
            Action::Narrow => (state.narrows, state.narrow) = (state.narrows - 1, true),
            Action::Widen => state.narrow = false,
            Action::Hear => state.heard = Some(objects(&state)),
            Action::Think(writes) => {
                promises::take(before, writes)?;
                promises::wait(before, writes)?;
                state.todo.clone_from(writes);
            }
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
            Action::Drain(at) => World::do_drain(&mut state, *at),
            Action::Boot(at) => World::do_boot(&mut state, *at),
            Action::Agent(at) => self.do_agent(&mut state, *at),
            Action::PowerLoss(at) => {
                state.power_losses -= 1;
                machine::off(&mut state.machines[*at]);
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
        // No version of an object comes twice: what is refused once always is.
        state.late = state.late.filter(|write| !write.is_of_an_older_version(&state));
        Ok(state)
    }

    fn holds(&self, state: &State, actions: &[Action]) -> Result<(), String> {
        promises::hold(self, state, actions)
    }
}

impl Write {
    fn is_of_an_older_version(&self, state: &State) -> bool {
        let Write::Tell { node, version: Some(version), .. } = self else { return false };
        state.machines[*node].object.as_ref().is_none_or(|object| object.version() != *version)
    }
}

impl Object {
    /// What changes with whatever is written to it.
    pub(crate) fn version(&self) -> u64 {
        fingerprint(self)
    }

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
