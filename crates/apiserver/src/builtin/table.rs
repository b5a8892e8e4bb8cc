//! What the rows of `kubectl get` are made of.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{entries, items, text};
use super::duration::since;
use crate::resource::Column;

/// A column given by heading, type, priority and meaning.
pub(super) type Heading = (&'static str, &'static str, i32, &'static str);

/// `Name`, as nearly every table begins.
pub(super) const NAME: Heading =
    ("Name", "string", 0, "The object's name, unique among its kind in its namespace.");
/// `Age`.
pub(super) const AGE: Heading = ("Age", "string", 0, "How long ago the object was created.");
/// `Created At`, where the printer leaves the arithmetic to the client.
pub(super) const CREATED_AT: Heading = ("Created At", "date", 0, "When the object was created.");

/// The columns of a table.
pub(super) fn columns(headings: &[Heading]) -> Vec<Column> {
    headings
        .iter()
        .map(|&(name, kind, priority, description)| Column {
            name: name.to_owned(),
            kind,
            format: if name == "Name" { "name" } else { "" },
            description: description.to_owned(),
            priority,
        })
        .collect()
}

/// `metadata.name`.
pub(super) fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

/// How long ago the object was created.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(&object["metadata"]["creationTimestamp"], now))
}

/// `<none>` (or another stand-in) for an empty text.
pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// A map of labels: `a=b,c=d`, or `<none>`.
pub(super) fn labels(object: &Value, pointer: &str) -> String {
    let pairs: Vec<String> =
        entries(object, pointer).map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    or(&pairs.join(","), "<none>").to_owned()
}

/// A label selector: `a=b,c in (x,y),!d`; empty when it selects everything, or is not there.
pub(super) fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let mut terms: Vec<(&str, String)> = entries(selector, "/matchLabels")
        .map(|(k, v)| (k, format!("{k}={}", v.as_str().unwrap_or_default())))
        .collect();
    for expression in items(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = items(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// A label selector, `<none>` when it says nothing.
pub(super) fn selector_or_none(value: Option<&Value>) -> String {
    or(&selector(value), "<none>").to_owned()
}

/// The names and the images of a pod template's containers.
pub(super) fn containers(template_spec: &Value) -> (String, String) {
    let joined = |field: &str| {
        items(template_spec, "/containers").iter().map(|c| text(c, field)).collect::<Vec<_>>().join(",")
    };
    (joined("/name"), joined("/image"))
}

/// At most three of a list, and how many more there are; `<unset>` for none.
pub(super) fn first_three(list: &[String]) -> String {
    match list {
        [] => "<unset>".to_owned(),
        list if list.len() > 3 => format!("{} + {} more...", list[..3].join(","), list.len() - 3),
        list => or(&list.join(","), "<unset>").to_owned(),
    }
}
