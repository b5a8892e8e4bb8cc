//! Offload switches of links (`ethtool -K`), through ethtool's netlink interface.
//!
//! A userspace switch that reads frames from a veth sees them before anybody filled in checksums or cut
//! segments: with these switches on, it would forward what no wire can carry.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Attempt, Error, Result};
use crate::generic::{self, HEADER as GENERIC_HEADER};
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::name::IfName;
use crate::objects::Objects;
use crate::wire::{Attributes, Batch, Message, Writer, attribute, flag, str};

const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const HEADER: u16 = 1;
const HARDWARE: u16 = 2;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
const DEVICE_NAME: u16 = 2;
const BITSET_SIZE: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITSET_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// One switch of `ethtool -K`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// Checksums of what is received.
    RxChecksum,
    /// Checksums of what is sent.
    TxChecksum,
    /// Sending from several buffers.
    ScatterGather,
    /// TCP segmentation.
    Tso,
    /// Generic segmentation.
    Gso,
    /// Joining received segments.
    Gro,
}

impl Offload {
    /// All that must be off where a userspace switch reads frames.
    pub const ALL: [Offload; 6] = [
        Offload::RxChecksum,
        Offload::TxChecksum,
        Offload::ScatterGather,
        Offload::Tso,
        Offload::Gso,
        Offload::Gro,
    ];

    /// Is a switch of the kernel, which are finer and grow in number, a part of this one?
    pub fn covers(self, feature: &str) -> bool {
        match self {
            Offload::RxChecksum => feature == "rx-checksum",
            Offload::TxChecksum => feature.starts_with("tx-checksum-"),
            Offload::ScatterGather => feature.starts_with("tx-scatter-gather"),
            Offload::Tso => feature.starts_with("tx-tcp") && feature.ends_with("-segmentation"),
            Offload::Gso => feature == "tx-generic-segmentation",
            Offload::Gro => feature == "rx-gro",
        }
    }
}

/// What a link can do, and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Features {
    /// Can be switched.
    pub switchable: BTreeSet<String>,
    /// Is on.
    pub active: BTreeSet<String>,
}

impl Features {
    /// Is any part of it on?
    pub fn is_on(&self, offload: Offload) -> bool {
        self.active.iter().any(|f| offload.covers(f))
    }
}

/// The switches wanted, per link.
pub type Switches = BTreeMap<IfName, BTreeMap<Offload, bool>>;
/// The kernel's switches to turn, per link.
pub type Turns = BTreeMap<IfName, BTreeMap<String, bool>>;

/// What to turn. What a link cannot turn is left out: there is nothing to be done about it.
pub fn diff(want: &Switches, have: &BTreeMap<IfName, Features>) -> Turns {
    let mut turns = Turns::new();
    for (link, switches) in want {
        let Some(features) = have.get(link) else { continue };
        for (offload, on) in switches {
            let turnable = features.switchable.iter().filter(|f| offload.covers(f));
            for feature in turnable.filter(|f| features.active.contains(*f) != *on) {
                turns.entry(link.clone()).or_default().insert(feature.clone(), *on);
            }
        }
    }
    turns
}

/// See [`Kernel::offloads`].
#[derive(Debug)]
pub struct Offloads<'k>(pub(crate) &'k Kernel);

impl Offloads<'_> {
    /// One link's.
    pub fn of(&self, link: &IfName) -> Result<Features> {
        let family = self.family()?;
        self.0.generic_socket().ask(
            family,
            &format!("offloads of link {link}"),
            |w| {
                w.raw(&[FEATURES_GET, 1, 0, 0]).nest(HEADER, |w| {
                    w.str(DEVICE_NAME, link.as_str());
                });
            },
            |message| read(message).map(|(_, features)| features),
        )
    }

    fn family(&self) -> Result<u16> {
        generic::family(self.0, "ethtool")
    }

    /// Observe, diff, apply for exactly these links. A switch that stayed although the driver says it can be
    /// turned is an error: it is not off because we asked.
    pub fn converge_links(&self, want: &Switches) -> Result<Turns> {
        let mut have = BTreeMap::new();
        for link in want.keys() {
            have.insert(link.clone(), self.of(link)?);
        }
        let turns = diff(want, &have);
        self.apply(&turns)?;
        for (link, switches) in &turns {
            let now = self.of(link)?;
            if let Some((feature, _)) = switches.iter().find(|(f, on)| now.active.contains(*f) != **on) {
                return Err(Error::invalid(format!("offload {feature} of link {link}"), "did not turn"));
            }
        }
        Ok(turns)
    }
}

impl Objects for Offloads<'_> {
    type Want = Switches;
    type State = BTreeMap<IfName, Features>;
    type Changes = Turns;

    fn observe(&self) -> Result<BTreeMap<IfName, Features>> {
        let family = self.family()?;
        let found = self.0.generic_socket().dump(
            family,
            "offloads",
            |w| {
                w.raw(&[FEATURES_GET, 1, 0, 0]).nest(HEADER, |_| {});
            },
            |message, found| found.extend(read(message)),
        )?;
        Ok(found.into_iter().collect())
    }

    fn diff(want: &Switches, have: &BTreeMap<IfName, Features>, _: &Mark) -> Turns {
        diff(want, have)
    }

    fn apply(&self, turns: &Turns) -> Result<()> {
        if turns.is_empty() {
            return Ok(());
        }
        let family = self.family()?;
        let mut batch = Batch::default();
        for (link, switches) in turns {
            batch.push(family, flag::ACK, Attempt::Setting, format!("offloads of link {link}"), |w| {
                w.raw(&[FEATURES_SET, 1, 0, 0]).nest(HEADER, |w| {
                    w.str(DEVICE_NAME, link.as_str());
                });
                w.nest(WANTED, |w| write(w, switches));
            });
        }
        self.0.generic_socket().run(batch)
    }

    fn converge(&self, want: &Switches, _: &Mark) -> Result<Turns> {
        self.converge_links(want)
    }
}

/// A bit that is named is in the mask; whether it has a value attribute says on or off.
fn write(w: &mut Writer, switches: &BTreeMap<String, bool>) {
    w.nest(BITSET_BITS, |w| {
        for (name, on) in switches {
            w.nest(BITSET_BIT, |w| {
                w.str(BIT_NAME, name);
                if *on {
                    w.flag(BIT_VALUE);
                }
            });
        }
    });
}

fn read(message: Message<'_>) -> Option<(IfName, Features)> {
    let a = Attributes::after(message.body, GENERIC_HEADER);
    let link = a.inside(HEADER).find(DEVICE_NAME).and_then(str)?;
    // A complete set names every bit and gives those that are on a value; an abbreviated one lists only those on.
    let names = |kind: u16| -> BTreeSet<String> {
        let set = a.inside(kind);
        let complete = set.find(BITSET_SIZE).and_then(attribute::u32).is_some() && set.find(1).is_none();
        set.inside(BITSET_BITS)
            .into_iter()
            .filter(|(kind, _)| *kind == BITSET_BIT)
            .map(|(_, bit)| Attributes(bit))
            .filter(|bit| !complete || bit.find(BIT_VALUE).is_some())
            .filter_map(|bit| bit.find(BIT_NAME).and_then(str))
            .collect()
    };
    Some((IfName::reported(&link), Features { switchable: names(HARDWARE), active: names(ACTIVE) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_and_can_be_turned_is_turned() {
        let name = IfName::new("veth0").unwrap();
        let names = |of: &[&str]| of.iter().map(|s| (*s).to_owned()).collect::<BTreeSet<_>>();
        let features = Features {
            switchable: names(&["rx-gro", "tx-generic-segmentation"]),
            active: names(&["rx-gro", "rx-checksum"]),
        };
        let want = Switches::from([(name.clone(), Offload::ALL.iter().map(|o| (*o, false)).collect())]);
        let turns = diff(&want, &BTreeMap::from([(name.clone(), features)]));
        assert_eq!(turns, Turns::from([(name, BTreeMap::from([("rx-gro".to_owned(), false)]))]));
    }
}
