//! What the schemas accept and refuse, as far as it can be known without a server: the same tables
//! are put to the embedded server and to a real one by the conformance suite.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use common::{DEFINITIONS, lost, read_and_written};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    object: Value,
    update: Option<Value>,
    status: Option<Value>,
    expect: Expect,
    #[serde(default)]
    becomes: Value,
    #[serde(default)]
    lacks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Expect {
    Accepted,
    Refused(String),
}

impl Row {
    fn old_and_new(&self) -> (Option<Value>, Value) {
        let named = |mut object: Value| {
            if object["metadata"]["name"].is_null() {
                object["metadata"]["name"] = json!("row");
            }
            object
        };
        let created = named(self.object.clone());
        if let Some(update) = &self.update {
            let mut update = update.clone();
            update["metadata"] = created["metadata"].clone();
            return (Some(created), update);
        }
        match &self.status {
            Some(status) => {
                let mut with_status = created.clone();
                with_status["status"] = status.clone();
                (Some(created), with_status)
            }
            None => (None, created),
        }
    }
}

fn rows() -> Vec<Row> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission");
    let mut rows = Vec::new();
    for entry in fs::read_dir(directory).expect("the tables are part of the tree") {
        let path = entry.expect("a readable directory").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).expect("a readable table");
            let table: Vec<Row> =
                serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            rows.extend(table);
        }
    }
    rows
}

/// The schema a kind is checked against, from the definitions users apply.
fn schema_of(object: &Value) -> &'static Value {
    let (group, version) =
        object["apiVersion"].as_str().and_then(|v| v.split_once('/')).expect("group/version");
    let crd = DEFINITIONS
        .iter()
        .find(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == object["kind"])
        .expect("a definition for every kind in the tables");
    let versions = crd["spec"]["versions"].as_array().expect("versions");
    let version = versions.iter().find(|v| v["name"] == version).expect("a served version");
    &version["schema"]["openAPIV3Schema"]
}

/// The messages of every rule in a schema.
fn messages(schema: &Value, out: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for rule in map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
                out.extend(rule["message"].as_str().map(str::to_owned));
            }
            map.values().for_each(|child| messages(child, out));
        }
        Value::Array(items) => items.iter().for_each(|child| messages(child, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_tables_cover_every_kind_and_repeat_nothing() {
    let rows = rows();
    let names: BTreeSet<_> = rows.iter().map(|r| format!("{} {}", r.object["apiVersion"], r.name)).collect();
    assert_eq!(names.len(), rows.len(), "two rows of one kind share a name");
    let kinds: BTreeSet<_> =
        rows.iter().map(|r| format!("{} {}", r.object["apiVersion"], r.object["kind"])).collect();
    // Fourteen kinds, two of them in two versions.
    assert_eq!(kinds.len(), 16, "{kinds:#?}");
    for row in &rows {
        assert!(row.update.is_none() || row.status.is_none(), "{}: one second step at most", row.name);
        if let Expect::Refused(part) = &row.expect {
            assert!(part.len() > 5, "{}: {part:?} could be part of any message", row.name);
            assert!(
                row.becomes.is_null() && row.lacks.is_empty(),
                "{}: refused and yet becomes something",
                row.name
            );
        }
    }
}

#[test]
fn whatever_the_server_accepts_survives_being_read_and_written_back() {
    for row in rows() {
        let (_, object) = row.old_and_new();
        // A server fills in the spec where the types need one, and drops explicit nulls.
        let without_spec =
            object.get("spec").is_none() && schema_of(&object)["properties"]["spec"].is_object();
        if matches!(row.expect, Expect::Accepted) && !without_spec {
            let mut out = Vec::new();
            let written = read_and_written(&object);
            lost("", &object, &written, &mut out);
            out.retain(|line| !line.starts_with(".apiVersion"));
            assert!(out.is_empty(), "{}: {out:#?}", row.name);
        }
    }
}

#[test]
fn the_embedded_evaluator_agrees_with_every_row() {
    for row in rows() {
        let (old, new) = row.old_and_new();
        let schema = schema_of(&new);
        let defaulted = |object: &Value| kube_cel::apply_defaults(schema, object);
        let verdict = kube_cel::validate(schema, &defaulted(&new), old.as_ref().map(defaulted).as_ref());
        let errors: Vec<String> = match verdict {
            Ok(()) => Vec::new(),
            Err(errors) => errors.into_vec().into_iter().map(|error| error.message).collect(),
        };
        let mut rules = Vec::new();
        messages(schema, &mut rules);
        match &row.expect {
            Expect::Accepted => assert!(errors.is_empty(), "{}: {errors:?}", row.name),
            // Refusals by type, pattern or range are the server's to give.
            Expect::Refused(part) if rules.iter().any(|message| message.contains(part)) => {
                assert!(errors.iter().any(|error| error.contains(part)), "{}: {errors:?}", row.name);
            }
            Expect::Refused(_) => {}
        }
    }
}
