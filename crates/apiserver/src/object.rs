//! Reading and writing the metadata every object has.

use serde_json::{Map, Value, json};

use crate::store::Key;

/// `metadata.<field>` as text; empty when absent.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The metadata, made when it is not there (or not an object).
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("it was just made an object")
}

/// Sets or (with an empty value) removes `metadata.<field>`.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: impl Into<Value>) {
    let value = value.into();
    let metadata = meta_mut(object);
    let empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if empty {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// The object's place in its table.
pub(crate) fn key_of(object: &Value) -> Key {
    Key::new(meta(object, "namespace"), meta(object, "name"))
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    strings(&object["metadata"]["finalizers"])
}

/// Whether deletion has begun.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// A JSON array's strings.
pub(crate) fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// `metadata.generation`; 0 when absent.
pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// An owner reference, read.
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) name: String,
    pub(crate) controller: bool,
    pub(crate) blocks: bool,
}

/// `metadata.ownerReferences`.
pub(crate) fn owners(object: &Value) -> Vec<Owner> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|owner| Owner {
            uid: text(&owner["uid"]),
            kind: text(&owner["kind"]),
            api_version: text(&owner["apiVersion"]),
            name: text(&owner["name"]),
            controller: owner["controller"].as_bool().unwrap_or_default(),
            blocks: owner["blockOwnerDeletion"].as_bool().unwrap_or_default(),
        })
        .collect()
}

/// Splits `apps/v1` into group and version.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
