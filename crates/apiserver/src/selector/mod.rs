//! Selectors: which objects a list, a watch or a budget means.

mod fields;
mod labels;
mod structured;

#[cfg(test)]
mod tests;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Operator, Requirement};
