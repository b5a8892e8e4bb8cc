//! A decoded document before anybody has asked what it means: order and duplicate keys are still there.

use serde_json::{Map, Number, Value};

/// A document as it was written. Unlike [`Value`] it keeps the order of fields and keys that stand twice,
/// because the messages about a document name its faults in that order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Doc {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Doc>),
    /// An object.
    Object(Vec<(String, Doc)>),
}

impl Doc {
    /// The document as a value; of keys that stand twice the last one counts.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Doc::Null => Value::Null,
            Doc::Bool(b) => Value::Bool(*b),
            Doc::Number(text) => number(text),
            Doc::String(s) => Value::String(s.clone()),
            Doc::Array(items) => Value::Array(items.iter().map(Doc::to_value).collect()),
            Doc::Object(fields) => {
                let map: Map<String, Value> = fields.iter().map(|(k, v)| (k.clone(), v.to_value())).collect();
                Value::Object(map)
            }
        }
    }

    /// What Go's decoder calls this kind of value in its complaints.
    pub(crate) fn go_name(&self) -> &'static str {
        match self {
            Doc::Null => "null",
            Doc::Bool(_) => "bool",
            Doc::Number(_) => "number",
            Doc::String(_) => "string",
            Doc::Array(_) => "array",
            Doc::Object(_) => "object",
        }
    }

    /// The value of the last field of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Doc> {
        match self {
            Doc::Object(fields) => fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value),
            Doc::Null | Doc::Bool(_) | Doc::Number(_) | Doc::String(_) | Doc::Array(_) => None,
        }
    }

    /// Appends `duplicate field "a.b[0].c"` for every key that stands twice, in reading order.
    pub(crate) fn duplicates(&self, path: &str, found: &mut Vec<String>) {
        match self {
            Doc::Object(fields) => {
                for (i, (key, value)) in fields.iter().enumerate() {
                    let here = join(path, key);
                    if fields.iter().take(i).any(|(earlier, _)| earlier == key) {
                        found.push(format!("duplicate field {}", crate::field::quoted(&here)));
                    }
                    value.duplicates(&here, found);
                }
            }
            Doc::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    item.duplicates(&format!("{path}[{i}]"), found);
                }
            }
            Doc::Null | Doc::Bool(_) | Doc::Number(_) | Doc::String(_) => {}
        }
    }
}

/// `path.name`, or `name` at the root.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A JSON number: an integer where it is one and fits 64 signed bits, else the nearest float.
pub(crate) fn number(text: &str) -> Value {
    if let Ok(integer) = text.parse::<i64>() {
        return Value::Number(integer.into());
    }
    // A whole number written as `1450.0` or `1e3` is printed without its fraction, as Go prints floats.
    if let Some(integer) = super::typed::whole_float(text) {
        return Value::Number(integer.into());
    }
    text.parse::<f64>().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
}

impl From<&Value> for Doc {
    fn from(value: &Value) -> Doc {
        match value {
            Value::Null => Doc::Null,
            Value::Bool(b) => Doc::Bool(*b),
            Value::Number(n) => Doc::Number(n.to_string()),
            Value::String(s) => Doc::String(s.clone()),
            Value::Array(items) => Doc::Array(items.iter().map(Doc::from).collect()),
            Value::Object(map) => Doc::Object(map.iter().map(|(k, v)| (k.clone(), Doc::from(v))).collect()),
        }
    }
}
