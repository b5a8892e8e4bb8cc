//! Conditions on the cluster's `Network` while the plugin changes.

use crate::annotation::names;

names! {
    /// Types of the conditions.
    MigrationConditionType {
        /// A change of plugin runs.
        InProgress = "NetworkTypeMigrationInProgress",
        /// The target plugin is ready on every node, beside the original one while both are needed.
        TargetCniAvailable = "NetworkTypeMigrationTargetCNIAvailable",
        /// Every node sends no more than both plugins can carry.
        MtuReady = "NetworkTypeMigrationMTUReady",
        /// Every node runs the target plugin.
        TargetCniInUse = "NetworkTypeMigrationTargetCNIInUse",
        /// Nothing of the original plugin is left.
        OriginalCniPurged = "NetworkTypeMigrationOriginalCNIPurged",
    }
}

names! {
    /// Reasons of the conditions.
    MigrationReason {
        /// The change began.
        Started = "NetworkTypeMigrationStarted",
        /// The change is complete.
        Completed = "NetworkTypeMigrationCompleted",
        /// The change began, and this has not happened yet.
        Initialized = "NetworkTypeMigrationInitialized",
        /// No change runs.
        NotInProgress = "NetworkTypeMigrationNotInProgress",
        /// A pool of nodes is degraded.
        PoolDegraded = "MachineConfigPoolDegraded",
        /// Pools of nodes are being updated.
        PoolsUpdating = "MachineConfigPoolsUpdating",
        /// A pool runs a configuration without what is waited for.
        MachineConfigNotApplied = "MachineConfigNotApplied",
        /// Every pool runs a configuration with what was waited for.
        MachineConfigApplied = "MachineConfigApplied",
        /// The target plugin is not there.
        TargetCniNotDeployed = "TargetCNINotDeployed",
        /// The target plugin is there but not ready.
        TargetCniNotReady = "TargetCNINotReady",
        /// The target plugin is there and ready.
        TargetCniDeployed = "TargetCNIDeployed",
        /// Something of the original plugin is left.
        OriginalCniNotPurged = "OriginalCNINotPurged",
        /// Nothing of the original plugin is left.
        OriginalCniPurged = "OriginalCNIPurged",
        /// The API could not be asked.
        Error = "Error",
    }
}

names! {
    /// What a preflight check finds in the way of a change of plugin.
    BlockedReason {
        /// The target is not a plugin of ours.
        UnsupportedCni = "UnsupportedCNI",
        /// The control plane runs in another cluster.
        UnsupportedHostedCluster = "UnsupportedHyperShiftCluster",
        /// The SDN plugin isolates namespaces from each other.
        UnsupportedIsolationMode = "UnsupportedSDNNetworkIsolationMode",
        /// Networks overlap.
        NetworkOverlap = "NetworkOverlap",
        /// An egress router runs.
        UnsupportedMacvlan = "UnsupportedMACVLANInterface",
    }
}
