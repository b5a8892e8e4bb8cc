//! What a real server (1.34) answered, held against what we answer.

use serde_json::{Value, json};

use super::*;
use crate::field::FieldError;

fn recorded(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("the recording is a list of groups")
}

/// What the server does to an object between decoding and storing it.
fn admit(schema: &Schema, object: &mut Value) -> Vec<String> {
    let unknown = prune(schema, object);
    drop_nulls(schema, object);
    apply_defaults(schema, object);
    unknown
}

/// Causes in an order of their own: the real server walks maps in any order.
fn causes(errors: &[FieldError]) -> Vec<String> {
    let mut causes: Vec<String> = errors.iter().map(|error| error.to_cause().to_string()).collect();
    causes.sort();
    causes
}

/// The real server writes whole floats without a fraction.
fn plain_numbers(value: &Value) -> Value {
    match value {
        Value::Number(n) if n.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() < 1e15) => {
            json!(n.as_f64().unwrap() as i64)
        }
        Value::Array(list) => list.iter().map(plain_numbers).collect(),
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), plain_numbers(v))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn every_recorded_value_is_answered_as_the_real_server_answered_it() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for group in recorded(include_str!("values.json")) {
        let schema = Schema::from_crd(&group["schema"]).unwrap();
        for case in group["cases"].as_array().unwrap() {
            seen += 1;
            let mut object = case["object"].clone();
            let unknown = admit(&schema, &mut object);
            let refused = check_embedded_types(&schema, &object);
            if case["code"] == 400 {
                let said = case["message"].as_str().unwrap();
                if !refused.as_ref().is_some_and(|error| said.ends_with(&error.to_string())) {
                    wrong.push(format!("{case}\n  we said {refused:?}"));
                }
                continue;
            }
            let old = case.get("old").cloned().map(|mut old| {
                admit(&schema, &mut old);
                old
            });
            let ours = causes(&validate(&schema, &object, old.as_ref()));
            let mut theirs: Vec<String> =
                case["causes"].as_array().into_iter().flatten().map(Value::to_string).collect();
            theirs.sort();
            if ours != theirs {
                wrong.push(format!("{}: {case}\n  we said {ours:#?}", group["name"]));
            }
            if let Some(stored) = case.get("stored")
                && plain_numbers(stored) != plain_numbers(&object)
            {
                wrong.push(format!("{}: {case}\n  we stored {object}", group["name"]));
            }
            let told: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
            if case.get("strict").is_some_and(|strict| *strict != told.join(", ")) {
                wrong.push(format!("{}: {case}\n  we told {told:?}", group["name"]));
            }
        }
    }
    assert!(seen > 250, "only {seen} recorded cases");
    assert!(wrong.is_empty(), "{} of {seen} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn document() -> Value {
    json!({
        "io.k8s.Node": {"type": "object", "properties": {
            "spec": {"default": {}, "description": "what is wanted", "allOf": [{"$ref": "#/components/schemas/io.k8s.Spec"}]},
            "next": {"$ref": "#/components/schemas/io.k8s.Node"},
            "others": {"type": "array", "items": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.Node"}]},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name"},
            "raw": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.runtime.RawExtension"},
            "nothing": {"$ref": "#/components/schemas/io.k8s.Empty"},
            "json": {"$ref": "#/components/schemas/io.k8s.JSON"},
            "port": {"$ref": "#/components/schemas/io.k8s.IntOrString"},
        }},
        "io.k8s.Spec": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "default": ""}}},
        "io.k8s.Empty": {"type": "object"},
        "io.k8s.JSON": {"description": "anything"},
        "io.k8s.IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
    })
}

#[test]
fn a_built_in_type_that_holds_itself_is_read() {
    let node = Schema::from_openapi(&document(), "io.k8s.Node").unwrap();
    let deep = &node.properties["next"].properties["others"].items.as_ref().unwrap().properties["spec"];
    assert_eq!(deep.limits.required, ["name"]);
    assert_eq!(deep.description.as_deref(), Some("what is wanted"));
    assert_eq!(deep.default, Some(json!({})));
    assert!(node.properties["port"].int_or_string);
}

#[test]
fn the_keys_a_built_in_list_merges_by_are_read() {
    let node = Schema::from_openapi(&document(), "io.k8s.Node").unwrap();
    let list = &node.properties["others"];
    assert_eq!(list.list_type, Some(ListType::Map(vec!["name".to_owned()])));
    assert_eq!(list.patch_strategy, PatchStrategy { merge: true, retain_keys: true });
    assert_eq!(list.patch_merge_key.as_deref(), Some("name"));
}

#[test]
fn unknown_fields_of_a_built_in_are_found_except_where_it_holds_anything() {
    let node = Schema::from_openapi(&document(), "io.k8s.Node").unwrap();
    let mut object = json!({
        "spec": {"name": "a", "nmae": 1}, "raw": {"any": {"thing": 1}}, "json": {"any": [1]}, "nothing": {"x": 1},
        "others": [{"next": {"zzz": 1}}], "port": "http",
    });
    assert_eq!(prune_builtin(&node, &mut object), ["nothing.x", "others[0].next.zzz", "spec.nmae"]);
}

#[test]
fn a_loader_reads_each_type_once() {
    let document = document();
    let mut loader = Loader::new(&document);
    let spec = loader.load("io.k8s.Spec").unwrap();
    let node = loader.load("io.k8s.Node").unwrap();
    assert!(std::ptr::eq(&*spec.properties["name"], &*node.properties["spec"].properties["name"]));
    assert_eq!(
        loader.load("io.k8s.Absent").unwrap_err(),
        ParseError::Dangling { at: ".".to_owned(), name: "io.k8s.Absent".to_owned() }
    );
}

#[test]
fn patterns_read_classes_as_go_does() {
    let cases = [
        (r"^[[:alpha:]]+$", "abc", true),
        (r"^[[:alpha:]_]+$", "ab_", true),
        (r"^\d+$", "٣", false),
        (r"^\w+$", "é", false),
        (r"^[a&&b]$", "&", true),
        (r"^[[]$", "[", true),
        (r"^[]a]$", "]", true),
        (r"^[^]a]$", "b", true),
        (r"^([\w-]+\.)*[a-z]{2,}$", "a-b.example", true),
        (r"^[\d.]+/[0-9]{1,2}$", "10.0.0.0/8", true),
    ];
    for (pattern, text, expected) in cases {
        let compiled = formats::compiled(pattern).unwrap_or_else(|| panic!("{pattern} is a pattern"));
        assert_eq!(compiled.is_match(text), expected, "{pattern} on {text}");
    }
    assert!(formats::compiled("(unclosed").is_none());
}
