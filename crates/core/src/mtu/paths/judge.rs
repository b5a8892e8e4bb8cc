//! What the sizes that were measured mean, beside those that are configured.

use std::fmt;

use super::super::record::Record;
use super::Ask;
use crate::overlay::path::Kind;
use crate::size::Mtu;

/// One direction of a path, as it was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leg {
    /// The largest packet that is sent.
    pub uses: u32,
    /// The largest that arrived; 0 where none did.
    pub passes: u32,
}

/// A path, as it was measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Which.
    pub ask: Ask,
    /// From who asks to who answers.
    pub there: Leg,
    /// And back; nothing where both directions are one, as a ping's are, or where nothing arrived.
    pub back: Option<Leg>,
}

impl Measured {
    /// The size this path is to have while `record` stands: the largest packet that may be sent, and the least that this
    /// may be if no change is under way. Nothing where it is not ours to say.
    pub fn configured(&self, record: &Record) -> Option<Bounds> {
        let (pods, hosts) = record.anchor();
        match self.ask.kind {
            // The world takes what it takes. That pods find out how much is what counts.
            Kind::PodOutside => None,
            // A host may remember that a way took less: pods' packets leave under its address, and what they are told
            // of the way back is told to it.
            Kind::HostHost => Some(Bounds { most: hosts.or(record.hosts)?, least: pods }),
            Kind::PodPodSameNode
            | Kind::PodPodAcross
            | Kind::PodHost
            | Kind::HostPod
            | Kind::PodClusterIp
            | Kind::HostClusterIp
            | Kind::OutsideNodePortLocal
            | Kind::OutsideNodePortRemote
            | Kind::PodNodePort
            | Kind::Hairpin => Some(Bounds { most: pods, least: pods }),
        }
    }
}

/// Which sizes are right for a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// What is configured.
    pub most: Mtu,
    /// The least that may be used instead.
    pub least: Mtu,
}

/// What is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// On which path.
    pub ask: Ask,
    /// Of what came back, not of what went there.
    pub back: bool,
    /// What.
    pub what: Fault,
}

/// What can be wrong with one direction of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing arrives.
    Silent,
    /// What is sent does not arrive.
    Lost {
        /// The largest packet that is sent.
        uses: u32,
        /// The largest that arrives.
        passes: u32,
    },
    /// Packets of another size are sent than is configured.
    Size {
        /// What is sent.
        uses: u32,
        /// What is configured.
        configured: Mtu,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.ask.describe();
        let way = if self.back { " back" } else { "" };
        match self.what {
            Fault::Silent => write!(f, "{path}: nothing comes{way}"),
            Fault::Lost { uses, passes } => {
                write!(f, "{path}: packets of {uses} are sent{way}, and all above {passes} are lost")
            }
            Fault::Size { uses, configured } => {
                write!(f, "{path}: packets of {uses} are sent{way}, and {configured} is configured")
            }
        }
    }
}

/// What is wrong with a path while `record` stands.
///
/// Whatever is configured: what is sent must arrive, or it is lost without a word.
pub fn judge(record: &Record, measured: &Measured) -> Vec<Wrong> {
    let wrong = |back, what| Wrong { ask: measured.ask.clone(), back, what };
    if measured.there.passes == 0 {
        return vec![wrong(false, Fault::Silent)];
    }
    let legs = [(false, Some(measured.there)), (true, measured.back)];
    let legs = legs.into_iter().filter_map(|(back, leg)| Some((back, leg?)));
    let bounds = measured.configured(record);
    // During a change a node may send less than every node holds.
    let settled = record.change.is_none();
    legs.filter_map(|(back, Leg { uses, passes })| {
        let misfit =
            bounds.filter(|Bounds { most, least }| uses > most.bytes() || (settled && uses < least.bytes()));
        let what = match (passes, misfit) {
            (0, _) => Fault::Silent,
            (passes, _) if passes < uses => Fault::Lost { uses, passes },
            (_, Some(Bounds { most, .. })) => Fault::Size { uses, configured: most },
            (_, None) => return None,
        };
        Some(wrong(back, what))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{mtu, name};
    use crate::mtu::paths::{Asker, Target};
    use crate::mtu::record::{Change, Ends, Stage};

    fn settled() -> Record {
        Record { hosts: Some(mtu(9000)), ..Record::settled(mtu(8900)) }
    }

    fn changing() -> Record {
        let ends = |from, to| Ends { from: mtu(from), to: mtu(to) };
        let stage = Stage::Spreading { finish: false };
        let change = Change { network: ends(8900, 1400), host: ends(9000, 1500), stage, back: false };
        Record { change: Some(change), ..settled() }
    }

    fn said(record: &Record, kind: Kind, there: (u32, u32), back: Option<(u32, u32)>) -> Vec<String> {
        let leg = |(uses, passes)| Leg { uses, passes };
        let ask = Ask {
            kind,
            asker: Asker::Pod,
            from: name("a"),
            to: (kind != Kind::PodOutside).then(|| name("b")),
            target: Target::Echoes([192, 0, 2, 1].into()),
            at_most: None,
        };
        let measured = Measured { ask, there: leg(there), back: back.map(leg) };
        judge(record, &measured).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_is_right_if_what_is_configured_is_sent_and_arrives_both_ways() {
        let full = (8900, 8900);
        assert_eq!(said(&settled(), Kind::PodPodAcross, full, Some(full)), [""; 0]);
        assert_eq!(
            said(&settled(), Kind::PodPodAcross, (1400, 1400), Some(full)),
            ["pod-pod-across from a to b, IPv4: packets of 1400 are sent, and 8900 is configured"]
        );
        assert_eq!(
            said(&settled(), Kind::PodClusterIp, full, Some((9000, 9000))),
            ["pod-clusterip from a to b, IPv4: packets of 9000 are sent back, and 8900 is configured"]
        );
    }

    #[test]
    fn what_is_sent_and_does_not_arrive_is_named_before_everything_else() {
        let full = (8900, 8900);
        assert_eq!(
            said(&settled(), Kind::HostPod, (9000, 1500), Some((8900, 0))),
            [
                "host-pod from a to b, IPv4: packets of 9000 are sent, and all above 1500 are lost",
                "host-pod from a to b, IPv4: nothing comes back",
            ]
        );
        assert_eq!(
            said(&settled(), Kind::PodHost, (8900, 0), None),
            ["pod-host from a to b, IPv4: nothing comes"]
        );
        assert_eq!(
            said(&changing(), Kind::PodHost, full, Some((8900, 1400))),
            ["pod-host from a to b, IPv4: packets of 8900 are sent back, and all above 1400 are lost"]
        );
    }

    #[test]
    fn during_a_change_less_may_be_sent_and_never_more_than_every_node_holds() {
        let (small, full) = ((1400, 1400), (8900, 8900));
        assert_eq!(said(&changing(), Kind::PodPodAcross, small, Some(full)), [""; 0]);
        assert_eq!(said(&changing(), Kind::PodPodAcross, (8901, 8901), Some(full)).len(), 1);
    }

    #[test]
    fn hosts_may_remember_less_but_no_less_than_pods_and_the_world_takes_what_it_takes() {
        for (uses, wrong) in [(9000, 0), (8900, 0), (8899, 1), (9001, 1)] {
            assert_eq!(said(&settled(), Kind::HostHost, (uses, uses), None).len(), wrong, "{uses}");
        }
        assert_eq!(
            said(&Record::settled(mtu(8900)), Kind::HostHost, (1500, 1500), None),
            [""; 0],
            "hosts' own"
        );
        assert_eq!(said(&settled(), Kind::PodOutside, (1500, 1500), None), [""; 0]);
        assert_eq!(
            said(&settled(), Kind::PodOutside, (8900, 1500), None),
            [
                "pod-outside from a to the outside, IPv4: packets of 8900 are sent, and all above 1500 are lost"
            ]
        );
    }
}
