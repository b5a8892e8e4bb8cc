use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::decode::tests::expect;

/// `tests/data/strategic/*.json` holds what upstream's own code makes of each patch.
#[test]
fn strategic_merges_come_out_as_upstream_makes_them() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for kind in ["Pod", "Deployment", "Service", "Node"] {
        let path =
            format!("{}/tests/data/strategic/{}.json", env!("CARGO_MANIFEST_DIR"), kind.to_lowercase());
        let table: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let expect = expect(kind);
        for case in table["cases"].as_array().unwrap() {
            let body = case["patch"].to_string();
            let given = apply(
                PatchKind::Strategic,
                body.as_bytes(),
                &table["current"],
                &expect,
                FieldValidation::Ignore,
            );
            let (given, wanted) = match (given, case.get("error")) {
                (Ok(patched), None) => (patched.object, case["result"].clone()),
                (Err(refusal), Some(error)) => (Value::String(refusal.message), error.clone()),
                (Ok(patched), Some(error)) => (patched.object, error.clone()),
                (Err(refusal), None) => (Value::String(refusal.message), case["result"].clone()),
            };
            checked += 1;
            if given != wanted {
                wrong.push(format!("{kind}: {}\n  given  {given}\n  wanted {wanted}", case["name"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked >= 100, "only {checked} cases were found");
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "strategy": {},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {}}]},
            },
        },
        "status": {},
    })
}

fn patch(kind: PatchKind, body: &str, validation: FieldValidation) -> Result<Patched, ApiError> {
    apply(kind, body.as_bytes(), &deployment(), &expect("Deployment"), validation)
}

const REJECTED: &str = "the server rejected our request due to an error in our request";

/// What a real server answered; an empty answer is success.
#[test]
fn json_patches_are_taken_and_refused_as_a_real_server_does() {
    for (body, code, message) in [
        ("", 400, "error decoding patch: unexpected end of JSON input"),
        (
            "{}",
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        ("null", 200, ""),
        ("[]", 200, ""),
        ("[{}]", 422, REJECTED),
        ("[null]", 422, REJECTED),
        (
            "[5]",
            400,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            r#"[{"op":1}]"#,
            400,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (r#"[{"op":"bogus","path":"/a"}]"#, 422, REJECTED),
        (r#"[{"op":"add","path":"a","value":1}]"#, 422, REJECTED),
        (r#"[{"op":"add","path":"","value":{}}]"#, 422, REJECTED),
        (r#"[{"op":"add","path":"/metadata/nope/x","value":"1"}]"#, 422, REJECTED),
        (r#"[{"op":"add","path":"/spec/replicas/x","value":1}]"#, 422, REJECTED),
        (r#"[{"op":"add","path":"/spec/template/spec/containers/5","value":{}}]"#, 422, REJECTED),
        (r#"[{"op":"add","path":"/spec/template/spec/containers/x","value":{}}]"#, 422, REJECTED),
        (r#"[{"op":"add","path":"/spec/template/spec/containers/-1","value":{"name":"z"}}]"#, 200, ""),
        (r#"[{"op":"remove","path":"/metadata/labels/zz"}]"#, 422, REJECTED),
        (r#"[{"op":"remove","path":"/spec/template/spec/containers/7"}]"#, 422, REJECTED),
        (r#"[{"op":"remove","path":""}]"#, 422, REJECTED),
        (r#"[{"op":"replace","path":"/metadata/labels/zz","value":"1"}]"#, 200, ""),
        (r#"[{"op":"replace","path":"/nope/zz","value":"1"}]"#, 422, REJECTED),
        (r#"[{"op":"test","path":"/spec/replicas","value":1}]"#, 200, ""),
        (r#"[{"op":"test","path":"/spec/replicas","value":5}]"#, 422, REJECTED),
        (r#"[{"op":"test","path":"/nope","value":null}]"#, 200, ""),
        (r#"[{"op":"test","path":"/nope/x","value":5}]"#, 422, REJECTED),
        (r#"[{"op":"move","from":"/nope","path":"/metadata/labels/q"}]"#, 422, REJECTED),
        (r#"[{"op":"move","from":"/metadata/labels/a","path":"/metadata/labels/q"}]"#, 200, ""),
        (r#"[{"op":"move","from":"/metadata","path":"/metadata/labels/q"}]"#, 422, REJECTED),
        (r#"[{"op":"copy","from":"/nope","path":"/metadata/labels/q"}]"#, 200, ""),
        (r#"[{"op":"copy","from":"/nope/x","path":"/metadata/labels/q"}]"#, 422, REJECTED),
    ] {
        match patch(PatchKind::Json, body, FieldValidation::Warn) {
            Ok(_) => assert_eq!((code, message), (200, ""), "{body}"),
            Err(refusal) => {
                assert_eq!((refusal.code.as_u16(), refusal.message.as_str()), (code, message), "{body}")
            }
        }
    }
}

#[test]
fn a_failed_operation_changes_nothing_and_the_refusal_has_empty_details() {
    let body =
        r#"[{"op":"remove","path":"/metadata/labels"},{"op":"test","path":"/spec/replicas","value":9}]"#;
    let refusal = patch(PatchKind::Json, body, FieldValidation::Warn).unwrap_err();
    assert_eq!((refusal.reason, refusal.details), ("Invalid", Some(json!({}))));
}

/// A few hundred bytes that would otherwise ask for gigabytes, or for a document too deep for the stack.
#[test]
fn a_json_patch_cannot_multiply_or_nest_a_document_without_bound() {
    let operation = |op: &str, from: &str, path: &str| json!({"op": op, "from": from, "path": path});
    let refused = |operations: Vec<Value>| {
        let done = patch(PatchKind::Json, &Value::Array(operations).to_string(), FieldValidation::Ignore);
        done.err().map(|refusal| refusal.message)
    };
    // Each copy doubles it.
    let large = json!({"op": "add", "path": "/metadata/annotations", "value": {"a": "x".repeat(1024)}});
    let doubled = |times: usize| {
        let copies = (0..times)
            .map(|n| operation("copy", "/metadata/annotations", &format!("/metadata/annotations/{n}")));
        let last = json!({"op": "replace", "path": "/metadata/annotations", "value": {}});
        [large.clone()].into_iter().chain(copies).chain([last]).collect::<Vec<_>>()
    };
    assert_eq!(refused(doubled(8)), None);
    assert_eq!(refused(doubled(12)).as_deref(), Some(REJECTED));

    // Each round puts the document into another one.
    let deeper = |rounds: usize| {
        let mut operations = vec![json!({"op": "add", "path": "/metadata/annotations", "value": {}})];
        for _ in 0..rounds {
            operations.push(json!({"op": "add", "path": "/metadata/labels", "value": {}}));
            operations.push(operation("move", "/metadata/annotations", "/metadata/labels/in"));
            operations.push(operation("move", "/metadata/labels", "/metadata/annotations"));
        }
        operations.push(json!({"op": "replace", "path": "/metadata/annotations", "value": {}}));
        operations
    };
    assert_eq!(refused(deeper(80)), None);
    assert_eq!(refused(deeper(120)).as_deref(), Some(REJECTED));
}

#[test]
fn a_json_patch_has_at_most_ten_thousand_operations() {
    let one = json!({"op": "test", "path": "/spec/replicas", "value": 1});
    let many = |n: usize| Value::Array(vec![one.clone(); n]).to_string();
    assert!(patch(PatchKind::Json, &many(10_000), FieldValidation::Warn).is_ok());
    let refusal = patch(PatchKind::Json, &many(10_001), FieldValidation::Warn).unwrap_err();
    assert_eq!(refusal.code.as_u16(), 413);
    assert_eq!(
        refusal.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn merge_patches_are_taken_and_refused_as_a_real_server_does() {
    let object = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    for (body, validation, code, message) in [
        ("", FieldValidation::Warn, 400, "error decoding patch: unexpected end of JSON input".to_owned()),
        ("[]", FieldValidation::Warn, 400, format!("error decoding patch: {object}")),
        ("null", FieldValidation::Warn, 400, "Invalid JSON Patch".to_owned()),
        ("5", FieldValidation::Ignore, 400, "Invalid JSON Patch".to_owned()),
        ("{", FieldValidation::Ignore, 400, "Invalid JSON Patch".to_owned()),
        ("{}", FieldValidation::Warn, 200, String::new()),
        (r#"{"metadata":{"labels":{"a":null}}}"#, FieldValidation::Warn, 200, String::new()),
        (r#"{"kind":null}"#, FieldValidation::Warn, 200, String::new()),
        (r#"{"apiVersion":"apps/v1beta1"}"#, FieldValidation::Warn, 200, String::new()),
    ] {
        match patch(PatchKind::Merge, body, validation) {
            Ok(_) => assert_eq!((code, message.as_str()), (200, ""), "{body}"),
            Err(refusal) => assert_eq!((refusal.code.as_u16(), refusal.message), (code, message), "{body}"),
        }
    }
}

#[test]
fn a_patched_object_that_does_not_fit_its_type_is_refused_with_the_decoder_s_words() {
    for (body, words) in [
        (
            r#"{"spec":{"replicas":"x"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":[]}"#,
            "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
        ),
        (
            r#"{"kind":"Pod"}"#,
            r#"no kind "Pod" is registered for version "apps/v1" in scheme "pkg/runtime/scheme.go:110""#,
        ),
        (
            r#"{"apiVersion":"apps/v2"}"#,
            r#"no kind "Deployment" is registered for version "apps/v2" in scheme "pkg/runtime/scheme.go:110""#,
        ),
        (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c"),
    ] {
        let refusal = patch(PatchKind::Merge, body, FieldValidation::Warn).unwrap_err();
        assert_eq!((refusal.code.as_u16(), refusal.reason), (422, "Invalid"), "{body}");
        assert!(
            refusal.message.starts_with(r#" "" is invalid: patch: Invalid value: "{"#),
            "{}",
            refusal.message
        );
        assert!(refusal.message.ends_with(&format!(": {words}")), "{}", refusal.message);
        let details = refusal.details.unwrap();
        assert_eq!(details.as_object().unwrap().keys().collect::<Vec<_>>(), ["causes"]);
        assert_eq!(details["causes"][0]["field"], "patch");
    }
}

/// What a real server answered to strategic merges that do not fit.
#[test]
fn a_strategic_merge_that_does_not_fit_is_refused_as_a_real_server_does() {
    let invalid =
        |shown: &str, why: &str| format!(r#" "" is invalid: patch: Invalid value: "{shown}": {why}"#);
    for (body, code, message) in [
        ("", 400, "unexpected end of JSON input".to_owned()),
        ("[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned()),
        (r#"{"spec":[]}"#, 422, invalid("map[spec:[]]", "cannot restore struct from: slice")),
        (r#"{"spec":"x"}"#, 422, invalid("map[spec:x]", "cannot restore struct from: string")),
        (
            r#"{"metadata":{"labels":{"a":1}}}"#,
            422,
            invalid("map[metadata:map[labels:map[a:1]]]", "cannot convert int64 to string"),
        ),
        (
            r#"{"metadata":{"labels":[]}}"#,
            422,
            invalid("map[metadata:map[labels:[]]]", "cannot restore map from slice"),
        ),
        (
            r#"{"spec":{"replicas":"2"}}"#,
            422,
            invalid("map[spec:map[replicas:2]]", "unrecognized type: int32"),
        ),
        (
            r#"{"spec":{"replicas":1.5}}"#,
            422,
            invalid("map[spec:map[replicas:1.5]]", "cannot convert float64 to int32"),
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":{"a":1}}}}}"#,
            422,
            invalid(
                "map[spec:map[template:map[spec:map[containers:map[a:1]]]]]",
                "cannot restore slice from map",
            ),
        ),
        (
            r#"{"spec":{"template":{"spec":{"hostNetwork":"yes"}}}}"#,
            422,
            invalid("map[spec:map[template:map[spec:map[hostNetwork:yes]]]]", "unrecognized type: bool"),
        ),
        (
            r#"{"metadata":{"creationTimestamp":"bad"}}"#,
            422,
            invalid(
                "map[metadata:map[creationTimestamp:bad]]",
                r#"parsing time "bad" as "2006-01-02T15:04:05Z07:00": cannot parse "bad" as "2006""#,
            ),
        ),
        (r#"{"$patch":"bogus"}"#, 500, "unknown patch type: bogus in map: map[$patch:bogus]".to_owned()),
        (r#"{"$patch":5}"#, 500, "unknown patch type: %!s(int64=5) in map: map[$patch:5]".to_owned()),
        (
            r#"{"metadata":{"$setElementOrder/finalizers":"x"}}"#,
            500,
            "expected a []interface {}, but received a string".to_owned(),
        ),
        (
            r#"{"spec":{"template":{"spec":{"$setElementOrder/nope":[{"name":"z"}]}}}}"#,
            500,
            r#"unable to find api field in struct PodSpec for the json field "nope""#.to_owned(),
        ),
        (
            r#"{"spec":{"strategy":{"$retainKeys":"x"}}}"#,
            400,
            "invalid patch format of retainKeys".to_owned(),
        ),
    ] {
        let refusal = patch(PatchKind::Strategic, body, FieldValidation::Warn).unwrap_err();
        assert_eq!((refusal.code.as_u16(), refusal.message), (code, message), "{body}");
    }
}

#[test]
fn unknown_and_duplicate_fields_of_a_patch_warn_or_refuse() {
    for (kind, body, told) in [
        (
            PatchKind::Strategic,
            r#"{"foo":1,"spec":{"replicas":2,"replicas":3}}"#,
            vec!["duplicate field \"spec.replicas\"", "unknown field \"foo\""],
        ),
        (
            PatchKind::Merge,
            r#"{"spec":{"replicas":2,"replicas":3,"foo":1}}"#,
            vec!["duplicate field \"spec.replicas\"", "unknown field \"spec.foo\""],
        ),
        (
            PatchKind::Json,
            r#"[{"op":"add","path":"/spec/foo","value":"z","foo":1}]"#,
            vec!["json patch unknown field \"[0].foo\"", "unknown field \"spec.foo\""],
        ),
    ] {
        assert_eq!(patch(kind, body, FieldValidation::Warn).unwrap().warnings, told);
        assert!(patch(kind, body, FieldValidation::Ignore).unwrap().warnings.is_empty());
        let refusal = patch(kind, body, FieldValidation::Strict).unwrap_err();
        let words = format!(": strict decoding error: {}", told.join(", "));
        assert!(refusal.message.ends_with(&words), "{}", refusal.message);
    }
}

#[test]
fn the_kind_of_a_patch_is_its_content_type() {
    let all = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let unknown = "the body of the request was in an unknown format - accepted media types include: ";
    let of = PatchKind::from_content_type;
    assert_eq!(of(Some("application/json-patch+json; charset=utf-8"), false), Ok(PatchKind::Json));
    assert_eq!(of(Some("application/strategic-merge-patch+json"), false), Ok(PatchKind::Strategic));
    assert_eq!(of(Some("application/apply-patch+yaml"), true), Ok(PatchKind::Apply));
    for content_type in
        [None, Some("application/json"), Some("text/plain"), Some("APPLICATION/merge-patch+json")]
    {
        let refusal = of(content_type, false).unwrap_err();
        assert_eq!(refusal.message, "415: Unsupported Media Type");
        assert_eq!((refusal.code.as_u16(), refusal.details), (415, Some(json!({}))));
    }
    let refusal = of(Some("application/strategic-merge-patch+json"), true).unwrap_err();
    assert_eq!((refusal.message, refusal.details), (format!("{unknown}{all}"), None));
}

#[test]
fn a_patched_custom_resource_keeps_its_kind_and_version() {
    let current = json!({"apiVersion": "codec.test/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    let merge = |body: &str| {
        apply(PatchKind::Merge, body.as_bytes(), &current, &expect("Widget"), FieldValidation::Warn)
    };
    for (body, message) in [
        (r#"{"kind":"X"}"#, r#"X.codec.test "w" is invalid: kind: Invalid value: "X": must be Widget"#),
        (
            r#"{"apiVersion":"codec.test/v1beta1"}"#,
            r#"Widget.codec.test "w" is invalid: apiVersion: Invalid value: "codec.test/v1beta1": must be codec.test/v1"#,
        ),
        (
            r#"{"apiVersion":"v9"}"#,
            r#"Widget "w" is invalid: apiVersion: Invalid value: "v9": must be codec.test/v1"#,
        ),
    ] {
        assert_eq!(merge(body).unwrap_err().message, message);
    }
    let patched = merge(r#"{"spec":{"foo":1},"metadata":{"foo":1}}"#).unwrap();
    assert_eq!(patched.object["spec"], json!({"size": 1}));
    assert_eq!(patched.warnings, ["unknown field \"metadata.foo\"", "unknown field \"spec.foo\""]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|n| json!(n)),
        "[a-c]{0,2}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-d]", any_json(), 0..5).prop_map(|map| map.into_iter().collect())
}

/// RFC 7396, section 2, word for word.
fn by_the_book(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = match target {
        Value::Object(target) => target,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            let there = target.remove(key).unwrap_or(Value::Null);
            target.insert(key.clone(), by_the_book(there, value));
        }
    }
    Value::Object(target)
}

proptest! {
    #[test]
    fn a_merge_patch_does_what_the_rfc_says(target in any_object(), patch in any_object()) {
        let mut merged = Value::Object(target.clone());
        merge::merge(&mut merged, patch.clone());
        prop_assert_eq!(merged, by_the_book(Value::Object(target), &Value::Object(patch)));
    }

    #[test]
    fn a_merge_patch_applied_twice_is_applied_once(target in any_object(), patch in any_object()) {
        let mut once = Value::Object(target);
        merge::merge(&mut once, patch.clone());
        let mut twice = once.clone();
        merge::merge(&mut twice, patch);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_patch_without_directives_is_never_refused_by_a_strategic_merge(target in any_object(), patch in any_object()) {
        let mut patch = patch;
        let merged = strategic::merge(&Value::Object(target), &mut patch, &crate::schema::Schema::default());
        prop_assert!(merged.is_ok());
    }
}
