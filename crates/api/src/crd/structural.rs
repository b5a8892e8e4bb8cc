//! From what a derive prints to what an API server calls a structural schema.
//!
//! A structural schema names one type per value and carries no references. An optional field is
//! one that is not `required`, never one whose type may also be `null`: the server drops an explicit
//! `null` by itself, and `nullable: true` would keep it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

pub(super) fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft07().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    rewrite(&mut schema);
    serde_json::from_value(schema).expect("the schema of a struct is an object")
}

fn rewrite(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove("title");
    drop_null(map);
    gather_enum(map);
    name_integer(map);
    if let Some(Value::String(text)) = map.get_mut("description") {
        *text = one_line(text);
    }
    for key in ["properties", "patternProperties"] {
        if let Some(Value::Object(children)) = map.get_mut(key) {
            children.values_mut().for_each(rewrite);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = map.get_mut(key) {
            rewrite(child);
        }
    }
}

/// `Option<T>` is T. Told apart by schemars as `type: [T, null]` or as a choice between T and null.
fn drop_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.retain(|c| c.get("type") != Some(&Value::from("null")));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            map.remove("anyOf");
            // What stands at the field (its description, its rules) outweighs what its type says.
            for (key, value) in only {
                map.entry(key).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    if map.get("default") == Some(&Value::Null) {
        map.remove("default");
    }
}

/// An enum whose variants carry descriptions arrives as a choice of constants.
fn gather_enum(map: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = map.get("oneOf") else { return };
    let constants: Option<Vec<Value>> = choices
        .iter()
        .map(|choice| {
            choice.get("const").cloned().map(|c| vec![c]).or_else(|| choice.get("enum")?.as_array().cloned())
        })
        .collect::<Option<Vec<_>>>()
        .map(|groups| groups.concat());
    if let Some(constants) = constants {
        map.remove("oneOf");
        map.insert("type".into(), "string".into());
        map.insert("enum".into(), Value::Array(constants));
    }
}

/// Kubernetes knows two integer formats, and a server checks neither: what does not fit the type must
/// be refused by bounds, or it is stored and no program can read the object again.
fn name_integer(map: &mut Map<String, Value>) {
    let (format, least, most) = match map.get("format").and_then(Value::as_str) {
        Some("int32") => ("int32", i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("uint32") => ("int32", 0, i64::from(u32::MAX)),
        Some("uint16") => ("int32", 0, i64::from(u16::MAX)),
        _ => return,
    };
    map.insert("format".into(), format.into());
    for (bound, limit) in [("minimum", least), ("maximum", most)] {
        map.entry(bound).or_insert_with(|| limit.into());
    }
}

/// Paragraphs stay apart; lines inside one are joined.
fn one_line(text: &str) -> String {
    text.split("\n\n")
        .map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n\n")
}
