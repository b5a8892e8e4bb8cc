//! Checking values against a schema, with the messages and reasons the real server gives.
//!
//! Each check counts what matched besides what failed: when no alternative of an `anyOf` or `oneOf` fits, the failures
//! of the one that matched most are told, and clients see those messages.

use serde_json::{Map, Value};

use crate::field::{FieldError, Path, Problem, float, number, quoted, shown};

use super::correlate::Correlated;
use super::{Additional, Kind, Limits, Schema, embedded, formats, lists};

/// What is wrong with an object: types and limits, embedded resources, duplicates in sets and list maps.
///
/// With `old`, values that did not change are not refused again, and duplicates are only told where the old object
/// had none. CEL rules are checked apart ([`super::cel`]).
pub fn validate(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let root = Path::root();
    let mut errors = validate_value(schema, new, old, &root);
    errors.append(&mut embedded::validate_embedded(schema, new));
    errors.append(&mut validate_lists(schema, new, old));
    errors
}

/// Duplicates in sets and list maps, unless the old object had some already.
pub fn validate_lists(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let root = Path::root();
    match old {
        Some(old) if !lists::duplicates(schema, old, &root).is_empty() => Vec::new(),
        Some(_) | None => lists::duplicates(schema, new, &root),
    }
}

/// Types and limits alone, of a value that stands at `at`. Messages name fields relative to the value, as the real
/// server's do when it checks a `status` by itself.
pub fn validate_value(schema: &Schema, new: &Value, old: Option<&Value>, at: &Path) -> Vec<FieldError> {
    let correlated = old.map(|old| Correlated::new(schema, new, old));
    let outcome = check(schema, new, "", correlated);
    outcome.failures.into_iter().map(|failure| failure.at(at)).collect()
}

/// One failed check. `name` is the dotted path from the value validated, `None` for what concerns alternatives.
struct Failure {
    problem: Problem,
    name: Option<String>,
    value: Option<String>,
    /// The text of the field error.
    detail: String,
    /// The full sentence: two failures that read the same are told once.
    sentence: String,
}

impl Failure {
    fn invalid(name: &str, value: &Value, text: &str) -> Failure {
        Failure::shown(Problem::Invalid, name, shown(value), format!("{name} in body {text}"))
    }

    fn shown(problem: Problem, name: &str, value: String, sentence: String) -> Failure {
        Failure {
            problem,
            name: Some(name.to_owned()),
            value: Some(value),
            detail: sentence.clone(),
            sentence,
        }
    }

    /// `found` is the type's name, or the text that has not the format.
    fn wrong_type(name: &str, wanted: &str, found: &str) -> Failure {
        let sentence = format!("{name} in body must be of type {wanted}: {}", quoted(found));
        Failure::shown(Problem::TypeInvalid, name, quoted(found), sentence)
    }

    fn alternatives(sentence: String) -> Failure {
        Failure {
            problem: Problem::Invalid,
            name: None,
            value: Some(quoted("")),
            detail: sentence.clone(),
            sentence,
        }
    }

    fn at(self, base: &Path) -> FieldError {
        let path = match self.name.as_deref().map(|name| name.strip_prefix('.').unwrap_or(name)) {
            None | Some("") => base.clone(),
            Some(name) => base.child(name),
        };
        FieldError { problem: self.problem, path, value: self.value, detail: self.detail }
    }
}

#[derive(Default)]
struct Outcome {
    failures: Vec<Failure>,
    matched: usize,
}

impl Outcome {
    fn add(&mut self, failure: Failure) {
        if !self.failures.iter().any(|known| known.sentence == failure.sentence) {
            self.failures.push(failure);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.matched += other.matched;
        for failure in other.failures {
            self.add(failure);
        }
    }

    fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }
}

fn check(schema: &Schema, value: &Value, name: &str, correlated: Option<Correlated<'_>>) -> Outcome {
    let outcome = check_anew(schema, value, name, correlated);
    if !outcome.is_valid() && correlated.is_some_and(Correlated::unchanged) {
        return Outcome { failures: Vec::new(), matched: outcome.matched };
    }
    outcome
}

fn check_anew(schema: &Schema, value: &Value, name: &str, correlated: Option<Correlated<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let limits = &schema.limits;
    let format = limits.format.as_deref().filter(|format| formats::is_known(format));
    if value.is_null() {
        check_null(schema, name, &mut outcome);
        check_enum(limits, value, name, &mut outcome);
        return outcome;
    }
    if schema.kind.is_some() || schema.int_or_string || format.is_some() {
        match wrong_type(schema, format, value, name) {
            Some(failure) => outcome.add(failure),
            None => outcome.matched += 1,
        }
        outcome.matched += 1;
    }
    outcome.merge(check_alternatives(schema, value, name));
    outcome.matched += 1;
    match value {
        Value::String(text) => {
            check_string(limits, text, name, &mut outcome);
            outcome.matched += 1;
            if let Some(format) = format {
                if !formats::accepts(format, text) {
                    outcome.add(Failure::wrong_type(name, format, text));
                }
                outcome.matched += 1;
            }
        }
        Value::Number(found) => {
            check_number(limits, found, name, &mut outcome);
            outcome.matched += 2;
        }
        Value::Array(list) => {
            check_list(schema, list, name, correlated, &mut outcome);
            outcome.matched += 2;
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    check_enum(limits, value, name, &mut outcome);
    outcome.matched += 1;
    if let Value::Object(map) = value {
        check_object(schema, map, name, correlated, &mut outcome);
        outcome.matched += 1;
    }
    outcome.matched += 1;
    outcome
}

fn check_null(schema: &Schema, name: &str, outcome: &mut Outcome) {
    let wanted = type_name(schema);
    if wanted.is_empty() || schema.nullable {
        outcome.matched += 1;
    } else {
        outcome.add(Failure::wrong_type(name, &wanted, "null"));
    }
}

fn type_name(schema: &Schema) -> String {
    if schema.int_or_string {
        return "integer,string".to_owned();
    }
    schema.kind.map(kind_name).unwrap_or_default().to_owned()
}

/// The word for a kind in schemas and messages.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
    }
}

/// A number the server would hold as an integer: whole, and written without a fraction or exponent.
fn is_written_whole(n: &serde_json::Number) -> bool {
    n.is_i64()
}

/// Whether a float holds a whole number that floats can tell from its neighbours.
fn is_whole(float: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    float.fract() == 0.0 && float.abs() <= MOST
}

fn wrong_type(schema: &Schema, format: Option<&str>, value: &Value, name: &str) -> Option<Failure> {
    let (found, found_format) = match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(n) if is_written_whole(n) => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let wants = |kind: Kind| {
        schema.kind == Some(kind) || (schema.int_or_string && matches!(kind, Kind::Integer | Kind::String))
    };
    let fits = match value {
        Value::Null => false,
        Value::Bool(_) => wants(Kind::Boolean),
        Value::String(_) => wants(Kind::String),
        Value::Array(_) => wants(Kind::Array),
        Value::Object(_) => wants(Kind::Object),
        Value::Number(n) if is_written_whole(n) => wants(Kind::Integer) || wants(Kind::Number),
        Value::Number(n) => wants(Kind::Number) || (wants(Kind::Integer) && n.as_f64().is_some_and(is_whole)),
    };
    if let Some(format) = format {
        if !value.is_string() && !value.is_array() && !fits {
            return Some(Failure::wrong_type(name, format, found_format));
        }
        if (value.is_string() || value.is_array()) && !wants(Kind::Integer) && !wants(Kind::Number) {
            return None;
        }
    }
    (!fits).then(|| Failure::wrong_type(name, &type_name(schema), found))
}

fn check_enum(limits: &Limits, value: &Value, name: &str, outcome: &mut Outcome) {
    let Some(allowed) = limits.one_of_values.as_ref().filter(|allowed| !allowed.is_empty()) else { return };
    let equal = |one: &Value| match (one, value) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    };
    if allowed.iter().any(equal) {
        return;
    }
    let words: Vec<String> = allowed
        .iter()
        .map(|one| match one {
            Value::String(text) => quoted(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                quoted(&shown(one))
            }
        })
        .collect();
    outcome.add(Failure {
        problem: Problem::NotSupported,
        name: Some(name.to_owned()),
        value: Some(shown(value)),
        detail: format!("supported values: {}", words.join(", ")),
        sentence: format!("{name} in body should be one of {}", words.join(" ")),
    });
}

/// Stops at the first thing wrong, as the real server does for strings.
fn check_string(limits: &Limits, text: &str, name: &str, outcome: &mut Outcome) {
    let length = text.chars().count() as u64;
    let value = Value::String(text.to_owned());
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        let unit = if most == 1 { "byte" } else { "bytes" };
        outcome.add(Failure {
            problem: Problem::TooLong,
            name: Some(name.to_owned()),
            value: None,
            detail: format!("may not be more than {most} {unit}"),
            sentence: format!("{name} in body should be at most {most} chars long"),
        });
    } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
        outcome.add(Failure::invalid(name, &value, &format!("should be at least {least} chars long")));
    } else if let Some(pattern) = &limits.pattern {
        match formats::compiled(pattern) {
            Some(regex) if regex.is_match(text) => {}
            Some(_) => outcome.add(Failure::invalid(name, &value, &format!("should match '{pattern}'"))),
            None => {
                outcome.add(Failure::invalid(
                    name,
                    &value,
                    &format!("should match '{pattern}, but pattern is invalid'"),
                ));
            }
        }
    }
}

fn check_number(limits: &Limits, found: &serde_json::Number, name: &str, outcome: &mut Outcome) {
    let value = found.as_f64().unwrap_or_default();
    let whole = is_written_whole(found);
    // Limits are shown as the value's own type: a whole number is held against the limit's whole part.
    let limit = |limit: f64| if whole { limit.trunc() } else { limit };
    let fail = |outcome: &mut Outcome, text: String| {
        outcome.add(Failure::shown(Problem::Invalid, name, number(found), format!("{name} in body {text}")));
    };
    if let Some(factor) = limits.multiple_of.map(limit) {
        let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
        if factor <= 0.0 {
            let sentence =
                format!("factor MultipleOf declared for {name} must be positive: {}", float(factor));
            outcome.add(Failure::shown(Problem::Invalid, name, float(factor), sentence));
        } else if (quotient - quotient.round()).abs() > 1e-9 {
            fail(outcome, format!("should be a multiple of {}", float(factor)));
        }
    }
    if let Some(least) = limits.minimum.map(limit) {
        if limits.exclusive_minimum && value <= least {
            fail(outcome, format!("should be greater than {}", float(least)));
        } else if value < least {
            fail(outcome, format!("should be greater than or equal to {}", float(least)));
        }
    }
    if let Some(most) = limits.maximum.map(limit) {
        if limits.exclusive_maximum && value >= most {
            fail(outcome, format!("should be less than {}", float(most)));
        } else if value > most {
            fail(outcome, format!("should be less than or equal to {}", float(most)));
        }
    }
}

fn too_many(name: &str, found: usize, most: u64, what: &str) -> Failure {
    let unit = if most == 1 { "item" } else { "items" };
    Failure {
        problem: Problem::TooMany,
        name: Some(name.to_owned()),
        value: Some(found.to_string()),
        detail: format!("must have at most {most} {unit}"),
        sentence: format!("{name} in body should have at most {most} {what}"),
    }
}

fn check_list(
    schema: &Schema,
    list: &[Value],
    name: &str,
    correlated: Option<Correlated<'_>>,
    outcome: &mut Outcome,
) {
    if let Some(items) = &schema.items {
        for (index, item) in list.iter().enumerate() {
            let old = correlated.and_then(|correlated| correlated.index(index));
            outcome.merge(check(items, item, &format!("{name}[{index}]"), old));
        }
    }
    let limits = &schema.limits;
    let size = list.len();
    if let Some(least) = limits.min_items.filter(|least| (size as u64) < *least) {
        outcome.add(Failure::invalid(
            name,
            &Value::from(size),
            &format!("should have at least {least} items"),
        ));
    }
    if let Some(most) = limits.max_items.filter(|most| size as u64 > *most) {
        outcome.add(too_many(name, size, most, "items"));
    }
    if limits.unique_items && (1..size).any(|i| list[..i].contains(&list[i])) {
        outcome.add(Failure::shown(
            Problem::Invalid,
            name,
            quoted(""),
            format!("{name} in body shouldn't contain duplicates"),
        ));
    }
}

fn check_object(
    schema: &Schema,
    map: &Map<String, Value>,
    name: &str,
    correlated: Option<Correlated<'_>>,
    outcome: &mut Outcome,
) {
    let limits = &schema.limits;
    let size = map.len();
    if let Some(least) = limits.min_properties.filter(|least| (size as u64) < *least) {
        outcome.add(Failure::invalid(
            name,
            &Value::from(size),
            &format!("should have at least {least} properties"),
        ));
    }
    if let Some(most) = limits.max_properties.filter(|most| size as u64 > *most) {
        outcome.add(too_many(name, size, most, "properties"));
    }
    for (key, value) in map {
        // The type of an object cannot be seen to change: both versions are shown in the one that is asked for.
        let hidden = name.is_empty() && (key == "apiVersion" || key == "kind");
        let old = correlated.filter(|_| !hidden).and_then(|correlated| correlated.key(key));
        if let Some(property) = schema.properties.get(key) {
            let path = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            outcome.merge(check(property, value, &path, old));
        } else if let Additional::Of(of) = &schema.additional {
            outcome.merge(check(of, value, &format!("{name}.{key}"), old));
        }
    }
    for key in &limits.required {
        if !map.contains_key(key) {
            outcome.add(Failure {
                problem: Problem::Required,
                name: Some(format!("{name}.{key}")),
                value: None,
                detail: String::new(),
                sentence: format!("{name}.{key} in body is required"),
            });
        }
    }
}

/// `allOf`, `anyOf`, `oneOf`, `not`. Below them nothing is correlated with an old value: what fails there fails anew.
fn check_alternatives(schema: &Schema, value: &Value, name: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let tried = |all: &[super::SchemaRef]| -> Vec<Outcome> {
        all.iter().map(|one| check(one, value, name, None)).collect()
    };
    if !schema.any_of.is_empty() {
        let mut found = None;
        let mut failed = Vec::new();
        for one in &schema.any_of {
            let result = check(one, value, name, None);
            if result.is_valid() {
                found = Some(result);
                break;
            }
            failed.push(result);
        }
        match found {
            Some(fitting) => outcome.merge(fitting),
            None => {
                outcome.add(Failure::alternatives(format!(
                    "{} must validate at least one schema (anyOf)",
                    quoted(name)
                )));
                outcome.merge(closest(failed));
            }
        }
    }
    if !schema.one_of.is_empty() {
        let (mut valid, failed): (Vec<Outcome>, Vec<Outcome>) =
            tried(&schema.one_of).into_iter().partition(Outcome::is_valid);
        match valid.len() {
            1 => outcome.merge(valid.remove(0)),
            count => {
                let found = if count == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {count} valid alternatives")
                };
                let sentence =
                    format!("{} must validate one and only one schema (oneOf). {found}", quoted(name));
                outcome.add(Failure::alternatives(sentence));
                if count == 0 {
                    outcome.merge(closest(failed));
                }
            }
        }
    }
    if !schema.all_of.is_empty() {
        let results = tried(&schema.all_of);
        let valid = results.iter().filter(|result| result.is_valid()).count();
        let all = results.len();
        for result in results {
            outcome.merge(result);
        }
        if valid != all {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add(Failure::alternatives(format!(
                "{} must validate all the schemas (allOf){none}",
                quoted(name)
            )));
        }
    }
    if let Some(not) = &schema.not
        && check(not, value, name, None).is_valid()
    {
        outcome.add(Failure::alternatives(format!("{} must not validate the schema (not)", quoted(name))));
    }
    outcome.matched += 1;
    outcome
}

/// The first of those that matched most.
fn closest(failed: Vec<Outcome>) -> Outcome {
    failed
        .into_iter()
        .reduce(|best, next| if next.matched > best.matched { next } else { best })
        .unwrap_or_default()
}
