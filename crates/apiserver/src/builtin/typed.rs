//! What a typed server makes of an object by reading and printing it again.
//!
//! A Kubernetes server decodes JSON into structs and prints those: `null`s and empty optional fields disappear,
//! fields that are printed always appear, quantities and times take their canonical form, fields the type does not
//! have are gone. [`Typed::normalise`] does the same from the OpenAPI documents and the facts in `presence.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::openapi;
use super::quantity::Quantity;

/// One built-in type, by its OpenAPI name.
#[derive(Clone, Copy)]
pub(super) struct Typed(&'static str);

impl Typed {
    pub(super) const fn new(name: &'static str) -> Typed {
        Typed(name)
    }

    /// Gives an object the form a typed server prints it in.
    pub(super) fn normalise(self, object: &mut Value) {
        normalise_struct(types(), self.0, object);
    }

    /// Gives an object the form it comes back from storage in: an empty list that is always printed is `null` there.
    ///
    /// Not before it is stored: whoever wrote the empty list owns the field.
    pub(super) fn store(self, object: &mut Value) {
        let Some(map) = object.as_object_mut() else { return };
        for (key, field) in types().get(self.0).into_iter().flatten() {
            if field.presence == Presence::Always
                && let Some(value) = map.get_mut(key)
                && value.as_array().is_some_and(Vec::is_empty)
            {
                *value = Value::Null;
            }
        }
    }

    /// The type's OpenAPI name.
    pub(super) fn name(self) -> &'static str {
        self.0
    }
}

/// What a value of a field is.
#[derive(Clone, Debug)]
enum Shape {
    Struct(String),
    List(Box<Shape>),
    Map(Box<Shape>),
    Text,
    Whole,
    Number,
    Boolean,
    IntOrString,
    Quantity,
    Time,
    MicroTime,
    /// Anything: passed through as it is.
    Raw,
}

/// When a field is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    /// Always: the zero value where it is absent.
    Always,
    /// Always: `null` where it is absent.
    AlwaysOrNull,
    /// When it is there, even with the zero value.
    WhenSet,
    /// When it is not empty (a plain struct is never empty).
    WhenNotEmpty,
    /// When it is not zero (an empty struct is).
    WhenNotZero,
}

#[derive(Debug)]
struct Field {
    shape: Shape,
    presence: Presence,
}

type Types = BTreeMap<String, BTreeMap<String, Field>>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Facts {
    always: BTreeSet<String>,
    pointer: BTreeSet<String>,
    omitzero: BTreeSet<String>,
}

fn types() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(|| {
        let facts: BTreeMap<String, Facts> =
            serde_json::from_str(include_str!("../../openapi/presence.json"))
                .expect("presence.json is written by openapi-import");
        let mut types = Types::new();
        for place in openapi::openapi_group_versions() {
            let document: Value = serde_json::from_str(openapi::text(place).unwrap_or_default())
                .expect("the OpenAPI documents are written by openapi-import");
            for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
                types.entry(name.clone()).or_insert_with(|| fields_of(schema, facts.get(name)));
            }
        }
        types
    })
}

fn fields_of(schema: &Value, facts: Option<&Facts>) -> BTreeMap<String, Field> {
    let mut fields = BTreeMap::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is = |set: fn(&Facts) -> &BTreeSet<String>| facts.is_some_and(|f| set(f).contains(name));
        let presence = if is(|f| &f.always) && is(|f| &f.pointer) {
            Presence::AlwaysOrNull
        } else if is(|f| &f.always) {
            Presence::Always
        } else if is(|f| &f.pointer) {
            Presence::WhenSet
        } else if is(|f| &f.omitzero) {
            Presence::WhenNotZero
        } else {
            Presence::WhenNotEmpty
        };
        fields.insert(name.clone(), Field { shape: shape_of(property), presence });
    }
    fields
}

fn shape_of(schema: &Value) -> Shape {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    if let Some(reference) = reference {
        let name = reference.trim_start_matches("#/components/schemas/");
        return match name.rsplit('.').next().unwrap_or_default() {
            "Quantity" => Shape::Quantity,
            "IntOrString" => Shape::IntOrString,
            "Time" => Shape::Time,
            "MicroTime" => Shape::MicroTime,
            "RawExtension"
            | "FieldsV1"
            | "JSON"
            | "JSONSchemaPropsOrArray"
            | "JSONSchemaPropsOrBool"
            | "JSONSchemaPropsOrStringArray" => Shape::Raw,
            _ => Shape::Struct(name.to_owned()),
        };
    }
    match schema["type"].as_str().unwrap_or_default() {
        "string" => Shape::Text,
        "integer" => Shape::Whole,
        "number" => Shape::Number,
        "boolean" => Shape::Boolean,
        "array" => Shape::List(Box::new(shape_of(&schema["items"]))),
        "object" if schema.get("additionalProperties").is_some() => {
            Shape::Map(Box::new(shape_of(&schema["additionalProperties"])))
        }
        _ => Shape::Raw,
    }
}

fn normalise_struct(types: &Types, name: &str, value: &mut Value) {
    let (Some(fields), Value::Object(map)) = (types.get(name), value) else { return };
    map.retain(|key, value| !value.is_null() && fields.contains_key(key));
    for (key, field) in fields {
        if let Some(value) = map.get_mut(key) {
            normalise_value(types, &field.shape, value);
        }
        settle(types, map, key, field);
    }
}

/// Prints or omits one field, as its type wants it.
fn settle(types: &Types, map: &mut Map<String, Value>, key: &str, field: &Field) {
    match (field.presence, map.get(key)) {
        (Presence::Always, None) => {
            map.insert(key.to_owned(), zero(types, &field.shape));
        }
        (Presence::AlwaysOrNull, None) => {
            map.insert(key.to_owned(), Value::Null);
        }
        // A plain struct, time or quantity has no empty value to omit.
        (Presence::WhenNotEmpty, None) => match field.shape {
            Shape::Struct(_) | Shape::Time | Shape::MicroTime | Shape::Quantity | Shape::IntOrString => {
                map.insert(key.to_owned(), zero(types, &field.shape));
            }
            Shape::List(_)
            | Shape::Map(_)
            | Shape::Text
            | Shape::Whole
            | Shape::Number
            | Shape::Boolean
            | Shape::Raw => {}
        },
        (Presence::WhenNotEmpty, Some(value)) => {
            let omitted = match field.shape {
                Shape::Struct(_)
                | Shape::Time
                | Shape::MicroTime
                | Shape::Quantity
                | Shape::IntOrString
                | Shape::Raw => false,
                Shape::List(_)
                | Shape::Map(_)
                | Shape::Text
                | Shape::Whole
                | Shape::Number
                | Shape::Boolean => is_empty(value),
            };
            if omitted {
                map.remove(key);
            }
        }
        (Presence::WhenNotZero, Some(value)) if is_empty(value) => {
            map.remove(key);
        }
        (Presence::Always | Presence::AlwaysOrNull, Some(_))
        | (Presence::WhenSet, _)
        | (Presence::WhenNotZero, _) => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn zero(types: &Types, shape: &Shape) -> Value {
    match shape {
        Shape::Struct(name) => {
            let mut value = json!({});
            normalise_struct(types, name, &mut value);
            value
        }
        Shape::Text => json!(""),
        Shape::Whole | Shape::Number | Shape::IntOrString => json!(0),
        Shape::Boolean => json!(false),
        Shape::Quantity => json!("0"),
        Shape::List(_) | Shape::Map(_) | Shape::Time | Shape::MicroTime | Shape::Raw => Value::Null,
    }
}

fn normalise_value(types: &Types, shape: &Shape, value: &mut Value) {
    match shape {
        Shape::Struct(name) => normalise_struct(types, name, value),
        Shape::List(of) => {
            for item in value.as_array_mut().into_iter().flatten() {
                normalise_item(types, of, item);
            }
        }
        Shape::Map(of) => {
            for item in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
                normalise_item(types, of, item);
            }
        }
        Shape::Quantity => {
            let text = match &*value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return,
            };
            if let Some(quantity) = Quantity::parse(&text) {
                *value = json!(quantity.to_string());
            }
        }
        Shape::Time => reprint(value, 0),
        Shape::MicroTime => reprint(value, 6),
        Shape::Text | Shape::Whole | Shape::Number | Shape::Boolean | Shape::IntOrString | Shape::Raw => {}
    }
}

/// A `null` inside a list or map is the zero value there, not an absent field.
fn normalise_item(types: &Types, shape: &Shape, item: &mut Value) {
    if item.is_null() {
        *item = zero(types, shape);
    } else {
        normalise_value(types, shape, item);
    }
}

/// A time in UTC with this many fractional digits.
fn reprint(value: &mut Value, digits: u8) {
    if let Some(time) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        // Truncated, not rounded: a time never moves into the future.
        let nanos = i64::from(time.subsec_nanosecond());
        let unit = 10_i64.pow(9 - u32::from(digits));
        let cut = time.checked_sub(jiff::SignedDuration::from_nanos(nanos.rem_euclid(unit))).unwrap_or(time);
        *value = json!(format!("{cut:.*}", usize::from(digits)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(name: &'static str, mut object: Value) -> Value {
        Typed::new(name).normalise(&mut object);
        object
    }

    #[test]
    fn a_pointer_keeps_its_zero_and_a_plain_field_loses_it() {
        let spec = normalised(
            "io.k8s.api.core.v1.PodSpec",
            json!({"hostNetwork": false, "automountServiceAccountToken": false, "nodeName": "", "priority": 0,
                   "nodeSelector": {}, "tolerations": [], "containers": [], "dnsConfig": null}),
        );
        assert_eq!(spec, json!({"automountServiceAccountToken": false, "priority": 0, "containers": []}));
    }

    #[test]
    fn a_plain_struct_is_printed_even_when_nobody_set_it() {
        let container = normalised("io.k8s.api.core.v1.Container", json!({"name": "a", "bogus": 1}));
        assert_eq!(container, json!({"name": "a", "resources": {}}));
        let name = "io.k8s.api.discovery.v1.EndpointSlice";
        let mut slice = normalised(name, json!({"endpoints": []}));
        assert_eq!(slice["endpoints"], json!([]), "its writer owns the empty list");
        Typed::new(name).store(&mut slice);
        assert_eq!(slice, json!({"addressType": "", "endpoints": null, "ports": null, "metadata": {}}));
    }

    #[test]
    fn times_are_reprinted_in_utc_at_their_precision() {
        let lease = normalised(
            "io.k8s.api.coordination.v1.LeaseSpec",
            json!({"renewTime": "2024-01-01T02:00:00.1234567+02:00"}),
        );
        assert_eq!(lease, json!({"renewTime": "2024-01-01T00:00:00.123456Z"}));
        let condition = normalised(
            "io.k8s.api.core.v1.PodCondition",
            json!({"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00.9Z"}),
        );
        assert_eq!(
            condition,
            json!({"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z",
                   "lastProbeTime": null})
        );
    }
}
