//! Who is tried, and when everybody was.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::ledger::{Aim, Ledger};
use super::{All, Peer, Roll, Runs, Way};
use crate::name::NodeName;
use crate::size::Mtu;

/// All nodes, by name.
pub type Peers = BTreeMap<NodeName, Peer>;

/// What a node that runs this and is itself known as `own` tries with another one. Nothing before both have said what
/// they run: larger packets than both ends carry would only be lost.
pub fn aims(runs: &Runs, own: &Peer, other: &Peer) -> Vec<(Way, IpAddr, Aim)> {
    let Some(theirs) = other.runs else { return Vec::new() };
    let aim = |(way, address): &(Way, IpAddr)| {
        own.address(*way)?;
        let (mine, theirs) = (runs.on(way.layer), theirs.on(way.layer));
        let size = mine.carries().min(theirs.carries());
        Some((*way, *address, Aim { size, usual: mine.sends().min(size) }))
    };
    other.addresses.iter().filter_map(aim).collect()
}

/// Whether a change is on its way through the nodes, so that they are tried often.
pub fn is_moving(runs: &Runs, peers: &Peers) -> bool {
    let apart = |peer: &Peer| peer.runs.is_some_and(|theirs| theirs.epoch != runs.epoch);
    runs.hosts.pin().is_some() || runs.pods.pin().is_some() || peers.values().any(apart)
}

/// What trying every way to every other node came to; nothing while one was not tried or is at another rendering.
pub fn all(me: &NodeName, runs: &Runs, peers: &Peers, ledger: &Ledger) -> Option<All> {
    let own = peers.get(me)?;
    let mut widths: BTreeMap<Way, Mtu> = BTreeMap::new();
    for (name, peer) in peers.iter().filter(|(name, _)| *name != me) {
        let aims = aims(runs, own, peer);
        if peer.runs?.epoch != runs.epoch || aims.is_empty() {
            return None;
        }
        for (way, _, aim) in aims {
            let width = ledger.width(name, way, aim)?;
            widths.entry(way).and_modify(|least| *least = width.min(*least)).or_insert(width);
        }
    }
    let roll = Roll::of(peers.iter().map(|(name, peer)| (name, peer.uid.as_str())));
    Some(All { roll, widths })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::ledger::Answers;
    use super::*;
    use crate::fixtures::{mtu, name};
    use crate::size::Envelope;

    fn runs(epoch: u64, hosts: Envelope, pods: Envelope) -> Runs {
        Runs { epoch, hosts, pods }
    }

    fn before() -> Runs {
        runs(1, Envelope::settled(mtu(1500)), Envelope::settled(mtu(1400)))
    }

    fn phase_one() -> Runs {
        runs(2, Envelope::spanning(mtu(1500), mtu(9000)), Envelope::spanning(mtu(1400), mtu(8900)))
    }

    fn peer(last: u8, runs: Runs) -> Peer {
        let addresses = vec![
            (Way::named("hosts-ipv4").unwrap(), IpAddr::from([172, 30, 0, last])),
            (Way::named("pods-ipv4").unwrap(), IpAddr::from([10, 244, last, 2])),
        ];
        Peer { uid: last.to_string(), addresses, runs: Some(runs), there: true }
    }

    fn sizes(a: Runs, b: Runs) -> Vec<(u32, u32)> {
        let aims = aims(&a, &peer(1, a), &peer(2, b));
        aims.iter().map(|(_, _, aim)| (aim.size.bytes(), aim.usual.bytes())).collect()
    }

    #[test]
    fn the_new_size_is_tried_as_soon_as_two_nodes_carry_it() {
        assert_eq!(sizes(before(), before()), [(1500, 1500), (1400, 1400)]);
        assert_eq!(sizes(phase_one(), before()), [(1500, 1500), (1400, 1400)]);
        assert_eq!(sizes(phase_one(), phase_one()), [(9000, 1500), (8900, 1400)]);
        assert!(is_moving(&before(), &[(name("b"), peer(2, phase_one()))].into()));
        assert!(is_moving(&phase_one(), &[(name("b"), peer(2, phase_one()))].into()));
        assert!(!is_moving(&before(), &[(name("b"), peer(2, before()))].into()));
    }

    #[test]
    fn a_family_one_end_does_not_have_is_not_tried() {
        let (mut a, b) = (peer(1, before()), peer(2, before()));
        a.addresses.remove(0);
        let ways: Vec<_> = aims(&before(), &a, &b).into_iter().map(|(way, _, _)| way.name()).collect();
        assert_eq!(ways, ["pods-ipv4"]);
        assert_eq!(aims(&before(), &a, &Peer { runs: None, ..b }), []);
    }

    #[test]
    fn the_roll_is_called_when_every_way_to_every_node_was_tried() {
        let (me, other) = (name("a"), name("b"));
        let mut peers: Peers = [(me.clone(), peer(1, before())), (other.clone(), peer(2, before()))].into();
        let mut ledger = Ledger::default();
        for (way, _, aim) in aims(&before(), &peers[&me], &peers[&other]) {
            assert_eq!(all(&me, &before(), &peers, &ledger), None);
            let size = ledger.next(&other, way, aim);
            ledger.enter(&other, way, size, Answers { small: true, large: true }, Duration::ZERO);
        }
        let found = all(&me, &before(), &peers, &ledger).unwrap();
        assert_eq!(found.roll, Roll::of([(&me, "1"), (&other, "2")]));
        let widths: Vec<_> = found.widths.iter().map(|(way, width)| (way.name(), width.bytes())).collect();
        assert_eq!(widths, [("hosts-ipv4", 1500), ("pods-ipv4", 1400)]);
        assert_eq!(all(&me, &phase_one(), &peers, &ledger), None, "the other is not there yet");
        peers.insert(name("c"), Peer { runs: None, ..peer(3, before()) });
        assert_eq!(all(&me, &before(), &peers, &ledger), None, "a node that says nothing was not tried");
    }
}
