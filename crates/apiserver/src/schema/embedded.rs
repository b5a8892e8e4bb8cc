//! Whole Kubernetes objects inside a custom resource (`x-kubernetes-embedded-resource`).

use serde_json::{Map, Value, json};

use crate::field::{FieldError, Path};
use crate::names::{self, NameRule, dns1035_label};

use super::{Additional, Schema};

/// Why an object cannot be decoded at all: an embedded resource whose type is no text (a 400, not a 422).
pub fn check_embedded_types(schema: &Schema, value: &Value) -> Option<FieldError> {
    first_untyped(schema, value, &Path::root())
}

fn first_untyped(schema: &Schema, value: &Value, at: &Path) -> Option<FieldError> {
    match value {
        Value::Object(map) => map.iter().find_map(|(key, inner)| {
            if schema.embedded_resource && (key == "apiVersion" || key == "kind") && !inner.is_string() {
                return Some(FieldError::invalid(at.child(key), inner, "must be a string"));
            }
            if let Some(property) = schema.properties.get(key) {
                first_untyped(property, inner, &at.child(key))
            } else if let Additional::Of(of) = &schema.additional {
                first_untyped(of, inner, &at.key(key))
            } else {
                None
            }
        }),
        Value::Array(list) => {
            let items = schema.items.as_ref()?;
            list.iter().enumerate().find_map(|(index, inner)| first_untyped(items, inner, &at.index(index)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// What is wrong with the type and metadata of the resources embedded in an object.
pub fn validate_embedded(schema: &Schema, object: &Value) -> Vec<FieldError> {
    validate(schema, object, &Path::root())
}

fn validate(schema: &Schema, value: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match value {
        Value::Object(map) => {
            if schema.embedded_resource {
                errors.append(&mut validate_type(map, at));
                errors.append(&mut validate_metadata(map, at));
            }
            for (key, inner) in map {
                if let Some(property) = schema.properties.get(key) {
                    errors.append(&mut validate(property, inner, &at.child(key)));
                } else if let Additional::Of(of) = &schema.additional {
                    errors.append(&mut validate(of, inner, &at.key(key)));
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (index, inner) in list.iter().enumerate() {
                    errors.append(&mut validate(items, inner, &at.index(index)));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    errors
}

fn validate_type(map: &Map<String, Value>, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["apiVersion", "kind"] {
        let path = at.child(key);
        let value = match map.get(key) {
            None => {
                errors.push(FieldError::required(path, ""));
                continue;
            }
            Some(value) => value,
        };
        match value.as_str() {
            None => errors.push(FieldError::invalid(path, value, "must be a string")),
            Some("") => errors.push(FieldError::invalid(path, value, "must not be empty")),
            Some(text) if key == "apiVersion" && text.matches('/').count() > 1 => {
                errors.push(FieldError::invalid(
                    path,
                    value,
                    format!("unexpected GroupVersion string: {text}"),
                ));
            }
            Some(text) if key == "kind" => {
                let why = dns1035_label(&text.to_lowercase()).join(",");
                if !why.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {why}");
                    errors.push(FieldError::invalid(path, value, detail));
                }
            }
            Some(_) => {}
        }
    }
    errors
}

/// What is wrong with embedded metadata. A name may be left out, and there is a namespace only where one is given.
fn validate_metadata(map: &Map<String, Value>, at: &Path) -> Vec<FieldError> {
    let Some(Value::Object(metadata)) = map.get("metadata") else { return Vec::new() };
    let mut metadata = metadata.clone();
    if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        metadata.insert("name".to_owned(), Value::from("unnamed"));
    }
    let namespaced = metadata.get("namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let rules = names::Rules { name: NameRule::PathSegment, namespaced, qualified_finalizers: true };
    let mut errors = names::validate(&json!({"metadata": metadata}), rules);
    for error in &mut errors {
        error.path = at.child(error.path.as_str());
    }
    errors
}
