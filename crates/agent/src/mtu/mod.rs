//! The MTU on this node.
//!
//! - [`host`] applies and persists the host's MTU at boot, and predicts what the next boot would refuse;
//! - [`boot`] records the sizes of this boot; [`admission`] decides whether the node may serve pods at them;
//! - [`sizes`] holds links and routes at them while the node runs;
//! - [`observed`] and [`fit`] publish the sizes in use and whether the uplink has room for the overlay.

pub mod admission;
pub mod boot;
pub mod fit;
pub mod host;
pub mod observed;
mod pods;
pub mod sizes;
mod start;

pub use start::capability;
