//! Merge patch (RFC 7396).

use serde_json::{Map, Value};

use crate::decode::{FieldValidation, json};
use crate::status::ApiError;

/// The patched object and the strict errors about the patch itself.
pub(super) fn apply(
    body: &[u8],
    current: &Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let lenient = validation == FieldValidation::Ignore;
    let bad = |why: String| {
        ApiError::bad_request(if lenient {
            "Invalid JSON Patch".to_owned()
        } else {
            format!("error decoding patch: {why}")
        })
    };
    let doc = json::parse(body).map_err(bad)?;
    let mut strict = Vec::new();
    doc.duplicates("", &mut strict);
    match doc.to_value() {
        Value::Object(patch) => {
            let mut patched = current.clone();
            merge(&mut patched, patch);
            Ok((patched, strict))
        }
        Value::Null => Err(ApiError::bad_request("Invalid JSON Patch")),
        // RFC 7396: what is no object takes the place of the whole document, which then is no Kubernetes object. The
        // library upstream does that for lists only.
        whole @ Value::Array(_) if lenient => Ok((whole, strict)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(bad(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            doc.go_name()
        ))),
    }
}

/// Merges `patch` into `target`: null removes, objects merge, everything else replaces.
pub(super) fn merge(target: &mut Value, patch: Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(&key);
            }
            Value::Object(inner) => merge(target.entry(key).or_insert(Value::Null), inner),
            value @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                target.insert(key, value);
            }
        }
    }
}
