use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::decode::tests::table;
use crate::field::Path;

#[test]
fn label_selectors_are_taken_and_refused_as_a_real_server_does() {
    let mut wrong = Vec::new();
    for case in table("selector_labels") {
        let text = case["selector"].as_str().unwrap();
        let said = LabelSelector::parse(text).err().map(|refusal| refusal.message);
        if said.as_deref() != case["refusal"].as_str() {
            wrong.push(format!("{text:?}\n  given  {said:?}\n  wanted {}", case["refusal"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn field_selectors_are_taken_and_refused_as_a_real_server_does() {
    let selectable = ["spec.nodeName", "spec.restartPolicy", "status.phase"];
    let mut wrong = Vec::new();
    for case in table("selector_fields") {
        let text = case["selector"].as_str().unwrap();
        let parsed = FieldSelector::parse(text).and_then(|selector| selector.check(&selectable, false));
        let said = parsed.err().map(|refusal| refusal.message);
        if said.as_deref() != case["refusal"].as_str() {
            wrong.push(format!("{text:?}\n  given  {said:?}\n  wanted {}", case["refusal"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_kind_without_selectable_fields_says_which_two_it_has() {
    let selector = FieldSelector::parse("spec.foo=1").unwrap();
    assert_eq!(
        selector.check(&[], false).unwrap_err().message,
        r#""spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace""#
    );
    assert_eq!(selector.check(&[], true).unwrap_err().message, "field label not supported: spec.foo");
}

fn selects(selector: &str, labels: Value) -> bool {
    LabelSelector::parse(selector).unwrap().matches(&json!({"metadata": {"labels": labels}}))
}

#[test]
fn label_selectors_select_what_they_say() {
    let labels = json!({"a": "b", "n": "7", "empty": ""});
    for (selector, selected) in [
        ("", true),
        ("a=b", true),
        ("a==b", true),
        ("a=c", false),
        ("a!=c", true),
        ("a!=b", false),
        ("missing!=b", true),
        ("a in (x,b)", true),
        ("a in (x,y)", false),
        ("missing notin (x)", true),
        ("a notin (b)", false),
        ("a", true),
        ("missing", false),
        ("!a", false),
        ("!missing", true),
        ("n>6", true),
        ("n>7", false),
        ("n<8", true),
        ("a>1", false),
        ("missing<1", false),
        ("empty=", true),
        ("empty in (,x)", true),
        ("a=b,n>6,!missing", true),
        ("a=b,n>9", false),
    ] {
        assert_eq!(selects(selector, labels.clone()), selected, "{selector:?}");
    }
}

#[test]
fn a_selector_inside_an_object_selects_what_it_says() {
    let labels = json!({"metadata": {"labels": {"app": "x", "tier": "web"}}});
    for (selector, selected) in [
        (json!({}), true),
        (json!({"matchLabels": {"app": "x"}}), true),
        (json!({"matchLabels": {"app": "y"}}), false),
        (
            json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["db"]}]}),
            false,
        ),
        (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}), true),
        (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
        (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
    ] {
        let parsed = LabelSelector::from_object(Some(&selector)).unwrap();
        assert_eq!(parsed.matches(&labels), selected, "{selector}");
    }
    assert_eq!(LabelSelector::from_object(None), None);
    let unknown = json!({"matchExpressions": [{"key": "tier", "operator": "Gt", "values": ["1"]}]});
    assert_eq!(LabelSelector::from_object(Some(&unknown)), None);
}

#[test]
fn a_selector_inside_an_object_is_refused_for_what_makes_no_sense() {
    let selector = json!({"matchLabels": {"a b": "c"}, "matchExpressions": [
        {"key": "k", "operator": "In"},
        {"key": "k", "operator": "Exists", "values": ["x"]},
        {"key": "k", "operator": "Near"},
    ]});
    let told: Vec<String> = LabelSelector::validate_object(&selector, &Path::new("spec.selector"))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        told[0].starts_with("spec.selector.matchLabels: Invalid value: \"a b\": name part must consist of")
    );
    assert_eq!(
        told[1..],
        [
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            "spec.selector.matchExpressions[2].operator: Invalid value: \"Near\": not a valid selector operator",
        ]
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_label_parser_panic(text in ".{0,40}") {
        let _ = LabelSelector::parse(&text);
    }

    #[test]
    fn no_text_makes_the_field_parser_panic(text in ".{0,40}") {
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn equal_and_unequal_divide_all_objects(key in "[a-z]{1,5}", value in "[a-z0-9]{0,5}", other in "[a-z0-9]{0,5}") {
        let object = json!({"metadata": {"labels": {key.clone(): other}}});
        let equal = LabelSelector::parse(&format!("{key}={value}")).unwrap();
        let unequal = LabelSelector::parse(&format!("{key}!={value}")).unwrap();
        prop_assert_ne!(equal.matches(&object), unequal.matches(&object));
    }

    #[test]
    fn a_set_of_one_is_an_equation(key in "[a-z]{1,5}", value in "[a-z0-9]{1,5}") {
        let set = LabelSelector::parse(&format!("{key} in ({value})")).unwrap();
        prop_assert_eq!(set, LabelSelector::parse(&format!("{key}={value}")).unwrap());
    }

    #[test]
    fn every_value_can_be_selected_once_it_is_escaped(value in ".{0,20}") {
        let escaped = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let selector = FieldSelector::parse(&format!("metadata.name={escaped}")).unwrap();
        prop_assert_eq!(selector.exactly("metadata.name"), Some(value.as_str()));
        prop_assert!(selector.matches(|_| value.clone()));
    }
}
