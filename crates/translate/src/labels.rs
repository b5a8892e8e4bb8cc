//! Labels and selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as Written, LabelSelectorRequirement};
use netferry_core::label::{LabelSelector, Labels, Requirement};

/// A selector that asks for something no selector can ask for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotASelector {
    /// None of `In`, `NotIn`, `Exists`, `DoesNotExist`.
    #[error("label {key:?} is compared by {operator:?}, which is not In, NotIn, Exists or DoesNotExist")]
    Operator {
        /// The label.
        key: String,
        /// What was asked.
        operator: String,
    },
}

/// The labels of an object.
pub fn labels(written: Option<&BTreeMap<String, String>>) -> Labels {
    written.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// A selector. Without any requirement it selects everything.
pub fn selector(written: &Written) -> Result<LabelSelector, NotASelector> {
    let equal = written.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| Ok(Requirement::In(key.clone(), [value.clone()].into())));
    let others = written.match_expressions.iter().flatten().map(requirement);
    equal.chain(others).collect()
}

fn requirement(written: &LabelSelectorRequirement) -> Result<Requirement, NotASelector> {
    let key = written.key.clone();
    let values = || written.values.iter().flatten().cloned().collect();
    Ok(match written.operator.as_str() {
        "In" => Requirement::In(key, values()),
        "NotIn" => Requirement::NotIn(key, values()),
        "Exists" => Requirement::Exists(key),
        "DoesNotExist" => Requirement::Missing(key),
        operator => return Err(NotASelector::Operator { key, operator: operator.to_owned() }),
    })
}
