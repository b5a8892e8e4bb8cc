//! A machine: its daemon, its boots and its agent.

use std::collections::BTreeMap;

use netferry_core::mtu::SOURCE;
use netferry_core::mtu::admit::{Admit, Arrival, NotYet};
use netferry_core::mtu::boot::{self, BootFacts, BootStep, Booted, CatchUp};
use netferry_core::mtu::file::HostFile;
use netferry_core::mtu::plan::Observed;
use netferry_core::rollout::daemon::{self, Named, Said};
use netferry_core::rollout::drain::{self, Request};
use netferry_core::rollout::epochs::Epochs;

use crate::cluster::{Ask, HEADERS, Machine, State, World, config};

impl World {
    pub(crate) fn daemon_step(&self, state: &State, at: usize) -> Option<daemon::Step> {
        let machine = &state.machines[at];
        let (object, booted) = (machine.object.as_ref()?, machine.booted.as_ref()?);
        let named = |epoch: u64| Named { name: config(epoch), epochs: Epochs::of(SOURCE, epoch) };
        let file = |epoch: u64| HostFile::of(&state.renderings[epoch as usize]);
        let (desired, disk) = (object.desired.map(named), machine.disk.map(named));
        let effect = |epoch: Option<u64>| {
            epoch.map(|epoch| boot::effect_of_file(booted, &file(epoch))).unwrap_or_default()
        };
        let said =
            Said { current: object.current.map(config), state: object.state, reason: object.reason.clone() };
        let (asked, fulfilled) = (object.asked.map(request), object.fulfilled.map(request));
        let step = (self.planner.daemon)(&daemon::Facts {
            desired: desired.as_ref(),
            disk: disk.as_ref(),
            due: effect(machine.disk),
            needed: effect(object.desired),
            drift: &[],
            forced: false,
            said: &said,
            asked: asked.as_ref(),
            fulfilled: fulfilled.as_ref(),
            cordoned: object.cordoned,
            alone: false,
        });
        match step {
            daemon::Step::Rest | daemon::Step::AwaitDrain => None,
            step @ (daemon::Step::Say(_)
            | daemon::Step::Ask(_)
            | daemon::Step::Take
            | daemon::Step::Apply
            | daemon::Step::Restart) => Some(step),
        }
    }

    pub(crate) fn do_daemon(state: &mut State, at: usize, step: &daemon::Step) {
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
            daemon::Step::Apply => World::apply(state, at),
            daemon::Step::Restart => off(machine),
            daemon::Step::AwaitDrain | daemon::Step::Rest => {}
        }
    }

    /// The capability applies its file to the running node.
    fn apply(state: &mut State, at: usize) {
        let machine = &mut state.machines[at];
        let (Some(disk), Some(booted)) = (machine.disk, machine.booted.as_ref()) else { return };
        let file = HostFile::of(&state.renderings[disk as usize]);
        let Some(CatchUp { booted, forget }) = boot::catch_up(booted, &file) else { return };
        machine.booted = Some(booted);
        machine.saved = machine.saved.filter(|_| !forget);
        if let (Some(object), Some(_)) = (&mut machine.object, machine.serving) {
            object.observed = Some(observed(&booted));
        }
    }

    pub(crate) fn do_drain(state: &mut State, at: usize) {
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

    pub(crate) fn do_boot(state: &mut State, at: usize) {
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
        // Asked of every state there is, most of which hold nobody who waits.
        let waiting = machine.object.as_ref().filter(|object| object.waits);
        let told = waiting.is_some_and(|object| World::node_of(at, object).is_told_waiting());
        let (record, newcomer) = (&state.record, !machine.known);
        let disk =
            machine.disk.filter(|_| newcomer).map(|epoch| HostFile::of(&state.renderings[epoch as usize]));
        let unstarted = disk.is_some_and(|file| boot::needs_restart(booted, &file));
        Some((self.planner.admit)(&Arrival { booted, record, headers: HEADERS, newcomer, told, unstarted }))
    }

    pub(crate) fn agent_acts(&self, state: &State, at: usize) -> bool {
        let machine = &state.machines[at];
        let waits = machine.object.as_ref().is_some_and(|object| object.waits);
        match self.admit(state, at) {
            None => false,
            Some(_) if machine.serving.is_some() => false,
            Some(Admit::Serve(_)) => true,
            Some(Admit::Wait(_)) => machine.admitted.is_some() || !waits,
        }
    }

    pub(crate) fn do_agent(&self, state: &mut State, at: usize) {
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

pub(crate) fn observed(booted: &Booted) -> Observed {
    Observed { epoch: booted.epoch, network: booted.network, host: booted.host }
}

pub(crate) fn off(machine: &mut Machine) {
    machine.taken_away |= machine.serving.is_some() && machine.object.as_ref().is_some_and(|o| o.cordoned);
    machine.booted = None;
    machine.admitted = None;
    machine.serving = None;
    if let Some(object) = &mut machine.object {
        object.ready = false;
    }
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
