//! NetworkPolicy by truth table, after the method of Kubernetes' own suite.
//!
//! Three namespaces, three pods in each, two ports, two protocols: every pod asks every pod, and every cell of the table
//! is compared with what the scenario says. Scenarios are data (`scenarios/*.yaml`): the policies as they are written
//! for a cluster, and the cells they open and close, written by hand. [`model`] computes the same table from what
//! policies mean ([`netferry_core::overlay::policy::verdict`]); both must agree before a packet is sent. [`live`] sends
//! them.

mod cell;
mod doors;
mod evidence;
mod expect;
pub mod live;
pub mod model;
mod raise;
mod scenario;
#[cfg(test)]
mod tests;

pub use cell::{Cell, PORTS, PodId, cells};
pub use doors::{Door, Doors, Expected, FROM_OUTSIDE};
pub use evidence::gather;
pub use expect::{Expectation, NotAnExpectation};
pub use raise::raise;
pub use scenario::{Expanded, Scenario, ScenarioError, Step, World, pod_manifest, scenarios};
