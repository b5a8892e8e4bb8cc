//! Follows the API and tells the zone what is new.
//!
//! Objects are translated as they come and dropped: what the zone keeps of them is a fraction of what they are. An API
//! that cannot be reached changes nothing, and neither does one that answers without this node: before anything is
//! taken away because a new list lacks it, this node itself must be there.

mod basis;
mod cache;
pub mod forward;
mod kinds;
mod watch;

pub use basis::{Basis, Written, follow as follow_basis};
pub use cache::{Cache, CacheError};
pub use kinds::{Listeners, Own, follow};
pub(crate) use watch::{Patience, fingerprint};
