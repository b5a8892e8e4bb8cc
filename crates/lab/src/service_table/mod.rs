//! Services, feature by feature, with real connections.
//!
//! Scenarios are data (`scenarios/*.yaml`): Services as they are written for a cluster, who asks them from where, who
//! must answer and whom the answering side must see. Most are about pods that are there for all of them
//! ([`raise`] starts them: two backends on two nodes, one on the network of each of these nodes, and a client on each
//! node); some start and end pods of their own while conversations go on and requests come in, none of which may be
//! lost. [`Table::run`] does what a scenario says and compares.
//!
//! Outside addresses are any of `203.0.113.0/24` and `2001:db8:ee::/48`; which node they arrive at follows from the
//! address ([`arrives_at`]), so that a scenario can choose.

mod ask;
mod held;
mod live;
mod load;
mod raise;
mod scenario;
#[cfg(test)]
mod tests;
mod world;

pub use live::{LiveError, Told};
pub use raise::raise;
pub use scenario::{Scenario, ScenarioError, scenarios};
pub use world::{Table, arrives_at};
