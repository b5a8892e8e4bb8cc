//! What `kubectl get` shows of a custom resource.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin::duration;
use crate::field::{float, number, shown};
use crate::resource::Column;

use super::jsonpath::JsonPath;

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some \
    resources may allow a client to request the generation of an appropriate name automatically. Name is primarily \
    intended for creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
    not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
    represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The columns of one version, with the paths their cells are read by.
#[derive(Debug)]
pub(super) struct Columns(Vec<(Column, Option<JsonPath>)>);

impl Columns {
    /// Reads a version's `additionalPrinterColumns`; without any there is the age.
    pub(super) fn read(version: &Value) -> Columns {
        let name = column("Name", "string", "name", NAME.to_owned(), 0);
        let age = [json!({
            "name": "Age", "type": "date", "description": AGE, "jsonPath": ".metadata.creationTimestamp",
        })];
        let given: &[Value] = match version["additionalPrinterColumns"].as_array() {
            Some(given) if !given.is_empty() => given,
            Some(_) | None => &age,
        };
        let mut columns = vec![(name, None)];
        for raw in given {
            let text = |key: &str| raw[key].as_str().unwrap_or_default();
            let path = text("jsonPath");
            let description = match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                description => description.to_owned(),
            };
            let priority = raw["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or_default();
            columns.push((
                column(text("name"), text("type"), text("format"), description, priority),
                JsonPath::parse(path).ok(),
            ));
        }
        Columns(columns)
    }

    pub(super) fn headings(&self) -> Vec<Column> {
        self.0.iter().map(|(column, _)| column.clone()).collect()
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![object["metadata"]["name"].clone()];
        cells.extend(self.0.iter().skip(1).map(|(column, path)| {
            // Only what is found first is shown, however much the path finds.
            let first = path.as_ref().and_then(|path| path.find(object).ok()?.into_iter().next());
            first.map_or(Value::Null, |value| cell(column.kind, &value, now))
        }));
        cells
    }
}

fn column(name: &str, kind: &str, format: &str, description: String, priority: i32) -> Column {
    const KINDS: [&str; 5] = ["integer", "number", "string", "boolean", "date"];
    const FORMATS: [&str; 9] =
        ["name", "int32", "int64", "float", "double", "byte", "date", "date-time", "password"];
    let known =
        |list: &[&'static str], text: &str| list.iter().copied().find(|one| *one == text).unwrap_or_default();
    Column {
        name: name.to_owned(),
        kind: known(&KINDS, kind),
        format: known(&FORMATS, format),
        description,
        priority,
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => json!(printed(value)),
        ("integer", Value::Number(n)) => match n.as_i64() {
            Some(whole) => json!(whole),
            None => json!(n.as_f64().unwrap_or_default() as i64),
        },
        ("number", Value::Number(n)) => json!(n),
        ("boolean", Value::Bool(b)) => json!(b),
        ("date", Value::String(text)) => json!(age(text, now)),
        _ => Value::Null,
    }
}

/// A value as text: scalars plainly, lists and objects as JSON.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (None, Some(value)) => float(value),
            _ => number(n),
        },
        Value::Array(_) | Value::Object(_) => shown(value),
    }
}

fn age(text: &str, now: Timestamp) -> String {
    if text.is_empty() {
        return "<unknown>".to_owned();
    }
    match text.parse::<Timestamp>() {
        Ok(then) => duration::human((now.as_millisecond() - then.as_millisecond()) / 1000),
        Err(_) => "<invalid>".to_owned(),
    }
}
