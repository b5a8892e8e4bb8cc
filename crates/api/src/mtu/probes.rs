//! `netferry.dev/mtu-probes`: what a node found out about the ways to all others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::annotation::{Wired, json_annotation};

/// `netferry.dev/mtu-probes`, on a node: whether full-size packets get from it to every other node.
///
/// Written when trouble comes or goes, and when every way was tried; not for progress.
///
/// Invariant: ways are known, nodes have names, what passes is less than what was tried, and no more is lost than was
/// sent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MtuProbes {
    /// The rendering of the cluster's sizes the node ran by.
    pub epoch: u64,
    /// The nodes among which every way was tried, itself included, in one number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roll: Option<String>,
    /// The most that gets through to each of them, by way.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub widths: BTreeMap<String, u32>,
    /// Ways that are too narrow for what both ends carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrow: Vec<NarrowWay>,
    /// Ways on which more is lost than is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<LossyWay>,
    /// How many more there are of either.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more: usize,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// A way that is too narrow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NarrowWay {
    /// To which node.
    pub to: String,
    /// `hosts-ipv4`, `hosts-ipv6`, `pods-ipv4` or `pods-ipv6`.
    pub way: String,
    /// What both ends carry.
    pub tried: u32,
    /// The most that gets through.
    pub passes: u32,
}

/// A way on which more is lost than is allowed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossyWay {
    /// To which node.
    pub to: String,
    /// As in [`NarrowWay`].
    pub way: String,
    /// So many trials failed.
    pub lost: u32,
    /// Of so many.
    pub of: u32,
}

/// The words ways go by.
const WAYS: [&str; 4] = ["hosts-ipv4", "hosts-ipv6", "pods-ipv4", "pods-ipv6"];

impl Wired for MtuProbes {
    type Wire = MtuProbes;

    fn from_wire(wire: MtuProbes) -> Result<Self, String> {
        let narrow = wire.narrow.iter().map(|one| (&one.to, &one.way));
        let lossy = wire.losses.iter().map(|one| (&one.to, &one.way));
        let (nodes, ways): (Vec<&String>, Vec<&String>) = narrow.chain(lossy).unzip();
        if nodes.iter().any(|node| node.is_empty()) {
            return Err("a way leads to no node".into());
        }
        if let Some(way) =
            ways.into_iter().chain(wire.widths.keys()).find(|way| !WAYS.contains(&way.as_str()))
        {
            return Err(format!("{way:?} is not one of {}", WAYS.join(", ")));
        }
        if let Some(one) = wire.narrow.iter().find(|one| one.passes >= one.tried) {
            return Err(format!("{} of {} pass to {}, which is not narrow", one.passes, one.tried, one.to));
        }
        if let Some(one) = wire.losses.iter().find(|one| one.lost > one.of) {
            return Err(format!("{} of {} are lost to {}", one.lost, one.of, one.to));
        }
        let hex = |roll: &String| roll.len() == 16 && roll.bytes().all(|b| b.is_ascii_hexdigit());
        match wire.roll.as_ref().filter(|roll| !hex(roll)) {
            Some(roll) => Err(format!("roll {roll:?} is not 16 hexadecimal digits")),
            None => Ok(wire),
        }
    }

    fn to_wire(&self) -> MtuProbes {
        self.clone()
    }
}

json_annotation!(MtuProbes, "netferry.dev/mtu-probes");
