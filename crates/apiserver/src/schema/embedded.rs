//! Whole Kubernetes objects inside a custom resource (`x-kubernetes-embedded-resource`).

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};

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
                if let Some(why) = not_dns_1035(&text.to_lowercase()) {
                    let detail = format!("may have mixed case, but should otherwise match: {why}");
                    errors.push(FieldError::invalid(path, value, detail));
                }
            }
            Some(_) => {}
        }
    }
    errors
}

/// Why a text is not a DNS-1035 label, in the server's words.
pub(crate) fn not_dns_1035(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 characters".to_owned());
    }
    let ok = text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    (!ok).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
         and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
         '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}
