//! JSON values as field management sees them: ordered, equal across integer and float, and printed the way
//! clients find them in messages.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Equality in which `80` and `80.0` are one value: a key read back from `managedFields` has lost the difference.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    compare(a, b) == Ordering::Equal
}

/// A total order: numbers, strings, booleans, lists, objects, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => compare_numbers(x, y),
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) => x
            .iter()
            .zip(y)
            .map(|(x, y)| compare(x, y))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| x.len().cmp(&y.len())),
        (Value::Object(x), Value::Object(y)) => x
            .iter()
            .zip(y)
            .map(|((xk, xv), (yk, yv))| xk.cmp(yk).then_with(|| compare(xv, yv)))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| x.len().cmp(&y.len())),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(x), Some(y)) => x.cmp(&y),
        _ => {
            let (x, y) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            x.partial_cmp(&y).unwrap_or(Ordering::Equal)
        }
    }
}

/// The value with its numbers as floats: what they are once they were read out of a `fieldsV1` key.
pub(crate) fn as_float(value: Value) -> Value {
    match value.as_f64().and_then(Number::from_f64) {
        Some(float) => Value::Number(float),
        None => value,
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Compact JSON with `<`, `>`, `&` and the two Unicode line separators escaped, which is how keys inside
/// `managedFields` and the last-applied annotation are written; an unescaped one would name another field.
pub(crate) fn to_json(value: &Value) -> String {
    let plain = match value {
        Value::Number(n) if n.is_f64() => shortest(n.as_f64().unwrap_or(0.0), 21),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => value.to_string(),
    };
    let mut escaped = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped.push_str(&format!("\\u{:04x}", c as u32)),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// A value inside a printed path: `[name="a",port=80]`.
pub(crate) fn in_path(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(s) => format!("{s:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(in_path).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => fields.iter().map(|(k, v)| format!("{k}={}", in_path(v))).collect(),
    }
}

/// A value as Go's `%v` shows it.
pub(crate) fn loosely(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(s) => s.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(loosely).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let shown: Vec<String> = fields.iter().map(|(k, v)| format!("{k}:{}", loosely(v))).collect();
            format!("map[{}]", shown.join(" "))
        }
    }
}

/// A value as Go's `%#v` shows it.
pub(crate) fn exactly(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(s) => format!("{s:?}"),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(exactly).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let shown: Vec<String> = fields.iter().map(|(k, v)| format!("{k:?}:{}", exactly(v))).collect();
            format!("map[string]interface {{}}{{{}}}", shown.join(", "))
        }
    }
}

/// The name of the Go type a decoded value has.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn number(n: &Number) -> String {
    match whole(n) {
        Some(whole) => whole.to_string(),
        None => shortest(n.as_f64().unwrap_or(0.0), 6),
    }
}

/// The shortest digits that read back as `n`, with an exponent from `10^limit` on.
fn shortest(n: f64, limit: i32) -> String {
    let scientific = format!("{n:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    } else {
        format!("{n}")
    }
}
