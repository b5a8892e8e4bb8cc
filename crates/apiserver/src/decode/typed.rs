//! Built-in objects: a document held against the type it claims to be.
//!
//! The real server decodes these into Go structs. What it accepts, drops and complains about follows from that:
//! unknown fields vanish (and are reported), `null` is as good as absent, and a value of the wrong type is refused
//! with the name of the struct field it was meant for.

use serde_json::{Map, Value};

use super::doc::{Doc, join};
use super::{format, go_types};
use crate::field::quoted;
use crate::schema::{Additional, Kind, Schema};

/// What came of a document.
#[derive(Debug)]
pub(crate) struct Typed {
    /// The object, without unknown fields.
    pub(crate) value: Value,
    /// `unknown field "…"` and `duplicate field "…"`, in reading order.
    pub(crate) strict: Vec<String>,
    /// The first value that does not fit its field.
    pub(crate) error: Option<String>,
}

/// Decodes `doc` as `schema`. `at` is the path strict errors begin with; type errors begin at the document.
pub(crate) fn decode(doc: &Doc, schema: &Schema, at: &str) -> Typed {
    Walk::new(Words::Json).run(doc, schema, at)
}

/// Converts what is already decoded, as a strategic merge does: the same shape comes out, the complaints differ.
pub(crate) fn convert(doc: &Doc, schema: &Schema) -> Typed {
    Walk::new(Words::Conversion).run(doc, schema, "")
}

/// Whose complaints to make: Go's JSON decoder and the converter between loose and typed objects word them differently.
#[derive(Clone, Copy, PartialEq)]
enum Words {
    Json,
    Conversion,
}

struct Walk {
    words: Words,
    strict: Vec<String>,
    error: Option<String>,
    /// The struct fields on the way here; list indexes and map keys are not among them.
    fields: Vec<String>,
    /// The struct the last of them belongs to.
    owner: String,
}

impl Walk {
    fn new(words: Words) -> Walk {
        Walk { words, strict: Vec::new(), error: None, fields: Vec::new(), owner: String::new() }
    }

    fn run(mut self, doc: &Doc, schema: &Schema, at: &str) -> Typed {
        let value = self.value(doc, schema, at, None);
        Typed { value, strict: self.strict, error: self.error }
    }

    fn value(&mut self, doc: &Doc, schema: &Schema, path: &str, go_type: Option<&str>) -> Value {
        if go_types::is_quantity(schema) {
            return self.quantity(doc);
        }
        match doc {
            Doc::Null => zero(schema),
            Doc::Object(fields) => self.object(doc, fields, schema, path, go_type),
            Doc::Array(items) => self.array(doc, items, schema, path, go_type),
            Doc::String(text) => self.string(doc, text, schema, go_type),
            Doc::Number(text) => self.number(doc, text, schema, go_type),
            Doc::Bool(b) => {
                if schema.kind == Some(Kind::Boolean) || is_anything(schema) {
                    return Value::Bool(*b);
                }
                self.mismatch(doc, None, schema, go_type);
                Value::Null
            }
        }
    }

    fn object(
        &mut self,
        doc: &Doc,
        fields: &[(String, Doc)],
        schema: &Schema,
        path: &str,
        go_type: Option<&str>,
    ) -> Value {
        if !(schema.kind == Some(Kind::Object) || is_anything(schema)) {
            self.mismatch(doc, None, schema, go_type);
            return Value::Null;
        }
        if !schema.properties.is_empty() {
            return self.structure(fields, schema, path);
        }
        match &schema.additional {
            Additional::Of(values) => self.map(fields, values, path),
            // Raw JSON in Go: nobody looks inside, so nobody finds duplicates there either.
            Additional::Any | Additional::Refused => doc.to_value(),
        }
    }

    fn structure(&mut self, fields: &[(String, Doc)], schema: &Schema, path: &str) -> Value {
        let name = schema.name.as_deref().map_or("", go_types::short_name);
        let outer = std::mem::replace(&mut self.owner, name.to_owned());
        let mut object = Map::new();
        let mut seen: Vec<&str> = Vec::new();
        for (key, doc) in fields {
            let here = join(path, key);
            let Some(property) = schema.properties.get(key) else {
                self.strict.push(format!("unknown field {}", quoted(&here)));
                continue;
            };
            if seen.contains(&key.as_str()) {
                self.strict.push(format!("duplicate field {}", quoted(&here)));
            }
            seen.push(key);
            if *doc == Doc::Null {
                // Go leaves a field alone when it meets null, or clears it; either way nothing is there.
                object.remove(key);
                continue;
            }
            self.fields.push(key.clone());
            let go_type = go_types::of_field(schema.name.as_deref(), key);
            let value = self.value(doc, property, &here, go_type);
            self.fields.pop();
            let required = schema.limits.required.contains(key)
                || go_types::always_written(schema.name.as_deref()).any(|(name, _)| name == key);
            // An empty list of managers is how a client asks for a fresh start, so it must not look like none.
            let reset = here == "metadata.managedFields";
            // An empty list in a field that is always written is there, until storing makes it null: see the kinds.
            let written =
                value.is_array() && go_types::always_written(schema.name.as_deref()).any(|(n, _)| n == key);
            if !reset && !written && is_left_out(&value, property, required, go_type) {
                object.remove(key);
            } else {
                place(&mut object, key, value);
            }
        }
        self.owner = outer;
        for (name, unset) in go_types::always_written(schema.name.as_deref()) {
            let Some(property) = schema.properties.get(name) else { continue };
            if !object.contains_key(name) {
                let value = if unset.is_object() { empty(property) } else { unset.clone() };
                object.insert(name.to_owned(), value);
            }
        }
        Value::Object(object)
    }

    fn map(&mut self, fields: &[(String, Doc)], values: &Schema, path: &str) -> Value {
        let mut object = Map::new();
        for (key, doc) in fields {
            let here = join(path, key);
            if object.contains_key(key) {
                self.strict.push(format!("duplicate field {}", quoted(&here)));
            }
            let value = self.value(doc, values, &here, None);
            object.insert(key.clone(), value);
        }
        Value::Object(object)
    }

    fn array(
        &mut self,
        doc: &Doc,
        items: &[Doc],
        schema: &Schema,
        path: &str,
        go_type: Option<&str>,
    ) -> Value {
        if is_anything(schema) {
            return doc.to_value();
        }
        let (Some(Kind::Array), Some(item)) = (schema.kind, &schema.items) else {
            self.mismatch(doc, None, schema, go_type);
            return Value::Null;
        };
        let element = go_type.and_then(|name| name.strip_prefix("[]"));
        let items =
            items.iter().enumerate().map(|(i, doc)| self.value(doc, item, &format!("{path}[{i}]"), element));
        Value::Array(items.collect())
    }

    fn string(&mut self, doc: &Doc, text: &str, schema: &Schema, go_type: Option<&str>) -> Value {
        if schema.int_or_string || is_anything(schema) {
            return Value::String(text.to_owned());
        }
        if schema.kind != Some(Kind::String) {
            self.mismatch(doc, None, schema, go_type);
            return Value::Null;
        }
        let refused = match schema.limits.format.as_deref() {
            Some("byte") => format::base64(text),
            Some("date-time") => {
                let micro = schema.name.as_deref().is_some_and(|name| name.ends_with("MicroTime"));
                match format::time(text, micro) {
                    Ok(time) => return Value::String(time),
                    Err(refused) => Err(refused),
                }
            }
            Some(_) | None => Ok(()),
        };
        if let Err(refused) = refused {
            self.refuse(refused);
        }
        Value::String(text.to_owned())
    }

    fn number(&mut self, doc: &Doc, text: &str, schema: &Schema, go_type: Option<&str>) -> Value {
        if is_anything(schema) && !schema.int_or_string {
            return super::doc::number(text);
        }
        let integral = schema.kind == Some(Kind::Integer) || schema.int_or_string;
        if !integral && schema.kind != Some(Kind::Number) {
            self.mismatch(doc, None, schema, go_type);
            return Value::Null;
        }
        if !integral {
            return super::doc::number(text);
        }
        let narrow = schema.int_or_string || schema.limits.format.as_deref() == Some("int32");
        let fits = |n: &i64| !narrow || i32::try_from(*n).is_ok();
        let integer = text.parse::<i64>().ok().or_else(|| whole(text));
        if let (Words::Conversion, Some(integer), true) = (self.words, integer, narrow) {
            // The converter does not look: what is too large for 32 bits loses the rest.
            #[expect(clippy::cast_possible_truncation, reason = "as upstream")]
            return Value::Number((integer as i32).into());
        }
        match integer.filter(fits) {
            Some(integer) => Value::Number(integer.into()),
            None => {
                self.mismatch(doc, Some(text), schema, go_type);
                Value::Null
            }
        }
    }

    /// A quantity may be written as a number; it is always a string afterwards.
    fn quantity(&mut self, doc: &Doc) -> Value {
        let text = match doc {
            Doc::String(text) | Doc::Number(text) => text.as_str(),
            Doc::Null => "0",
            Doc::Bool(_) | Doc::Array(_) | Doc::Object(_) => {
                self.refuse(format::NO_QUANTITY.to_owned());
                return Value::Null;
            }
        };
        if let Err(refused) = format::quantity(text) {
            self.refuse(refused);
        }
        Value::String(text.to_owned())
    }

    fn mismatch(&mut self, doc: &Doc, number: Option<&str>, schema: &Schema, go_type: Option<&str>) {
        let wanted = go_type
            .map_or_else(|| go_types::of_schema(schema), |name| name.trim_start_matches('*').to_owned());
        if self.words == Words::Conversion {
            return self.refuse(go_types::inconvertible(doc, schema, &wanted));
        }
        let found = number.map_or_else(|| doc.go_name().to_owned(), |text| format!("number {text}"));
        let field = self.fields.join(".");
        self.refuse(if field.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {wanted}")
        } else {
            format!(
                "json: cannot unmarshal {found} into Go struct field {}.{field} of type {wanted}",
                self.owner
            )
        });
    }

    fn refuse(&mut self, error: String) {
        self.error.get_or_insert(error);
    }
}

/// A struct nobody mentioned, as it is written: its own always-written fields are in it.
fn empty(schema: &Schema) -> Value {
    Walk::new(Words::Json).structure(&[], schema, "")
}

/// The integer a float prints as, where it prints as one.
pub(crate) fn whole_float(text: &str) -> Option<i64> {
    let float: f64 = text.parse().ok()?;
    if float.fract() != 0.0 || float.abs() >= 9_007_199_254_740_992.0 {
        return None;
    }
    format!("{float:.0}").parse().ok()
}

/// `1e3` is an integer to Go's decoder if nothing is lost.
fn whole(text: &str) -> Option<i64> {
    if text.contains('.') { None } else { whole_float(text) }
}

/// Whether the schema says nothing of the type, or asks to keep what comes.
fn is_anything(schema: &Schema) -> bool {
    schema.kind.is_none() && !schema.int_or_string
        || (schema.preserve_unknown && schema.properties.is_empty())
}

/// What `null` means as a list item or a map's value.
fn zero(schema: &Schema) -> Value {
    match schema.kind {
        Some(Kind::String) => Value::String(String::new()),
        Some(Kind::Integer | Kind::Number) => Value::Number(0.into()),
        Some(Kind::Boolean) => Value::Bool(false),
        Some(Kind::Object) if !schema.properties.is_empty() => empty(schema),
        Some(Kind::Object | Kind::Array) | None => Value::Null,
    }
}

/// Go does not write out an optional field that is empty, unless the field is a pointer and so can tell
/// "empty" from "absent". An object that comes back must look as if it had made that trip.
fn is_left_out(value: &Value, schema: &Schema, required: bool, go_type: Option<&str>) -> bool {
    if *value == Value::Null {
        return true;
    }
    let pointer = go_type.is_some_and(|name| name.starts_with('*'));
    // Any JSON is a value, `false` too: a schema's `default: false` is not the same as no default.
    if required || pointer || is_anything(schema) {
        return false;
    }
    match value {
        Value::Array(items) => items.is_empty(),
        // An empty struct is written; an empty map is not.
        Value::Object(map) => map.is_empty() && matches!(schema.additional, Additional::Of(_)),
        Value::String(text) => text.is_empty() && !schema.int_or_string,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_i64() == Some(0) && !schema.int_or_string,
        Value::Null => true,
    }
}

/// What stands twice is decoded twice into the same place, so the second adds to the first: to a struct, to a map, and
/// to the structs a list had at the same positions.
fn place(object: &mut Map<String, Value>, key: &str, value: Value) {
    match object.remove(key) {
        Some(there) => object.insert(key.to_owned(), over(there, value)),
        None => object.insert(key.to_owned(), value),
    };
}

fn over(there: Value, value: Value) -> Value {
    match (there, value) {
        (Value::Object(mut there), Value::Object(more)) => {
            for (key, value) in more {
                place(&mut there, &key, value);
            }
            Value::Object(there)
        }
        (Value::Array(there), Value::Array(items)) => {
            let mut there = there.into_iter();
            Value::Array(
                items
                    .into_iter()
                    .map(|item| match there.next() {
                        Some(before) => over(before, item),
                        None => item,
                    })
                    .collect(),
            )
        }
        (_, value) => value,
    }
}
