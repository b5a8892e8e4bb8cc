//! A small Kubernetes-compatible API server in a library.

pub mod builtin;
pub mod catalog;
pub mod clock;
pub mod crd;
pub mod decode;
pub mod field;
pub mod names;
pub(crate) mod object;
pub mod patch;
pub mod query;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod ssa;
pub mod status;
pub mod store;
pub mod text;
