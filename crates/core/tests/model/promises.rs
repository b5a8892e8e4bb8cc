//! What must be true, whatever happens. The numbers are those of `ARCHITECTURE.md`.

use std::collections::BTreeMap;

use netferry_core::mtu::admit::{Admit, NotYet};
use netferry_core::mtu::check::{Asked, AskedChange, AskedEnds, Cluster, Fleet, Plugin, Transport, read};
use netferry_core::mtu::file::HostFile;
use netferry_core::mtu::plan::{self, NodeFacts, OnLoss};
use netferry_core::mtu::record::{Change, Record, Stage};
use netferry_core::rollout::pool::NodeState;
use netferry_core::size::{Envelope, Mtu};

use crate::cluster::{
    Action, HEADERS, MOST_AWAY, Machine, NAMES, PoolObject, State, World, Write, heard, mtu,
};
use crate::explore::{Model, fingerprint};

pub(crate) fn hold(world: &World, state: &State, actions: &[Action]) -> Result<(), String> {
    everything_sent_fits(state)?;
    no_more_away_than_may_be(state)?;
    every_disk_boots_into_what_goes_with_the_rest(state)?;
    there_is_a_way_back(state)?;
    nonsense_is_nowhere(world, state)?;
    at_rest_all_have_arrived(world, state, actions)?;
    // From every state would take too long; from so many it is as good. Worlds in which a change waits are smaller.
    let every = if world.pauses + world.narrows > 0 { 97 } else { 997 };
    if fingerprint(state).is_multiple_of(every) {
        it_comes_to_rest_and_can_be_taken_back(world, state)?;
        what_the_underlay_cannot_carry_comes_back(world, state)?;
    }
    Ok(())
}

/// I1, of pods, of hosts and of pods' packets wrapped into hosts'.
fn everything_sent_fits(state: &State) -> Result<(), String> {
    let serving = |machine: &Machine| Some((machine.serving?, machine.booted?.host));
    let there: Vec<(usize, Envelope, Envelope)> =
        state.machines.iter().enumerate().filter_map(|(at, m)| serving(m).map(|(p, h)| (at, p, h))).collect();
    for (a, pods, host) in &there {
        let wrapped = pods.sends().bytes() + HEADERS;
        for (b, other_pods, other_host) in &there {
            let (a, b) = (&NAMES[*a], &NAMES[*b]);
            if pods.sends() > other_pods.carries() {
                return Err(format!(
                    "I1: pods on {a} ({pods}) send more than pods on {b} ({other_pods}) carry"
                ));
            }
            if host.sends() > other_host.carries() {
                return Err(format!("I1: host {a} ({host}) sends more than host {b} ({other_host}) carries"));
            }
            if wrapped > other_host.carries().bytes() || wrapped > host.sends().bytes() {
                return Err(format!(
                    "I1: pods on {a} ({pods}), wrapped, do not fit hosts {host} and {other_host}"
                ));
            }
        }
    }
    Ok(())
}

/// I2, of those we took: however old the news were by which we did.
fn no_more_away_than_may_be(state: &State) -> Result<(), String> {
    let away = state.machines.iter().filter(|machine| machine.taken_away).count();
    if away > MOST_AWAY { Err(format!("I2: {away} nodes are away because of us")) } else { Ok(()) }
}

/// I2, of those away for reasons of their own: nobody can keep them, but no node is taken beside them once the operator
/// has read of it. What it read counts, not what is: it cannot know of a power failure of this instant.
pub(crate) fn take(state: &State, writes: &[Write]) -> Result<(), String> {
    let heard = heard(state);
    for write in writes {
        let Write::Pool { read, new } = write else { continue };
        if !takes(read, new) {
            continue;
        }
        let at = 0..NAMES.len();
        let off = |at: usize| heard[at].as_ref().is_some_and(|node| !node.ready || node.cordoned);
        let away: Vec<&str> =
            at.filter(|at| new.taken[*at].is_some() || off(*at)).map(|at| NAMES[at].as_str()).collect();
        if away.len() > MOST_AWAY {
            return Err(format!("I2: a node is taken with which {} are away", away.join(" and ")));
        }
    }
    Ok(())
}

/// I4. That a disk holds one configuration whole is the journal's promise, tested there.
fn every_disk_boots_into_what_goes_with_the_rest(state: &State) -> Result<(), String> {
    let (anchor, host_anchor) = state.record.anchor();
    for (at, machine) in state.machines.iter().enumerate() {
        let (Some(epoch), Some(_), false) = (machine.disk, &machine.object, machine.left) else { continue };
        let rendering = &state.renderings[epoch as usize];
        if !rendering.network.holds(anchor) {
            return Err(format!("I4: {} would boot into {} beside {anchor}", NAMES[at], rendering.network));
        }
        let original = machine.saved.map_or(machine.configured.unwrap_or(machine.default), |s| s.original);
        let own = machine.configured.unwrap_or(machine.default);
        let host = HostFile::of(rendering).host(original).unwrap_or(Envelope::settled(own));
        if let Some(anchor) = host_anchor.filter(|anchor| !host.holds(*anchor)) {
            return Err(format!("I4: the host of {} would boot into {host} beside {anchor}", NAMES[at]));
        }
    }
    Ok(())
}

/// I5: what the operator decides while a change waits. What it decided before may still be on its way.
pub(crate) fn wait(state: &State, writes: &[Write]) -> Result<(), String> {
    if !waits(state) {
        return Ok(());
    }
    for write in writes {
        let wrong = match write {
            // One that serves nothing is nobody taken.
            Write::Tell { if_waiting: true, .. } => continue,
            Write::Tell { node, .. } => format!("{} is told something", NAMES[*node]),
            Write::Pool { read, new } if takes(read, new) => "a node is taken".to_owned(),
            Write::Record { new, .. } if settles(new) && !settles(&state.record) => {
                "phase two begins".to_owned()
            }
            // One that every node has settled in ends, whatever is lost on some way.
            Write::Record { new, .. } if state.paused && new.change.is_none() => "it ends".to_owned(),
            Write::Spec { .. } if state.paused => "an edit is made that nobody made".to_owned(),
            Write::Pool { .. } | Write::Record { .. } | Write::Spec { .. } | Write::Forget { .. } => continue,
        };
        return Err(format!("I5: while the change waits {wrong}"));
    }
    Ok(())
}

fn settles(record: &Record) -> bool {
    matches!(record.change, Some(Change { stage: Stage::Settling, .. }))
}

fn takes(read: &PoolObject, new: &PoolObject) -> bool {
    new.taken.iter().zip(&read.taken).any(|(new, read)| new.is_some() && new != read)
}

/// Whether a change that is under way waits for somebody: to resume it, or to see to a way that is too narrow.
fn waits(state: &State) -> bool {
    let Some(change) = state.record.change else { return false };
    state.paused || (state.narrow && state.on_loss == Some(OnLoss::Pause) && forward(&change))
}

/// Whether trouble may turn it around.
fn forward(change: &Change) -> bool {
    !change.back && change.stage != Stage::Returning
}

/// I5: whoever was taken before a change had to wait arrives where it was told to be, and serves.
fn nobody_is_halfway(state: &State) -> Result<(), String> {
    for (machine, name) in state.machines.iter().zip(NAMES.iter()) {
        let Some(object) = &machine.object else { continue };
        let done = object.desired == object.current && object.state == Some(NodeState::Done);
        if object.desired.is_some() && !done {
            return Err(format!("I5: the change waits, and {name} is halfway"));
        }
        if machine.known && machine.serving.is_none() {
            return Err(format!("I5: the change waits, and {name} serves no more"));
        }
    }
    Ok(())
}

fn back(change: &Change) -> [Asked; 2] {
    let (from, to, machine) =
        (change.network.from.bytes(), change.network.to.bytes(), change.host.from.bytes());
    [from, to].map(|start| Asked {
        mtu: Some(start),
        migration: Some(AskedChange {
            network: Some(AskedEnds { from: Some(start), to: Some(from) }),
            machine: Some(AskedEnds { from: None, to: Some(machine) }),
        }),
    })
}

/// I5: turning back is never refused, in whichever phase somebody believed to be when they asked for it.
fn there_is_a_way_back(state: &State) -> Result<(), String> {
    let Some(change) = state.record.change else { return Ok(()) };
    let cluster = Cluster { plugin: Plugin::OvnKubernetes(Transport::Geneve), v6: false };
    let fleet = Fleet { hosts: &BTreeMap::new(), equipped: &BTreeMap::new() };
    let accepted = |asked: &Asked| read(&cluster, &state.record, fleet, asked).is_ok();
    if back(&change).iter().all(accepted) {
        Ok(())
    } else {
        Err(format!("I5: no way back from {:?}", state.record))
    }
}

/// I6: what was refused left no trace.
fn nonsense_is_nowhere(world: &World, state: &State) -> Result<(), String> {
    let ends = [mtu(world.network.0), mtu(world.network.1)];
    let strange =
        |change: &Change| !ends.contains(&change.network.from) || !ends.contains(&change.network.to);
    if state.record.change.as_ref().is_some_and(strange) || !ends.contains(&state.record.mtu) {
        return Err(format!("I6: a refused edit is in force: {:?}", state.record));
    }
    Ok(())
}

/// Whether it happens by itself: without the administrator, the weather or a dead operator's write.
pub(crate) fn progress(action: &Action) -> bool {
    match action {
        Action::Think(_)
        | Action::Hear
        | Action::Write
        | Action::Daemon(..)
        | Action::Drain(_)
        | Action::Boot(_)
        | Action::Agent(_) => true,
        Action::Edit(_)
        | Action::Pause
        | Action::Resume
        | Action::Narrow
        | Action::Widen
        | Action::Die
        | Action::LateWrite { .. }
        | Action::PowerLoss(_)
        | Action::Join(_)
        | Action::Leave(_) => false,
    }
}

fn facts(state: &State) -> BTreeMap<netferry_core::name::NodeName, NodeFacts> {
    let objects = state.machines.iter().enumerate().filter_map(|(at, m)| Some((at, m.object.as_ref()?)));
    objects.map(|(at, object)| (NAMES[at].clone(), World::facts_of(object))).collect()
}

fn at_rest_all_have_arrived(world: &World, state: &State, actions: &[Action]) -> Result<(), String> {
    if actions.iter().any(progress) || deserted(state) {
        return Ok(());
    }
    // A host that came too late for the change is a person's to raise. Its node says so and serves nothing, and as it
    // is away no other is taken.
    let too_small = |at| {
        let small = |why: NotYet| matches!(why, NotYet::HostTooSmall { .. } | NotYet::HostSmaller { .. });
        matches!(world.admit(state, at), Some(Admit::Wait(why)) if small(why))
    };
    if state.record.change.is_none() && (0..NAMES.len()).any(too_small) {
        return Ok(());
    }
    let cordoned = |machine: &Machine| machine.object.as_ref().is_some_and(|object| object.cordoned);
    if state.machines.iter().any(cordoned) {
        return Err("stuck: nothing more happens, and a node stays cordoned".into());
    }
    if waits(state) {
        return nobody_is_halfway(state);
    }
    let missing = plan::missing(&state.record.rendering(), &facts(state));
    if !missing.is_empty() {
        return Err(format!("stuck: nothing more happens, and {missing:?} are not there"));
    }
    if state.narrow && state.record.change.is_some_and(|change| forward(&change)) {
        return Err("I5: a way is too narrow, and the change does not turn around".into());
    }
    match state.record.change.map(|change| change.stage) {
        Some(Stage::Spreading { finish: true }) => {
            Err("stuck: phase two was asked for and all are ready".into())
        }
        Some(Stage::Settling) => Err("stuck: every node has settled, and the change does not end".into()),
        Some(Stage::Spreading { finish: false } | Stage::Returning) | None => Ok(()),
    }
}

/// An API that answers with no nodes is not a cluster in which all have arrived: it waits.
fn deserted(state: &State) -> bool {
    state.machines.iter().all(|machine| machine.object.is_none())
}

/// Lets everything happen that happens by itself.
fn rest(world: &World, mut state: State) -> Result<State, String> {
    for _ in 0..1000 {
        let Some(action) = world.actions(&state).into_iter().find(progress) else { return Ok(state) };
        state = world.step(&state, &action)?;
    }
    Err("it never comes to rest".into())
}

/// I5 to its end: from here, undisturbed, everything comes to rest; and asked to go back, it arrives there.
fn it_comes_to_rest_and_can_be_taken_back(world: &World, state: &State) -> Result<(), String> {
    let mut state = rest(world, state.clone())?;
    if deserted(&state) {
        return Ok(());
    }
    (state.paused, state.narrow) = (false, false);
    state = rest(world, state)?;
    // Back at once, or back through phase one; then the second edit.
    let finish = |at: Mtu| Asked { mtu: Some(at.bytes()), migration: None };
    for _ in 0..4 {
        let Some(change) = state.record.change else { break };
        state.spec = match change.stage {
            Stage::Spreading { .. } if change.back => finish(change.network.to),
            Stage::Spreading { .. } => back(&change)[0],
            Stage::Settling => back(&change)[1],
            Stage::Returning => finish(change.network.from),
        };
        state = rest(world, state)?;
    }
    let end = state.record.change.is_none();
    let at = state.record.mtu.bytes();
    if end && (at == world.network.0 || at == world.network.1) {
        Ok(())
    } else {
        Err(format!("I5: taken back, it ends with {:?}", state.record))
    }
}

/// I5, where a change turns around by itself: with a way that is too narrow and stays so it comes to where it began.
fn what_the_underlay_cannot_carry_comes_back(world: &World, state: &State) -> Result<(), String> {
    let forward = state.record.change.filter(|change| !change.back && world.narrows > 0);
    let Some(begun) = forward.filter(|_| state.on_loss != Some(OnLoss::Pause)) else { return Ok(()) };
    // What was decided before that was found may end the change.
    let narrow = State { todo: Vec::new(), narrow: true, paused: false, ..state.clone() };
    let mut state = rest(world, narrow)?;
    if deserted(&state) {
        return Ok(());
    }
    if state.record.change.is_some() {
        // The second edit of the way back, which is somebody's to make where nobody said that it is not.
        state.spec = Asked { mtu: Some(state.record.published().bytes()), migration: None };
        state = rest(world, state)?;
    }
    let Record { mtu, change, hosts, .. } = state.record;
    let from = (begun.network.from, begun.host.from);
    if change.is_none() && (mtu, hosts.unwrap_or(from.1)) == from {
        Ok(())
    } else {
        Err(format!("I5: a way is too narrow, and the change ends with {:?}, not at {from:?}", state.record))
    }
}

/// I3, and I1's reason: what every node holds changes only when every node holds both.
pub(crate) fn advance(_: &World, state: &State, new: &Record) -> Result<(), String> {
    if !settles(new) || settles(&state.record) {
        return Ok(());
    }
    let (old_anchor, new_anchor) = (state.record.anchor().0, new.anchor().0);
    for (at, machine) in state.machines.iter().enumerate().filter(|(_, machine)| machine.object.is_some()) {
        let runs = [machine.serving, machine.admitted];
        for envelope in runs.into_iter().flatten() {
            if !envelope.holds(old_anchor) || !envelope.holds(new_anchor) {
                return Err(format!("I3: phase two begins while {} serves at {envelope}", NAMES[at]));
            }
        }
        let behind = machine.disk.is_some_and(|epoch| epoch != state.record.epoch);
        if behind && !machine.left {
            return Err(format!("I3: phase two begins while {} is not in phase one", NAMES[at]));
        }
    }
    Ok(())
}
