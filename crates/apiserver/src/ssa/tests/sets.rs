use serde_json::{Value, json};

use crate::ssa::fields::{Element, Set, show};

fn field(name: &str) -> Element {
    Element::field(name)
}

fn key(pairs: Value) -> Element {
    Element::Key(pairs.as_object().expect("an object").clone().into_iter().collect())
}

fn set(fields: Value) -> Set {
    Set::from_fields(&fields).expect("readable fields")
}

#[test]
fn a_set_is_written_as_the_real_server_writes_it() {
    let ports = [field("spec"), field("ports")];
    let port = key(json!({"port": 80, "protocol": "TCP"}));
    let mut written = Set::default();
    written.insert(&ports);
    written.insert(&[ports[0].clone(), ports[1].clone(), port.clone()]);
    written.insert(&[ports[0].clone(), ports[1].clone(), port, field("name")]);
    written.insert(&[field("spec"), field("tags"), Element::Item(json!("a<b"))]);
    written.insert(&[field("spec"), field("list"), Element::Index(3)]);
    let expected = json!({"f:spec": {
        "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}},
        "f:tags": {"v:\"a\\u003cb\"": {}},
        "f:list": {"i:3": {}},
    }});
    assert_eq!(written.to_fields(), expected);
    assert_eq!(set(expected), written);
}

#[test]
fn elements_of_unknown_kinds_are_dropped_and_broken_ones_refused() {
    assert_eq!(set(json!({"x:future": {}, "f:a": {}})), set(json!({"f:a": {}})));
    for broken in ["f", "fa", "k:nope", "v:", "i:x", "k:[1]"] {
        assert!(Set::from_fields(&json!({broken: {}})).is_err(), "{broken}");
    }
    assert!(Set::from_fields(&json!({"f:a": "text"})).is_err());
    assert!(Set::from_fields(&json!([])).is_err());
}

#[test]
fn a_number_in_a_key_is_the_same_however_it_is_spelled() {
    assert_eq!(key(json!({"port": 80})), key(json!({"port": 80.0})));
    assert_ne!(key(json!({"port": 80})), key(json!({"port": "80"})));
    assert!(Element::Item(json!(2)) < Element::Item(json!(10)));
    assert!(Element::Item(json!(10)) < Element::Item(json!("2")));
}

#[test]
fn keys_written_in_any_order_name_the_same_item() {
    let a = set(json!({"f:l": {"k:{\"protocol\":\"TCP\",\"port\":80}": {}}}));
    let b = set(json!({"f:l": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}));
    assert_eq!(a, b);
}

#[test]
fn differences_spare_or_take_what_lies_below() {
    let all = set(json!({"f:a": {".": {}, "f:b": {".": {}, "f:c": {}}}, "f:d": {}}));
    let cases = [
        // minus, plain, recursive
        (json!({"f:a": {}}), json!({"f:a": {"f:b": {".": {}, "f:c": {}}}, "f:d": {}}), json!({"f:d": {}})),
        (
            json!({"f:a": {"f:b": {}}}),
            json!({"f:a": {".": {}, "f:b": {"f:c": {}}}, "f:d": {}}),
            json!({"f:a": {}, "f:d": {}}),
        ),
        (
            json!({"f:a": {"f:b": {"f:c": {}}}, "f:d": {}}),
            json!({"f:a": {".": {}, "f:b": {}}}),
            json!({"f:a": {".": {}, "f:b": {}}}),
        ),
        (json!({"f:x": {}}), all.to_fields(), all.to_fields()),
    ];
    for (minus, plain, recursive) in cases {
        let minus = set(minus);
        assert_eq!(all.difference(&minus).to_fields(), plain, "without {minus}");
        assert_eq!(all.recursive_difference(&minus).to_fields(), recursive, "without all of {minus}");
    }
}

#[test]
fn paths_are_shown_as_conflicts_show_them() {
    let path = [
        field("spec"),
        field("ports"),
        key(json!({"port": 80, "protocol": "TCP"})),
        field("tags"),
        Element::Item(json!("x")),
        Element::Index(2),
    ];
    assert_eq!(show(&path), r#".spec.ports[port=80,protocol="TCP"].tags[="x"][2]"#);
}
