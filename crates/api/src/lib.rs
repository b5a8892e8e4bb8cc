//! What users write and read: custom resources, annotations, labels and conditions.
//!
//! One module per capability, under the names used everywhere: [`mtu`], [`migration`], [`hostnet`],
//! [`egressip`], and the two that several of them share, [`rollout`] (node by node) and [`overlay`]
//! (the pod network itself). The single-node topology needs no resource of its own.
//!
//! Every kind keeps the group, version and field names under which its users know it, so that their
//! manifests apply unchanged ([`group`] lists them). What the schema of a kind refuses is written
//! beside its fields; [`crds`] prints the definitions an API server needs.
//!
//! Annotation values are parsed once, at the edge, into types that cannot hold a wrong value:
//! see [`annotation`].
#![allow(clippy::duplicated_attributes, reason = "two printed columns of the same type are not a repetition")]

pub mod annotation;
mod crd;
pub mod egressip;
pub mod group;
pub mod hostnet;
pub mod migration;
pub mod mtu;
pub mod overlay;
pub mod rollout;
mod schema;

pub use crd::crds;
