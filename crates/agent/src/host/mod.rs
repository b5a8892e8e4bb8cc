//! The host around the zone: what its kernel and its switch must have for the overlay to work.
//!
//! [`keep`] makes a [`HostPlan`](netferry_core::overlay::host::HostPlan) true and keeps it so; [`objects`] and
//! [`filter`] say what it asks of the kernel. [`guard`] and [`neighbours`] are for the userspace datapath alone.

pub mod filter;
pub mod guard;
pub mod keep;
pub mod neighbours;
pub mod objects;

pub use keep::{Inputs, State, run};
