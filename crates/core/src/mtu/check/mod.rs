//! What may be asked of the MTU, and what an edit means.
//!
//! Everything is checked before anything is written, and a refusal changes nothing. All that is wrong is said at once,
//! each refusal with the field, the number that stands there and the numbers that could.

mod edit;
mod refusal;
#[cfg(test)]
mod tests;

pub use edit::{Asked, AskedChange, AskedEnds, Fleet, Hosts, Wanted, hosts_for, read, unserved};
pub use refusal::{Field, Refusal};

use crate::size::Mtu;

/// The network plugin, as far as sizes go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Plugin {
    /// OVN.
    OvnKubernetes(Transport),
    /// The older plugin: VXLAN, IPv4 only.
    OpenShiftSdn,
}

/// How OVN carries packets between nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transport {
    /// Wrapped in Geneve.
    Geneve,
    /// Wrapped in Geneve, and that encrypted.
    GeneveInIpsec,
    /// Not wrapped: routed by the underlay. Nobody does that here: nodes wrap in Geneve all the same.
    Unwrapped,
    /// Not at all: there is one node, and its uplink is nobody's to change.
    Within,
}

/// The cluster whose MTU it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Its plugin.
    pub plugin: Plugin,
    /// Whether any of its cluster networks is IPv6.
    pub v6: bool,
}

impl Plugin {
    /// What the hosts' MTU must exceed the pods' by when somebody configures it: headers with room to spare, so that
    /// an option added to the encapsulation later does not break clusters.
    pub fn budget(self) -> u32 {
        match self {
            Plugin::OvnKubernetes(Transport::Geneve | Transport::Unwrapped) => 100,
            Plugin::OvnKubernetes(Transport::GeneveInIpsec) => 146,
            Plugin::OvnKubernetes(Transport::Within) => 0,
            Plugin::OpenShiftSdn => 50,
        }
    }

    fn mtu_field(self) -> Field {
        match self {
            Plugin::OvnKubernetes(_) => Field::OvnMtu,
            Plugin::OpenShiftSdn => Field::SdnMtu,
        }
    }
}

impl Cluster {
    /// The smallest MTU the cluster's families allow.
    pub fn least(&self) -> u32 {
        if self.v6 { Mtu::MIN_V6 } else { Mtu::MIN }
    }

    fn in_range(&self, field: Field, asked: u32) -> Result<Mtu, Refusal> {
        let out = Refusal::OutOfRange { field, asked, least: self.least(), most: Mtu::MAX };
        Mtu::new(asked).ok().filter(|mtu| mtu.bytes() >= self.least()).ok_or(out)
    }
}
