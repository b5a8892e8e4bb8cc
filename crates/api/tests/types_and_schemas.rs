//! Types and schemas must not part: one object that a server accepts and a type cannot hold would keep
//! a controller from reading all the others.

mod common;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use common::{DEFINITIONS, lost, read_and_written};

/// Values the schema accepts, as far as types can tell: patterns and rules only narrow what a string says.
fn accepted(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return select(values.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return prop_oneof![any::<i32>().prop_map(Value::from), "[0-9]{1,3}%".prop_map(Value::from)].boxed();
    }
    let value = match schema["type"].as_str().expect("one type each") {
        "object" => object(schema),
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
            let most = schema["maxItems"].as_u64().unwrap_or(2).min(2) as usize;
            vec(accepted(&schema["items"]), least..=most.max(least)).prop_map(Value::from).boxed()
        }
        "integer" => {
            // No server looks at the format.
            let low = schema["minimum"].as_i64().unwrap_or(i64::MIN);
            let high = schema["maximum"].as_i64().unwrap_or(i64::MAX);
            prop_oneof![Just(low), Just(high), low..=high].prop_map(Value::from).boxed()
        }
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "string" if schema["format"] == "date-time" => Just(json!("2026-01-02T03:04:05Z")).boxed(),
        "string" => prop_oneof!["[a-z]{0,3}", "[0-9./:]{0,9}"].prop_map(Value::from).boxed(),
        other => panic!("a schema of type {other}"),
    };
    if schema["nullable"] == true { prop_oneof![3 => value, 1 => Just(Value::Null)].boxed() } else { value }
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    if schema["additionalProperties"].is_object() {
        let entries = btree_map("[a-z]{1,3}", accepted(&schema["additionalProperties"]), 0..3);
        return entries.prop_map(|entries| Value::Object(Map::from_iter(entries))).boxed();
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut fields: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let value = if required.contains(&name.as_str()) {
            accepted(child).prop_map(Some).boxed()
        } else {
            proptest::option::of(accepted(child)).boxed()
        };
        let name = name.clone();
        fields = (fields, value)
            .prop_map(move |(mut map, value)| {
                if let Some(value) = value {
                    map.insert(name.clone(), value);
                }
                map
            })
            .boxed();
    }
    fields.prop_map(Value::Object).boxed()
}

#[test]
fn whatever_a_schema_accepts_the_type_can_hold_and_write_back() {
    for crd in DEFINITIONS.iter() {
        for version in crd["spec"]["versions"].as_array().expect("versions") {
            let group = crd["spec"]["group"].as_str().expect("group");
            let api_version = format!("{group}/{}", version["name"].as_str().expect("version"));
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            let properties = schema["properties"].as_object_mut().expect("properties");
            for given in ["apiVersion", "kind", "metadata"] {
                properties.remove(given);
            }
            let mut runner =
                TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
            runner
                .run(&accepted(&schema), |mut object| {
                    object["apiVersion"] = json!(api_version);
                    object["kind"] = crd["spec"]["names"]["kind"].clone();
                    object["metadata"] = json!({ "name": "x" });
                    // A server that defaults the spec leaves no object without one.
                    if schema["properties"]["spec"].is_object() && object.get("spec").is_none() {
                        object["spec"] = json!({});
                    }
                    let mut out = Vec::new();
                    lost("", &object, &read_and_written(&object), &mut out);
                    out.retain(|line| !line.starts_with(".apiVersion"));
                    prop_assert!(out.is_empty(), "{:#?}", out);
                    Ok(())
                })
                .unwrap_or_else(|failure| {
                    panic!("{api_version} {}: {failure}", crd["spec"]["names"]["kind"])
                });
        }
    }
}
