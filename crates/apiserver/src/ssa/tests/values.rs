use serde_json::{Value, json};

use super::GADGET;
use crate::ssa::compare::compare;
use crate::ssa::merge::{merge, without};
use crate::ssa::typed::{Duplicates, field_set, fits, reconciled};
use crate::ssa::types::Type;
use crate::ssa::{Set, scalar};

fn ty() -> Type<'static> {
    Type::object(&GADGET)
}

fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[test]
fn a_value_mentions_its_leaves_and_items() {
    let cases = [
        (json!({"size": "s"}), json!({"f:size": {}})),
        (json!({"size": null}), json!({"f:size": {}})),
        (json!({"settings": {}}), json!({"f:settings": {}})),
        (json!({"settings": {"a": "b"}}), json!({"f:settings": {"f:a": {}}})),
        (json!({"limits": {"a": "b"}}), json!({"f:limits": {}})),
        (json!({"tags": ["x", "y"]}), json!({"f:tags": {"v:\"x\"": {}, "v:\"y\"": {}}})),
        (json!({"tags": []}), json!({})),
        (json!({"rules": []}), json!({"f:rules": {}})),
        (json!({"silent": ["x"]}), json!({"f:silent": {}})),
        (
            json!({"ports": [{"port": 1}]}),
            json!({"f:ports": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}),
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 1}]}),
            json!({"f:ports": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {}}}),
        ),
        (json!({"nested": {"deep": {}}}), json!({"f:nested": {"f:deep": {}}})),
        (json!({"free": {"a": {"b": [1]}}}), json!({"f:free": {"f:a": {".": {}, "f:b": {}}}})),
        (json!({"anything": [1]}), json!({"f:anything": {}})),
        (json!({"anything": {"a": 1}}), json!({"f:anything": {"f:a": {}}})),
    ];
    for (value, expected) in cases {
        let expected = if expected == json!({}) { json!({}) } else { json!({ "f:spec": expected }) };
        assert_eq!(field_set(&spec(value.clone()), ty()).to_fields(), expected, "{value}");
    }
}

#[test]
fn a_comparison_tells_added_from_modified_from_removed() {
    let cases = [
        (json!({}), json!({"size": "s"}), [json!({"f:size": {}}), json!({}), json!({})]),
        (json!({"size": "s"}), json!({"size": "m"}), [json!({}), json!({"f:size": {}}), json!({})]),
        (json!({"size": "s"}), json!({}), [json!({}), json!({}), json!({"f:size": {}})]),
        (
            json!({"tags": ["a"]}),
            json!({"tags": ["b"]}),
            [json!({"f:tags": {"v:\"b\"": {}}}), json!({}), json!({"f:tags": {"v:\"a\"": {}}})],
        ),
        (json!({"tags": ["a", "b"]}), json!({"tags": ["b", "a"]}), [json!({}), json!({}), json!({})]),
        (
            json!({"silent": ["a", "b"]}),
            json!({"silent": ["b", "a"]}),
            [json!({}), json!({"f:silent": {}}), json!({})],
        ),
        (
            json!({}),
            json!({"settings": {"a": "b"}}),
            [json!({"f:settings": {".": {}, "f:a": {}}}), json!({}), json!({})],
        ),
        (
            json!({"settings": {}}),
            json!({"settings": {"a": "b"}}),
            [json!({"f:settings": {"f:a": {}}}), json!({}), json!({})],
        ),
        (
            json!({"settings": null}),
            json!({"settings": {}}),
            [json!({}), json!({"f:settings": {}}), json!({})],
        ),
        (
            json!({"anything": [1]}),
            json!({"anything": {"a": 1}}),
            [json!({"f:anything": {"f:a": {}}}), json!({"f:anything": {}}), json!({})],
        ),
        (
            json!({"backends": [{"name": "a"}, {"name": "a"}]}),
            json!({"backends": [{"name": "a"}]}),
            [
                json!({"f:backends": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}),
                json!({}),
                json!({"f:backends": {"k:{\"name\":\"a\"}": {}}}),
            ],
        ),
        (
            json!({"backends": [{"name": "a"}, {"name": "a"}]}),
            json!({"backends": [{"name": "a"}, {"name": "a", "weight": 1}]}),
            [json!({}), json!({"f:backends": {"k:{\"name\":\"a\"}": {}}}), json!({})],
        ),
        (json!({"free": {"n": 1}}), json!({"free": {"n": 1.0}}), [json!({}), json!({}), json!({})]),
    ];
    for (old, new, expected) in cases {
        let found = compare(&spec(old.clone()), &spec(new.clone()), ty());
        let shown = [found.added, found.modified, found.removed].map(|set| {
            let fields = set.to_fields();
            fields.get("f:spec").cloned().unwrap_or(fields)
        });
        assert_eq!(shown, expected, "{old} to {new}");
    }
}

#[test]
fn an_applied_value_is_laid_over_the_live_one() {
    let cases = [
        (json!({"size": "s", "replicas": 1}), json!({"size": "m"}), json!({"size": "m", "replicas": 1})),
        (
            json!({"tags": ["a", "b", "c"]}),
            json!({"tags": ["c", "x", "a"]}),
            json!({"tags": ["b", "c", "x", "a"]}),
        ),
        (json!({"tags": ["a", "b"]}), json!({"tags": []}), json!({"tags": ["a", "b"]})),
        (json!({"tags": ["a"]}), json!({"tags": null}), json!({"tags": ["a"]})),
        (json!({"silent": ["a"]}), json!({"silent": ["b"]}), json!({"silent": ["b"]})),
        (json!({"limits": {"a": "1"}}), json!({"limits": {"b": "2"}}), json!({"limits": {"b": "2"}})),
        (
            json!({"settings": {"a": "1"}}),
            json!({"settings": {"b": "2"}}),
            json!({"settings": {"a": "1", "b": "2"}}),
        ),
        (
            json!({"backends": [{"name": "a", "weight": 1}]}),
            json!({"backends": [{"name": "a"}]}),
            json!({"backends": [{"name": "a", "weight": 1}]}),
        ),
        (json!({"anything": {"a": 1}}), json!({"anything": 5}), json!({"anything": 5})),
        (
            json!({"ports": [{"port": 1, "protocol": "TCP"}]}),
            json!({"ports": [{"port": 1, "name": "n"}]}),
            json!({"ports": [{"port": 1, "protocol": "TCP", "name": "n"}]}),
        ),
        // Live items that share a key are not merged with anything, and are there once afterwards.
        (
            json!({"backends": [{"name": "a", "weight": 1}, {"name": "a", "weight": 2}]}),
            json!({"backends": [{"name": "a", "weight": 3}]}),
            json!({"backends": [{"name": "a", "weight": 3}]}),
        ),
    ];
    for (live, applied, expected) in cases {
        let merged = merge(&spec(live.clone()), &spec(applied.clone()), ty());
        assert_eq!(merged["spec"], expected, "{applied} over {live}");
    }
}

#[test]
fn taking_the_last_thing_out_of_a_container_leaves_null() {
    let value = spec(json!({"settings": {"a": "1"}, "tags": ["x", "y"], "size": "s"}));
    let take = |fields: Value| {
        let set = Set::from_fields(&json!({ "f:spec": fields })).expect("readable");
        without(&value, &set, ty())["spec"].clone()
    };
    assert_eq!(
        take(json!({"f:settings": {"f:a": {}}})),
        json!({"settings": null, "tags": ["x", "y"], "size": "s"})
    );
    assert_eq!(take(json!({"f:settings": {}})), json!({"tags": ["x", "y"], "size": "s"}));
    assert_eq!(
        take(json!({"f:tags": {"v:\"x\"": {}}, "f:size": {}})),
        json!({"settings": {"a": "1"}, "tags": ["y"]})
    );
}

#[test]
fn what_does_not_fit_is_named() {
    let cases = [
        (json!({"size": 5}), ".spec.size: expected string, got &value.valueUnstructured{Value:5}"),
        (json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"on": 1.5}), ".spec.on: expected boolean, got &{1.5}"),
        (json!({"nosuch": 1, "other": 2}), ".spec.nosuch: field not declared in schema"),
        (json!({"tags": ["a", "a"]}), ".spec.tags: duplicate entries for key [=\"a\"]"),
        (
            json!({"tags": [null]}),
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({"backends": [{"weight": 1}]}),
            ".spec.backends: element 0: associative list with keys has an element that omits all key fields \
             [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({"backends": [{"name": "b", "weight": "w"}], "size": {}}),
            "errors:\n  .spec.backends[name=\"b\"].weight: expected numeric (int or float), got string\n  \
             .spec.size: expected string, got &value.valueUnstructured{Value:map[string]interface {}{}}",
        ),
    ];
    for (value, expected) in cases {
        let error = fits(&spec(value.clone()), ty(), Duplicates::Refused).expect_err("does not fit");
        assert_eq!(error.to_string(), expected, "{value}");
    }
    let doubled = spec(json!({"tags": ["a", "a"]}));
    assert!(fits(&doubled, ty(), Duplicates::Allowed).is_ok());
}

#[test]
fn what_became_atomic_is_owned_as_a_whole() {
    let owned = Set::from_fields(&json!({"f:spec": {
        "f:limits": {".": {}, "f:cpu": {}}, "f:silent": {"v:\"x\"": {}},
        "f:settings": {"f:a": {}}, "f:free": {"f:a": {"f:b": {}}},
    }}));
    let expected = json!({"f:spec": {
        "f:limits": {}, "f:silent": {}, "f:settings": {"f:a": {}}, "f:free": {"f:a": {"f:b": {}}},
    }});
    assert_eq!(reconciled(&owned.expect("readable"), ty()).to_fields(), expected);
}

#[test]
fn values_have_one_order_whatever_their_type() {
    let ordered = [
        json!(-1),
        json!(1.5),
        json!(2),
        json!("a"),
        json!("b"),
        json!(false),
        json!(true),
        json!([1]),
        json!([1, 2]),
        json!([2]),
        json!({"a": 1}),
        json!(null),
    ];
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            assert_eq!(scalar::compare(a, b), i.cmp(&j), "{a} and {b}");
        }
    }
}

#[test]
fn numbers_print_as_go_prints_them() {
    let cases = [
        (json!(1000000), "1000000"),
        (json!(1000000.0), "1e+06"),
        (json!(123456.0), "123456"),
        (json!(0.00001), "1e-05"),
        (json!(2.5), "2.5"),
    ];
    for (value, expected) in cases {
        assert_eq!(scalar::in_path(&value), expected);
    }
    assert_eq!(scalar::to_json(&json!(80.0)), "80");
}
