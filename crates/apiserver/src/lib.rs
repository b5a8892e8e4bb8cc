//! A small Kubernetes-compatible API server in a library.
//!
//! [`ApiServer`] is the server: a value that is called in process ([`ApiServer::router`] is a tower service) or served
//! over TLS ([`ApiServer::serve`]).

pub mod auth;
pub mod builtin;
pub mod catalog;
pub mod clock;
pub mod crd;
pub mod decode;
pub(crate) mod discovery;
pub mod faults;
pub mod field;
pub(crate) mod http;
pub mod names;
pub(crate) mod object;
pub mod patch;
pub mod pki;
pub mod query;
pub(crate) mod react;
pub(crate) mod registry;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod serve;
mod server;
pub mod ssa;
pub mod status;
pub mod store;
pub(crate) mod sub;
pub mod text;

pub use server::{ApiServer, Settings};
