//! The address ranges of a cluster, and which of them go together.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::net::{Addresses, Family, Stack, Subnets, overlap};

/// A range out of which every node gets a subnet of one size.
///
/// Invariant: the host bits are clear, and `host_prefix` is at least the range's own length and leaves two bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClusterRange {
    net: IpNet,
    host_prefix: u8,
}

impl ClusterRange {
    /// The only way to a range; host bits that are set are cleared, as every user of such a range does.
    pub fn new(net: IpNet, host_prefix: u8) -> Result<ClusterRange, Refusal> {
        let most = Family::of_net(net).bits() - 2;
        if host_prefix < net.prefix_len() || host_prefix > most {
            return Err(Refusal::HostPrefix { net, host_prefix, least: net.prefix_len(), most });
        }
        Ok(ClusterRange { net: net.trunc(), host_prefix })
    }

    /// The whole range.
    pub fn net(&self) -> IpNet {
        self.net
    }

    /// The length of a node's subnet.
    pub fn host_prefix(&self) -> u8 {
        self.host_prefix
    }

    /// Whether a subnet is one of those the range is divided into.
    pub fn gives(&self, subnet: IpNet) -> bool {
        self.net.contains(&subnet) && subnet.prefix_len() == self.host_prefix && subnet.trunc() == subnet
    }

    /// How many subnets the range holds.
    pub fn capacity(&self) -> u128 {
        1_u128 << (self.host_prefix - self.net.prefix_len())
    }
}

impl fmt::Display for ClusterRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (/{} per node)", self.net, self.host_prefix)
    }
}

/// Why a set of ranges cannot be a cluster's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The subnets of a range are larger than the range, or too small for a router, a host and a pod.
    #[error("hostPrefix {host_prefix} of cluster network {net} is not between {least} and {most}")]
    HostPrefix {
        /// The range.
        net: IpNet,
        /// What was asked.
        host_prefix: u8,
        /// The smallest allowed.
        least: u8,
        /// The largest allowed.
        most: u8,
    },
    /// No cluster network.
    #[error("there is no cluster network")]
    NoClusterNetwork,
    /// Neither one service network nor one of each family.
    #[error("the service networks {0:?} are neither one, nor one IPv4 and one IPv6")]
    ServiceNetworks(Vec<IpNet>),
    /// Pods and Services would speak different families.
    #[error("cluster networks are {cluster:?}, service networks {service:?}; the families must be the same")]
    Families {
        /// Families of the cluster networks.
        cluster: Vec<Family>,
        /// Families of the service networks.
        service: Vec<Family>,
    },
    /// A range we use inside is too small for its purpose.
    #[error("the {purpose} network {net} is too small: at most /{most} is allowed")]
    TooSmall {
        /// What the range is for.
        purpose: Purpose,
        /// The range.
        net: IpNet,
        /// The longest prefix allowed.
        most: u8,
    },
    /// Two ranges share addresses.
    #[error("the {} network {} overlaps the {} network {}", a.0, a.1, b.0, b.1)]
    Overlap {
        /// One.
        a: (Purpose, IpNet),
        /// The other.
        b: (Purpose, IpNet),
    },
}

/// What a range is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// Pods.
    Cluster,
    /// Services.
    Service,
    /// One address per node, the source of what a node forwards to a Service.
    Join,
    /// The routers' addresses on the transit switch.
    Transit,
    /// A few addresses with fixed meanings inside every node.
    Masquerade,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Purpose::Cluster => "cluster",
            Purpose::Service => "service",
            Purpose::Join => "join",
            Purpose::Transit => "transit",
            Purpose::Masquerade => "masquerade",
        })
    }
}

/// A range in both families; which of them is used depends on the cluster's.
pub type BothFamilies = (Ipv4Net, Ipv6Net);

/// The ranges netferry uses inside, where the cluster's own do not say otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Internal {
    /// See [`Purpose::Join`].
    pub join: BothFamilies,
    /// See [`Purpose::Transit`].
    pub transit: BothFamilies,
    /// See [`Purpose::Masquerade`].
    pub masquerade: BothFamilies,
}

impl Default for Internal {
    fn default() -> Internal {
        let v4 = |a, b, c, d, length| Ipv4Net::new_assert([a, b, c, d].into(), length);
        let v6 = |first, length| Ipv6Net::new_assert([first, 0, 0, 0, 0, 0, 0, 0].into(), length);
        Internal {
            join: (v4(100, 64, 0, 0, 16), v6(0xfd98, 64)),
            transit: (v4(100, 88, 0, 0, 16), v6(0xfd97, 64)),
            masquerade: (v4(169, 254, 169, 0, 29), v6(0xfd69, 125)),
        }
    }
}

/// The ranges of a cluster.
///
/// Invariant: nothing overlaps, pods and Services speak the same families, every range is large enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Networks {
    cluster: Vec<ClusterRange>,
    service: Subnets,
    join: Subnets,
    transit: Subnets,
    masquerade: Subnets,
}

impl Networks {
    /// The only way to a cluster's ranges. Lists everything that is wrong, not the first thing only.
    pub fn new(
        cluster: Vec<ClusterRange>,
        service: Vec<IpNet>,
        internal: Internal,
    ) -> Result<Networks, Vec<Refusal>> {
        let mut refusals = Vec::new();
        if cluster.is_empty() {
            refusals.push(Refusal::NoClusterNetwork);
        }
        let service_nets = service_pair(&service);
        if service_nets.is_none() {
            refusals.push(Refusal::ServiceNetworks(service.clone()));
        }
        let families = families_of(cluster.iter().map(|r| r.net));
        let service_families = families_of(service.iter().copied());
        if !cluster.is_empty() && service_nets.is_some() && families != service_families {
            refusals.push(Refusal::Families { cluster: families.clone(), service: service_families });
        }
        let pick = |(v4, v6): BothFamilies| {
            let v4 = families.contains(&Family::V4).then(|| v4.trunc());
            Stack::from_parts(v4, families.contains(&Family::V6).then(|| v6.trunc()))
        };
        let (join, transit) = (pick(internal.join), pick(internal.transit));
        let masquerade = pick(internal.masquerade);
        refusals.extend(too_small(Purpose::Join, join, 30, 125));
        refusals.extend(too_small(Purpose::Transit, transit, 30, 125));
        refusals.extend(too_small(Purpose::Masquerade, masquerade, 29, 125));
        let mut all: Vec<(Purpose, IpNet)> = cluster.iter().map(|r| (Purpose::Cluster, r.net)).collect();
        all.extend(service.iter().map(|net| (Purpose::Service, net.trunc())));
        for (purpose, nets) in
            [(Purpose::Join, join), (Purpose::Transit, transit), (Purpose::Masquerade, masquerade)]
        {
            all.extend(nets.iter().flat_map(Subnets::iter).map(|net| (purpose, net)));
        }
        refusals.extend(overlaps(&all));
        match (service_nets, join, transit, masquerade) {
            (Some(service), Some(join), Some(transit), Some(masquerade)) if refusals.is_empty() => {
                Ok(Networks { cluster, service, join, transit, masquerade })
            }
            _ => Err(refusals),
        }
    }

    /// The ranges of pods, in the order given.
    pub fn cluster(&self) -> &[ClusterRange] {
        &self.cluster
    }

    /// The ranges of pods in one family.
    pub fn cluster_of(&self, family: Family) -> impl Iterator<Item = ClusterRange> + '_ {
        self.cluster.iter().copied().filter(move |range| Family::of_net(range.net) == family)
    }

    /// Whether a subnet can be a node's: one of those a range is divided into.
    pub fn gives(&self, subnet: IpNet) -> bool {
        self.cluster.iter().any(|range| range.gives(subnet))
    }

    /// The families pods and Services speak, IPv4 first.
    pub fn families(&self) -> &'static [Family] {
        self.service.families()
    }

    /// The range of Services.
    pub fn service(&self) -> Subnets {
        self.service
    }

    /// See [`Purpose::Join`].
    pub fn join(&self) -> Subnets {
        self.join
    }

    /// See [`Purpose::Transit`].
    pub fn transit(&self) -> Subnets {
        self.transit
    }

    /// See [`Purpose::Masquerade`].
    pub fn masquerade(&self) -> Subnets {
        self.masquerade
    }

    /// The destination of what the host forwards to this node's own backends of a Service, and to no others.
    pub fn local_only(&self) -> Addresses {
        self.masquerade_address(3)
    }

    /// The destination of what the host forwards to any backend of a Service whose own address means the backends of
    /// this node only.
    pub fn every_backend(&self) -> Addresses {
        self.masquerade_address(4)
    }

    /// The source a pod sees when it reaches itself through a Service.
    pub fn hairpin(&self) -> Addresses {
        self.masquerade_address(5)
    }

    fn masquerade_address(&self, n: u32) -> Addresses {
        self.masquerade.nth(n).expect("a masquerade network holds eight addresses")
    }

    /// Whether an address belongs to a pod, a router or a management port of the overlay.
    pub fn is_pod_address(&self, address: IpAddr) -> bool {
        self.cluster.iter().any(|range| range.net.contains(&address))
    }
}

fn families_of(nets: impl Iterator<Item = IpNet>) -> Vec<Family> {
    let mut families: Vec<Family> = nets.map(Family::of_net).collect();
    families.sort_unstable();
    families.dedup();
    families
}

fn service_pair(nets: &[IpNet]) -> Option<Subnets> {
    match *nets {
        [IpNet::V4(a)] => Some(Stack::V4(a.trunc())),
        [IpNet::V6(b)] => Some(Stack::V6(b.trunc())),
        [IpNet::V4(a), IpNet::V6(b)] | [IpNet::V6(b), IpNet::V4(a)] => {
            Some(Stack::Both(a.trunc(), b.trunc()))
        }
        _ => None,
    }
}

fn too_small(purpose: Purpose, nets: Option<Subnets>, most_v4: u8, most_v6: u8) -> Vec<Refusal> {
    let limit = |net: &IpNet| if net.addr().is_ipv4() { most_v4 } else { most_v6 };
    let nets = nets.iter().flat_map(Subnets::iter).collect::<Vec<_>>();
    let small = nets.into_iter().filter(|net| net.prefix_len() > limit(net));
    small.map(|net| Refusal::TooSmall { purpose, net, most: limit(&net) }).collect()
}

fn overlaps(all: &[(Purpose, IpNet)]) -> Vec<Refusal> {
    let mut found = Vec::new();
    for (i, a) in all.iter().enumerate() {
        for b in &all[i + 1..] {
            if overlap(a.1, b.1) {
                found.push(Refusal::Overlap { a: *a, b: *b });
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "networks_tests.rs"]
mod tests;
