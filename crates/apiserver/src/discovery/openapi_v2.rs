//! OpenAPI v2, made from the v3 documents: kubectl checks a `List` of objects with it before it sends them.
//!
//! What v2 cannot say is left out, as the real server does: a place that takes several types takes any.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The v2 document that says what the v3 documents say.
pub(super) fn document<'a>(documents: impl Iterator<Item = &'a Value>, version: &str) -> Value {
    let (mut definitions, mut paths) = (BTreeMap::new(), BTreeMap::new());
    for document in documents {
        for (name, schema) in entries(&document["components"]["schemas"]) {
            definitions.entry(name.clone()).or_insert_with(|| converted(schema));
        }
        for (path, item) in entries(&document["paths"]) {
            paths.insert(path.clone(), path_item(item));
        }
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": version},
        "paths": paths, "definitions": definitions,
    })
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn converted(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else { return json!({}) };
    if let Some(reference) = reference(fields) {
        return json!({"$ref": reference.replace("#/components/schemas/", "#/definitions/")});
    }
    let mut out = Map::new();
    for (name, value) in fields {
        match name.as_str() {
            "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default" => {}
            "properties" => {
                let properties = entries(value).map(|(name, schema)| (name.clone(), converted(schema)));
                out.insert(name.clone(), Value::Object(properties.collect()));
            }
            "items" => {
                out.insert(name.clone(), converted(value));
            }
            "additionalProperties" => {
                let held = if value.is_object() { converted(value) } else { value.clone() };
                out.insert(name.clone(), held);
            }
            _ => {
                out.insert(name.clone(), value.clone());
            }
        }
    }
    let says = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    if says("nullable") || says("x-kubernetes-preserve-unknown-fields") {
        // Clients that take the properties for all there may be would refuse what the server takes.
        out.remove("properties");
        out.remove("items");
        out.remove("additionalProperties");
    }
    if says("nullable") || says("x-kubernetes-int-or-string") {
        out.remove("type");
    }
    if fields.contains_key("oneOf") && !out.contains_key("type") && !says("x-kubernetes-int-or-string") {
        // Quantities and the like: whatever else they take, a string always is.
        out.insert("type".to_owned(), json!("string"));
    }
    Value::Object(out)
}

/// What a schema stands for that only refers to another one.
fn reference(fields: &Map<String, Value>) -> Option<&str> {
    let direct = fields.get("$ref").and_then(Value::as_str);
    direct.or_else(|| match fields.get("allOf")?.as_array()?.as_slice() {
        [only] => only["$ref"].as_str(),
        _ => None,
    })
}

fn path_item(item: &Value) -> Value {
    let mut out = Map::new();
    for (method, operation) in entries(item) {
        if method == "parameters" {
            out.insert(method.clone(), parameters(operation));
            continue;
        }
        let mut converted = Map::new();
        for (name, value) in entries(operation) {
            match name.as_str() {
                "parameters" => {
                    converted.insert(name.clone(), parameters(value));
                }
                "requestBody" | "responses" => {}
                _ => {
                    converted.insert(name.clone(), value.clone());
                }
            }
        }
        converted.insert("responses".to_owned(), json!({"200": {"description": "OK"}}));
        out.insert(method.clone(), Value::Object(converted));
    }
    Value::Object(out)
}

fn parameters(parameters: &Value) -> Value {
    let flat = parameters.as_array().into_iter().flatten().map(|parameter| {
        let mut out = Map::new();
        for (name, value) in entries(parameter) {
            if name == "schema" {
                out.extend(entries(value).map(|(name, value)| (name.clone(), value.clone())));
            } else {
                out.insert(name.clone(), value.clone());
            }
        }
        Value::Object(out)
    });
    flat.collect()
}

/// The document in protobuf, the only form kubectl asks for. Its messages and numbers are gnostic's `openapi.v2`.
pub(super) fn protobuf(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    out.message(8, |paths| {
        for (path, item) in entries(&document["paths"]) {
            paths.message(2, |named| {
                named.string(1, path);
                named.message(2, |out| encode_path(out, item));
            });
        }
    });
    out.message(9, |definitions| encode_named(definitions, &document["definitions"]));
    out.0
}

fn encode_path(out: &mut Message, item: &Value) {
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        let Some(operation) = item.get(method) else { continue };
        out.message(number, |out| {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "query" {
                    out.message(8, |out| {
                        out.message(1, |out| out.message(2, |out| encode_query(out, parameter)))
                    });
                }
            }
            encode_extensions(out, 13, operation);
        });
    }
}

fn encode_query(out: &mut Message, parameter: &Value) {
    out.message(3, |out| {
        out.text(2, &parameter["in"]);
        out.text(4, &parameter["name"]);
        out.text(6, &parameter["type"]);
    });
}

fn encode_named(out: &mut Message, schemas: &Value) {
    for (name, schema) in entries(schemas) {
        out.message(1, |named| {
            named.string(1, name);
            named.message(2, |out| encode_schema(out, schema));
        });
    }
}

fn encode_schema(out: &mut Message, schema: &Value) {
    for (number, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        out.text(number, &schema[name]);
    }
    for (number, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.double(number, &schema[name]);
    }
    let numbers = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, name) in numbers {
        out.integer(number, &schema[name]);
    }
    for (number, name) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")] {
        out.flag(number, &schema[name]);
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        out.text(19, name);
    }
    for value in schema["enum"].as_array().into_iter().flatten() {
        out.message(20, |any| any.string(2, &value.to_string()));
    }
    match &schema["additionalProperties"] {
        Value::Bool(allowed) => out.message(21, |item| item.flag(2, &Value::Bool(*allowed))),
        Value::Object(_) => {
            out.message(21, |item| {
                item.message(1, |out| encode_schema(out, &schema["additionalProperties"]))
            });
        }
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    }
    if schema["type"].is_string() {
        out.message(22, |item| item.text(1, &schema["type"]));
    }
    if schema["items"].is_object() {
        out.message(23, |item| item.message(1, |out| encode_schema(out, &schema["items"])));
    }
    if schema["properties"].is_object() {
        out.message(25, |properties| encode_named(properties, &schema["properties"]));
    }
    encode_extensions(out, 31, schema);
}

/// Extensions are YAML in the message; JSON is YAML.
fn encode_extensions(out: &mut Message, number: u64, of: &Value) {
    for (name, value) in entries(of).filter(|(name, _)| name.starts_with("x-")) {
        out.message(number, |named| {
            named.string(1, name);
            named.message(2, |any| any.string(2, &value.to_string()));
        });
    }
}

/// A protobuf message in the making. What is absent or of another type is not written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn string(&mut self, number: u64, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    fn message(&mut self, number: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(number, &inner.0);
    }

    fn text(&mut self, number: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.string(number, text);
        }
    }

    fn integer(&mut self, number: u64, value: &Value) {
        if let Some(value) = value.as_i64() {
            self.varint(number << 3);
            self.varint(value.cast_unsigned());
        }
    }

    fn flag(&mut self, number: u64, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(number << 3);
            self.varint(1);
        }
    }

    fn double(&mut self, number: u64, value: &Value) {
        if let Some(value) = value.as_f64() {
            self.varint(number << 3 | 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_several_types_takes_any_or_a_string() {
        let table = [
            (
                json!({"allOf": [{"$ref": "#/components/schemas/a.B"}], "default": {}}),
                json!({"$ref": "#/definitions/a.B"}),
            ),
            (
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"format": "int-or-string", "type": "string"}),
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}]}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}}), json!({})),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                json!({"type": "array", "items": {"$ref": "#/components/schemas/a.B"}}),
                json!({"type": "array", "items": {"$ref": "#/definitions/a.B"}}),
            ),
        ];
        for (v3, v2) in table {
            assert_eq!(converted(&v3), v2, "{v3}");
        }
    }

    #[test]
    fn numbers_are_written_in_groups_of_seven_bits() {
        let mut message = Message::default();
        message.integer(11, &json!(300));
        message.string(1, "ab");
        assert_eq!(message.0, [0x58, 0xac, 0x02, 0x0a, 2, b'a', b'b']);
    }
}
