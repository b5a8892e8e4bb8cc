//! From the cluster's objects to the rows of one node's zone.
//!
//! Every function answers for one object: a change of one Service, policy, pod or node is that object's rows before
//! and after, however large the cluster is. [`Zone::rows`] is their union.

use crate::overlay::cluster::{Cluster, Node, Pod};
use crate::overlay::networks::Networks;
use crate::overlay::rows::{Clash, Rows};
use crate::overlay::topology::Topology;
use crate::size::Mtu;

mod node;
mod pod;
mod switch;

pub(crate) use node::{ALLOW_PRIORITY, options_for};
pub use switch::{Datapath, SwitchFacts, SwitchProcess};

/// One node's zone.
#[derive(Clone, Copy, Debug)]
pub struct Zone<'a> {
    /// The cluster's ranges.
    pub networks: &'a Networks,
    /// What a zone is made of.
    pub topology: &'a Topology,
    /// The node.
    pub node: &'a Node,
    /// The MTU of its pods and of its management port.
    pub mtu: Mtu,
}

impl Zone<'_> {
    /// Everything that follows from the node itself.
    pub fn rows_of_node(&self) -> Rows {
        self.topology.parts.iter().fold(Rows::default(), |rows, part| self.rows_of_part(*part, rows))
    }

    /// Everything that follows from another node.
    pub fn rows_of_peer(&self, peer: &Node) -> Rows {
        self.topology.parts.iter().fold(Rows::default(), |rows, part| self.rows_of_peer_in(*part, peer, rows))
    }

    /// Whether a pod has a port in this zone.
    pub fn has_port(&self, pod: &Pod) -> bool {
        pod.node == self.node.name && !pod.host_network
    }

    /// Everything the zone must hold for a cluster.
    ///
    /// # Guarantees
    ///
    /// The rows are without a finding of [`crate::overlay::check::zone`] for every cluster whose nodes were given
    /// their places by [`crate::overlay::allocate::allocate`] and whose pods have addresses of their nodes.
    pub fn rows(&self, cluster: &Cluster) -> Result<Rows, Clash> {
        let mut rows = self.rows_of_node();
        for peer in cluster.nodes.values().filter(|peer| peer.name != self.node.name) {
            rows.join(self.rows_of_peer(peer))?;
        }
        for pod in cluster.pods.values() {
            rows.join(self.rows_of_pod(pod))?;
        }
        for service in cluster.services.values() {
            rows.join(self.rows_of_service(service, cluster.slices_of(&service.name)))?;
        }
        rows.join(self.rows_of_policies(cluster))?;
        Ok(rows)
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
