use serde_json::{Value, json};

use super::*;
use crate::schema::Schema;

pub(crate) fn table(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).expect("the table is in the tree"))
        .expect("the table is JSON")
}

/// What the real server was asked to decode: built-ins from its own OpenAPI documents, and one custom resource.
pub(crate) fn expect(kind: &str) -> Expect {
    if kind == "Widget" {
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"},
                "tags": {"type": "object", "additionalProperties": text},
                "items": {"type": "array", "items": {"type": "object", "properties": {"n": text}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
            "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
        }});
        return Expect {
            group: "codec.test".to_owned(),
            version: "v1".to_owned(),
            also: &[],
            kind: kind.to_owned(),
            schema: Schema::from_crd(&schema).expect("the schema is structural"),
            custom: true,
        };
    }
    let (group, component) = match kind {
        "CustomResourceDefinition" => (
            "apiextensions.k8s.io",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition".to_owned(),
        ),
        "Deployment" => ("apps", "io.k8s.api.apps.v1.Deployment".to_owned()),
        kind => ("", format!("io.k8s.api.core.v1.{kind}")),
    };
    let schema = builtin::schema(group, &component);
    Expect {
        group: group.to_owned(),
        version: "v1".to_owned(),
        also: &[],
        kind: kind.to_owned(),
        schema,
        custom: false,
    }
}

fn validation(name: &str) -> FieldValidation {
    match name {
        "Strict" => FieldValidation::Strict,
        "Ignore" => FieldValidation::Ignore,
        _ => FieldValidation::Warn,
    }
}

/// `tests/data/decode.json` holds what a real server answered to each body.
#[test]
fn bodies_are_taken_and_refused_as_a_real_server_does() {
    let mut wrong = Vec::new();
    for case in table("decode") {
        let body = case["body"].as_str().unwrap();
        let kind = case["kind"].as_str().unwrap();
        let given = media(case["media"].as_str()).and_then(|media| {
            object(media, body.as_bytes(), &expect(kind), validation(case["validation"].as_str().unwrap()))
        });
        let (code, said) = match given {
            Ok(decoded) => (200, json!(decoded.warnings)),
            Err(refusal) => (refusal.code.as_u16(), json!(refusal.message)),
        };
        let wanted = if case["code"] == 200 { &case["warnings"] } else { &case["message"] };
        if case["code"] == code && said == *wanted {
            continue;
        }
        wrong.push(format!("{kind} {body:?}\n  given  {code} {said}\n  wanted {} {wanted}", case["code"]));
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_built_in_comes_back_in_the_shape_its_go_type_is_written_in() {
    let body = br#"{"metadata":{"name":"p","labels":{},"finalizers":[]},"spec":{"hostNetwork":false,
        "terminationGracePeriodSeconds":0,"nodeName":"","volumes":[{"name":"v","emptyDir":{}}],"tolerations":null,
        "containers":[{"name":"c","image":"i","args":[],"resources":{"limits":{"cpu":1}}}]}}"#;
    let decoded = object(Media::Json, body, &expect("Pod"), FieldValidation::Strict).unwrap();
    assert_eq!(
        decoded.object,
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}],
            },
            "status": {},
        })
    );
}

#[test]
fn what_stands_twice_in_a_built_in_is_decoded_into_the_same_place() {
    let body = br#"{"spec":{"nodeName":"a","containers":[{"name":"x","image":"i"},{"name":"y"}]},
        "spec":{"hostNetwork":true,"containers":[{"name":"z"}]}}"#;
    let decoded = object(Media::Json, body, &expect("Pod"), FieldValidation::Ignore).unwrap();
    let spec = &decoded.object["spec"];
    assert_eq!((&spec["nodeName"], &spec["hostNetwork"]), (&json!("a"), &json!(true)));
    assert_eq!(spec["containers"], json!([{"name": "z", "image": "i", "resources": {}}]));
}

#[test]
fn a_default_of_false_or_zero_or_nothing_is_still_a_default() {
    let defaults = json!({"off": false, "none": 0, "blank": "", "bare": [], "plain": {}});
    let properties: Value = defaults
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, default)| (name.clone(), json!({"default": default})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let body = json!({"spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster",
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let body = serde_json::to_vec(&body).unwrap();
    let crd = expect("CustomResourceDefinition");
    let decoded = object(Media::Json, &body, &crd, FieldValidation::Strict).unwrap();
    assert_eq!(decoded.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"], properties);
}

#[test]
fn a_status_subresource_is_there_though_it_says_nothing() {
    let body = json!({"spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster",
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}]}});
    let body = serde_json::to_vec(&body).unwrap();
    let decoded =
        object(Media::Json, &body, &expect("CustomResourceDefinition"), FieldValidation::Strict).unwrap();
    assert_eq!(decoded.object["spec"]["versions"][0]["subresources"], json!({"status": {}}));
}

#[test]
fn protobuf_is_refused_by_name() {
    let refusal = media(Some("application/vnd.kubernetes.protobuf")).unwrap_err();
    assert_eq!(refusal.code.as_u16(), 415);
    assert!(refusal.message.contains("does not implement application/vnd.kubernetes.protobuf"));
}

#[test]
fn a_body_over_the_limit_is_refused() {
    let body = vec![b' '; BODY_LIMIT + 1];
    let refusal = object(Media::Json, &body, &expect("ConfigMap"), FieldValidation::Warn).unwrap_err();
    assert_eq!(
        (refusal.code.as_u16(), refusal.message.as_str()),
        (413, "Request entity too large: limit is 3145728")
    );
    assert!(within_limit(BODY_LIMIT).is_ok());
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow_the_stack() {
    for body in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        assert_eq!(json::parse(body.as_bytes()), Err("exceeded max depth".to_owned()));
    }
    assert!(yaml::parse("- ".repeat(10_000).as_bytes()).is_err());
}

#[test]
fn a_large_text_is_not_copied_by_many_aliases() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 40].join(", "));
    assert_eq!(yaml::parse(text.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
    let few = format!("a: &a {}\nb: [*a, *a]\n", "x".repeat(100_000));
    assert!(yaml::parse(few.as_bytes()).is_ok());
}

/// What is accepted must be readable in the data file, inside its record.
#[test]
fn a_document_may_nest_a_hundred_deep_and_no_deeper() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(json::parse(nested(100).as_bytes()).is_ok());
    assert_eq!(json::parse(nested(101).as_bytes()), Err("exceeded max depth".to_owned()));
    let record = format!(r#"{{"op":"put","object":{}}}"#, nested(100));
    assert!(serde_json::from_str::<serde_json::Value>(&record).is_ok());
}

#[test]
fn aliases_do_not_unfold_without_bound() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    assert_eq!(yaml::parse(text.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
}

/// What a real server answered to the body of a delete; none of these has a reason.
#[test]
fn the_options_of_a_delete_are_refused_as_a_real_server_does() {
    let peek = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    for (body, message) in [
        ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input".to_owned()),
        ("[]", format!("couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type {peek}")),
        (r#"{"kind":"Pod"}"#, r#"no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:110""#.to_owned()),
        (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c".to_owned()),
        (r#"{"gracePeriodSeconds":"x"}"#, "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64".to_owned()),
        (r#"{"gracePeriodSeconds":1.5}"#, "json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64".to_owned()),
        (r#"{"propagationPolicy":5}"#, "json: cannot unmarshal number into Go struct field DeleteOptions.propagationPolicy of type v1.DeletionPropagation".to_owned()),
        (r#"{"preconditions":{"uid":5}}"#, "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID".to_owned()),
        (r#"{"preconditions":[]}"#, "json: cannot unmarshal array into Go struct field DeleteOptions.preconditions of type v1.Preconditions".to_owned()),
        (r#"{"dryRun":"All"}"#, "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string".to_owned()),
        (r#"{"dryRun":[5]}"#, "json: cannot unmarshal number into Go struct field DeleteOptions.dryRun of type string".to_owned()),
        (r#"{"orphanDependents":"x"}"#, "json: cannot unmarshal string into Go struct field DeleteOptions.orphanDependents of type bool".to_owned()),
    ] {
        let refusal = delete_options(None, body.as_bytes()).unwrap_err();
        assert_eq!((refusal.code.as_u16(), refusal.reason, refusal.message), (500, "", message), "{body}");
    }
}

#[test]
fn the_options_of_a_delete_keep_what_was_said() {
    let said = br#"{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0,"orphanDependents":false,"foo":1}"#;
    let options = delete_options(Some("application/json"), said).unwrap().unwrap();
    assert_eq!((&options["gracePeriodSeconds"], &options["orphanDependents"]), (&json!(0), &json!(false)));
    assert_eq!(options.get("foo"), None);
    assert_eq!(delete_options(None, b"").unwrap(), None);
    assert!(delete_options(None, b"null").unwrap().is_some());
}
