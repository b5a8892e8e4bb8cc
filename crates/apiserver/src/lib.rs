//! A small Kubernetes-compatible API server in a library.

pub mod field;
pub mod resource;
pub mod schema;
pub mod ssa;
pub mod status;
