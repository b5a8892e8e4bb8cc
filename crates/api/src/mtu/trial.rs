//! `netferry.dev/mtu-trial`: trying beforehand whether the wire carries what a change leads to.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::annotation::{Wired, json_annotation};

/// `netferry.dev/mtu-trial`, on a node: its uplink is asked to carry more for a while, and to send no more than before.
///
/// It ends by itself, whatever becomes of whoever asked.
///
/// Invariant: no MTU is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MtuTrial {
    /// What the uplink is to carry.
    pub host: u32,
    /// Until when, by the node's clock.
    pub until: Timestamp,
}

impl Wired for MtuTrial {
    type Wire = MtuTrial;

    fn from_wire(wire: MtuTrial) -> Result<Self, String> {
        if wire.host == 0 { Err("host is 0".into()) } else { Ok(wire) }
    }

    fn to_wire(&self) -> MtuTrial {
        *self
    }
}

json_annotation!(MtuTrial, "netferry.dev/mtu-trial");

/// What became of a trial a node is asked for, told with what it observes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrialObserved {
    /// It is under way; this is what the uplink carried before it and carries after it.
    Before(u32),
    /// It is not, and why.
    Refused(String),
}
