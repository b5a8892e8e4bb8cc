//! What a real server (1.34) answered, held against what we answer.

use serde_json::{Value, json};

use super::*;
use crate::resource::{Behaviour, Through};
use crate::schema::prune;

fn definition(schema: &Value) -> Value {
    json!({"spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        }],
    }})
}

fn the_resource(schema: &Value) -> Resource {
    resources(&definition(schema)).pop().expect("one version is served")
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn object(case: &Value, key: &str, index: usize) -> Option<Value> {
    let mut object = case.get(key)?.clone();
    object["metadata"] = json!({"name": format!("c{index}")});
    object["apiVersion"] = json!("example.com/v1");
    object["kind"] = json!("Thing");
    Some(object)
}

#[test]
fn every_recorded_rule_is_answered_as_the_real_server_answered_it() {
    let groups: Vec<Value> = serde_json::from_str(include_str!("rules.json")).unwrap();
    let mut wrong = Vec::new();
    for group in &groups {
        let resource = the_resource(&group["schema"]);
        let behaviour = &resource.behaviour;
        for (index, case) in group["cases"].as_array().unwrap().iter().enumerate() {
            let read = |key: &str| {
                let mut object = object(case, key, index)?;
                prune(&resource.schema, &mut object);
                behaviour.default(&mut object);
                Some(object)
            };
            let mut new = read("object").unwrap();
            let through =
                if case["through"] == "status" { Through::Sub(Subresource::Status) } else { Through::Main };
            let (errors, warnings) = match read("old") {
                None => {
                    behaviour.prepare_create(&mut new);
                    (behaviour.validate(&new), behaviour.warnings(&new))
                }
                Some(old) => {
                    behaviour.prepare_update(through, &mut new, &old);
                    let errors = behaviour.validate_update(through, &new, &old);
                    (errors, behaviour.update_warnings(through, &new, &old))
                }
            };
            let ours = sorted(errors.iter().map(|error| error.to_cause().to_string()).collect());
            let theirs =
                sorted(case["causes"].as_array().into_iter().flatten().map(Value::to_string).collect());
            if ours != theirs {
                wrong.push(format!("{} {index}: {case}\n  we said {ours:#?}", group["name"]));
            }
            let told: Vec<&str> =
                case["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if errors.is_empty() && warnings != told {
                wrong.push(format!("{} {index}: {case}\n  we warned {warnings:#?}", group["name"]));
            }
            for part in ["spec", "status"] {
                if let Some(stored) = case.get("stored")
                    && stored.get(part) != new.get(part)
                {
                    wrong.push(format!("{} {index}: {case}\n  we stored {new}", group["name"]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn recorded_causes(case: &Value) -> Vec<String> {
    sorted(case["causes"].as_array().into_iter().flatten().map(Value::to_string).collect())
}

#[test]
fn every_recorded_definition_is_admitted_or_refused_as_the_real_server_did() {
    let recorded: Value = serde_json::from_str(include_str!("definitions.json")).unwrap();
    let behaviour = DefinitionBehaviour;
    let mut wrong = Vec::new();
    let mut compare = |case: &Value, new: &Value, errors: &[crate::field::FieldError]| {
        let ours = sorted(errors.iter().map(|error| error.to_cause().to_string()).collect());
        if ours != recorded_causes(case) {
            wrong.push(format!("{case}\n  we said {ours:#?}"));
        }
        if let Some(stored) = case.get("stored") {
            for part in ["spec", "status"] {
                if stored[part] != new[part] {
                    wrong.push(format!("{case}\n  we stored {}", new[part]));
                }
            }
        }
    };
    for case in recorded["create"].as_array().unwrap() {
        let mut new = case["object"].clone();
        behaviour.default(&mut new);
        behaviour.prepare_create(&mut new);
        compare(case, &new, &behaviour.validate(&new));
        let told = case["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // In any order: the real server walks fields in one of its own.
        assert_eq!(sorted(behaviour.warnings(&new)), sorted(told.map(str::to_owned).collect()), "{case}");
    }
    for case in recorded["update"].as_array().unwrap() {
        let (mut new, old) = (case["object"].clone(), &case["old"]);
        let through =
            if case["through"] == "status" { Through::Sub(Subresource::Status) } else { Through::Main };
        behaviour.default(&mut new);
        behaviour.prepare_update(through, &mut new, old);
        compare(case, &new, &behaviour.validate_update(through, &new, old));
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
