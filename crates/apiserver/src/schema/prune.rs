//! Dropping what a schema does not know, and telling its paths.

use serde_json::{Map, Value};

use super::meta::object_meta;
use super::{Additional, Schema};

/// The fields every resource has, which a custom resource's schema need not mention.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops every field of a custom resource that its schema does not know. `apiVersion`, `kind` and `metadata` stay,
/// at the root and in embedded resources; unknown fields of `metadata` itself are dropped.
///
/// Returns the paths of what was dropped (`spec.foo`, `spec.list[0].bar`), in the order the real server tells them:
/// of the object's metadata, of its body, of the metadata of embedded resources.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(metadata) = object.get_mut("metadata") {
        told.append(&mut unknown(&object_meta(), metadata, "metadata", true));
    }
    let mut walk = Walk { drop: true, paths: Vec::new() };
    walk.known(schema, object, "", true);
    walk.paths.sort();
    told.append(&mut walk.paths);
    let mut embedded = Vec::new();
    prune_embedded_metadata(schema, object, "", &mut embedded);
    embedded.sort();
    told.append(&mut embedded);
    told
}

/// Drops every field a built-in type does not have. Returns their paths, sorted.
pub fn prune_builtin(schema: &Schema, object: &mut Value) -> Vec<String> {
    unknown(schema, object, "", true)
}

fn unknown(schema: &Schema, value: &mut Value, at: &str, drop: bool) -> Vec<String> {
    let mut walk = Walk { drop, paths: Vec::new() };
    walk.known(schema, value, at, false);
    walk.paths.sort();
    walk.paths
}

struct Walk {
    drop: bool,
    paths: Vec<String>,
}

impl Walk {
    /// `embedded` is given at the root of a custom resource, where the schema itself does not say it.
    fn known(&mut self, schema: &Schema, value: &mut Value, at: &str, embedded: bool) {
        let embedded = embedded || schema.embedded_resource;
        match value {
            Value::Object(map) => {
                let mut gone = Vec::new();
                for (key, inner) in map.iter_mut() {
                    if embedded && META.contains(&key.as_str()) {
                        continue;
                    }
                    let path = below(at, key);
                    if let Some(property) = schema.properties.get(key) {
                        self.known(property, inner, &path, false);
                        continue;
                    }
                    match &schema.additional {
                        Additional::Of(of) => self.known(of, inner, &path, false),
                        Additional::Any if schema.preserve_unknown => {}
                        Additional::Any => self.nothing(inner, &path),
                        Additional::Refused if schema.preserve_unknown => {}
                        Additional::Refused => {
                            gone.push(key.clone());
                            if !(at.is_empty() && META.contains(&key.as_str())) {
                                self.paths.push(path);
                            }
                        }
                    }
                }
                self.remove(map, gone);
            }
            Value::Array(list) => {
                for (index, inner) in list.iter_mut().enumerate() {
                    let path = format!("{at}[{index}]");
                    match &schema.items {
                        Some(items) => self.known(items, inner, &path, false),
                        None if schema.preserve_unknown => {}
                        None => self.nothing(inner, &path),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// A value no schema speaks of: scalars pass, objects lose everything.
    fn nothing(&mut self, value: &mut Value, at: &str) {
        match value {
            Value::Object(map) => {
                self.paths.extend(map.keys().map(|key| below(at, key)));
                let keys = map.keys().cloned().collect();
                self.remove(map, keys);
            }
            Value::Array(list) => {
                for (index, inner) in list.iter_mut().enumerate() {
                    self.nothing(inner, &format!("{at}[{index}]"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn remove(&self, map: &mut Map<String, Value>, keys: Vec<String>) {
        if self.drop {
            for key in keys {
                map.remove(&key);
            }
        }
    }
}

fn prune_embedded_metadata(schema: &Schema, value: &mut Value, at: &str, told: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                let path = below(at, key);
                if schema.embedded_resource && key == "metadata" {
                    told.append(&mut unknown(&object_meta(), inner, &path, true));
                }
                if let Some(property) = schema.properties.get(key) {
                    prune_embedded_metadata(property, inner, &path, told);
                } else if let Additional::Of(of) = &schema.additional {
                    prune_embedded_metadata(of, inner, &path, told);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (index, inner) in list.iter_mut().enumerate() {
                    prune_embedded_metadata(items, inner, &format!("{at}[{index}]"), told);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn below(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}
