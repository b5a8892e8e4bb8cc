//! JSON patch (RFC 6902), as lenient as the library the real server uses.
//!
//! That library lets `replace` create what is not there, `copy` nothing and get null, and count list positions from
//! the end; and all its refusals reach the client as one sentence. A stricter reading of the RFC would refuse
//! patches that work on every cluster.

use serde_json::Value;

use crate::decode::budget::{CopyBudget, DEPTH, bytes_of_value, fits};
use crate::decode::doc::Doc;
use crate::decode::{FieldValidation, json};
use crate::field::quoted;
use crate::status::ApiError;

/// How many operations a patch may have.
const OPERATIONS: usize = 10_000;

/// The patched object and the strict errors about the patch itself.
pub(super) fn apply(
    body: &[u8],
    current: &Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let lenient = validation == FieldValidation::Ignore;
    let bad = |why: String| {
        ApiError::bad_request(if lenient { why } else { format!("error decoding patch: {why}") })
    };
    let doc = json::parse(body).map_err(bad)?;
    let list_type = if lenient { "jsonpatch.Patch" } else { "[]handlers.jsonPatchOp" };
    let item_type = if lenient { "jsonpatch.Operation" } else { "handlers.jsonPatchOp" };
    let unfit = |doc: &Doc, what: &str| {
        bad(format!("json: cannot unmarshal {} into Go value of type {what}", doc.go_name()))
    };
    let operations = match &doc {
        Doc::Array(operations) => operations.as_slice(),
        Doc::Null => &[],
        Doc::Bool(_) | Doc::Number(_) | Doc::String(_) | Doc::Object(_) => {
            return Err(unfit(&doc, list_type));
        }
    };
    let mut strict = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let fields = match operation {
            Doc::Object(fields) => fields.as_slice(),
            Doc::Null => &[],
            Doc::Bool(_) | Doc::Number(_) | Doc::String(_) | Doc::Array(_) => {
                return Err(unfit(operation, item_type));
            }
        };
        if !lenient {
            check_fields(i, fields, &mut strict).map_err(bad)?;
        }
    }
    if operations.len() > OPERATIONS {
        return Err(ApiError::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = current.clone();
    let mut copies = CopyBudget::default();
    for operation in operations {
        one(&mut patched, operation, &mut copies).ok_or_else(rejected)?;
    }
    Ok((patched, strict))
}

fn check_fields(i: usize, fields: &[(String, Doc)], strict: &mut Vec<String>) -> Result<(), String> {
    for (at, (name, value)) in fields.iter().enumerate() {
        let path = quoted(&format!("[{i}].{name}"));
        match name.as_str() {
            "op" | "path" | "from" => {
                if !matches!(value, Doc::String(_) | Doc::Null) {
                    return Err(format!(
                        "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                        value.go_name()
                    ));
                }
            }
            "value" => {}
            _ => {
                strict.push(format!("json patch unknown field {path}"));
                continue;
            }
        }
        if fields.iter().take(at).any(|(earlier, _)| earlier == name) {
            strict.push(format!("json patch duplicate field {path}"));
        }
    }
    Ok(())
}

/// The one answer to every operation that fails.
fn rejected() -> ApiError {
    ApiError::rejected()
}

/// Performs one operation; nothing when it cannot be done.
fn one(doc: &mut Value, operation: &Doc, copies: &mut CopyBudget) -> Option<()> {
    let text = |name: &str| match operation.get(name) {
        Some(Doc::String(text)) => Some(text.as_str()),
        Some(Doc::Null | Doc::Bool(_) | Doc::Number(_) | Doc::Array(_) | Doc::Object(_)) | None => None,
    };
    let value = || operation.get("value").map_or(Value::Null, Doc::to_value);
    match text("op")? {
        "add" => add(doc, text("path")?, value()),
        "remove" => {
            let (place, key) = find(doc, text("path")?)?;
            remove(place, &key).map(drop)
        }
        "replace" => replace(doc, text("path")?, value()),
        "move" => {
            let (place, key) = find(doc, text("from")?)?;
            let value = remove(place, &key)?;
            add(doc, text("path")?, value)
        }
        "copy" => {
            let (place, key) = find(doc, text("from")?)?;
            let value = get(place, &key)?;
            copies.spend(bytes_of_value(value))?;
            let value = value.clone();
            add(doc, text("path")?, value)
        }
        "test" => {
            let path = text("path")?;
            let found = if path.is_empty() {
                &*doc
            } else {
                let (place, key) = find(doc, path)?;
                get(place, &key)?
            };
            same(found, &value()).then_some(())
        }
        _ => None,
    }
}

/// Numbers are compared by value: `1` and `1.0` are the same to a test.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// The object or list a path ends in, and the key in it.
fn find<'d>(doc: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    let mut keys: Vec<String> =
        path.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
    if keys.len() < 2 {
        return None;
    }
    let last = keys.pop()?;
    let mut place = doc;
    for key in keys.iter().skip(1) {
        place = match place {
            Value::Object(map) => map.get_mut(key)?,
            Value::Array(items) => {
                let at = position(key, items.len())?;
                items.get_mut(at)?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
    }
    (place.is_object() || place.is_array()).then_some((place, last))
}

/// A list position; negative ones count from the end.
fn position(key: &str, length: usize) -> Option<usize> {
    let at: i64 = key.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at + length } else { at };
    usize::try_from(at).ok()
}

fn get<'v>(place: &'v Value, key: &str) -> Option<&'v Value> {
    match place {
        Value::Object(map) => Some(map.get(key).unwrap_or(&Value::Null)),
        Value::Array(items) => items.get(position(key, items.len())?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn add(doc: &mut Value, path: &str, value: Value) -> Option<()> {
    fits(&value, room_below(path)?).then_some(())?;
    let (place, key) = find(doc, path)?;
    match place {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = position(&key, items.len() + 1).filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    }
    Some(())
}

/// How deep a value at a path may nest. Operations that put values into each other would otherwise build what overflows the
/// stack.
fn room_below(path: &str) -> Option<usize> {
    DEPTH.checked_sub(path.matches('/').count())
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Option<()> {
    fits(&value, room_below(path)?).then_some(())?;
    if path.is_empty() {
        if !(value.is_object() || value.is_array()) {
            return None;
        }
        *doc = value;
        return Some(());
    }
    let (place, key) = find(doc, path)?;
    match place {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) => {
            let at = position(&key, items.len())?;
            *items.get_mut(at)? = value;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    }
    Some(())
}

fn remove(place: &mut Value, key: &str) -> Option<Value> {
    match place {
        Value::Object(map) => map.remove(key),
        Value::Array(items) => {
            let at = position(key, items.len()).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
