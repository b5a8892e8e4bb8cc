//! Conditions of the operator's `Network`.

use crate::annotation::names;

names! {
    /// Types of the operator's conditions.
    OperatorConditionType {
        /// The network works.
        Available = "Available",
        /// Something is being rolled out.
        Progressing = "Progressing",
        /// Something is wrong, and the message says what.
        Degraded = "Degraded",
        /// The cluster may be upgraded.
        Upgradeable = "Upgradeable",
    }
}

names! {
    /// Why the operator is degraded.
    DegradedReason {
        /// The operator's `Network` asks for something impossible or unsafe; nothing was applied.
        InvalidOperatorConfig = "InvalidOperatorConfig",
        /// The cluster's `Network` asks for something impossible; nothing was applied.
        InvalidClusterConfig = "InvalidClusterConfig",
        /// The published status could not be computed.
        StatusError = "StatusError",
        /// The hosts' MTU could not be found out.
        MtuProbeFailed = "MTUProbeFailed",
        /// A node got no pod subnet: every range of a family is full.
        SubnetsExhausted = "SubnetsExhausted",
        /// A node got no number: every one is some node's.
        NodeIdsExhausted = "NodeIDsExhausted",
        /// A further node joined a network that is for one machine; it got no place.
        SingleNodeTaken = "SingleNodeTaken",
        /// An annotation of a node could not be used and was replaced.
        NodeAnnotationUnusable = "NodeAnnotationUnusable",
        /// Two nodes claimed the same number or addresses; the younger was given others.
        NodeClaimTaken = "NodeClaimTaken",
        /// A node has no address others could reach it by.
        NodeWithoutAddress = "NodeWithoutAddress",
        /// A network of a host's own overlaps the cluster's ranges, or it has no address of a family of theirs.
        HostNetworkMisfit = "HostNetworkMisfit",
        /// A change of plugin is stuck.
        NetworkTypeMigrationFailed = "NetworkTypeMigrationFailed",
    }
}
