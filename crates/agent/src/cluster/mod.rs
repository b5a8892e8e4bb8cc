//! What a node keeps of the cluster: its networks, and its own annotations for a boot without the API.

mod basis;
mod cache;

pub use basis::{Basis, Written, follow as follow_basis};
pub(crate) use cache::write_whole;
pub use cache::{Cache, CacheError};
