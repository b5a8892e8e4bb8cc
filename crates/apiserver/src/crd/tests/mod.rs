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

/// What only one of the two said.
fn difference(ours: &[String], theirs: &[String]) -> String {
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    format!("only we said {:#?}\nonly they said {:#?}", only(ours, theirs), only(theirs, ours))
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
        let refused = openapi::Inspection::of(&group["schema"], true, &crate::field::Path::new("schema"));
        assert!(refused.is_empty(), "{}: {refused:#?}", group["name"]);
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
                wrong.push(format!("{} {index}: {}", group["name"], difference(&ours, &theirs)));
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

fn headings(resource: &Resource) -> Vec<Value> {
    let columns = resource.behaviour.columns().into_iter();
    columns
        .map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": column.description,
                "priority": column.priority,
            })
        })
        .collect()
}

#[test]
fn every_recorded_cell_is_printed_as_the_real_server_printed_it() {
    let recorded: Value = serde_json::from_str(include_str!("table.json")).unwrap();
    let mut definition = definition(&json!({"type": "object"}));
    let plain = resources(&definition).remove(0);
    assert_eq!(json!(headings(&plain)), recorded["plain"]);
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = recorded["columns"].clone();
    let resource = resources(&definition).remove(0);
    assert_eq!(json!(headings(&resource)), recorded["definitions"]);
    let now = "2026-11-15T10:00:00Z".parse().unwrap();
    let comparable = |cell: &Value| cell.as_f64().map_or_else(|| cell.clone(), |number| json!(number));
    for row in recorded["rows"].as_array().unwrap() {
        let cells = resource.behaviour.cells(&row["object"], now);
        for (index, (ours, theirs)) in cells.iter().zip(row["cells"].as_array().unwrap()).enumerate() {
            let column = index.checked_sub(1).map_or(&Value::Null, |index| &recorded["columns"][index]);
            assert_eq!(comparable(ours), comparable(theirs), "{column} of {}", row["object"]);
        }
    }
}

fn named(name: &str, names: Value) -> Value {
    json!({"metadata": {"name": format!("{name}.example.com")}, "spec": {"group": "example.com", "names": names}})
}

/// Lets the definitions have their names looked at once, one after the other.
fn settle(definitions: &mut [Value]) {
    for index in 0..definitions.len() {
        let others: Vec<&Value> = definitions.iter().collect();
        if let Some(status) = accept_names(&definitions[index], &others, "2026-01-01T00:00:00Z") {
            definitions[index]["status"] = status;
        }
    }
}

#[test]
fn a_definition_whose_names_are_free_is_established() {
    let mut definitions =
        [named("a", json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"}))];
    settle(&mut definitions);
    assert_eq!(
        definitions[0]["status"],
        json!({
            "acceptedNames": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
            "conditions": [
                {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                 "message": "the initial names have been accepted", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
        })
    );
    let before = definitions.clone();
    settle(&mut definitions);
    assert_eq!(definitions, before, "looking again changes nothing");
}

#[test]
fn a_name_taken_by_another_definition_of_the_group_is_not_accepted() {
    let first =
        json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList", "shortNames": ["x", "y"]});
    let cases = [
        (
            json!({"plural": "bs", "singular": "b", "kind": "A", "listKind": "BList"}),
            "KindConflict",
            "\"A\" is already in use",
        ),
        (
            json!({"plural": "bs", "singular": "a", "kind": "B", "listKind": "BList"}),
            "SingularConflict",
            "\"a\" is already in use",
        ),
        (
            json!({"plural": "bs", "singular": "b", "kind": "B", "listKind": "BList", "shortNames": ["x"]}),
            "ShortNamesConflict",
            "\"x\" is already in use",
        ),
        (
            json!({"plural": "bs", "singular": "b", "kind": "B", "listKind": "BList", "shortNames": ["x", "y"]}),
            "ShortNamesConflict",
            "[\"x\" is already in use, \"y\" is already in use]",
        ),
    ];
    for (second, reason, message) in cases {
        let mut definitions = [named("a", first.clone()), named("b", second)];
        settle(&mut definitions);
        let naming = condition(&definitions[1], "NamesAccepted").unwrap();
        assert_eq!(
            (&naming["status"], &naming["reason"], &naming["message"]),
            (&json!("False"), &json!(reason), &json!(message))
        );
        let established = condition(&definitions[1], "Established").unwrap();
        assert_eq!(
            (&established["status"], &established["reason"]),
            (&json!("False"), &json!("NotAccepted"))
        );
        assert!(is_established(&definitions[0]) && !is_established(&definitions[1]));
    }
}

#[test]
fn a_freed_name_is_accepted_the_next_time() {
    let names = |plural: &str, kind: &str| json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{plural}List")});
    let mut definitions = vec![named("a", names("as", "A")), named("b", names("bs", "A"))];
    settle(&mut definitions);
    assert!(!is_established(&definitions[1]));
    definitions.remove(0);
    settle(&mut definitions);
    assert!(is_established(&definitions[0]));
}

#[test]
fn selectable_fields_are_read_by_their_paths() {
    let mut definition = definition(&json!({"type": "object"}));
    definition["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    let resource = resources(&definition).remove(0);
    let of = |object: Value| resource.behaviour.selectable(&object);
    assert_eq!(
        of(json!({"spec": {"size": 5}})),
        [("spec.color", String::new()), ("spec.size", "5".to_owned())]
    );
    assert_eq!(of(json!({"spec": {"color": "red", "size": true}}))[0], ("spec.color", "red".to_owned()));
}

#[test]
fn the_generation_moves_with_everything_but_metadata_and_a_status_of_its_own() {
    let with = the_resource(&json!({"type": "object"}));
    let mut definition = definition(&json!({"type": "object"}));
    definition["spec"]["versions"][0]["subresources"] = Value::Null;
    let without = resources(&definition).remove(0);
    let old = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 1}});
    let moved = |resource: &Resource, through: Through, mut new: Value| {
        resource.behaviour.prepare_update(through, &mut new, &old);
        resource.behaviour.spec_changed(through, &new, &old)
    };
    let main = Through::Main;
    let label =
        json!({"metadata": {"name": "a", "labels": {"l": "v"}}, "spec": {"x": 1}, "status": {"y": 1}});
    let other_spec = json!({"metadata": {"name": "a"}, "spec": {"x": 2}, "status": {"y": 1}});
    let other_status = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 2}});
    let other_field = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 1}, "more": 1});
    assert!(!moved(&with, main, label));
    assert!(moved(&with, main, other_spec.clone()) && moved(&with, main, other_field));
    assert!(!moved(&with, main, other_status.clone()) && moved(&without, main, other_status.clone()));
    assert!(!moved(&with, Through::Sub(Subresource::Status), other_status));
    assert!(!moved(&with, Through::Sub(Subresource::Status), other_spec));
}

#[test]
fn a_deprecated_version_warns() {
    let mut definition = definition(&json!({"type": "object"}));
    definition["spec"]["versions"][0]["deprecated"] = json!(true);
    assert_eq!(resources(&definition)[0].deprecation.as_deref(), Some("example.com/v1 Thing is deprecated"));
    definition["spec"]["versions"][0]["deprecationWarning"] = json!("use v2");
    assert_eq!(resources(&definition)[0].deprecation.as_deref(), Some("use v2"));
}

#[test]
fn every_definition_we_ship_is_admitted_and_its_defaults_satisfy_it() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let mut seen = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut definition: Value = serde_saphyr::from_str(&text).unwrap();
        let behaviour = DefinitionBehaviour;
        behaviour.default(&mut definition);
        behaviour.prepare_create(&mut definition);
        let name = definition["metadata"]["name"].clone();
        let wrong: Vec<String> = behaviour.validate(&definition).iter().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        let served = definition["spec"]["versions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|version| version["served"] == true);
        assert_eq!(resources(&definition).len(), served.count(), "{name}");
        seen += 1;
    }
    assert!(seen > 10, "only {seen} definitions in {directory:?}");
}

#[test]
fn every_recorded_rule_that_does_not_compile_is_refused_in_the_same_words() {
    let recorded: Vec<Value> = serde_json::from_str(include_str!("compiler.json")).unwrap();
    let mut wrong = Vec::new();
    for case in &recorded {
        let root = json!({"type": "object", "properties": {"spec": case["schema"]}});
        let errors = openapi::Inspection::of(&root, false, &crate::field::Path::new("schema"));
        let words = |error: &crate::field::FieldError| {
            if error.problem == crate::field::Problem::Invalid { error.detail.clone() } else { error.body() }
        };
        let said: Vec<String> = errors.iter().map(words).collect();
        if json!(said) != case["details"] {
            wrong.push(format!(
                "{}\n  they said {:#}\n  we said {said:#?}",
                case["schema"]["x-kubernetes-validations"], case["details"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), recorded.len(), wrong.join("\n"));
}
