//! Built-in objects: a document held against the type it claims to be.
//!
//! The real server decodes these into Go structs. What it accepts, drops and complains about follows from that:
//! unknown fields vanish (and are reported), `null` is as good as absent, and a value of the wrong type is refused
//! with the name of the struct field it was meant for.

use serde_json::{Map, Value, json};

use super::doc::{Doc, join};
use super::go::Field;
use super::{format, go, written};
use crate::builtin::quantity::Quantity;
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
        if go::is_quantity(schema) {
            return self.quantity(doc);
        }
        match doc {
            Doc::Null => written::zero(schema),
            Doc::Object(fields) => self.object(doc, fields, schema, path, go_type),
            Doc::Array(items) => self.array(doc, items, schema, path, go_type),
            Doc::String(text) => self.string(doc, text, schema, go_type),
            Doc::Number(text) => self.number(doc, text, schema, go_type),
            Doc::Bool(b) => {
                if schema.kind == Some(Kind::Boolean) || go::is_anything(schema) {
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
        if !(schema.kind == Some(Kind::Object) || go::is_anything(schema)) {
            self.mismatch(doc, None, schema, go_type);
            return Value::Null;
        }
        if !schema.properties.is_empty() {
            return self.structure(fields, schema, path);
        }
        match &schema.additional {
            Additional::Of(values) => self.map(fields, values, path, go_type),
            // Raw JSON in Go: nobody looks inside, so nobody finds duplicates there either.
            Additional::Any | Additional::Refused => doc.to_value(),
        }
    }

    fn structure(&mut self, fields: &[(String, Doc)], schema: &Schema, path: &str) -> Value {
        let name = schema.name.as_deref().map_or("", go::short_name);
        let outer = std::mem::replace(&mut self.owner, name.to_owned());
        let declared = go::fields(schema);
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
            let go_type = declared.and_then(|fields| fields.get(key.as_str())).map(Field::go_type);
            let value = self.value(doc, property, &here, go_type);
            self.fields.pop();
            place(&mut object, key, value);
        }
        self.owner = outer;
        // An empty list of managers is how a client asks for a fresh start, so it must not look like none.
        let reset =
            object.get("managedFields").filter(|list| path == "metadata" && **list == json!([])).cloned();
        written::settle(&mut object, schema);
        object.extend(reset.map(|list| ("managedFields".to_owned(), list)));
        Value::Object(object)
    }

    fn map(&mut self, fields: &[(String, Doc)], values: &Schema, path: &str, go_type: Option<&str>) -> Value {
        let element = go_type.and_then(|name| name.strip_prefix("map[")?.split_once(']')).map(|(_, of)| of);
        let mut object = Map::new();
        for (key, doc) in fields {
            let here = join(path, key);
            if object.contains_key(key) {
                self.strict.push(format!("duplicate field {}", quoted(&here)));
            }
            let value = self.value(doc, values, &here, element);
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
        if go::is_anything(schema) {
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
        if schema.int_or_string || go::is_anything(schema) {
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
        if go::is_anything(schema) && !schema.int_or_string {
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

    /// A quantity may be written as a number; it is always a string in its canonical form afterwards.
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
        Value::String(Quantity::parse(text).map_or_else(|| text.to_owned(), |quantity| quantity.to_string()))
    }

    fn mismatch(&mut self, doc: &Doc, number: Option<&str>, schema: &Schema, go_type: Option<&str>) {
        let wanted = go::name_of(go_type, schema);
        if self.words == Words::Conversion {
            return self.refuse(go::inconvertible(doc, schema, &wanted));
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

/// The integer a float prints as, where it prints as one.
pub(super) fn whole_float(text: &str) -> Option<i64> {
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
