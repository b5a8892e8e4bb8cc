//! What an edit of the operator's `Network` asks for, seen from what is applied.

use std::collections::BTreeMap;

use super::{Cluster, Field, Plugin, Refusal, Transport};
use crate::mtu::equipment::{Equipped, Unfit};
use crate::mtu::record::{Change, Ends, Record, Stage};
use crate::name::NodeName;
use crate::size::Mtu;

/// What the operator's `Network` says of the MTU, not yet believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Asked {
    /// The plugin's `mtu`.
    pub mtu: Option<u32>,
    /// `spec.migration.mtu`.
    pub migration: Option<AskedChange>,
}

/// `spec.migration.mtu`, not yet believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AskedChange {
    /// Of the pods.
    pub network: Option<AskedEnds>,
    /// Of the hosts.
    pub machine: Option<AskedEnds>,
}

/// `from` and `to`, not yet believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AskedEnds {
    /// `from`.
    pub from: Option<u32>,
    /// `to`.
    pub to: Option<u32>,
}

/// What an edit leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The change that should be under way.
    pub change: Option<Change>,
    /// Whether a change that every node has finished may be forgotten: nobody asks for it any more.
    pub may_end: bool,
}

/// What the hosts' uplinks run at, as nodes report it; nothing for a node that has not.
pub type Hosts = BTreeMap<NodeName, Option<Mtu>>;

/// What to ask of the hosts for pods at `to` where nobody says it: what pods need, or what hosts have if that is more. Nobody
/// who asks for another size of pods asks for smaller hosts.
pub fn hosts_for(plugin: Plugin, to: u32, hosts: &Hosts) -> u32 {
    let have = hosts.values().flatten().map(|size| size.bytes());
    have.fold(to.saturating_add(plugin.budget()), u32::max)
}

/// What is known of the cluster's hosts.
#[derive(Clone, Copy, Debug)]
pub struct Fleet<'a> {
    /// See [`Hosts`].
    pub hosts: &'a Hosts,
    /// See [`Equipped`].
    pub equipped: &'a Equipped,
}

/// Reads an edit.
///
/// # Errors
/// All that is wrong with it, in the order in which people who know these checks expect them. A refused edit is as
/// good as none: what is under way goes on as it was.
pub fn read(cluster: &Cluster, record: &Record, fleet: Fleet, asked: &Asked) -> Result<Wanted, Vec<Refusal>> {
    if cluster.plugin == Plugin::OvnKubernetes(Transport::Within) {
        return alone(record, asked).map_err(|refusal| vec![refusal]);
    }
    // What is under way, and back from it, is what nodes do, whatever they are asked to do it with.
    let unwrapped = cluster.plugin == Plugin::OvnKubernetes(Transport::Unwrapped);
    if unwrapped && asked.migration.is_some() && record.change.is_none() {
        return Err(vec![Refusal::TransportNotServed]);
    }
    match &asked.migration {
        None => without(cluster, record, asked.mtu).map_err(|refusal| vec![refusal]),
        Some(migration) => with(cluster, record, fleet, migration),
    }
}

/// What is wrong with asking for another MTU of a plugin whose pods are not ours to run: all that would be wrong with it if
/// they were, and that.
pub fn unserved(cluster: &Cluster, record: Option<&Record>, fleet: Fleet, asked: &Asked) -> Vec<Refusal> {
    let checked = record.map(|record| read(cluster, record, fleet, asked));
    let mut refusals = checked.and_then(Result::err).unwrap_or_default();
    let under_way = record.is_some_and(|record| record.change.is_some());
    if asked.migration.is_some() || under_way {
        refusals.push(Refusal::PluginNotServed);
    }
    refusals
}

/// One machine is not taken anywhere: half of a change would be its uplink's, and every step a reboot of all there is.
fn alone(record: &Record, asked: &Asked) -> Result<Wanted, Refusal> {
    let applied = record.published();
    let field = match (asked.migration, asked.mtu) {
        (Some(_), _) => Field::Migration,
        (None, Some(mtu)) if mtu != applied.bytes() => Field::OvnMtu,
        (None, _) => return Ok(Wanted { change: record.change, may_end: true }),
    };
    Err(Refusal::OneMachine { field, applied })
}

fn without(cluster: &Cluster, record: &Record, asked: Option<u32>) -> Result<Wanted, Refusal> {
    let field = cluster.plugin.mtu_field();
    let published = record.published();
    let agrees = |asked: u32| asked == published.bytes();
    match (record.change, asked) {
        (None, Some(asked)) if !agrees(asked) => {
            Err(Refusal::WithoutMigration { field, asked, applied: published })
        }
        (None, _) => Ok(Wanted { change: None, may_end: true }),
        // Not set may mean either end while nodes go from one to the other. On the way back there is but one.
        (Some(Change { network, host, stage: Stage::Spreading { .. }, .. }), asked)
            if !asked.is_some_and(agrees) =>
        {
            let Ends { from, to } = network;
            Err(Refusal::Removed { field, asked, from, to, host_from: host.from })
        }
        (Some(Change { network, host, stage: Stage::Returning, .. }), Some(asked)) if !agrees(asked) => {
            let Ends { from, to } = network;
            Err(Refusal::RemovedReturning { field, asked, from, to, host_to: host.to })
        }
        (Some(Change { stage: Stage::Settling, .. }), Some(asked)) if !agrees(asked) => {
            Err(Refusal::WithoutMigration { field, asked, applied: published })
        }
        (Some(change), _) => {
            let stage = match change.stage {
                Stage::Spreading { .. } => Stage::Spreading { finish: true },
                kept @ (Stage::Settling | Stage::Returning) => kept,
            };
            Ok(Wanted { change: Some(Change { stage, ..change }), may_end: true })
        }
    }
}

fn with(
    cluster: &Cluster,
    record: &Record,
    fleet: Fleet,
    asked: &AskedChange,
) -> Result<Wanted, Vec<Refusal>> {
    let network = asked.network.unwrap_or_default();
    let machine = asked.machine.unwrap_or_default();
    let (Some(from), Some(to), Some(host_to)) = (network.from, network.to, machine.to) else {
        let fields = [
            (network.from, Field::NetworkFrom),
            (network.to, Field::NetworkTo),
            (machine.to, Field::MachineTo),
        ];
        let missing = fields.into_iter().filter(|(value, _)| value.is_none()).map(|(_, field)| field);
        return Err(vec![Refusal::Missing(missing.collect())]);
    };
    let mut refusals = Vec::new();
    let aims_at = |network: Mtu, host: Mtu| to == network.bytes() && host_to == host.bytes();
    let (back, on) = record.change.map_or((false, false), |Change { network, host, .. }| {
        (aims_at(network.from, host.from), aims_at(network.to, host.to))
    });
    // A change that is under way keeps its beginning, also after what is published has moved on to its end. Whoever
    // cancels it may have read it just before it did.
    let continued = record.change.is_some_and(|Change { network, stage, .. }| match stage {
        Stage::Spreading { .. } | Stage::Returning => network.from.bytes() == from,
        Stage::Settling => network.from.bytes() == from && back,
    });
    let other_end = record.change.is_some_and(|Change { network, .. }| network.to.bytes() == from);
    if !continued && !other_end && from != record.published().bytes() {
        refusals.push(Refusal::From { asked: from, applied: record.published() });
    }
    let mut keep = |checked: Result<Mtu, Refusal>| checked.map_err(|refusal| refusals.push(refusal)).ok();
    let network_to = keep(cluster.in_range(Field::NetworkTo, to));
    let machine_to = keep(cluster.in_range(Field::MachineTo, host_to));
    let budget = cluster.plugin.budget();
    let needs = u64::from(to) + u64::from(budget);
    // Where the cluster came from it may go back to, though nobody could choose it anew; also once it is on its way.
    if needs > u64::from(host_to) && !back && !on {
        refusals.push(Refusal::MachineTooSmall { asked: host_to, network: to, budget, needs });
    }
    let (Some(to), Some(host_to), true) = (network_to, machine_to, refusals.is_empty()) else {
        return Err(refusals);
    };
    let from = Mtu::new(from).expect("it equals an end of what is applied");
    let asked_from = machine.from.map(|bytes| cluster.in_range(Field::MachineFrom, bytes));
    let change = match record.change {
        None => start(record, fleet.hosts, from, to, asked_from, host_to),
        Some(running) => meanwhile(running, from, to, host_to, back, on),
    };
    let change = change.map_err(|refusal| vec![refusal])?;
    // What nodes are being taken to already, and any way back from it, is not judged by a card that came later.
    let known = record.change.filter(|running| running.stage != Stage::Returning);
    let goes_on = known.is_some_and(|running| running.host.span() == change.host.span());
    if change.stage != Stage::Returning && !goes_on {
        let refusals = unfit(change.host, fleet.equipped);
        if !refusals.is_empty() {
            return Err(refusals);
        }
    }
    Ok(Wanted { change: Some(change), may_end: false })
}

fn start(
    record: &Record,
    hosts: &Hosts,
    from: Mtu,
    to: Mtu,
    asked_from: Option<Result<Mtu, Refusal>>,
    host_to: Mtu,
) -> Result<Change, Refusal> {
    let host_from = match asked_from {
        Some(asked) => asked?,
        None => match common(hosts) {
            // One that missed the last change has a size of its own, and sends what the others take.
            Err(Refusal::HostsDiffer(each)) => {
                let left_at = record.hosts.filter(|size| each.iter().any(|(_, mtu)| mtu == size));
                left_at.ok_or(Refusal::HostsDiffer(each))?
            }
            common => common?,
        },
    };
    let elsewhere = hosts.iter().filter_map(|(node, mtu)| mtu.map(|mtu| (node.clone(), mtu)));
    let elsewhere: Vec<_> = elsewhere.filter(|(_, mtu)| *mtu != host_from && *mtu != host_to).collect();
    if !elsewhere.is_empty() {
        return Err(Refusal::HostElsewhere { from: host_from, to: host_to, nodes: elsewhere });
    }
    // What is said of them is where they go when the change is cancelled. It counts where they differ or are silent, not
    // against what all of them report.
    let mut known = hosts.values().flatten().peekable();
    if known.peek().is_some() && known.all(|mtu| *mtu != host_from) {
        return Err(Refusal::HostsNotAtFrom { asked: host_from, run: host_to });
    }
    let (network, host) = (Ends { from, to }, Ends { from: host_from, to: host_to });
    Ok(Change { network, host, stage: Stage::Spreading { finish: false }, back: false })
}

/// What hosts are not able to do of a change. Such a node would be drained and restarted only to keep its kubelet away,
/// where no cancellation reaches it.
fn unfit(host: Ends, equipped: &Equipped) -> Vec<Refusal> {
    let span = host.span();
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for (node, card) in equipped.iter().flat_map(|(node, its)| its.cards.iter().map(move |card| (node, card)))
    {
        match card.takes(span) {
            Ok(()) => {}
            Err(Unfit::TooSmall(_)) => small.push((node.clone(), card.clone())),
            Err(Unfit::TooLarge(_)) => large.push((node.clone(), card.clone())),
        }
    }
    let small = (!small.is_empty()).then_some(Refusal::CardTooSmall { needs: span.carries(), cards: small });
    let large = (!large.is_empty()).then_some(Refusal::CardTooLarge { needs: span.sends(), cards: large });
    let fixed =
        equipped.iter().filter_map(|(node, its)| Some((node.clone(), its.fixed.against(host)?.to_owned())));
    let fixed: Vec<(NodeName, String)> = fixed.collect();
    let fixed = (!fixed.is_empty()).then_some(Refusal::HostFixed(fixed));
    small.into_iter().chain(large).chain(fixed).collect()
}

/// The size all hosts share. That of a cluster without nodes is not known: an API that answers with none does not make
/// it so.
fn common(hosts: &Hosts) -> Result<Mtu, Refusal> {
    let silent: Vec<_> =
        hosts.iter().filter(|(_, mtu)| mtu.is_none()).map(|(node, _)| node.clone()).collect();
    let mut sizes = hosts.values().flatten();
    let first = match sizes.next() {
        Some(first) if silent.is_empty() => first,
        _ => return Err(Refusal::HostUnknown(silent)),
    };
    if sizes.all(|mtu| mtu == first) {
        return Ok(*first);
    }
    let each = hosts.iter().filter_map(|(node, mtu)| mtu.map(|mtu| (node.clone(), mtu)));
    Err(Refusal::HostsDiffer(each.collect()))
}

/// What a change asked while `running` is under way makes of it: one that leads `back` to where that began, `on` to where
/// it goes already, or elsewhere.
fn meanwhile(
    running: Change,
    from: Mtu,
    to: Mtu,
    host_to: Mtu,
    back: bool,
    on: bool,
) -> Result<Change, Refusal> {
    let Change { network, host, stage, .. } = running;
    let anew = Stage::Spreading { finish: false };
    match stage {
        // Undoing: asked as "from here to here", or as the reverse of what is under way.
        Stage::Spreading { .. } | Stage::Returning if back => {
            Ok(Change { stage: Stage::Returning, ..running })
        }
        // Also asked as "from there to there", as whoever cancelled just before phase two began did of the way back.
        Stage::Spreading { .. } if on => Ok(Change { stage: anew, ..running }),
        // Every node holds the old end, so any other end may be aimed at from there. That is a way forward.
        Stage::Spreading { .. } | Stage::Returning if from == network.from => {
            let (network, host) = (Ends { to, ..network }, Ends { to: host_to, ..host });
            Ok(Change { network, host, stage: anew, back: running.back && on })
        }
        Stage::Settling if back => {
            Ok(Change { network: network.swapped(), host: host.swapped(), stage: anew, back: !running.back })
        }
        Stage::Spreading { .. } | Stage::Returning | Stage::Settling => {
            let settling = stage == Stage::Settling;
            Err(Refusal::ChangeRunning { from: network.from, to: network.to, host_from: host.from, settling })
        }
    }
}
