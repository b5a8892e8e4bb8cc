//! Where a custom resource keeps what `/scale` shows.

use serde_json::Value;

use crate::field::{FieldError, Path};

/// The fields of the `scale` subresource, as the definition gives them (`.spec.replicas`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// `specReplicasPath`.
    pub spec_replicas: String,
    /// `statusReplicasPath`.
    pub status_replicas: String,
    /// `labelSelectorPath`.
    pub label_selector: Option<String>,
}

impl Scale {
    /// Reads a version's `subresources.scale`.
    pub fn read(version: &Value) -> Option<Scale> {
        let scale = version.get("subresources")?.get("scale")?.as_object()?;
        let text = |key: &str| scale.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Scale {
            spec_replicas: text("specReplicasPath").unwrap_or_default(),
            status_replicas: text("statusReplicasPath").unwrap_or_default(),
            label_selector: text("labelSelectorPath").filter(|path| !path.is_empty()),
        })
    }

    /// The names a path is made of.
    pub fn segments(path: &str) -> Vec<&str> {
        path.strip_prefix('.').unwrap_or(path).split('.').collect()
    }

    /// The value at a path.
    pub fn get<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
        Scale::segments(path).into_iter().try_fold(object, |value, name| value.get(name))
    }

    /// What is wrong with the wanted count.
    pub(super) fn validate_spec(&self, object: &Value) -> Vec<FieldError> {
        replicas(object, &self.spec_replicas)
    }

    /// What is wrong with the observed count and the selector.
    pub(super) fn validate_status(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = replicas(object, &self.status_replicas);
        if let Some(path) = &self.label_selector
            && let Some(found) = wrong_type(object, path, "string", Value::is_string)
        {
            errors.push(FieldError::invalid(Path::new(path), &Value::from(""), found));
        }
        errors
    }
}

fn replicas(object: &Value, path: &str) -> Vec<FieldError> {
    let at = Path::new(path);
    if let Some(found) = wrong_type(object, path, "int64", |value| value.is_i64()) {
        return vec![FieldError::invalid(at, &Value::from(0), found)];
    }
    match Scale::get(object, path).and_then(Value::as_i64) {
        Some(count) if count < 0 => {
            vec![FieldError::invalid(at, &Value::from(count), "should be a non-negative integer")]
        }
        Some(count) if count > i64::from(i32::MAX) => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            vec![FieldError::invalid(at, &Value::from(count), detail)]
        }
        Some(_) | None => Vec::new(),
    }
}

/// Why the value at a path cannot be read as `wanted`; `None` when it can or is not there.
fn wrong_type(object: &Value, path: &str, wanted: &str, fits: impl Fn(&Value) -> bool) -> Option<String> {
    let segments = Scale::segments(path);
    let dotted = format!(".{}", segments.join("."));
    let go_type = |value: &Value| match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => format!("{b} is of the type bool"),
        Value::Number(n) if n.is_i64() => format!("{n} is of the type int64"),
        Value::Number(n) => format!("{} is of the type float64", crate::field::number(n)),
        Value::String(text) => format!("{text} is of the type string"),
        Value::Array(_) => "list is of the type []interface {}".to_owned(),
        Value::Object(_) => "map is of the type map[string]interface {}".to_owned(),
    };
    let mut here = object;
    for name in &segments {
        match here {
            Value::Object(map) => here = map.get(*name)?,
            other
            @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Some(format!(
                    "{dotted} accessor error: {}, expected map[string]interface{{}}",
                    go_type(other)
                ));
            }
        }
    }
    (!fits(here)).then(|| format!("{dotted} accessor error: {}, expected {wanted}", go_type(here)))
}
