//! What a node's zone really runs with, and under which leadership the operator last wrote the node.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::annotation::{Wired, any_text, any_value, json_annotation, text_annotation, truncated};

/// `netferry.dev/overlay-running`, on a node: the number and the pod subnets its zone was built with.
///
/// The allocator's annotations are orders and can be mangled or deleted by hand; this is a fact, written by the node.
/// It is what lets the allocator give a node back the subnet its pods live in.
///
/// Invariant: there is a subnet, and at most one of each family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverlayRunning {
    id: u32,
    subnets: Vec<IpNet>,
}

impl OverlayRunning {
    /// `None` if there is no subnet, or two of one family.
    pub fn new(id: u32, subnets: impl IntoIterator<Item = IpNet>) -> Option<OverlayRunning> {
        let mut subnets: Vec<IpNet> = subnets.into_iter().map(|net| net.trunc()).collect();
        subnets.sort_by_key(|net| net.addr().is_ipv6());
        let of_v4 = subnets.iter().filter(|net| net.addr().is_ipv4()).count();
        let fits = !subnets.is_empty() && of_v4 <= 1 && subnets.len() - of_v4 <= 1;
        fits.then_some(OverlayRunning { id, subnets })
    }

    /// The node's number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its pod subnets, IPv4 first.
    pub fn subnets(&self) -> &[IpNet] {
        &self.subnets
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverlayRunningWire {
    id: u32,
    subnets: Vec<String>,
}

impl Wired for OverlayRunning {
    type Wire = OverlayRunningWire;

    fn from_wire(wire: OverlayRunningWire) -> Result<Self, String> {
        let subnets = wire.subnets.iter().map(|text| truncated(text)).collect::<Result<Vec<_>, _>>()?;
        OverlayRunning::new(wire.id, subnets)
            .ok_or_else(|| "subnets: there must be one, and at most one of each family".into())
    }

    fn to_wire(&self) -> OverlayRunningWire {
        OverlayRunningWire { id: self.id, subnets: self.subnets.iter().map(IpNet::to_string).collect() }
    }
}

json_annotation!(OverlayRunning, "netferry.dev/overlay-running");

text_annotation! {
    /// `netferry.dev/leadership`, on a node: the leadership under which the operator last wrote the node. Unique to each
    /// leadership, so that writing it always changes the version of the Node. For people and audits: no decision reads
    /// it, because a node may write its own Node.
    LeadershipMark(String), "netferry.dev/leadership", any_text
}
any_value!(LeadershipMark(String));
