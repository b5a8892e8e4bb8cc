//! Changes of the network plugin: what may be edited in the operator's `Network` while a cluster runs, and when.

mod edit;
mod refusal;
#[cfg(test)]
mod tests;

pub use edit::{DualStack, Hybrid, Migration, MigrationMode, NetworkType, Settings, may_become};
pub use refusal::ChangeRefusal;
