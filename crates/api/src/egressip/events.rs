//! Reasons of the events on an EgressIP, all of them warnings.

use crate::annotation::names;

names! {
    /// Reasons of the events on an EgressIP.
    EgressIpEvent {
        /// An entry of the spec is not an address.
        InvalidEgressIp = "InvalidEgressIP",
        /// No node may, or can, hold any of the addresses.
        NoMatchingNodeFound = "NoMatchingNodeFound",
        /// An address is already some host's own.
        EgressIpConflict = "EgressIPConflict",
        /// An address belongs to another EgressIP.
        UnsupportedRequest = "UnsupportedRequest",
        /// Some addresses are on no node.
        UnassignedRequest = "UnassignedRequest",
        /// A pod is served by another EgressIP already.
        UndefinedRequest = "UndefinedRequest",
    }
}
