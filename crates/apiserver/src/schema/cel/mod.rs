//! The CEL rules of a custom resource (`x-kubernetes-validations`).
//!
//! Rules are compiled once per schema. The walk over an object is our own, because what the real server does between
//! rules (finding the old item of a list map, letting unchanged values pass, naming the field that is at fault) is
//! half of what users see of them; expressions are evaluated by `kube-cel`.

mod adapt;
mod check;
mod compile;
mod functions;
mod library;
mod macros;
mod types;
mod value;

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use crate::field::{FieldError, Path, Problem, quoted};

use super::Schema;
use super::correlate::{Correlated, old_item};
use super::validate::kind_name;

pub use compile::{Checked, Rules};
use compile::{Node, Program};
use library::{FUNCTIONS, UNREADABLE};

/// What the rules of a schema say about an object.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// Rules that failed.
    pub errors: Vec<FieldError>,
    /// Rules that failed on values that were like that before: told to the client, not refused.
    pub warnings: Vec<String>,
}

impl Rules {
    /// Runs every rule that applies. `old` is the object that is being replaced, if any: rules that speak of `oldSelf`
    /// run only where it has a value.
    pub fn validate(&self, schema: &Schema, object: &Value, old: Option<&Value>) -> Verdict {
        let mut verdict = Verdict::default();
        if let Some(root) = self.root() {
            let ratchet =
                Ratchet { current: old.map(|old| Correlated::new(schema, object, old)), nearest: None };
            FUNCTIONS.with(|functions| {
                Walk { functions, verdict: &mut verdict }.node(root, object, old, &Path::root(), ratchet);
            });
        }
        verdict
    }

    /// What the rules say of a value that stands at `at`, nothing of it being old news.
    pub fn validate_at(&self, value: &Value, old: Option<&Value>, at: &Path) -> Vec<FieldError> {
        let mut verdict = Verdict::default();
        if let Some(root) = self.root() {
            FUNCTIONS.with(|functions| {
                Walk { functions, verdict: &mut verdict }.node(root, value, old, at, Ratchet::default());
            });
        }
        verdict.errors
    }
}

/// What decides whether a failure is old news: the place itself where its old value can be found, else the nearest
/// place around it where it could.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    current: Option<Correlated<'a>>,
    nearest: Option<Correlated<'a>>,
}

impl<'a> Ratchet<'a> {
    fn is_old_news(self) -> bool {
        self.current.or(self.nearest).is_some_and(Correlated::unchanged)
    }

    fn key(self, name: &str) -> Ratchet<'a> {
        match self.current {
            None => self,
            Some(_) if self.nearest.is_none() && (name == "apiVersion" || name == "kind") => {
                Ratchet::default()
            }
            Some(current) => Ratchet { current: current.key(name), nearest: Some(current) },
        }
    }

    fn index(self, index: usize) -> Ratchet<'a> {
        match self.current {
            None => self,
            Some(current) => Ratchet { current: current.index(index), nearest: Some(current) },
        }
    }
}

struct Walk<'w> {
    functions: &'w Context<'static>,
    verdict: &'w mut Verdict,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, at: &Path, ratchet: Ratchet<'_>) {
        if value.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, value, old, at, ratchet);
        match value {
            Value::Array(list) => {
                let Some(items) = &node.items else { return };
                for (index, item) in list.iter().enumerate() {
                    let old = old.and_then(|old| old_item(&node.schema, item, old));
                    self.node(items, item, old, &at.index(index), ratchet.index(index));
                }
            }
            Value::Object(map) => {
                for (key, inner) in map {
                    let (child, path) = match (node.properties.get(key), &node.additional) {
                        (Some(child), _) => (child, at.child(key)),
                        (None, Some(child)) if !node.schema.properties.contains_key(key) => {
                            (&**child, at.key(key))
                        }
                        (None, _) => continue,
                    };
                    self.node(child, inner, old.and_then(|old| old.get(key)), &path, ratchet.key(key));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rules(&mut self, node: &Node, value: &Value, old: Option<&Value>, at: &Path, ratchet: Ratchet<'_>) {
        if node.rules.is_empty() {
            return;
        }
        let this = value::to_cel(&node.schema, value, node.is_resource, self.functions);
        let that =
            old.map(|old| value::old_to_cel(&node.schema, old, value, node.is_resource, self.functions));
        let type_name = quoted(node.schema.kind.map(kind_name).unwrap_or_default());
        for compiled in &node.rules {
            let transition = compiled.program.uses_old_self;
            if transition && that.is_none() && !compiled.rule.optional_old_self {
                continue;
            }
            let mut scope = self.functions.new_inner_scope();
            scope.add_variable_from_value("self", this.clone());
            match (&that, compiled.rule.optional_old_self) {
                (Some(that), true) => scope.add_variable_from_value("oldSelf", optional(Some(that.clone()))),
                (None, true) => scope.add_variable_from_value("oldSelf", optional(None)),
                (Some(that), false) => scope.add_variable_from_value("oldSelf", that.clone()),
                (None, false) => {}
            }
            let path = match &compiled.field_path {
                Some(relative) => at.child(relative),
                None => at.clone(),
            };
            match compiled.program.run(&scope) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => {
                    let message = compiled
                        .message
                        .as_ref()
                        .and_then(|program| own_message(program, &scope))
                        .unwrap_or_else(|| compiled.default_message());
                    let error = failed(compiled.rule.reason.as_deref(), path, &type_name, message);
                    if !transition && ratchet.is_old_news() {
                        self.verdict.warnings.push(error.to_string());
                    } else {
                        self.verdict.errors.push(error);
                    }
                }
                Err(error) => self.verdict.errors.push(FieldError {
                    problem: Problem::Invalid,
                    path: at.clone(),
                    value: Some(type_name.clone()),
                    detail: evaluation_failed(&error, &compiled.words()),
                }),
            }
        }
    }
}

fn optional(value: Option<CelValue>) -> CelValue {
    CelValue::Opaque(std::sync::Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// What a `messageExpression` says, unless it fails or says nothing fit for one line.
fn own_message(program: &Program, scope: &Context<'_>) -> Option<String> {
    const MOST_BYTES: usize = 5 * 1024;
    let Ok(CelValue::String(text)) = program.run(scope) else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= MOST_BYTES && !text.contains('\n')).then(|| text.to_owned())
}

fn failed(reason: Option<&str>, path: Path, type_name: &str, detail: String) -> FieldError {
    let shown = Some(type_name.to_owned());
    match reason {
        Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
        Some("FieldValueRequired") => FieldError::required(path, detail),
        Some("FieldValueDuplicate") => {
            FieldError { problem: Problem::Duplicate, path, value: shown, detail: String::new() }
        }
        Some(_) | None => FieldError { problem: Problem::Invalid, path, value: shown, detail },
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the evaluator's errors may grow; the rest speak for themselves"
)]
fn evaluation_failed(error: &ExecutionError, rule: &str) -> String {
    let why = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::NoSuchOverload
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnsupportedTargetType { .. } => {
            return format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature \
                 for rule: {rule}"
            );
        }
        ExecutionError::FunctionError { function, message } if message.starts_with(UNREADABLE) => {
            format!("type conversion error from 'string' to '{function}'")
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::UndeclaredReference(name) => {
            return format!("the embedded API server's CEL has no {name}, evaluating rule: {rule}");
        }
        other => other.to_string(),
    };
    format!("{why} evaluating rule: {rule}")
}
