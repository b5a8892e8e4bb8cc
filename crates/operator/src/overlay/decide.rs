//! What the cluster side of the overlay does next, from what the API says. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::HostCidrs;
use netferry_api::overlay::conditions::DegradedReason as Reason;
use netferry_api::overlay::{ConfigNetwork, ConfigNetworkStatus, OperatorNetworkSpec, Plugin};
use netferry_core::migration::ChangeRefusal;
use netferry_core::net::Family;
use netferry_core::overlay::allocate::change::uproots;
use netferry_core::overlay::allocate::{Applicant, allocate_in, check};
use netferry_core::overlay::ground;
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::topology::Mode;
use netferry_core::size::{Envelope, Mtu};
use netferry_translate::mtu::observed;
use netferry_translate::{applicant, assignment, networks};

use super::fixed::{Runs, cannot_follow};
use super::problem::{About, Problem, of_finding};
use crate::mtu;

/// The smallest MTU IPv6 allows (RFC 8200).
const LEAST_FOR_V6: u32 = 1280;

/// What was read.
pub(crate) struct World<'a> {
    /// What is asked for.
    pub(crate) spec: &'a OperatorNetworkSpec,
    /// What is asked for besides, by annotations of the same object.
    pub(crate) annotations: Option<&'a BTreeMap<String, String>>,
    /// What is published.
    pub(crate) config: Option<&'a ConfigNetwork>,
    /// Whether a change of MTU is under way, in phase two as well, of which nothing is published.
    pub(crate) under_way: bool,
    /// The nodes.
    pub(crate) nodes: &'a [ObjectMeta],
    /// Nodes without an address of their own.
    pub(crate) without_address: &'a BTreeSet<String>,
}

/// What follows.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// Annotations nodes are missing.
    pub(crate) writes: Vec<NodeWrite>,
    /// What the cluster's `Network` says of the network. Without ranges that could be, nothing is published.
    pub(crate) published: Option<Published>,
    /// What somebody should know.
    pub(crate) problems: Vec<Problem>,
}

/// Annotations one node is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeWrite {
    /// The node.
    pub(crate) name: String,
    /// The version this was decided for; it is not written to any other.
    pub(crate) version: String,
    /// The annotations.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What the cluster's `Network` says of the network.
#[derive(Debug, PartialEq)]
pub(crate) struct Published {
    /// The part of the status that is ours.
    pub(crate) status: ConfigNetworkStatus,
    /// For how many nodes it is, where that is not said already.
    pub(crate) topology: Option<(String, String)>,
    /// Whether it says so already.
    pub(crate) already: bool,
}

/// Decides what to write, publish and report.
///
/// # Guarantees
///
/// A spec that cannot be, or that would take the ground from under pods that run, changes nothing: nodes go on being
/// given their places from the ranges that are deployed.
pub(crate) fn decide(world: &World<'_>) -> Decision {
    let mut problems = Vec::new();
    let nodes: Vec<(Applicant, &ObjectMeta)> = world
        .nodes
        .iter()
        .filter_map(|node| applicant::applicant(node).ok().map(|applicant| (applicant, node)))
        .collect();
    let applicants: Vec<Applicant> = nodes.iter().map(|(applicant, _)| applicant.clone()).collect();
    let without = world.without_address.iter();
    problems.extend(without.map(|node| Problem {
        about: About::Node(node.clone()),
        reason: Reason::NodeWithoutAddress,
        message: format!("node {node} has no InternalIP; no other node can reach it"),
        action: "ReachNode",
        repaired: false,
    }));
    let status = world.config.and_then(|config| config.status.as_ref());
    let Some(networks) = settle_networks(world, status, &applicants, &mut problems) else {
        return Decision { problems, ..Decision::default() };
    };
    let Some(mode) = settle_mode(world, status, &applicants, &mut problems) else {
        return Decision { problems, ..Decision::default() };
    };
    let mtu = settle_mtu(world, mode, &networks, &applicants, &mut problems);

    let allocation = allocate_in(mode, &networks, &applicants);
    let wrong = check::check(&networks, &applicants, &allocation);
    if !wrong.is_empty() {
        // A second pair of eyes disagrees: nothing is written by a decision that contradicts itself.
        problems.extend(wrong.iter().map(|wrong| Problem {
            about: About::Network,
            reason: Reason::StatusError,
            message: format!("nothing was allocated: {wrong}"),
            action: "GivePlace",
            repaired: false,
        }));
        return Decision { problems, ..Decision::default() };
    }
    problems.extend(allocation.findings.iter().map(|finding| of_finding(finding, &allocation)));

    for (applicant, node) in &nodes {
        problems.extend(misfits(&networks, applicant.name.as_str(), node));
    }

    let none = BTreeMap::new();
    let mut writes = Vec::new();
    for (applicant, node) in &nodes {
        let Some(given) = allocation.nodes.get(&applicant.name) else { continue };
        let annotations = node.annotations.as_ref().unwrap_or(&none);
        let missing = assignment::missing(&networks, given, annotations);
        if !missing.is_empty() {
            writes.push(NodeWrite {
                name: applicant.name.as_str().to_owned(),
                version: node.resource_version.clone().unwrap_or_default(),
                annotations: missing,
            });
        }
    }
    let said = world.config.and_then(|config| networks::mode(config.metadata.annotations.as_ref()).ok()?);
    let topology = (said.unwrap_or_default() != mode).then(|| networks::printed_mode(mode));
    let published = mtu.map(|mtu| publish(&networks, mtu, topology, status));
    Decision { writes, published, problems }
}

/// What of a node's own network does not go with the ranges, as the node says it.
fn misfits(networks: &Networks, name: &str, node: &ObjectMeta) -> Vec<Problem> {
    let host = node.annotations.as_ref().and_then(|all| HostCidrs::read(all).ok().flatten());
    let host = host.unwrap_or_default();
    let found = ground::misfits(networks, host.addresses());
    let problem = |misfit: ground::Misfit| Problem {
        about: About::Node(name.to_owned()),
        reason: Reason::HostNetworkMisfit,
        message: format!("node {name}: {misfit}"),
        action: "ReachNode",
        repaired: false,
    };
    found.into_iter().map(problem).collect()
}

/// For how many nodes the network is: what is asked for in a new cluster, what is deployed in a running one.
fn settle_mode(
    world: &World<'_>,
    status: Option<&ConfigNetworkStatus>,
    nodes: &[Applicant],
    problems: &mut Vec<Problem>,
) -> Option<Mode> {
    let running = is_running(nodes) && status.is_some_and(|status| !status.cluster_network.is_empty());
    let deployed = world.config.filter(|_| running).map(|config| {
        let said = networks::mode(config.metadata.annotations.as_ref());
        // Somebody wrote there by hand. Agents go on with what they have, and so does whoever has to say it again.
        said.map(Option::unwrap_or_default)
    });
    let deployed = match deployed {
        Some(Err(refusal)) => {
            problems.push(refused(Reason::InvalidClusterConfig, refusal.to_string()));
            return None;
        }
        Some(Ok(deployed)) => Some(deployed),
        None => None,
    };
    match (networks::mode(world.annotations), deployed) {
        (Err(refusal), deployed) => {
            problems.push(refused(Reason::InvalidOperatorConfig, refusal.to_string()));
            deployed
        }
        (Ok(asked), Some(deployed)) => {
            let asked = asked.unwrap_or_default();
            if asked != deployed {
                let ((key, asked), (_, deployed)) =
                    (networks::printed_mode(asked), networks::printed_mode(deployed));
                problems.push(refused(
                    Reason::InvalidOperatorConfig,
                    format!(
                        "metadata.annotations[{key}] {asked}: the cluster runs as {deployed}, and a running cluster is \
                         not turned from one into the other; set it back, or make a new cluster that is {asked} and \
                         move the workloads there"
                    ),
                ));
            }
            Some(deployed)
        }
        (Ok(asked), None) => Some(asked.unwrap_or_default()),
    }
}

/// Whether any node was given a place.
fn is_running(nodes: &[Applicant]) -> bool {
    nodes.iter().any(|node| node.subnets != Default::default())
}

fn refused(reason: Reason, message: String) -> Problem {
    Problem { about: About::Network, reason, message, action: "ReadNetwork", repaired: false }
}

/// The ranges to allocate from: those asked for, or those deployed where the others cannot be.
fn settle_networks(
    world: &World<'_>,
    status: Option<&ConfigNetworkStatus>,
    nodes: &[Applicant],
    problems: &mut Vec<Problem>,
) -> Option<Networks> {
    let spec = world.spec;
    let published = status.filter(|status| !status.cluster_network.is_empty());
    let deployed = published.map(|status| networks::deployed(status, spec));
    let wanted = match networks::wanted(spec) {
        Ok(wanted) => wanted,
        Err(refusals) => {
            let refusals = refusals.iter();
            problems.extend(refusals.map(|r| refused(Reason::InvalidOperatorConfig, r.to_string())));
            return deployed.and_then(Result::ok);
        }
    };
    match deployed {
        None => Some(wanted),
        Some(Ok(deployed)) => {
            let runs = Runs {
                migration: published.and_then(|status| status.migration.as_ref()),
                under_way: world.under_way,
                somebody: is_running(nodes),
                networks: &deployed,
            };
            let fixed = cannot_follow(spec, &runs, &wanted);
            problems.extend(fixed.iter().map(|one| refused(Reason::InvalidOperatorConfig, one.to_string())));
            if runs.is_changing() || fixed.iter().any(ChangeRefusal::is_of_ranges) {
                return Some(deployed);
            }
            let lost = uproots(&deployed, &wanted, nodes);
            if lost.is_empty() {
                return Some(wanted);
            }
            let shown: Vec<String> = lost.iter().take(3).map(ToString::to_string).collect();
            let more = lost.len() - shown.len();
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            problems.push(refused(
                Reason::InvalidOperatorConfig,
                format!(
                    "spec.clusterNetwork and spec.serviceNetwork cannot change so in a running cluster: {}{more}; \
                     ranges may be added or widened",
                    shown.join(", ")
                ),
            ));
            Some(deployed)
        }
        // Somebody wrote into the status by hand. What is asked for may be published over it, unless somebody lives
        // elsewhere: then it is a person who has to say what is deployed.
        Some(Err(refusals)) => {
            if nodes.iter().all(|node| lives_inside(&wanted, node)) {
                return Some(wanted);
            }
            let refusals = refusals.iter();
            problems.extend(refusals.map(|r| refused(Reason::InvalidClusterConfig, r.to_string())));
            None
        }
    }
}

fn lives_inside(networks: &Networks, node: &Applicant) -> bool {
    use netferry_core::overlay::allocate::Claim;
    match &node.subnets {
        Claim::Says(nets) => {
            nets.iter().all(|net| networks.cluster().iter().any(|range| range.net().contains(net)))
        }
        Claim::Absent | Claim::Mangled(_) => true,
    }
}

/// The MTU to publish: the one asked for in a new cluster, the one deployed in a running one.
fn settle_mtu(
    world: &World<'_>,
    mode: Mode,
    networks: &Networks,
    nodes: &[Applicant],
    problems: &mut Vec<Problem>,
) -> Option<Mtu> {
    let spec = world.spec;
    let wanted = networks::wanted_mtu(spec, mode);
    let deployed = match world.under_way {
        true => mtu::published(world.config),
        false => mtu::deployed(world.config, wanted.as_ref().ok().copied(), pods(world.nodes)),
    };
    // Then that says where the cluster goes, and what stands beside it is none of anybody's business until it ends.
    let moves = spec.migration.as_ref().is_some_and(|migration| migration.mtu.is_some());
    if moves && deployed.is_some() {
        return deployed;
    }
    let asked = spec.default_network.as_ref().and_then(|n| n.ovn_kubernetes_config.as_ref()?.mtu);
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(refusal) => {
            problems.push(refused(Reason::InvalidOperatorConfig, refusal.to_string()));
            return deployed;
        }
    };
    let field = "spec.defaultNetwork.ovnKubernetesConfig.mtu";
    if networks.families().contains(&Family::V6) && wanted.bytes() < LEAST_FOR_V6 {
        let says = format!("{field} {wanted}: IPv6 needs {LEAST_FOR_V6} at least");
        problems.push(refused(Reason::InvalidOperatorConfig, says));
        return deployed;
    }
    let running = is_running(nodes);
    match deployed {
        // Its full-size packets would be dropped, unannounced, wherever the smaller MTU arrives first.
        Some(deployed) if running && deployed != wanted => {
            if asked.is_some() && spec.migration.is_none() {
                let way = match mode {
                    Mode::MultiNode => "a running cluster's MTU is changed through spec.migration.mtu",
                    Mode::SingleNode => "delete the Node, and it joins anew with that once it restarts",
                };
                let says = format!("{field} {wanted}: the cluster runs with {deployed}; {way}");
                problems.push(refused(Reason::InvalidOperatorConfig, says));
            }
            Some(deployed)
        }
        Some(_) | None => Some(wanted),
    }
}

/// What nodes say that their pods run at; what cannot be read was not said.
fn pods(nodes: &[ObjectMeta]) -> impl Iterator<Item = Envelope> {
    nodes.iter().filter_map(|node| observed(node.annotations.as_ref()).ok()??.network)
}

fn publish(
    networks: &Networks,
    mtu: Mtu,
    topology: Option<(String, String)>,
    now: Option<&ConfigNetworkStatus>,
) -> Published {
    let (cluster_network, service_network) = networks::printed(networks);
    let status = ConfigNetworkStatus {
        cluster_network,
        service_network,
        network_type: Some(Plugin::OvnKubernetes.as_str().to_owned()),
        cluster_network_mtu: Some(mtu.bytes()),
        ..ConfigNetworkStatus::default()
    };
    let already = topology.is_none()
        && now.is_some_and(|now| {
            (&now.cluster_network, &now.service_network, &now.network_type, now.cluster_network_mtu)
                == (
                    &status.cluster_network,
                    &status.service_network,
                    &status.network_type,
                    status.cluster_network_mtu,
                )
        });
    Published { status, topology, already }
}

#[cfg(test)]
mod tests;
