//! Which fields of a built-in object are written, and what stands there when nobody set them.
//!
//! Go does not write an optional field that is empty, unless the field is a pointer and so can tell "empty" from
//! "absent"; it always writes a field that is not optional, and a struct. Every object must look as if it had made
//! the trip through its struct, whoever made it.

use serde_json::{Map, Value, json};

use super::go::{self, Field, Omitted};
use crate::schema::{Additional, Kind, Schema};

/// Leaves out and adds the fields of one struct, not those below.
pub(super) fn settle(object: &mut Map<String, Value>, schema: &Schema) {
    let Some(fields) = go::fields(schema) else { return };
    for (name, property) in &schema.properties {
        let Some(field) = fields.get(name.as_str()) else { continue };
        match object.get(name) {
            None | Some(Value::Null) => match unset(field, property) {
                Some(value) => drop(object.insert(name.clone(), value)),
                None => drop(object.remove(name)),
            },
            Some(value) if is_left_out(value, field, property) => drop(object.remove(name)),
            Some(_) => {}
        }
    }
}

/// Brings an object the server made out of parts into the form its struct is written in, in place.
pub(crate) fn complete(value: &mut Value, schema: &Schema) {
    walk(value, schema, &mut settle);
}

/// The same for an object that comes back from where it is stored, where an empty list is none. Not before: whoever
/// wrote the empty list owns the field.
pub(crate) fn stored(value: &mut Value, schema: &Schema) {
    walk(value, schema, &mut |object, schema| {
        settle(object, schema);
        for (name, property) in &schema.properties {
            // What any JSON may be is kept as it was written.
            if go::is_anything(property) {
                continue;
            }
            match object.get_mut(name) {
                Some(value) if is_bare_list(value) || is_bare_map(value, property) => *value = Value::Null,
                Some(_) | None => {}
            }
        }
    });
}

fn is_bare_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn is_bare_map(value: &Value, schema: &Schema) -> bool {
    matches!(schema.additional, Additional::Of(_)) && value.as_object().is_some_and(Map::is_empty)
}

fn walk(value: &mut Value, schema: &Schema, visit: &mut impl FnMut(&mut Map<String, Value>, &Schema)) {
    match value {
        Value::Object(object) => {
            for (name, value) in object.iter_mut() {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => walk(value, property, visit),
                    (None, Additional::Of(values)) => walk(value, values, visit),
                    (None, Additional::Any | Additional::Refused) => {}
                }
            }
            visit(object, schema);
        }
        Value::Array(items) => {
            if let Some(item) = &schema.items {
                items.iter_mut().for_each(|value| walk(value, item, visit));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What `null` means as a list item or a map's value, and what a field nobody set is written as.
pub(crate) fn zero(schema: &Schema) -> Value {
    if go::is_quantity(schema) {
        return json!("0");
    }
    if go::is_time(schema) {
        return Value::Null;
    }
    match schema.kind {
        Some(Kind::String) => json!(""),
        Some(Kind::Integer | Kind::Number) => json!(0),
        Some(Kind::Boolean) => json!(false),
        Some(Kind::Object) if !schema.properties.is_empty() => {
            let mut object = Map::new();
            settle(&mut object, schema);
            Value::Object(object)
        }
        None if schema.int_or_string => json!(0),
        Some(Kind::Object | Kind::Array) | None => Value::Null,
    }
}

fn unset(field: &Field, schema: &Schema) -> Option<Value> {
    let written = match field.omitted {
        Omitted::Never => true,
        Omitted::WhenEmpty => !field.is_pointer() && is_struct(schema),
        Omitted::WhenZero => false,
    };
    written.then(|| if field.is_pointer() { Value::Null } else { zero(schema) })
}

fn is_left_out(value: &Value, field: &Field, schema: &Schema) -> bool {
    match field.omitted {
        Omitted::Never => false,
        // Any JSON is a value, `false` too: a schema's `default: false` is not the same as no default.
        Omitted::WhenEmpty => {
            !field.is_pointer() && !is_struct(schema) && !go::is_anything(schema) && is_empty(value)
        }
        Omitted::WhenZero => !field.is_pointer() && is_empty(value),
    }
}

/// Whether Go keeps this in a struct: an object with fields of its own, a time, a quantity, a number or text.
fn is_struct(schema: &Schema) -> bool {
    !schema.properties.is_empty() || schema.int_or_string || go::is_time(schema) || go::is_quantity(schema)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(group: &str, name: &str) -> crate::schema::SchemaRef {
        crate::builtin::schema(group, name)
    }

    fn completed(group: &str, name: &str, mut object: Value) -> Value {
        complete(&mut object, &schema(group, name));
        object
    }

    #[test]
    fn a_pointer_keeps_its_zero_and_a_plain_field_loses_it() {
        let spec = completed(
            "",
            "io.k8s.api.core.v1.PodSpec",
            json!({"hostNetwork": false, "automountServiceAccountToken": false, "nodeName": "", "priority": 0,
                   "nodeSelector": {}, "tolerations": [], "containers": [], "dnsConfig": null}),
        );
        assert_eq!(spec, json!({"automountServiceAccountToken": false, "priority": 0, "containers": []}));
    }

    #[test]
    fn a_plain_struct_is_written_even_when_nobody_set_it() {
        let container = completed("", "io.k8s.api.core.v1.Container", json!({"name": "a"}));
        assert_eq!(container, json!({"name": "a", "resources": {}}));
    }

    #[test]
    fn an_empty_list_is_there_until_it_is_stored() {
        let (group, name) = ("discovery.k8s.io", "io.k8s.api.discovery.v1.EndpointSlice");
        let mut slice = completed(group, name, json!({"endpoints": []}));
        assert_eq!(slice["endpoints"], json!([]), "its writer owns the empty list");
        stored(&mut slice, &schema(group, name));
        assert_eq!(slice, json!({"addressType": "", "endpoints": null, "ports": null, "metadata": {}}));
        slice["endpoints"] = json!([{"addresses": []}]);
        stored(&mut slice, &schema(group, name));
        assert_eq!(slice["endpoints"], json!([{"addresses": null, "conditions": {}}]), "at any depth");
    }

    #[test]
    fn a_condition_without_a_time_says_so() {
        let condition =
            completed("", "io.k8s.api.core.v1.PodCondition", json!({"type": "Ready", "status": "True"}));
        assert_eq!(
            condition,
            json!({"type": "Ready", "status": "True", "lastTransitionTime": null, "lastProbeTime": null})
        );
    }
}
