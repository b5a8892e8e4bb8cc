//! Reading JSON objects the way typed code reads structs: what is not there is the zero value.

use serde_json::{Map, Value};

/// The text at a JSON pointer; empty when absent.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a JSON pointer; 0 when absent.
pub(crate) fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The boolean at a JSON pointer; false when absent.
pub(crate) fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a JSON pointer; empty when absent.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The same, to change.
pub(crate) fn items_mut<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// The map at a JSON pointer; no entries when absent.
pub(crate) fn entries<'a>(
    value: &'a Value,
    pointer: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flatten().map(|(k, v)| (k.as_str(), v))
}

/// Whether something other than `null` stands at a JSON pointer.
pub(crate) fn present(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).is_some_and(|v| !v.is_null())
}

/// `value[key]` as an object, made where it is not one.
pub(crate) fn object_at<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let slot = &mut value[key];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("it was just made an object")
}

/// Sets `value[key]` where it is absent or `null`.
pub(crate) fn fill(value: &mut Value, key: &str, with: impl Into<Value>) {
    if let Some(map) = value.as_object_mut() {
        fill_map(map, key, with);
    }
}

/// The same on a map.
pub(crate) fn fill_map(map: &mut Map<String, Value>, key: &str, with: impl Into<Value>) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = with.into();
    }
}

/// Puts `old[key]` back into `object[key]`, or removes it where there was none.
pub(crate) fn keep(object: &mut Value, old: &Value, key: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => {
            map.insert(key.to_owned(), value.clone());
        }
        None => {
            map.remove(key);
        }
    }
}

/// Removes `value[key]`.
pub(crate) fn remove(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(key);
    }
}
