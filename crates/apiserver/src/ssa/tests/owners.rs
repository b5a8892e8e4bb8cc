use http::StatusCode;
use serde_json::{Value, json};

use super::{LATER, NOW, config, entry, gadget, stored};
use crate::ssa::{Target, apply, keep_times, manager_name, track_update};

#[test]
fn a_write_that_changes_nothing_keeps_its_times() {
    let live = stored(track_update(&gadget(), &Value::Null, config(json!({"size": "s"})), "a", NOW));
    let again = track_update(&gadget(), &live, live.clone(), "b", LATER);
    assert_eq!(again, live);

    let applied =
        stored(apply(&gadget(), &Value::Null, &config(json!({"size": "s"})), "a", false, NOW).unwrap());
    let mut touched = applied.clone();
    touched["metadata"]["managedFields"][0]["time"] = json!(LATER);
    let mut changed = touched.clone();
    keep_times(&applied, &mut touched);
    assert_eq!(touched, applied, "times alone are no change");
    changed["spec"]["size"] = json!("m");
    let expected = changed.clone();
    keep_times(&applied, &mut changed);
    assert_eq!(changed, expected, "a change keeps its new times");
}

#[test]
fn an_entry_that_only_confirms_what_is_there_has_no_time() {
    let live =
        stored(apply(&gadget(), &Value::Null, &config(json!({"size": "s"})), "a", false, NOW).unwrap());
    let both = apply(&gadget(), &live, &config(json!({"size": "s"})), "b", false, LATER).unwrap();
    assert_eq!(entry(&both, "b").unwrap().get("time"), None);
    assert_eq!(entry(&both, "a").unwrap()["time"], NOW);
}

#[test]
fn a_conflict_is_a_409_that_names_every_field_and_owner() {
    let target = gadget();
    let live =
        stored(track_update(&target, &Value::Null, config(json!({"size": "s", "replicas": 1})), "u", NOW));
    let error = apply(&target, &live, &config(json!({"size": "m"})), "b", false, NOW).unwrap_err();
    assert_eq!(error.code, StatusCode::CONFLICT);
    assert_eq!(error.reason, "Conflict");
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"u\" using ssa.test/v1: .spec.size"
    );
    assert_eq!(
        error.details,
        Some(json!({"causes": [{
            "reason": "FieldManagerConflict",
            "message": "conflict with \"u\" using ssa.test/v1",
            "field": ".spec.size",
        }]}))
    );
    let both =
        apply(&target, &live, &config(json!({"size": "m", "replicas": 2})), "b", false, NOW).unwrap_err();
    assert_eq!(
        both.message,
        "Apply failed with 2 conflicts: conflicts with \"u\" using ssa.test/v1:\n- .spec.replicas\n- .spec.size"
    );
}

#[test]
fn owners_in_versions_no_longer_served_are_forgotten() {
    let old = Target { api_version: "ssa.test/v1alpha1", ..gadget() };
    let mut object = config(json!({"size": "s"}));
    object["apiVersion"] = json!("ssa.test/v1alpha1");
    let live = stored(track_update(&old, &Value::Null, object, "early", NOW));
    let served = ["ssa.test/v1".to_owned()];
    let target = Target { served: &served, ..gadget() };
    let mut changed = live.clone();
    changed["spec"]["replicas"] = json!(3);
    let changed = track_update(&target, &live, changed, "late", LATER);
    assert!(entry(&changed, "early").is_none());
    assert!(entry(&changed, "late").is_some());
}

#[test]
fn an_object_its_schema_cannot_read_is_stored_untracked() {
    let broken = config(json!({"tags": [{"a": "map"}]}));
    let result = track_update(&gadget(), &Value::Null, broken.clone(), "u", NOW);
    assert_eq!(result, broken);
}

#[test]
fn a_write_without_a_name_is_tracked_as_unknown() {
    let live = track_update(&gadget(), &Value::Null, config(json!({"size": "s"})), "", NOW);
    assert!(entry(&live, "unknown").is_some());
}

#[test]
fn an_apply_of_another_kind_is_refused_by_its_type() {
    for (api_version, kind, shown) in [
        ("v1", "Gadget", "/v1, Kind=Gadget"),
        ("ssa.test/v1", "Widget", "ssa.test/v1, Kind=Widget"),
        ("a/b/c", "Gadget", "/, Kind="),
    ] {
        let body = json!({"apiVersion": api_version, "kind": kind});
        let error = apply(&gadget(), &Value::Null, &body, "a", false, NOW).unwrap_err();
        assert_eq!(error.message, format!("invalid object type: {shown}"));
        assert_eq!(error.code, StatusCode::BAD_REQUEST);
    }
}

#[test]
fn the_manager_is_the_one_named_or_else_the_program() {
    let long = "x".repeat(200);
    for (named, agent, expected) in [
        ("me", "kubectl/v1.34", "me"),
        ("", "kubectl/v1.34 (linux/amd64)", "kubectl"),
        ("", "Mozilla 5.0", "Mozilla 5.0"),
        ("", "", ""),
        ("", "a\u{1}b/c", "ab"),
        ("", long.as_str(), &long[..128]),
    ] {
        assert_eq!(manager_name(named, agent), expected, "{named:?} {agent:?}");
    }
}

#[test]
fn the_creator_of_a_daemon_set_owns_its_template_generation() {
    let resource = crate::builtin::resources()
        .into_iter()
        .find(|resource| resource.kind == "DaemonSet")
        .expect("a built-in kind");
    let target = Target::of(&resource, crate::resource::Through::Main, "apps/v1", &[]);
    let wanted = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"},
        "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"containers": []}}, "updateStrategy": {}}});
    let created = track_update(&target, &Value::Null, wanted.clone(), "u", NOW);
    let annotation = "f:deprecated.daemonset.template.generation";
    let owned = &entry(&created, "u").unwrap()["fieldsV1"]["f:metadata"];
    assert_eq!(*owned, json!({"f:annotations": {".": {}, annotation: {}}}));
    assert_eq!(created["metadata"].get("annotations"), None, "setting it is not for field management");
}
