//! From the API's objects to the values `core` decides with, and back.
//!
//! `api` knows how things are written and `core` what they mean, and neither knows the other. The operator and the
//! agent need the same translation between them, so it stands here, once. Pure.
//!
//! One module per kind: [`networks`] (both `Network` resources), [`served`] (whether they are ours), [`applicant`] (what a `Node` claims),
//! [`assignment`] (what it is given, as annotations), [`node`] (a node that has a place and has spoken of itself),
//! [`pod`], [`service`] (with its slices), [`policy`], [`labels`]. For moving nodes to a configuration:
//! [`machine_config`], [`pool`], [`machine`] (a `Node` as a rollout sees it), [`drain`] (pods that are in the way), and
//! [`mtu`] (what is asked of the MTU, what is applied, what nodes observe), and [`probe`] (whether packets get from one
//! to the other).
//!
//! What cannot be understood is refused object by object, with a reason; what is merely not there yet is `None` or
//! says that it waits.

pub mod applicant;
pub mod assignment;
pub mod condition;
mod data_url;
pub mod drain;
pub mod labels;
pub mod machine;
pub mod machine_config;
pub mod mtu;
pub mod networks;
pub mod node;
pub mod pod;
pub mod policy;
pub mod pool;
pub mod probe;
pub mod served;
pub mod service;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netferry_core::name::ObjectName;
use netferry_core::port::Protocol;

/// The name of a namespaced object.
pub fn object_name(meta: &ObjectMeta) -> ObjectName {
    ObjectName::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// A protocol as Kubernetes writes it; TCP where nothing is said.
fn protocol(written: Option<&str>) -> Option<Protocol> {
    let written = written.unwrap_or("TCP");
    Protocol::ALL.into_iter().find(|protocol| protocol.upper() == written)
}

#[cfg(test)]
mod tests;
