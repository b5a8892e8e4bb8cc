//! What is heard of the cluster.

use crate::label::Labels;
use crate::name::{NodeName, ObjectName};
use crate::overlay::cluster::{EndpointSlice, Node, PodObject, Policy, Service};

/// One thing that is known of the cluster.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// A node with a place in the overlay.
    Node(Node),
    /// A node that is no more.
    NodeGone(NodeName),
    /// A namespace and its labels.
    Namespace(String, Labels),
    /// A namespace that is no more.
    NamespaceGone(String),
    /// A pod.
    Pod(PodObject),
    /// A pod that was deleted or has ended.
    PodGone(ObjectName),
    /// A Service with addresses.
    Service(Service),
    /// A Service that is no more, or has no addresses any more.
    ServiceGone(ObjectName),
    /// A slice, of which Service, and who answers.
    Slice(ObjectName, ObjectName, EndpointSlice),
    /// A slice that is no more.
    SliceGone(ObjectName),
    /// A policy.
    Policy(Policy),
    /// A policy that is no more.
    PolicyGone(ObjectName),
}

/// The kinds of objects there is news of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nodes.
    Node,
    /// Namespaces.
    Namespace,
    /// Pods.
    Pod,
    /// Services.
    Service,
    /// Slices of endpoints.
    Slice,
    /// NetworkPolicies.
    Policy,
}
