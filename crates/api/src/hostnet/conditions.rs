//! Condition types and reasons of host networking.

use crate::annotation::names;

names! {
    /// Types of a policy's conditions.
    PolicyConditionType {
        /// Every node that should has it.
        Available = "Available",
        /// A node failed, or gave up because others failed.
        Degraded = "Degraded",
        /// Nodes are changing.
        Progressing = "Progressing",
        /// No node is selected.
        Ignored = "Ignored",
    }
}

names! {
    /// Types of an enactment's conditions.
    EnactmentConditionType {
        /// The node has it.
        Available = "Available",
        /// The node failed.
        Failing = "Failing",
        /// The node is changing.
        Progressing = "Progressing",
        /// The node waits for its turn.
        Pending = "Pending",
        /// The node gave up because others failed.
        Aborted = "Aborted",
    }
}

names! {
    /// Types of a state's conditions.
    StateConditionType {
        /// The state could be read.
        Available = "Available",
        /// The state could not be read.
        Failing = "Failing",
    }
}

names! {
    /// Types of the installation's conditions.
    NMStateConditionType {
        /// Everything runs.
        Available = "Available",
        /// Something is being deployed.
        Progressing = "Progressing",
        /// Something is wrong.
        Degraded = "Degraded",
    }
}

names! {
    /// Reasons of a policy's conditions.
    PolicyReason {
        /// Every node that should has it.
        SuccessfullyConfigured = "SuccessfullyConfigured",
        /// A node failed, or gave up.
        FailedToConfigure = "FailedToConfigure",
        /// Nodes are changing.
        ConfigurationProgressing = "ConfigurationProgressing",
        /// No node is selected.
        NoMatchingNode = "NoMatchingNode",
    }
}

names! {
    /// Reasons of an enactment's conditions.
    EnactmentReason {
        /// The node has it.
        SuccessfullyConfigured = "SuccessfullyConfigured",
        /// The node failed for good.
        FailedToConfigure = "FailedToConfigure",
        /// The node failed and will try again.
        Retrying = "Retrying",
        /// The node is changing.
        ConfigurationProgressing = "ConfigurationProgressing",
        /// The node waits because enough others are changing.
        MaxUnavailableLimitReached = "MaxUnavailableLimitReached",
        /// The node gave up because others failed.
        ConfigurationAborted = "ConfigurationAborted",
    }
}

names! {
    /// Reasons of the installation's conditions.
    NMStateReason {
        /// Something went wrong inside.
        InternalError = "InternalError",
        /// Something is being deployed.
        Deploying = "Deploying",
        /// Everything runs.
        SuccessfullyDeployed = "SuccessfullyDeployed",
        /// The cluster's TLS settings are kept only in part.
        TlsProfileNotFullyHonored = "TLSProfileNotFullyHonored",
    }
}
