//! Field errors: what is wrong with which field, in the words clients already match on.

use serde_json::{Value, json};

/// The path of a field, printed as Kubernetes prints it: `spec.ports[0].name`, `metadata.labels[a/b]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// The root of an object. It prints as `<nil>` where Kubernetes does.
    pub fn root() -> Path {
        Path(String::new())
    }

    /// A path from its printed form.
    pub fn new(path: impl Into<String>) -> Path {
        Path(path.into())
    }

    /// `self.name`.
    pub fn child(&self, name: &str) -> Path {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// `self[index]`.
    pub fn index(&self, index: usize) -> Path {
        Path(format!("{}[{index}]", self.0))
    }

    /// `self[key]`: a map's entry.
    pub fn key(&self, key: &str) -> Path {
        Path(format!("{}[{key}]", self.0))
    }

    /// The printed form; empty at the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The kinds of field errors; `cause()` is the reason in a Status' causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// A value that must be there is not.
    Required,
    /// The value is not acceptable.
    Invalid,
    /// The value has the wrong JSON type (a schema's finding).
    TypeInvalid,
    /// The value is not one of the allowed ones.
    NotSupported,
    /// The same value stands twice in a set or list map.
    Duplicate,
    /// The value may not be given here.
    Forbidden,
    /// The string is too long.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// A thing the value names is not there.
    NotFound,
    /// The server is at fault.
    Internal,
}

impl Problem {
    /// The machine-readable reason, as in `Status.details.causes[].reason`.
    pub fn cause(self) -> &'static str {
        match self {
            Problem::Required => "FieldValueRequired",
            Problem::Invalid => "FieldValueInvalid",
            Problem::TypeInvalid => "FieldValueTypeInvalid",
            Problem::NotSupported => "FieldValueNotSupported",
            Problem::Duplicate => "FieldValueDuplicate",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::TooLong => "FieldValueTooLong",
            Problem::TooMany => "FieldValueTooMany",
            Problem::NotFound => "FieldValueNotFound",
            Problem::Internal => "InternalError",
        }
    }

    /// The words the message begins with.
    fn words(self) -> &'static str {
        match self {
            Problem::Required => "Required value",
            Problem::Invalid | Problem::TypeInvalid => "Invalid value",
            Problem::NotSupported => "Unsupported value",
            Problem::Duplicate => "Duplicate value",
            Problem::Forbidden => "Forbidden",
            Problem::TooLong => "Too long",
            Problem::TooMany => "Too many",
            Problem::NotFound => "Not found",
            Problem::Internal => "Internal error",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, PartialEq, Debug)]
pub struct FieldError {
    /// What kind of problem.
    pub problem: Problem,
    /// Where.
    pub path: Path,
    /// The value as Kubernetes prints it in the message (already rendered: `"abc"`, `5`, `{"a":1}`), where it is shown.
    pub value: Option<String>,
    /// The explanation.
    pub detail: String,
}

impl FieldError {
    /// `path: Required value: detail`.
    pub fn required(path: Path, detail: impl Into<String>) -> FieldError {
        FieldError { problem: Problem::Required, path, value: None, detail: detail.into() }
    }

    /// `path: Invalid value: value: detail`.
    pub fn invalid(path: Path, value: &Value, detail: impl Into<String>) -> FieldError {
        FieldError { problem: Problem::Invalid, path, value: Some(shown(value)), detail: detail.into() }
    }

    /// `path: Forbidden: detail`.
    pub fn forbidden(path: Path, detail: impl Into<String>) -> FieldError {
        FieldError { problem: Problem::Forbidden, path, value: None, detail: detail.into() }
    }

    /// `path: Duplicate value: value`.
    pub fn duplicate(path: Path, value: &Value) -> FieldError {
        FieldError { problem: Problem::Duplicate, path, value: Some(shown(value)), detail: String::new() }
    }

    /// `path: Not found: value`.
    pub fn not_found(path: Path, value: &Value) -> FieldError {
        FieldError { problem: Problem::NotFound, path, value: Some(shown(value)), detail: String::new() }
    }

    /// `path: Unsupported value: value: supported values: "a", "b"`.
    pub fn not_supported(path: Path, value: &Value, supported: &[&str]) -> FieldError {
        let quoted: Vec<String> = supported.iter().map(|s| quoted(s)).collect();
        FieldError {
            problem: Problem::NotSupported,
            path,
            value: Some(shown(value)),
            detail: format!("supported values: {}", quoted.join(", ")),
        }
    }

    /// The message without the path, as in `Status.details.causes[].message`.
    pub fn body(&self) -> String {
        let mut text = self.problem.words().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The entry in `Status.details.causes`.
    pub fn to_cause(&self) -> Value {
        json!({"reason": self.problem.cause(), "message": self.body(), "field": self.path.to_string()})
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// A value as Kubernetes shows it inside a message: strings quoted, everything else as compact JSON.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            compact(value)
        }
    }
}

/// A string in double quotes, escaped as Go's `%q` does.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}') =>
            {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A number as Go's `%v` prints it: whole floats without a fraction, exponents only for the very large and very small.
pub fn number(n: &serde_json::Number) -> String {
    match (n.as_i64(), n.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) => self::float(float),
        (None, None) => n.to_string(),
    }
}

/// See [`number`].
pub fn float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').expect("the exponent form has an exponent");
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value}")
}

/// JSON as Go encodes it: no spaces, keys sorted, `<`, `>` and `&` escaped.
fn compact(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(_) => {
            value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
        Value::Array(items) => format!("[{}]", items.iter().map(compact).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let entries: Vec<String> = keys
                .into_iter()
                .map(|key| format!("{}:{}", compact(&Value::String(key.clone())), compact(&map[key])))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
    }
}
