//! What one node has and no other can.

use std::net::IpAddr;

use crate::overlay::allocate::NodeId;
use crate::overlay::cluster::Node;

/// What no two nodes can have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Claim {
    Id(NodeId),
    Chassis(String),
    Encap(IpAddr),
}

impl Claim {
    pub(super) fn of(node: &Node) -> [Claim; 3] {
        [Claim::Id(node.assignment.id()), Claim::Chassis(node.chassis.clone()), Claim::Encap(node.encap)]
    }

    pub(super) fn text(&self) -> String {
        match self {
            Claim::Id(id) => format!("id {id}"),
            Claim::Chassis(chassis) => format!("chassis {chassis}"),
            Claim::Encap(address) => format!("tunnel address {address}"),
        }
    }
}
