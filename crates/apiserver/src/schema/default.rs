//! Filling in what a custom resource's schema gives defaults for. Runs on what clients send and on what is read from
//! the store, so that an object written before a default existed shows it too.

use serde_json::Value;

use super::{Additional, Schema};

/// Sets absent fields that have a default, and nulls that may not be null; descends into what it set.
///
/// For custom resources only: the defaults in built-in documents (`""`, `0`, `{}`) describe Go's zero values.
pub fn apply_defaults(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                match map.get(name) {
                    Some(Value::Null) if !property.nullable => {}
                    Some(_) => continue,
                    None => {}
                }
                map.insert(name.clone(), default.clone());
            }
            for (name, inner) in map.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    apply_defaults(property, inner);
                } else if let Additional::Of(of) = &schema.additional {
                    default_null(of, inner);
                    apply_defaults(of, inner);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for inner in list {
                    default_null(items, inner);
                    apply_defaults(items, inner);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn default_null(schema: &Schema, value: &mut Value) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or_default();
    }
}

/// Drops nulls of fields that may neither be null nor be defaulted: sending null there means leaving the field out.
/// Nulls in lists stay, and are refused by validation.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, inner| {
            let of = match (schema.properties.get(name), &schema.additional) {
                (Some(property), _) => property,
                (None, Additional::Of(of)) => of,
                (None, Additional::Any | Additional::Refused) => return true,
            };
            if inner.is_null() && !of.nullable && of.default.is_none() {
                return false;
            }
            drop_nulls(of, inner);
            true
        }),
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for inner in list {
                    drop_nulls(items, inner);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
