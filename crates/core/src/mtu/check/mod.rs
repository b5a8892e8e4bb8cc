//! What may be asked of the MTU, and what an edit means.
//!
//! Everything is checked before anything is written, and a refusal changes nothing. All that is wrong is said at once,
//! each refusal with the field, the number that stands there and the numbers that could.

mod around;
mod edit;
mod refusal;
#[cfg(test)]
mod tests;

pub use around::{DualStack, Hybrid, Migration, MigrationMode, NetworkType, Settings, may_become};
pub use edit::{Asked, AskedChange, AskedEnds, Hosts, Wanted, read, unserved};
pub use refusal::{ChangeRefusal, Field, Refusal};

use super::Mtu;

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
    /// Not wrapped: routed by the underlay.
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
            Plugin::OvnKubernetes(Transport::Geneve) => 100,
            Plugin::OvnKubernetes(Transport::GeneveInIpsec) => 146,
            Plugin::OvnKubernetes(Transport::Unwrapped | Transport::Within) => 0,
            Plugin::OpenShiftSdn => 50,
        }
    }

    /// What an interface must exceed the pods' MTU by to work at all: the headers and nothing more.
    ///
    /// `v6` says whether tunnels may run over IPv6, as in IPv6 and dual-stack clusters.
    pub fn headers(self, v6: bool) -> u32 {
        match (self, v6) {
            (Plugin::OvnKubernetes(Transport::Unwrapped | Transport::Within), _) => 0,
            (Plugin::OvnKubernetes(Transport::Geneve | Transport::GeneveInIpsec), false) => 58,
            (Plugin::OvnKubernetes(Transport::Geneve | Transport::GeneveInIpsec), true) => 78,
            (Plugin::OpenShiftSdn, _) => 50,
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

/// The pods' MTU of a cluster that has none applied yet: what is asked, or what the hosts leave room for.
///
/// # Errors
/// All that is wrong with it.
pub fn first(cluster: &Cluster, asked: Option<u32>, host: Mtu) -> Result<Mtu, Vec<Refusal>> {
    let field = cluster.plugin.mtu_field();
    let bytes = asked.unwrap_or(host.bytes().saturating_sub(cluster.plugin.budget()));
    let mtu = cluster.in_range(field, bytes).map_err(|refusal| vec![refusal])?;
    let needs = bytes + cluster.plugin.headers(cluster.v6);
    if needs > host.bytes() {
        return Err(vec![Refusal::HostTooSmall { field, asked: bytes, host, needs }]);
    }
    Ok(mtu)
}

/// Whether every interface that ends tunnels carries the pods' packets with their headers: what a node asks itself
/// before it says that its network is ready.
///
/// # Errors
/// One refusal for each interface that is too small.
pub fn uplinks<'a>(
    cluster: &Cluster,
    carries: Mtu,
    uplinks: impl IntoIterator<Item = (&'a str, u32)>,
) -> Result<(), Vec<Refusal>> {
    let needs = carries.bytes() + cluster.plugin.headers(cluster.v6);
    let small = uplinks.into_iter().filter(|(_, mtu)| *mtu < needs);
    let refusals: Vec<Refusal> = small
        .map(|(name, mtu)| Refusal::UplinkTooSmall { interface: name.to_owned(), mtu, carries, needs })
        .collect();
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}
