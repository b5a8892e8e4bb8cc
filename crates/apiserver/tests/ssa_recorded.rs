//! Sequences of writes recorded on a real kube-apiserver, replayed through field management.
//!
//! Each case of `data/ssa/recorded.json` is one object's life: an `apply` step holds what was applied, a `write` step
//! (create, update, any other patch) how the object that reached field management differed from the answer. Every
//! step starts from the answer the real server gave to the one before.

use std::collections::BTreeMap;

use netferry_apiserver::builtin::resources;
use netferry_apiserver::resource::{Subresource, Through};
use netferry_apiserver::schema::{Schema, SchemaRef, apply_defaults};
use netferry_apiserver::ssa::{ScaleWrite, Target, apply, keep_times, scale, track_update};
use serde_json::{Value, json};

fn read(path: &str) -> Value {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The schema of each kind, and what its writes cannot set.
fn known() -> BTreeMap<(String, String), (SchemaRef, Resets)> {
    let resets = |reset: &dyn Fn(Through) -> Vec<Vec<&'static str>>| {
        [reset(Through::Main), reset(Through::Sub(Subresource::Status))]
    };
    let mut known: BTreeMap<_, _> = resources()
        .into_iter()
        .map(|resource| {
            let reset = resets(&|through| resource.behaviour.reset_fields(through));
            ((resource.api_version(), resource.kind.clone()), (resource.schema.clone(), reset))
        })
        .collect();
    let gadget =
        Schema::from_crd(&read("tests/data/ssa/gadget-schema.json")).expect("the schema is well formed");
    let reset = [vec![vec!["status"]], vec![vec!["spec"]]];
    for version in ["ssa.test/v1", "ssa.test/v1beta1"] {
        known.insert((version.to_owned(), "Gadget".to_owned()), (gadget.clone(), reset.clone()));
    }
    known
}

/// Through the main resource, and through status.
type Resets = [Vec<Vec<&'static str>>; 2];

/// Whether everything `part` says is in `whole`. Nothing is said by nulls, and quantities have many spellings.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (_, Value::Null) => true,
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(key, value)| {
            let hollow = value.as_object().is_some_and(|v| v.is_empty())
                || value.as_array().is_some_and(|v| v.is_empty());
            hollow || holds(whole.get(key).unwrap_or(&Value::Null), value)
        }),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
        }
        (Value::String(whole), Value::String(part)) => whole == part || (whole == "100m" && part == "0.1"),
        (Value::Number(whole), Value::Number(part)) => whole.as_f64() == part.as_f64(),
        (whole, part) => whole == part,
    }
}

/// What a merge patch does.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    for (name, value) in fields {
        match (value, object.as_object_mut()) {
            (Value::Null, Some(object)) => drop(object.remove(name)),
            _ => merge(&mut object[name], value),
        }
    }
}

#[test]
fn every_recorded_sequence_ends_with_the_owners_and_refusals_of_the_real_server() {
    let cases = replay_all("tests/data/ssa/recorded.json");
    assert!(cases >= 40, "only {cases} cases");
}

#[test]
fn sequences_drawn_by_lot_end_as_on_the_real_server() {
    let cases = replay_all("tests/data/ssa/drawn.json");
    assert!(cases >= 15, "only {cases} cases");
}

fn replay_all(path: &str) -> usize {
    let known = known();
    let mut failures: Vec<String> = Vec::new();
    let recorded = read(path);
    let cases = recorded.as_array().expect("a list of cases");
    for case in cases {
        let (name, kind) = (case["name"].as_str().expect("a name"), case["kind"].as_str().expect("a kind"));
        let mut live = Value::Null;
        for (index, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
            let version = step["apiVersion"].as_str().expect("a version");
            let (schema, resets) =
                known.get(&(version.to_owned(), kind.to_owned())).unwrap_or_else(|| panic!("no {kind}"));
            // A controller was there in between.
            if let Some(found) = step.get("found") {
                live = found.clone();
            }
            if let Err(difference) = replay(schema, resets, kind, &live, step) {
                failures.push(format!("{name}, step {index}: {difference}"));
            }
            if step["code"].as_u64() < Some(300) {
                live = step["answer"].clone();
            }
        }
    }
    assert!(failures.is_empty(), "{} steps differ:\n{}", failures.len(), failures.join("\n"));
    cases.len()
}

/// A write to `/scale`: its answer is the object afterwards, the Scale before and after stand beside it.
fn replay_scale(live: &Value, step: &Value) -> Result<(), String> {
    let text = |name: &str| step[name].as_str().unwrap_or_default();
    let write = match step.get("applied") {
        Some(applied) => ScaleWrite::Apply { applied, force: step["force"] == true },
        None => ScaleWrite::Update(&step["wanted"]),
    };
    let replicas = ["spec", "replicas"];
    let answer = &step["answer"];
    let manager = text("manager");
    match scale(live, text("apiVersion"), &replicas, &step["before"], write, manager, text("now")) {
        Ok(scaled) => {
            let mut object = answer.clone();
            scaled.own(&mut object);
            let size = |scale: &Value| scale["spec"]["replicas"].as_i64().unwrap_or_default();
            if object != *answer || size(&scaled.scale) != size(&step["scale"]) {
                let shown = |object: &Value| object["metadata"]["managedFields"].to_string();
                return Err(format!("\n  owners   {}\n  expected {}", shown(&object), shown(answer)));
            }
            Ok(())
        }
        Err(error) if error.to_status() == *answer => Ok(()),
        Err(error) => Err(format!("\n  refused with {}\n  expected     {answer}", error.to_status())),
    }
}

fn replay(schema: &SchemaRef, resets: &Resets, kind: &str, live: &Value, step: &Value) -> Result<(), String> {
    let text = |name: &str| step[name].as_str().unwrap_or_default();
    if step["op"] == "scale" {
        return replay_scale(live, step);
    }
    let subresource = step["subresource"].as_str();
    let reset = &resets[usize::from(subresource.is_some())];
    let target = Target { schema, api_version: text("apiVersion"), kind, served: &[], subresource, reset };
    let mut live = live.clone();
    if live.is_object() {
        live["apiVersion"] = json!(text("apiVersion"));
    }
    let answer = &step["answer"];
    let manager = text("manager");
    let mut result = if step["op"] == "apply" {
        let force = step["force"] == true;
        match (apply(&target, &live, &step["applied"], manager, force, text("now")), step["code"].as_u64()) {
            // What validation has to say comes later.
            (Ok(_), Some(422)) => return Ok(()),
            (Ok(object), Some(200 | 201)) => object,
            (Err(error), Some(code)) => {
                // The real server lists causes in no order of its own.
                let sorted = |details: Option<&Value>| {
                    let causes = details.and_then(|details| details["causes"].as_array());
                    let mut causes: Vec<String> =
                        causes.into_iter().flatten().map(Value::to_string).collect();
                    causes.sort();
                    causes
                };
                let details = sorted(error.details.as_ref());
                let listed = sorted(answer.get("details"));
                let expected = (code, answer["message"].as_str().unwrap_or_default(), &listed);
                let given = (u64::from(error.code.as_u16()), error.message.as_str(), &details);
                return if given == expected {
                    Ok(())
                } else {
                    Err(format!("\n  refused with {given:?}\n  expected     {expected:?}"))
                };
            }
            (Ok(object), code) => return Err(format!("accepted as {object}, expected {code:?} {answer}")),
            (Err(error), None) => return Err(format!("refused: {error}")),
        }
    } else {
        let mut wanted = answer.clone();
        if let Some(metadata) = wanted["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            match &step["sends"] {
                Value::Null => {}
                Value::String(_) => {
                    drop(
                        metadata
                            .insert("managedFields".to_owned(), live["metadata"]["managedFields"].clone()),
                    );
                }
                sent @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                    drop(metadata.insert("managedFields".to_owned(), sent.clone()));
                }
            }
        }
        if let Some(asked) = step.get("asked") {
            merge(&mut wanted, asked);
        }
        track_update(&target, &live, wanted, manager, text("now"))
    };
    let mut compared = result.clone();
    if step["op"] == "apply" && kind == "Gadget" {
        apply_defaults(schema, &mut compared);
    }
    for (name, value) in [("resourceVersion", "resourceVersion"), ("generation", "generation")] {
        if let (Some(value), Some(metadata)) =
            (live["metadata"].get(value), result["metadata"].as_object_mut())
        {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    keep_times(&live, &mut result);
    let owners = |object: &Value| object["metadata"].get("managedFields").cloned();
    if owners(&result) != owners(answer) {
        let shown = |object: &Value| owners(object).map_or("none".to_owned(), |v| v.to_string());
        return Err(format!("\n  owners   {}\n  expected {}", shown(&result), shown(answer)));
    }
    if step["op"] == "apply" {
        let part = if subresource.is_some() { "status" } else { "spec" };
        for part in [part, "data", "rules"] {
            if !holds(&answer[part], &compared[part]) {
                return Err(format!("\n  {part}   {}\n  expected {}", compared[part], answer[part]));
            }
            if kind == "Gadget" && live.is_object() && !holds(&compared[part], &answer[part]) {
                return Err(format!("\n  {part}   {}\n  lacks from {}", compared[part], answer[part]));
            }
        }
    }
    Ok(())
}
