//! Whether a schema is structural: every field typed where it stands, value limits apart from structure.

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};
use crate::schema::compiled_pattern;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps the schema from being structural, sorted by what is said.
pub(super) fn validate(root: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(root, Level::Root, path, &mut errors);
    complete(root, root, path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

/// Whether a schema uses a keyword that has no structural meaning at all; such a schema is not looked at further.
pub(super) fn has_foreign_keywords(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return false };
    let foreign = ["id", "$ref", "definitions", "patternProperties", "dependencies", "additionalItems"];
    map.iter().any(|(key, value)| {
        let given = match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => true,
        };
        match key.as_str() {
            key if foreign.contains(&key) => given,
            "items" if value.is_array() => true,
            "items" | "not" | "additionalProperties" => has_foreign_keywords(value),
            "properties" => value.as_object().is_some_and(|map| map.values().any(has_foreign_keywords)),
            "allOf" | "anyOf" | "oneOf" => {
                value.as_array().is_some_and(|list| list.iter().any(has_foreign_keywords))
            }
            _ => false,
        }
    })
}

fn text<'v>(schema: &'v Value, key: &str) -> &'v str {
    schema[key].as_str().unwrap_or_default()
}

fn is(schema: &Value, key: &str) -> bool {
    schema[key] == true
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn is_int_or_string(alternatives: &Value) -> bool {
    let only = |schema: &Value, kind: &str| {
        schema.as_object().is_some_and(|map| map.len() == 1) && schema["type"] == kind
    };
    alternatives
        .as_array()
        .is_some_and(|list| list.len() == 2 && only(&list[0], "integer") && only(&list[1], "string"))
}

fn node(schema: &Value, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let items = &schema["items"];
    if kind == "array" && items.is_null() {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    if items.is_object() {
        node(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in entries(&schema["properties"]) {
        node(property, Level::Field, &path.child("properties").key(name), errors);
    }
    let additional = &schema["additionalProperties"];
    if !additional.is_null() {
        if level == Level::Root {
            errors.push(FieldError::forbidden(
                path.child("additionalProperties"),
                "must not be used at the root",
            ));
        }
        if additional.is_object() {
            node(additional, Level::Field, &path.child("additionalProperties"), errors);
        }
    }
    let embedded = is(schema, "x-kubernetes-embedded-resource");
    let preserving = is(schema, "x-kubernetes-preserve-unknown-fields");
    if is(schema, "x-kubernetes-int-or-string") {
        for (key, set) in [
            ("x-kubernetes-preserve-unknown-fields", preserving),
            ("x-kubernetes-embedded-resource", embedded),
        ] {
            if set {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(path.child(key), &Value::Bool(true), detail));
            }
        }
    }
    let first_all_of = &schema["allOf"][0]["anyOf"];
    limits(schema, is_int_or_string(&schema["anyOf"]), is_int_or_string(first_all_of), path, errors);
    let must_be_object = "must be object if x-kubernetes-embedded-resource is true";
    if embedded && kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), must_be_object));
    } else if embedded && kind != "object" {
        errors.push(FieldError::invalid(path.child("type"), &schema["type"], must_be_object));
    } else if kind.is_empty() && !is(schema, "x-kubernetes-int-or-string") && !preserving {
        let where_it_is = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(path.child("type"), format!("must not be empty {where_it_is}")));
    }
    if embedded && !additional.is_null() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(path.child("type"), &schema["type"], "must be object at the root"));
    }
    metadata(schema, level, embedded, path, errors);
    if embedded && !preserving && entries(&schema["properties"]).next().is_none() {
        errors.push(FieldError::required(
            path.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// The type and metadata of a resource are implied; a schema may restrict the name and nothing else.
fn metadata(schema: &Value, level: Level, embedded: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || embedded;
    let property = |name: &str| schema["properties"].get(name);
    let at = |name: &str| path.child("properties").key(name);
    for name in ["kind", "apiVersion"] {
        if let Some(found) = property(name).filter(|found| is_resource && text(found, "type") != "string") {
            let shown = Value::from(text(found, "type"));
            errors.push(FieldError::invalid(at(name).child("type"), &shown, "must be string"));
        }
    }
    let Some(found) = property("metadata") else { return };
    if is_resource && text(found, "type") != "object" {
        let shown = Value::from(text(found, "type"));
        errors.push(FieldError::invalid(at("metadata").child("type"), &shown, "must be object"));
    }
    if level == Level::Root {
        let fine = entries(found).all(|(key, value)| match key.as_str() {
            "type" | "default" => true,
            "properties" => entries(value).all(|(name, _)| name == "name" || name == "generateName"),
            _ => value.is_null(),
        });
        if !fine {
            errors.push(FieldError::forbidden(
                at("metadata"),
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
}

fn limits(schema: &Value, skip_any_of: bool, skip_in_first: bool, path: &Path, errors: &mut Vec<FieldError>) {
    for (keyword, skip) in [("anyOf", skip_any_of), ("allOf", false), ("oneOf", false)] {
        if skip {
            continue;
        }
        for (index, alternative) in schema[keyword].as_array().into_iter().flatten().enumerate() {
            let skip_any_of = keyword == "allOf" && index == 0 && skip_in_first;
            nested(alternative, skip_any_of, &path.child(keyword).index(index), errors);
        }
    }
    if schema["not"].is_object() {
        nested(&schema["not"], false, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty() && compiled_pattern(pattern).is_none() {
        let detail = format!(
            "must be a valid regular expression, but isn't: error parsing regexp: {}",
            regexp_error(pattern)
        );
        errors.push(FieldError::invalid(path.child("pattern"), &schema["pattern"], detail));
    }
}

/// What the server's regular expressions say of the commonest mistakes.
fn regexp_error(pattern: &str) -> String {
    let open = pattern.matches('(').count();
    let close = pattern.matches(')').count();
    if open > close {
        format!("missing closing ): `{pattern}`")
    } else if close > open {
        format!("unexpected ): `{pattern}`")
    } else if pattern.contains("(?=") || pattern.contains("(?!") || pattern.contains("(?<") {
        let at = pattern.find("(?").unwrap_or_default();
        format!("invalid or unsupported Perl syntax: `{}`", &pattern[at..(at + 3).min(pattern.len())])
    } else if pattern.matches('[').count() > pattern.matches(']').count() {
        format!("missing closing ]: `{}`", &pattern[pattern.rfind('[').unwrap_or_default()..])
    } else {
        format!("invalid syntax: `{pattern}`")
    }
}

fn nested(schema: &Value, skip_any_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    limits(schema, skip_any_of, false, path, errors);
    if schema["items"].is_object() {
        nested(&schema["items"], false, &path.child("items"), errors);
    }
    for (name, property) in entries(&schema["properties"]) {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    let mut forbid = |given: bool, key: &str, must_be: &str| {
        if given {
            errors
                .push(FieldError::forbidden(path.child(key), format!("must be {must_be} to be structural")));
        }
    };
    forbid(!text(schema, "type").is_empty(), "type", "empty");
    forbid(!schema["additionalProperties"].is_null(), "additionalProperties", "undefined");
    forbid(!schema["default"].is_null(), "default", "undefined");
    forbid(!text(schema, "title").is_empty(), "title", "empty");
    forbid(!text(schema, "description").is_empty(), "description", "empty");
    for key in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbid(is(schema, key), key, "false");
    }
    let some = |key: &str| schema[key].as_array().is_some_and(|list| !list.is_empty());
    forbid(some("x-kubernetes-list-map-keys"), "x-kubernetes-list-map-keys", "empty");
    forbid(!schema["x-kubernetes-list-type"].is_null(), "x-kubernetes-list-type", "undefined");
    forbid(!schema["x-kubernetes-map-type"].is_null(), "x-kubernetes-map-type", "undefined");
    forbid(some("x-kubernetes-validations"), "x-kubernetes-validations", "empty");
    if schema["properties"].get("metadata").is_some() {
        let path = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(path, "must not be specified in a nested context"));
    }
}

/// What the root's alternatives limit must be declared outside them.
fn complete(limits: &Value, schema: &Value, path: &Path, limits_path: &Path, errors: &mut Vec<FieldError>) {
    let mut alternative = |limits: &Value, at: Path| complete_nested(limits, schema, path, &at, errors);
    if limits["not"].is_object() {
        alternative(&limits["not"], limits_path.child("not"));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in limits[keyword].as_array().into_iter().flatten().enumerate() {
            alternative(inner, limits_path.child(keyword).index(index));
        }
    }
}

fn complete_nested(
    limits: &Value,
    schema: &Value,
    path: &Path,
    limits_path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let because = |at: &Path| format!("because it is defined in {at}");
    complete(limits, schema, path, limits_path, errors);
    if limits["items"].is_object() {
        let at = limits_path.child("items");
        if schema["items"].is_object() {
            complete_nested(&limits["items"], &schema["items"], &path.child("items"), &at, errors);
        } else {
            errors.push(FieldError::required(path.child("items"), because(&at)));
        }
    }
    for (name, inner) in entries(&limits["properties"]) {
        let (here, at) = (path.child("properties").key(name), limits_path.child("properties").key(name));
        match schema["properties"].get(name) {
            Some(property) => complete_nested(inner, property, &here, &at, errors),
            None => errors.push(FieldError::required(here, because(&at))),
        }
    }
}
