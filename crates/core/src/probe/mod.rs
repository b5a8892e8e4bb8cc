//! Probes whether full-size packets that must not be fragmented reach other nodes.
//!
//! Nodes try each other, each every other one, and publish what they found ([`Report`]); [`crate::mtu::probe`] makes of it what
//! holds a change up. `docs/adr/0013-every-node-tries-every-other.md` tells why so little has to be published.

pub mod ledger;
pub mod message;
pub mod round;
pub mod turns;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use sha2::{Digest, Sha256};

use crate::name::NodeName;
use crate::net::Family;
use crate::size::{Envelope, Mtu};

/// Between whose addresses packets go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    /// The hosts' own: over the uplink, as they are.
    Hosts,
    /// The pod network's: wrapped, from management port to management port.
    Pods,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Hosts => "hosts",
            Layer::Pods => "pods",
        })
    }
}

/// One way from a node to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Way {
    /// Between whose addresses.
    pub layer: Layer,
    /// Of which family.
    pub family: Family,
}

impl Way {
    /// All there are, each with the word it goes by.
    pub const ALL: [(Way, &'static str); 4] = [
        (Way { layer: Layer::Hosts, family: Family::V4 }, "hosts-ipv4"),
        (Way { layer: Layer::Hosts, family: Family::V6 }, "hosts-ipv6"),
        (Way { layer: Layer::Pods, family: Family::V4 }, "pods-ipv4"),
        (Way { layer: Layer::Pods, family: Family::V6 }, "pods-ipv6"),
    ];

    /// The way a word names.
    pub fn named(word: &str) -> Option<Way> {
        Way::ALL.iter().find(|(_, name)| *name == word).map(|(way, _)| *way)
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        Way::ALL.iter().find(|(way, _)| *way == self).map_or("", |(_, name)| name)
    }

    /// The smallest size every link of this family has: what a packet is sent at to see whether anybody is there.
    pub fn floor(self) -> Mtu {
        let bytes = match self.family {
            Family::V4 => Mtu::MIN,
            Family::V6 => Mtu::MIN_V6,
        };
        Mtu::new(bytes).expect("the smallest size is one")
    }

    /// What of a packet of this size is left for a datagram.
    pub fn payload(self, size: Mtu) -> usize {
        let headers = match self.family {
            Family::V4 => 20 + 8,
            Family::V6 => 40 + 8,
        };
        usize::try_from(size.bytes()).map_or(0, |size| size.saturating_sub(headers))
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.layer, self.family)
    }
}

/// A node as others try it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Which object it is: one that was removed and came back is another.
    pub uid: String,
    /// Where it answers.
    pub addresses: Vec<(Way, IpAddr)>,
    /// What it runs; nothing on a node that has not said so.
    pub runs: Option<Runs>,
    /// Whether it should answer now: it is ready and not on its way to a restart.
    pub there: bool,
}

impl Peer {
    /// Where it answers on this way.
    pub fn address(&self, way: Way) -> Option<IpAddr> {
        self.addresses.iter().find(|(of, _)| *of == way).map(|(_, address)| *address)
    }
}

/// What a node runs, as far as probes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs {
    /// By which rendering.
    pub epoch: u64,
    /// Its uplink.
    pub hosts: Envelope,
    /// Its management port and pods.
    pub pods: Envelope,
}

impl Runs {
    /// What it runs on this layer.
    pub fn on(&self, layer: Layer) -> Envelope {
        match layer {
            Layer::Hosts => self.hosts,
            Layer::Pods => self.pods,
        }
    }
}

/// What a node found out about the ways to all others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The rendering it ran by.
    pub epoch: u64,
    /// What trying every way to every other node came to; nothing while some were not tried.
    pub all: Option<All>,
    /// Ways that are too narrow for what both ends carry.
    pub narrow: Vec<Narrow>,
    /// Ways on which more is lost than is allowed.
    pub losses: Vec<Loss>,
}

impl Report {
    /// Whether this is worth publishing over `last`. Progress is not: every node would write whenever any other one
    /// restarts.
    pub fn is_news(&self, last: Option<&Report>) -> bool {
        let Some(last) = last else { return true };
        self.narrow != last.narrow
            || self.losses != last.losses
            || (self.all.is_some() && (&self.all, self.epoch) != (&last.all, last.epoch))
    }
}

/// What trying every way to every other node came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct All {
    /// The nodes, itself included, that all ran by the same rendering.
    pub roll: Roll,
    /// The most that gets through to each of them, by way.
    pub widths: BTreeMap<Way, Mtu>,
}

/// A way that is too narrow for what both ends carry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Narrow {
    /// Where to.
    pub to: NodeName,
    /// How.
    pub way: Way,
    /// What both ends carry.
    pub tried: Mtu,
    /// The most that gets through.
    pub passes: Mtu,
}

/// A way on which more is lost than is allowed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Loss {
    /// Where to.
    pub to: NodeName,
    /// How.
    pub way: Way,
    /// So many trials failed.
    pub lost: u32,
    /// Of so many.
    pub of: u32,
}

/// Which nodes there are, in one number: a list of a thousand names would be too much for each of a thousand nodes to
/// publish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Roll(pub u64);

impl Roll {
    /// Of these nodes, in order of name, each with the identity of its object.
    pub fn of<'a>(nodes: impl IntoIterator<Item = (&'a NodeName, &'a str)>) -> Roll {
        let mut hash = Sha256::new();
        for (name, uid) in nodes {
            // Neither a name nor an identity contains either of these.
            hash.update(format!("{name}/{uid}\n"));
        }
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        Roll(u64::from_be_bytes(first))
    }
}

impl fmt::Display for Roll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::name;

    #[test]
    fn ways_go_by_their_words() {
        for (way, word) in Way::ALL {
            assert_eq!((Way::named(word), way.name()), (Some(way), word));
        }
        assert_eq!(Way::named("hosts"), None);
    }

    #[test]
    fn a_roll_tells_every_node_apart() {
        let (a, b, ab) = (name("a"), name("b"), name("ab"));
        let rolls = [
            Roll::of([]),
            Roll::of([(&a, "1")]),
            Roll::of([(&a, "2")]),
            Roll::of([(&a, "1"), (&b, "1")]),
            Roll::of([(&ab, "1")]),
        ];
        let different: std::collections::BTreeSet<_> = rolls.iter().collect();
        assert_eq!(different.len(), rolls.len());
        assert_eq!(Roll::of([(&a, "1")]), Roll::of([(&a, "1")]));
    }

    #[test]
    fn trouble_and_completeness_are_news_and_progress_is_not() {
        let way = Way::ALL[0].0;
        let found = Report { epoch: 3, ..Report::default() };
        assert!(found.is_news(None));
        assert!(!Report { epoch: 4, ..Report::default() }.is_news(Some(&found)));
        let all = All { roll: Roll(1), widths: [(way, way.floor())].into() };
        let all = Report { all: Some(all), ..found.clone() };
        assert!(all.is_news(Some(&found)) && !all.is_news(Some(&all)) && !found.is_news(Some(&all)));
        assert!(Report { epoch: 4, ..all.clone() }.is_news(Some(&all)));
        let lost = Report { losses: vec![Loss { to: name("b"), way, lost: 4, of: 20 }], ..found.clone() };
        assert!(lost.is_news(Some(&all)) && all.is_news(Some(&lost)));
    }
}
