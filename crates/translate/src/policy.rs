//! NetworkPolicies.

use k8s_openapi::api::networking::v1 as k8s;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::AclStateless;
use netferry_core::name::ObjectName;
use netferry_core::overlay::cluster::{Peer, Policy, PolicyPort, PortSet, Rule};
use netferry_core::port::{NotAPort, Port};

use crate::labels::{NotASelector, selector};
use crate::{object_name, protocol};

/// What of a policy could not be understood. It allows nothing, so the policy is stricter without it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeftOut {
    /// A selector asks for something no selector can ask for.
    #[error("a peer's selector")]
    Selector(#[from] NotASelector),
    /// A block that is none.
    #[error("{0:?} is not a block of addresses")]
    Block(String),
    /// A peer that says nothing.
    #[error("a peer with neither a selector nor a block")]
    EmptyPeer,
    /// A protocol nobody speaks.
    #[error("{0:?} is not TCP, UDP or SCTP")]
    Protocol(String),
    /// A port that is none.
    #[error(transparent)]
    Port(#[from] NotAPort),
    /// An end that comes before its beginning, or has none.
    #[error("endPort {0} does not follow a port number")]
    EndPort(i32),
    /// An annotation that says neither `true` nor `false`; the rules are stateful.
    #[error("annotation {key} is neither true nor false", key = AclStateless::KEY)]
    Stateless,
}

/// A policy, and what of it was left out.
///
/// # Guarantees
///
/// Whatever cannot be understood allows nothing: a rule all of whose peers or ports are unreadable is no rule, where
/// a rule without any would allow everything.
pub fn policy(written: &k8s::NetworkPolicy) -> Result<(Policy, Vec<LeftOut>), NotASelector> {
    let mut left_out = Vec::new();
    let name = object_name(&written.metadata);
    let none = k8s::NetworkPolicySpec::default();
    let spec = written.spec.as_ref().unwrap_or(&none);
    let types = spec.policy_types.as_deref().unwrap_or_default();
    let speaks_of = |kind: &str, otherwise: bool| {
        if types.is_empty() { otherwise } else { types.iter().any(|t| t == kind) }
    };
    let ingress = speaks_of("Ingress", true).then(|| {
        let rules = spec.ingress.iter().flatten();
        let rules = rules.map(|r| rule(r.from.as_deref(), r.ports.as_deref(), &mut left_out));
        rules.flatten().collect()
    });
    let egress =
        speaks_of("Egress", spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())).then(|| {
            let rules = spec.egress.iter().flatten();
            let rules = rules.map(|r| rule(r.to.as_deref(), r.ports.as_deref(), &mut left_out));
            rules.flatten().collect()
        });
    let stateless = match written.metadata.annotations.as_ref().map(AclStateless::read) {
        Some(Ok(Some(stateless))) => *stateless.get(),
        Some(Ok(None)) | None => false,
        Some(Err(_)) => {
            left_out.push(LeftOut::Stateless);
            false
        }
    };
    let pods = spec.pod_selector.as_ref().map(selector).transpose()?.unwrap_or_default();
    Ok((Policy { name, pods, ingress, egress, stateless }, left_out))
}

/// The name of a policy, for reports about one that cannot be read.
pub fn policy_name(written: &k8s::NetworkPolicy) -> ObjectName {
    object_name(&written.metadata)
}

fn rule(
    peers: Option<&[k8s::NetworkPolicyPeer]>,
    ports: Option<&[k8s::NetworkPolicyPort]>,
    left_out: &mut Vec<LeftOut>,
) -> Option<Rule> {
    let peers = readable(peers.unwrap_or_default(), peer, left_out)?;
    let ports = readable(ports.unwrap_or_default(), port, left_out)?;
    Some(Rule { peers, ports })
}

/// Those that can be read; `None` if there are some and none of them can.
fn readable<W, T>(
    written: &[W],
    read: impl Fn(&W) -> Result<T, LeftOut>,
    left_out: &mut Vec<LeftOut>,
) -> Option<Vec<T>> {
    let mut all = Vec::new();
    for one in written {
        match read(one) {
            Ok(one) => all.push(one),
            Err(why) => left_out.push(why),
        }
    }
    (written.is_empty() || !all.is_empty()).then_some(all)
}

fn peer(written: &k8s::NetworkPolicyPeer) -> Result<Peer, LeftOut> {
    if let Some(block) = &written.ip_block {
        let parse = |text: &String| text.parse().map_err(|_| LeftOut::Block(text.clone()));
        let except = block.except.iter().flatten().map(parse).collect::<Result<_, _>>()?;
        return Ok(Peer::Block { net: parse(&block.cidr)?, except });
    }
    if written.namespace_selector.is_none() && written.pod_selector.is_none() {
        return Err(LeftOut::EmptyPeer);
    }
    Ok(Peer::Pods {
        namespaces: written.namespace_selector.as_ref().map(selector).transpose()?,
        pods: written.pod_selector.as_ref().map(selector).transpose()?,
    })
}

fn port(written: &k8s::NetworkPolicyPort) -> Result<PolicyPort, LeftOut> {
    let unknown = || LeftOut::Protocol(written.protocol.clone().unwrap_or_default());
    let protocol = protocol(written.protocol.as_deref()).ok_or_else(unknown)?;
    let ports = match (&written.port, written.end_port) {
        (None, None) => PortSet::Any,
        (Some(IntOrString::Int(first)), end) => {
            let first = Port::new((*first).into())?;
            let last = end.map_or(Ok(first), |end| Port::new(end.into()))?;
            if last < first {
                return Err(LeftOut::EndPort(last.number().into()));
            }
            PortSet::Range(first, last)
        }
        (Some(IntOrString::String(name)), None) => PortSet::Named(name.clone()),
        (None | Some(IntOrString::String(_)), Some(end)) => return Err(LeftOut::EndPort(end)),
    };
    Ok(PolicyPort { protocol, ports })
}
