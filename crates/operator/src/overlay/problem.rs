//! What somebody should know about the overlay, in words.

use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{NetworkTopology, NodeId, NodeSubnets, TopologyMode};
use netferry_api::overlay::conditions::DegradedReason as Reason;
use netferry_core::name::NodeName;
use netferry_core::overlay::allocate::{Allocation, Exhausted, Finding, Resource, Unusable};

/// Something that is wrong, or was.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Problem {
    /// What it is about.
    pub(crate) about: About,
    /// Why, in one word.
    pub(crate) reason: Reason,
    /// Why, in a sentence.
    pub(crate) message: String,
    /// What was being done, for machines.
    pub(crate) action: &'static str,
    /// Whether acting on the decision makes it good.
    pub(crate) repaired: bool,
}

/// What a problem is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum About {
    /// The operator's `Network`.
    Network,
    /// A node.
    Node(String),
}

/// A finding of the allocator.
pub(crate) fn of_finding(finding: &Finding, allocation: &Allocation) -> Problem {
    let instead = |node: &NodeName| match allocation.nodes.get(node) {
        None => "it has no place in the overlay".to_owned(),
        Some(given) => {
            let subnets: Vec<String> = given.subnets().iter().map(|net| net.to_string()).collect();
            format!("it has id {} and {}", given.id(), subnets.join(", "))
        }
    };
    match finding {
        Finding::Unusable { node, what, why } => Problem {
            about: About::Node(node.as_str().to_owned()),
            reason: Reason::NodeAnnotationUnusable,
            message: format!("node {node}: annotation {} {}; {}", key(*what), unusable(why), instead(node)),
            action: giving(*what),
            repaired: true,
        },
        Finding::Taken { node, what, by } => Problem {
            about: About::Node(node.as_str().to_owned()),
            reason: Reason::NodeClaimTaken,
            message: format!(
                "node {node}: annotation {} claims what is node {by}'s; {}",
                key(*what),
                instead(node)
            ),
            action: giving(*what),
            repaired: true,
        },
        Finding::Lingers { node, what, by } => Problem {
            about: About::Node(node.as_str().to_owned()),
            reason: Reason::NodeClaimTaken,
            message: format!(
                "node {node} runs with {} that is node {by}'s, and moves when its last pod has left: drain it; {}",
                match what {
                    Resource::Id => "a node id",
                    Resource::Subnet(_) | Resource::Subnets => "a subnet",
                },
                instead(node)
            ),
            action: giving(*what),
            repaired: false,
        },
        Finding::Exhausted { node, what } => {
            let (reason, what) = exhausted(what);
            let message = format!("node {node} has no place in the overlay: {what}");
            let about = About::Node(node.as_str().to_owned());
            Problem { about, reason, message, action: "GivePlace", repaired: false }
        }
    }
}

fn key(what: Resource) -> &'static str {
    match what {
        Resource::Id => NodeId::KEY,
        Resource::Subnet(_) | Resource::Subnets => NodeSubnets::KEY,
    }
}

fn giving(what: Resource) -> &'static str {
    match what {
        Resource::Id => "GiveID",
        Resource::Subnet(_) | Resource::Subnets => "GiveSubnets",
    }
}

fn unusable(why: &Unusable) -> String {
    match why {
        Unusable::Mangled(text) => format!("cannot be read ({})", shortened(text)),
        Unusable::NoSuchId(id) => format!("says {id}, which no node can have"),
        Unusable::OutsideRanges(net) => format!("says {net}, which is no subnet of the cluster's ranges"),
        Unusable::OtherSize(net, range) => {
            format!("says {net}, where the subnets of nodes are /{} ({})", range.host_prefix(), range.net())
        }
        Unusable::RunsWithId { says, runs } => format!("says {says}, and the node runs with {runs}"),
        Unusable::RunsWithSubnet { says, runs } => format!("says {says}, and the node runs with {runs}"),
        Unusable::TwoOfAFamily(a, b) => format!("says {a} and {b}, two of one family"),
    }
}

fn exhausted(what: &Exhausted) -> (Reason, String) {
    match what {
        Exhausted::Ids { capacity } => {
            let says = format!("all {capacity} node ids of the join and transit networks are taken");
            (Reason::NodeIdsExhausted, says)
        }
        Exhausted::Machine { by } => {
            let says = format!(
                "the network is for one machine ({} {}), and node {by} is it; remove the node from the cluster, or \
                 make a cluster without that annotation and move there",
                NetworkTopology::KEY,
                TopologyMode::SingleNode
            );
            (Reason::SingleNodeTaken, says)
        }
        Exhausted::Subnets { family, ranges, capacity } => {
            let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
            let says = format!(
                "all {capacity} {family} subnets of {} are taken; add a range to spec.clusterNetwork",
                ranges.join(", ")
            );
            (Reason::SubnetsExhausted, says)
        }
    }
}

/// What somebody wrote by hand may be of any length.
fn shortened(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{more}")
}
