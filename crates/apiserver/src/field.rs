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
        let quoted: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
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
        Value::String(s) => format!("{s:?}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
