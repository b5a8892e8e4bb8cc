//! The kinds of paths that a cluster's network promises.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// From what to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Two pods of one node.
    PodPodSameNode,
    /// Pods of different nodes.
    PodPodAcross,
    /// A pod to its own node, and to others.
    PodHost,
    /// A node to its own pods, and to those of others.
    HostPod,
    /// Node to node.
    HostHost,
    /// A pod to a Service with a backend on its own node, and elsewhere.
    PodClusterIp,
    /// A node to a Service with a backend on itself, and elsewhere.
    HostClusterIp,
    /// A pod to the world.
    PodOutside,
    /// The world to a node's port, with the backend on that node.
    OutsideNodePortLocal,
    /// The world to a node's port, with the backend on another.
    OutsideNodePortRemote,
    /// A pod to a node's port.
    PodNodePort,
    /// A pod to a Service whose only backend it is.
    Hairpin,
}

/// A word that is no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of path; there are {list}", list = Kind::ALL.map(Kind::word).join(", "))]
pub struct UnknownKind(pub String);

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 12] = [
        Kind::PodPodSameNode,
        Kind::PodPodAcross,
        Kind::PodHost,
        Kind::HostPod,
        Kind::HostHost,
        Kind::PodClusterIp,
        Kind::HostClusterIp,
        Kind::PodOutside,
        Kind::OutsideNodePortLocal,
        Kind::OutsideNodePortRemote,
        Kind::PodNodePort,
        Kind::Hairpin,
    ];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Kind::PodPodSameNode => "pod-pod-same-node",
            Kind::PodPodAcross => "pod-pod-across",
            Kind::PodHost => "pod-host",
            Kind::HostPod => "host-pod",
            Kind::HostHost => "host-host",
            Kind::PodClusterIp => "pod-clusterip",
            Kind::HostClusterIp => "host-clusterip",
            Kind::PodOutside => "pod-outside",
            Kind::OutsideNodePortLocal => "outside-nodeport-local",
            Kind::OutsideNodePortRemote => "outside-nodeport-remote",
            Kind::PodNodePort => "pod-nodeport",
            Kind::Hairpin => "hairpin",
        }
    }

    /// Whether it leads to a Service: nothing behind one answers a ping.
    pub fn is_service(self) -> bool {
        match self {
            Kind::PodPodSameNode
            | Kind::PodPodAcross
            | Kind::PodHost
            | Kind::HostPod
            | Kind::HostHost
            | Kind::PodOutside => false,
            Kind::PodClusterIp
            | Kind::HostClusterIp
            | Kind::OutsideNodePortLocal
            | Kind::OutsideNodePortRemote
            | Kind::PodNodePort
            | Kind::Hairpin => true,
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Kind, UnknownKind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word).ok_or_else(|| UnknownKind(word.to_owned()))
    }
}
