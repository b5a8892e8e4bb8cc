//! Conditions of pools, and the events of a rollout.

use crate::annotation::names;

names! {
    /// Types of a pool's conditions.
    PoolConditionType {
        /// Every node runs the pool's configuration and is ready.
        Updated = "Updated",
        /// Nodes are on their way.
        Updating = "Updating",
        /// A node failed.
        NodeDegraded = "NodeDegraded",
        /// The configuration could not be rendered.
        RenderDegraded = "RenderDegraded",
        /// Any of the failures.
        Degraded = "Degraded",
    }
}

names! {
    /// Reasons of the events of a rollout.
    RolloutEvent {
        /// A node was told its next configuration.
        SetDesiredConfig = "SetDesiredConfig",
        /// Every node of a pool finished.
        Completed = "Completed",
        /// A pool selects every node, which is refused.
        SelectingAll = "SelectingAll",
        /// Draining a node takes long.
        DrainThresholdExceeded = "DrainThresholdExceeded",
        /// Draining a node failed for an hour.
        DrainFailed = "DrainFailed",
        /// A managed file differs from its configuration.
        ConfigDriftDetected = "ConfigDriftDetected",
        /// A node takes no further pods.
        Cordon = "Cordon",
        /// A node's pods are being moved away.
        Drain = "Drain",
        /// A node's pods could not be moved away.
        FailedToDrain = "FailedToDrain",
        /// A node is about to restart.
        Reboot = "Reboot",
        /// A node is where it should be.
        NodeDone = "NodeDone",
        /// A node takes pods again.
        Uncordon = "Uncordon",
    }
}
