//! Whether a node's agent serves pods, and at which sizes: asked once after every boot.

use super::boot::Booted;
use super::record::{Change, Record, Stage};
use crate::size::{Envelope, Mtu};

/// Whether a node's agent may serve pods.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Admit {
    /// Serve pods at this.
    Serve(Envelope),
    /// Serve none yet, and say why.
    Wait(NotYet),
}

/// Why a node's agent may not serve pods.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum NotYet {
    /// It was told its configuration because it waited for it, and is not done with it.
    #[error("the node must take the configuration it was told first")]
    Told,
    /// Nobody gave its link a size, so it can take no part in the change that is under way.
    #[error(
        "netferry host-init gave its link no size (its journal says why), and the cluster's MTU is being changed"
    )]
    Unsized,
    /// It is new here, and its disk holds a configuration that it has not started with: what it would run after its next
    /// boot, by whichever cause, is not what it runs now.
    #[error(
        "the node has a configuration on its disk that it did not start with; it must take its own first"
    )]
    Unstarted,
    /// It runs sizes that do not go with the rest of the cluster: it is new, or was away while the cluster moved on.
    #[error(
        "pods here would run at {runs}, the cluster's run at {cluster}; the node must take its configuration first"
    )]
    Pods {
        /// What it runs.
        runs: Envelope,
        /// What the cluster runs.
        cluster: Envelope,
    },
    /// Its host does.
    #[error(
        "the host's uplink runs at {runs}, the cluster's at {cluster}; the node must take its configuration first"
    )]
    Host {
        /// What it runs.
        runs: Envelope,
        /// What the cluster's hosts run.
        cluster: Envelope,
    },
    /// The host is too small for the pods' packets with their headers.
    #[error("the host's uplink has MTU {host}; pods at {network} need at least {needs}")]
    HostTooSmall {
        /// What the host has.
        host: Mtu,
        /// What pods would run at.
        network: Envelope,
        /// What they need.
        needs: u32,
    },
    /// The host is smaller than the last change left the others: what they send does not fit it.
    #[error(
        "the host's uplink has MTU {host}, the last change left the other hosts at {others}: raise it, or change the MTU of all"
    )]
    HostSmaller {
        /// What the host has.
        host: Mtu,
        /// What the others have.
        others: Mtu,
    },
}

/// A node whose agent wants to serve pods.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// What it runs.
    pub booted: &'a Booted,
    /// What is applied. Read after the node's own object existed in the API.
    pub record: &'a Record,
    /// What wrapping adds to a packet.
    pub headers: u32,
    /// Whether this very object of the node never served before: the node is new, or it was removed and came back. A
    /// node remembers the identity of the object it served as.
    pub newcomer: bool,
    /// Whether it said that it waits, was told a configuration since, and has not said that it is done with it: it may
    /// be about to be drained or restarted.
    pub told: bool,
    /// Whether its disk holds a configuration that it has not started with
    /// ([`needs_restart`](super::boot::needs_restart)).
    pub unstarted: bool,
}

/// Decides whether the agent of a node serves pods, and at which sizes.
///
/// A node that was there all along was counted by whoever moved the cluster on, and goes with it as long as it holds
/// what all hold. A newcomer may not have been counted by an operator that is just moving the cluster on: it must hold
/// all that the others are being taken to, so that it goes with either; and not only until its power fails: from then on
/// it is one of those that were there, so its disk must not hold anything else.
///
/// Once it says that it waits, it is told its configuration without anybody making room for its absence. So it takes
/// the saying back only on the condition that it was told nothing meanwhile, in one write, before it serves.
pub fn admit(arrival: &Arrival) -> Admit {
    let Arrival { booted, record, headers, newcomer, told, unstarted } = *arrival;
    if told {
        return Admit::Wait(NotYet::Told);
    }
    if newcomer && unstarted {
        return Admit::Wait(NotYet::Unstarted);
    }
    let rendering = record.rendering();
    let (anchor, host_anchor) = record.anchor();
    let network = booted.network.unwrap_or(rendering.network);
    let goes = if newcomer { network.covers(rendering.network) } else { network.holds(anchor) };
    if !goes {
        return Admit::Wait(NotYet::Pods { runs: network, cluster: rendering.network });
    }
    let Booted { host, .. } = *booted;
    // While there is no change hosts are their owners'; but who comes now may have missed where the last one led.
    let left_at = record.hosts.filter(|_| newcomer && record.change.is_none());
    let cluster = rendering.host.run().or(left_at.map(Envelope::settled));
    let goes = |cluster: &Envelope| match host_anchor {
        Some(anchor) if !newcomer => host.holds(anchor),
        Some(_) | None => host.covers(*cluster),
    };
    // One that is smaller than the last change left the others is raised by no configuration of ours.
    let smaller = left_at.filter(|others| host.carries() < *others);
    if let Some(cluster) = cluster.filter(|cluster| smaller.is_none() && !goes(cluster)) {
        return Admit::Wait(NotYet::Host { runs: host, cluster });
    }
    let needs = network.carries().bytes() + headers;
    if host.carries().bytes() < needs {
        return Admit::Wait(NotYet::HostTooSmall { host: host.carries(), network, needs });
    }
    match smaller {
        Some(others) => Admit::Wait(NotYet::HostSmaller { host: host.carries(), others }),
        None => Admit::Serve(network),
    }
}

/// Decides the same for a node that runs at nothing of ours, because `host-init` found no link to give a size to; nothing
/// where that is not known yet. `known` is what is applied, or was when it last knew; nothing in a cluster that changes no sizes,
/// which goes by what is published (`published`: what was before `known` was read).
///
/// It can be taken nowhere, so it goes with the cluster while that stands still. When a change begins it stays where it was, at
/// the old size that all hold until every node, this one too, was seen in phase one: so phase two does not begin. One that
/// comes later is not let in.
pub fn admit_unsized(
    known: Option<&Record>,
    newcomer: bool,
    published: Option<Envelope>,
) -> Result<Option<Envelope>, NotYet> {
    let Some(record) = known else { return Ok(published) };
    match record.change {
        None => Ok(Some(record.rendering().network)),
        Some(Change { stage: Stage::Spreading { .. } | Stage::Returning, .. }) if !newcomer => {
            Ok(Some(Envelope::settled(record.anchor().0)))
        }
        Some(_) => Err(NotYet::Unsized),
    }
}

/// What a node serves at when there is nobody to ask: what it booted with, as long as that holds what was applied when it
/// last knew; where it never knew, what is published.
pub fn admit_alone(
    booted: Option<Envelope>,
    known: Option<&Record>,
    published: Option<Envelope>,
) -> Option<Envelope> {
    let Some(record) = known else { return booted.or(published) };
    let network = booted.unwrap_or(record.rendering().network);
    network.holds(record.anchor().0).then_some(network)
}

#[cfg(test)]
mod tests {
    use super::super::record::Ends;
    use super::*;
    use crate::fixtures::mtu;

    const NETWORK: (u32, u32) = (1400, 8900);
    const HOST: (u32, u32) = (1500, 9000);

    fn record(epoch: u64, stage: Stage) -> Record {
        let ends = |(from, to)| Ends { from: mtu(from), to: mtu(to) };
        let change = Change { network: ends(NETWORK), host: ends(HOST), stage, back: false };
        Record { epoch, change: Some(change), ..Record::settled(mtu(NETWORK.0)) }
    }

    #[test]
    fn a_node_serves_only_at_sizes_that_go_with_the_cluster() {
        let (network, host) = (NETWORK, HOST);
        let span = |(a, b): (u32, u32)| Envelope::spanning(mtu(a), mtu(b));
        let runs = |network: Option<(u32, u32)>, host: (u32, u32)| Booted {
            epoch: 0,
            network: network.map(span),
            host: span(host),
            own: mtu(host.0),
            original: mtu(host.0),
        };
        let idle = Record::settled(mtu(1400));
        let spreading = record(1, Stage::Spreading { finish: false });
        let settling = record(2, Stage::Settling);
        let (fresh, jumbo) = (runs(None, (1500, 1500)), runs(None, (9000, 9000)));
        let (old, new) = (runs(Some((1400, 1400)), (1500, 1500)), runs(Some((8900, 8900)), (9000, 9000)));
        let both = runs(Some(network), host);
        let (smaller, ended) = (runs(None, (1460, 1460)), record(2, Stage::Returning).ended());
        type Row = (Booted, Record, bool, Option<(u32, u32)>);
        let rows: &[Row] = &[
            (fresh, idle, true, Some((1400, 1400))),
            (fresh, spreading, true, None),
            (fresh, settling, true, None),
            (jumbo, idle, true, Some((1400, 1400))),
            (jumbo, spreading, true, None),
            (jumbo, settling, true, Some((8900, 8900))),
            (runs(None, host), spreading, true, Some(network)),
            (old, idle, false, Some((1400, 1400))),
            (old, spreading, false, Some((1400, 1400))),
            // It was not counted: phase two may be about to begin without it.
            (old, spreading, true, None),
            (old, settling, false, None),
            (both, spreading, true, Some(network)),
            (both, settling, true, Some(network)),
            (new, settling, false, Some((8900, 8900))),
            (new, spreading, false, None),
            (new, idle, false, None),
            // Where hosts were taken to 1500 once, who comes holds that; who was there is its owner's.
            (jumbo, ended, true, None),
            (jumbo, ended, false, Some((1400, 1400))),
            (runs(None, host), ended, true, Some((1400, 1400))),
            (fresh, ended, true, Some((1400, 1400))),
            (smaller, ended, true, None),
            (smaller, ended, false, Some((1400, 1400))),
            (fresh, record(2, Stage::Settling).ended(), true, None),
        ];
        for (booted, record, newcomer, serves) in rows {
            let arrival =
                Arrival { booted, record, headers: 58, newcomer: *newcomer, told: false, unstarted: false };
            let served = match admit(&arrival) {
                Admit::Serve(envelope) => Some(envelope),
                Admit::Wait(_) => None,
            };
            assert_eq!(
                served,
                serves.map(span),
                "{booted:?} {:?} {newcomer}",
                record.change.map(|c| c.stage)
            );
            assert_eq!(admit(&Arrival { told: true, ..arrival }), Admit::Wait(NotYet::Told));
            let unstarted = admit(&Arrival { unstarted: true, ..arrival });
            let expected = if *newcomer { Admit::Wait(NotYet::Unstarted) } else { admit(&arrival) };
            assert_eq!(unstarted, expected, "who was there is counted with what is on its disk");
        }
    }

    #[test]
    fn a_host_that_does_not_go_with_where_the_last_change_led_is_told_what_helps() {
        let says = |host: u32, ended: Stage| {
            let (network, host) = (None, mtu(host));
            let booted =
                Booted { epoch: 0, network, host: Envelope::settled(host), own: host, original: host };
            let record = record(2, ended).ended();
            let arrival = Arrival {
                booted: &booted,
                record: &record,
                headers: 58,
                newcomer: true,
                told: false,
                unstarted: false,
            };
            match admit(&arrival) {
                Admit::Wait(why) => why.to_string(),
                Admit::Serve(_) => String::new(),
            }
        };
        assert_eq!(
            says(9000, Stage::Returning),
            "the host's uplink runs at 9000, the cluster's at 1500; the node must take its configuration first"
        );
        assert_eq!(
            says(1460, Stage::Returning),
            "the host's uplink has MTU 1460, the last change left the other hosts at 1500: raise it, or change the MTU of all"
        );
        // What pods need is said first: raised to that it is large enough for them, and told of the rest.
        assert_eq!(
            says(1500, Stage::Settling),
            "the host's uplink has MTU 1500; pods at 8900 need at least 8958"
        );
        assert_eq!(says(1500, Stage::Returning), "");
    }

    #[test]
    fn a_node_whose_link_nobody_gave_a_size_stays_where_it_was_while_the_cluster_moves_and_joins_none_that_does()
     {
        let at = |bytes| Ok(Some(Envelope::settled(mtu(bytes))));
        let target = Some(Envelope::settled(mtu(8900)));
        let admitted = |record: Option<&Record>, newcomer| admit_unsized(record, newcomer, target);
        assert_eq!(admitted(None, true), at(8900));
        assert_eq!(admit_unsized(None, true, None), Ok(None));
        for newcomer in [true, false] {
            assert_eq!(admitted(Some(&Record::settled(mtu(1400))), newcomer), at(1400));
            let settling = record(2, Stage::Settling);
            assert_eq!(admitted(Some(&settling), newcomer), Err(NotYet::Unsized));
            assert_eq!(admitted(Some(&settling.ended()), newcomer), at(8900));
        }
        for stage in [Stage::Spreading { finish: false }, Stage::Spreading { finish: true }, Stage::Returning]
        {
            // What is published is where the cluster goes.
            assert_eq!(admitted(Some(&record(1, stage)), false), at(1400));
            assert_eq!(admitted(Some(&record(1, stage)), true), Err(NotYet::Unsized));
        }
    }

    #[test]
    fn a_node_that_can_ask_nobody_serves_only_what_goes_with_what_it_last_knew() {
        let at = |bytes| Some(Envelope::settled(mtu(bytes)));
        let (settled, settling) = (Record::settled(mtu(1400)), record(2, Stage::Settling));
        for (booted, known, published, serves) in [
            (None, None, None, None),
            (None, None, at(1400), at(1400)),
            (at(1300), None, at(1400), at(1300)),
            (None, Some(&settled), None, at(1400)),
            (at(1400), Some(&settled), at(9000), at(1400)),
            (at(1400), Some(&settling), at(1400), None),
        ] {
            assert_eq!(admit_alone(booted, known, published), serves, "{booted:?} {known:?} {published:?}");
        }
    }
}
