//! Whether the defaults a schema gives satisfy it.

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};
use crate::schema::cel::Rules;
use crate::schema::{Schema, prune_builtin, validate_embedded, validate_value};

/// What is wrong with the defaults of a structural schema. Those inside `additionalProperties` are not looked at.
pub(super) fn validate(schema: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(schema, path, &mut errors);
    errors
}

fn node(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if !schema["default"].is_null() {
        errors.append(&mut one(schema, &path.child("default")));
    }
    if schema["items"].is_object() {
        node(&schema["items"], &path.child("items"), errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
        node(property, &path.child("properties").key(name), errors);
    }
}

fn one(schema: &Value, path: &Path) -> Vec<FieldError> {
    let value = &schema["default"];
    // A schema that cannot be read is refused for that; its defaults are not worth a second complaint.
    let Ok(parsed) = Schema::from_crd(schema) else { return Vec::new() };
    let mut errors = Vec::new();
    if !prune_builtin(&parsed, &mut value.clone()).is_empty() {
        errors.push(FieldError::invalid(path.clone(), value, "must not have unknown fields"));
    }
    let mut wrong = validate_embedded(&parsed, value);
    if wrong.is_empty() {
        wrong = validate_value(&parsed, value, None, path);
    }
    if wrong.is_empty() {
        let rules = Rules::compile_part(&parsed);
        // Once as a value that stays, once as one that appears: a default does both.
        wrong = rules.validate_at(value, Some(value), path);
        if wrong.is_empty() {
            wrong = rules.validate_at(value, None, path);
        }
    }
    errors.append(&mut wrong);
    errors
}
