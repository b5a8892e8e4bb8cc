//! A small Kubernetes-compatible API server in a library.

pub mod catalog;
pub mod clock;
pub mod crd;
pub mod decode;
pub mod field;
pub(crate) mod object;
pub mod patch;
pub mod query;
pub mod resource;
pub mod schema;
pub mod ssa;
pub mod status;
pub mod store;
pub mod text;
