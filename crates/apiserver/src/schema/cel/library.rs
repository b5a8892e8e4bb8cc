//! What expressions can call: the Kubernetes libraries of `kube-cel`, and what its evaluator lacks or does otherwise.

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};

use super::macros::PAIRS;

thread_local! {
    /// Every Kubernetes function, registered once per thread: doing it per rule would cost more than the rules.
    pub(super) static FUNCTIONS: Context<'static> = functions();
}

fn functions() -> Context<'static> {
    let mut functions = Context::default().with_all();
    functions.add_function("type", type_of);
    functions.add_function("dyn", |value: CelValue| -> Result<CelValue, ExecutionError> { Ok(value) });
    functions.add_function("bool", to_bool);
    functions.add_function(PAIRS, pairs);
    functions.add_function("size", size);
    functions.add_function("value", value_of);
    for name in ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"] {
        functions.add_variable_from_value(name, type_value(name));
    }
    functions
}

/// The evaluator has no conversion to bool.
fn to_bool(value: CelValue) -> Result<CelValue, ExecutionError> {
    let CelValue::String(text) = &value else {
        return if matches!(value, CelValue::Bool(_)) {
            Ok(value)
        } else {
            Err(ExecutionError::NoSuchOverload)
        };
    };
    match text.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(CelValue::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(CelValue::Bool(false)),
        _ => Err(ExecutionError::function_error("bool", UNREADABLE)),
    }
}

/// How the evaluator begins to say that a text cannot be converted.
pub(super) const UNREADABLE: &str = "string parse error";

/// The evaluator counts the bytes of a text; rules mean its characters.
fn size(This(value): This<CelValue>) -> Result<CelValue, ExecutionError> {
    let size = match &value {
        CelValue::String(text) => text.chars().count(),
        CelValue::Bytes(bytes) => bytes.len(),
        CelValue::List(list) => list.len(),
        CelValue::Map(map) => map.map.len(),
        CelValue::Function(..)
        | CelValue::Int(_)
        | CelValue::UInt(_)
        | CelValue::Float(_)
        | CelValue::Bool(_)
        | CelValue::Duration(_)
        | CelValue::Timestamp(_)
        | CelValue::Opaque(_)
        | CelValue::Null => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(CelValue::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// See [`PAIRS`].
fn pairs(value: CelValue) -> Result<CelValue, ExecutionError> {
    let pair = |key: CelValue, value: &CelValue| CelValue::List(Arc::new(vec![key, value.clone()]));
    let pairs: Vec<CelValue> = match &value {
        CelValue::List(list) => {
            list.iter().zip(0..).map(|(item, index)| pair(CelValue::Int(index), item)).collect()
        }
        CelValue::Map(map) => map.map.iter().map(|(key, value)| pair(key.into(), value)).collect(),
        CelValue::String(_)
        | CelValue::Bytes(_)
        | CelValue::Function(..)
        | CelValue::Int(_)
        | CelValue::UInt(_)
        | CelValue::Float(_)
        | CelValue::Bool(_)
        | CelValue::Duration(_)
        | CelValue::Timestamp(_)
        | CelValue::Opaque(_)
        | CelValue::Null => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(CelValue::List(Arc::new(pairs)))
}

/// The value in an optional. `format.named` gives an optional to the real server, and here what would be in it.
fn value_of(This(value): This<CelValue>) -> Result<CelValue, ExecutionError> {
    match <&OptionalValue>::try_from(&value) {
        Ok(optional) => match optional.value() {
            Some(inner) => Ok(inner.clone()),
            None => Err(ExecutionError::function_error("value", "optional.none() dereference")),
        },
        Err(_) => Ok(value),
    }
}

/// Types are values too (`type(self) == int`). The evaluator has none, so they are texts no object contains.
fn type_value(name: &str) -> CelValue {
    CelValue::String(Arc::new(format!("\u{0}type {name}")))
}

fn type_of(value: CelValue) -> Result<CelValue, ExecutionError> {
    Ok(type_value(match value {
        CelValue::Bool(_) => "bool",
        CelValue::Bytes(_) => "bytes",
        CelValue::Float(_) => "double",
        CelValue::Int(_) => "int",
        CelValue::List(_) => "list",
        CelValue::Map(_) => "map",
        CelValue::Null => "null_type",
        CelValue::String(_) => "string",
        CelValue::UInt(_) => "uint",
        CelValue::Duration(_) => "google.protobuf.Duration",
        CelValue::Timestamp(_) => "google.protobuf.Timestamp",
        CelValue::Function(..) | CelValue::Opaque(_) => "dyn",
    }))
}
