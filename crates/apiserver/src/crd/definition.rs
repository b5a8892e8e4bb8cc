//! How CustomResourceDefinitions themselves behave.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin::{definition_cells, definition_columns};
use crate::field::FieldError;
use crate::resource::{Behaviour, Column, Subresource, Through};
use crate::schema::is_known_format;

use super::admit;

/// The behaviour of `customresourcedefinitions.apiextensions.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionBehaviour;

impl Behaviour for DefinitionBehaviour {
    fn default(&self, object: &mut Value) {
        if object.get("status").is_some_and(Value::is_object) {
            let status = &mut object["status"];
            if !status["acceptedNames"].is_object() {
                status["acceptedNames"] = json!({"plural": "", "kind": ""});
            }
            // Shown as null while there are none, unlike any other empty list.
            if status["conditions"].is_null() {
                status["conditions"] = Value::Null;
            }
            if status["storedVersions"].as_array().is_none_or(Vec::is_empty) {
                remember_storage_version(object);
            }
        }
        let spec = &mut object["spec"];
        if !spec.is_object() {
            return;
        }
        tidy(spec);
        let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let absent = |value: &Value| value.as_str().is_none_or(str::is_empty);
        if spec["names"].is_object() && !kind.is_empty() {
            if absent(&spec["names"]["singular"]) {
                spec["names"]["singular"] = json!(kind.to_lowercase());
            }
            if absent(&spec["names"]["listKind"]) {
                spec["names"]["listKind"] = json!(format!("{kind}List"));
            }
        }
        if !spec["conversion"].is_object() {
            spec["conversion"] = json!({"strategy": "None"});
        }
    }

    /// A definition starts without accepted names or conditions. The empty names and the null are what the real server
    /// shows until its controller has looked at it.
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}});
        remember_storage_version(object);
        if object["status"]["storedVersions"].is_null() {
            object["status"]["storedVersions"] = Value::Null;
        }
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        match through {
            Through::Sub(Subresource::Status) => object["spec"] = old["spec"].clone(),
            Through::Main | Through::Sub(_) => {
                object["status"] = old["status"].clone();
                remember_storage_version(object);
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        admit::validate(object)
    }

    fn validate_update(&self, through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        match through {
            Through::Sub(Subresource::Status) => admit::validate_status(object),
            Through::Main | Through::Sub(_) => admit::validate_update(object, old),
        }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        unknown_formats(object).into_iter().map(|format| format!("unrecognized format {format:?}")).collect()
    }

    fn update_warnings(&self, through: Through, object: &Value, old: &Value) -> Vec<String> {
        if through == Through::Sub(Subresource::Status) {
            return Vec::new();
        }
        let before = unknown_formats(old);
        let mut new = unknown_formats(object);
        new.retain(|format| !before.contains(format));
        new.into_iter().map(|format| format!("unrecognized format {format:?}")).collect()
    }

    fn columns(&self) -> Vec<Column> {
        definition_columns()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        definition_cells(object, now)
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        match through {
            Through::Sub(Subresource::Status) => vec![vec!["metadata"], vec!["spec"]],
            Through::Main | Through::Sub(_) => vec![vec!["status"]],
        }
    }

    fn spec_changed(&self, through: Through, object: &Value, old: &Value) -> bool {
        through != Through::Sub(Subresource::Status) && object["spec"] != old["spec"]
    }

    fn unconditional_update(&self) -> bool {
        false
    }
}

/// Leaves out what says nothing, as a server that decodes into structures does: fields that are null, false, zero or
/// empty where that is what absent means.
fn tidy(spec: &mut Value) {
    leave_out(spec, &["preserveUnknownFields"]);
    if let Some(names) = spec.get_mut("names") {
        leave_out(names, &["shortNames", "categories", "singular", "listKind"]);
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        leave_out(version, &["deprecated", "additionalPrinterColumns", "selectableFields"]);
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten() {
            leave_out(column, &["priority", "format", "description"]);
        }
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            tidy_schema(schema);
        }
    }
}

fn leave_out(object: &mut Value, empty_is_absent: &[&str]) {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    };
    if let Some(map) = object.as_object_mut() {
        map.retain(|key, value| {
            !(value.is_null() || empty_is_absent.contains(&key.as_str()) && empty(value))
        });
    }
}

fn tidy_schema(schema: &mut Value) {
    const EMPTY_IS_ABSENT: [&str; 26] = [
        "id",
        "$schema",
        "description",
        "type",
        "format",
        "title",
        "pattern",
        "nullable",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "uniqueItems",
        "enum",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "properties",
        "patternProperties",
        "definitions",
        "dependencies",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "message",
        "messageExpression",
    ];
    leave_out(schema, &EMPTY_IS_ABSENT);
    let Some(map) = schema.as_object_mut() else { return };
    for (key, value) in map {
        match (key.as_str(), value) {
            ("properties" | "patternProperties" | "definitions", Value::Object(map)) => {
                map.values_mut().for_each(tidy_schema);
            }
            ("allOf" | "anyOf" | "oneOf" | "x-kubernetes-validations", Value::Array(list)) => {
                list.iter_mut().for_each(tidy_schema);
            }
            ("items" | "not" | "additionalProperties", inner) => tidy_schema(inner),
            _ => {}
        }
    }
}

/// The first storage version joins those objects may be stored in.
fn remember_storage_version(object: &mut Value) {
    let versions = object["spec"]["versions"].as_array();
    let Some(storage) = versions.into_iter().flatten().find(|version| version["storage"] == true) else {
        return;
    };
    let name = storage["name"].clone();
    match &mut object["status"]["storedVersions"] {
        Value::Array(stored) if stored.contains(&name) => {}
        Value::Array(stored) => stored.push(name),
        none @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            *none = json!([name]);
        }
    }
}

/// The formats of texts that are not checked, in the order of versions and fields.
fn unknown_formats(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen: Vec<&Value> = Vec::new();
    for version in object["spec"]["versions"].as_array().into_iter().flatten() {
        let schema = &version["schema"]["openAPIV3Schema"];
        // What all versions share is looked at once.
        if !seen.contains(&schema) {
            collect_formats(schema, &mut found);
            seen.push(schema);
        }
    }
    found
}

fn collect_formats(schema: &Value, found: &mut Vec<String>) {
    if let Some(format) = schema["format"].as_str()
        && schema["type"] == "string"
        && !format.is_empty()
        && !is_known_format(format)
    {
        found.push(format.to_owned());
    }
    for key in ["items", "not", "additionalProperties"] {
        if schema[key].is_object() {
            collect_formats(&schema[key], found);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        schema[key].as_array().into_iter().flatten().for_each(|inner| collect_formats(inner, found));
    }
    if let Some(properties) = schema["properties"].as_object() {
        properties.values().for_each(|inner| collect_formats(inner, found));
    }
}
