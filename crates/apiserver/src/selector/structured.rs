//! Selectors inside objects: `matchLabels` and `matchExpressions`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::labels::{LabelSelector, Operator, Requirement};
use crate::field::{FieldError, Path};
use crate::names::{label_value, qualified_name, validate_labels};

impl LabelSelector {
    /// A `LabelSelector` object. Without one nothing is selected (`None`); an empty one selects everything. An
    /// expression that does not make sense selects nothing.
    pub fn from_object(selector: Option<&Value>) -> Option<LabelSelector> {
        let selector = selector?.as_object()?;
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push(Requirement {
                key: key.clone(),
                operator: Operator::In,
                values: BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]),
            });
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match expression["operator"].as_str()? {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let values = expression["values"].as_array().into_iter().flatten();
            requirements.push(Requirement {
                key: expression["key"].as_str()?.to_owned(),
                operator,
                values: values.filter_map(Value::as_str).map(str::to_owned).collect(),
            });
        }
        Some(LabelSelector { requirements })
    }

    /// What is wrong with a `LabelSelector` object.
    pub fn validate_object(selector: &Value, path: &Path) -> Vec<FieldError> {
        let mut errors = validate_labels(selector.get("matchLabels"), &path.child("matchLabels"));
        let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        for (i, expression) in expressions.enumerate() {
            let path = path.child("matchExpressions").index(i);
            let values: Vec<&str> =
                expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            match expression["operator"].as_str().unwrap_or_default() {
                "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                    path.child("values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                )),
                "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                    path.child("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                other => errors.push(FieldError::invalid(
                    path.child("operator"),
                    &Value::String(other.to_owned()),
                    "not a valid selector operator",
                )),
            }
            let invalid = |path: &Path, value: &str, why: String| {
                FieldError::invalid(path.clone(), &Value::String(value.to_owned()), why)
            };
            let key = expression["key"].as_str().unwrap_or_default();
            errors.extend(qualified_name(key).into_iter().map(|why| invalid(&path.child("key"), key, why)));
            for (i, value) in values.iter().enumerate() {
                let path = path.child("values").index(i);
                errors.extend(label_value(value).into_iter().map(|why| invalid(&path, value, why)));
            }
        }
        errors
    }
}
