//! Where this node is: where it runs, before anything that is written of it.

use crate::overlay::allocate::Assignment;
use crate::overlay::cluster::Node;

use super::Model;

impl Model {
    /// Where the cluster says this node is, while it stays where it runs.
    pub fn told_elsewhere(&self) -> Option<&Assignment> {
        self.told.as_ref()
    }

    /// Moves this node to where the cluster says it is, if it has to leave where it runs and can.
    ///
    /// A node whose annotations somebody changed goes on as it is: without their gateway and the routes to them its
    /// pods would be cut off, and what it says to run with is how the operator puts the annotations right. A node
    /// without pods does so too, or it and the operator would follow each other to and fro. It has to leave what is
    /// another's, which it does when its last pod has left; and where all its pods are elsewhere, it goes there.
    pub(super) fn follow_place(&mut self) {
        let (Some(to), Some(node)) = (self.told, self.node()) else { return };
        let must = self.is_anothers(&node.assignment) || self.is_lived_in(&to);
        if !must || self.is_lived_in(&node.assignment) || self.is_anothers(&to) {
            return;
        }
        let node = Node { assignment: to, ..node.clone() };
        self.told = None;
        self.take_in(node);
    }

    /// Whether a pod that is attached, or being attached, has an address of these subnets.
    fn is_lived_in(&self, place: &Assignment) -> bool {
        let subnets = place.subnets();
        self.local.addresses_here().any(|address| subnets.iter().any(|net| net.contains(&address)))
    }

    fn is_anothers(&self, place: &Assignment) -> bool {
        let shares = |theirs: &Assignment| {
            let has = |net| theirs.subnets().iter().any(|other| other == net);
            theirs.id() == place.id() || place.subnets().iter().any(has)
        };
        let mut others = self.cluster.nodes.values().filter(|other| other.name != self.me);
        others.any(|other| shares(&other.assignment))
    }
}
