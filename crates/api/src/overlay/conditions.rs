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
        /// A change of plugin is stuck.
        NetworkTypeMigrationFailed = "NetworkTypeMigrationFailed",
    }
}
