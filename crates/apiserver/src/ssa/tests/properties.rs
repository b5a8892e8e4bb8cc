use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{GADGET, LATER, NOW, config, entry, gadget, stored};
use crate::ssa::fields::{Element, Set};
use crate::ssa::managed;
use crate::ssa::typed::field_set;
use crate::ssa::types::Type;
use crate::ssa::{apply, track_update};

fn word() -> impl Strategy<Value = Value> {
    prop::sample::select(vec!["a", "b", "c", "<&>"]).prop_map(|word| json!(word))
}

fn words() -> impl Strategy<Value = Value> {
    prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..=4).prop_shuffle().prop_map(|words| json!(words))
}

fn strings() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[xyz]", word(), 0..3).prop_map(|map| json!(map))
}

fn backends() -> impl Strategy<Value = Value> {
    let one = (prop::option::of(0..3), prop::option::of(words()), prop::option::of(strings()));
    prop::collection::btree_map("[pqr]", one, 0..3).prop_map(|items| {
        let items = items.into_iter().map(|(name, (weight, hosts, labels))| {
            object([
                ("name", Some(json!(name))),
                ("weight", weight.map(|w| json!(w))),
                ("hosts", hosts),
                ("labels", labels),
            ])
        });
        Value::Array(items.collect())
    })
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// A configuration of the test kind, leaving out as often as not.
fn spec() -> impl Strategy<Value = Value> {
    (
        prop::option::of(word()),
        prop::option::of(0..3),
        prop::option::of(words()),
        prop::option::of(words()),
        prop::option::of(strings()),
        prop::option::of(strings()),
        prop::option::of(backends()),
        prop::option::of((prop::option::of(word()), prop::option::of(word()))),
    )
        .prop_map(|(size, replicas, tags, silent, settings, limits, backends, nested)| {
            object([
                ("size", size),
                ("replicas", replicas.map(|n| json!(n))),
                ("tags", tags),
                ("silent", silent),
                ("settings", settings),
                ("limits", limits),
                ("backends", backends),
                ("nested", nested.map(|(a, x)| object([("a", a), ("deep", Some(object([("x", x)])))]))),
            ])
        })
}

fn applied(live: &Value, spec: &Value, manager: &str, force: bool, now: &str) -> Value {
    stored(apply(&gadget(), live, &config(spec.clone()), manager, force, now).expect("applied"))
}

fn owned(object: &Value, manager: &str) -> Set {
    entry(object, manager)
        .map(|entry| Set::from_fields(&entry["fieldsV1"]).expect("readable"))
        .unwrap_or_default()
}

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        "[a-c.~/:]{1,3}".prop_map(Element::Field),
        prop::collection::btree_map("[kl]", leaf(), 1..3)
            .prop_map(|keys| Element::Key(keys.into_iter().collect())),
        leaf().prop_map(Element::Item),
        (0..3i64).prop_map(Element::Index),
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        "[a<&\"\\\\é]{0,2}".prop_map(|text| json!(text)),
        (-2..3i32).prop_map(|n| json!(n)),
        any::<bool>().prop_map(|b| json!(b)),
        Just(json!(1.5)),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..8)
        .prop_map(|paths| Set::of(paths.iter().map(Vec::as_slice)))
}

proptest! {
    #[test]
    fn a_set_survives_being_written_and_read(set in set()) {
        prop_assert_eq!(Set::from_fields(&set.to_fields()), Ok(set));
    }

    #[test]
    fn sets_keep_the_laws_of_sets(a in set(), b in set()) {
        let (both, left, right) = (a.intersection(&b), a.difference(&b), b.difference(&a));
        for path in a.paths() {
            prop_assert!(a.union(&b).has(&path));
            prop_assert_eq!(both.has(&path), b.has(&path));
            prop_assert_eq!(left.has(&path), !b.has(&path));
        }
        prop_assert!(left.intersection(&b).is_empty());
        prop_assert_eq!(both.union(&left).union(&right).to_fields(), a.union(&b).to_fields());
        for path in a.recursive_difference(&b).paths() {
            prop_assert!((1..=path.len()).all(|to| !b.has(&path[..to])));
        }
    }

    #[test]
    fn applying_twice_is_applying_once(before in spec(), spec in spec()) {
        let live = applied(&Value::Null, &before, "other", false, NOW);
        let once = applied(&live, &spec, "me", true, NOW);
        let twice = applied(&once, &spec, "me", false, LATER);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn applying_nothing_removes_what_only_the_applier_had(spec in spec()) {
        let live = applied(&Value::Null, &spec, "me", false, NOW);
        let rest = applied(&live, &json!({}), "me", false, LATER);
        let nothing = Type::object(&GADGET);
        let left = field_set(&json!({"spec": rest.get("spec").cloned().unwrap_or(json!({}))}), nothing);
        let left = left.difference(&Set::of([[Element::field("spec")].as_slice()]));
        // An emptied list stays behind as what it was, as an owner-less empty list or nothing.
        prop_assert!(
            left.paths().iter().all(|path| rest.pointer(&pointer(path)).is_none_or(hollow)),
            "{} left of {}", rest, live
        );
        prop_assert!(owned(&rest, "me").difference(&Set::of([[Element::field("spec")].as_slice()])).is_empty());
    }

    #[test]
    fn applying_nothing_spares_what_others_have(mine in spec(), theirs in spec()) {
        let both = applied(&applied(&Value::Null, &mine, "me", false, NOW), &theirs, "them", true, NOW);
        let rest = applied(&both, &json!({}), "me", false, LATER);
        let said = config(theirs);
        let after = field_set(&rest, Type::object(&GADGET));
        // What they mentioned only as empty may go with what I had in it.
        let filled = |path: &&Vec<Element>| !said.pointer(&pointer(path)).is_some_and(hollow);
        for path in owned(&both, "them").paths().iter().filter(filled) {
            prop_assert!(owned(&rest, "them").has(path) && after.has(path), "{}", crate::ssa::show(path));
        }
    }

    #[test]
    fn force_takes_what_it_applies(theirs in spec(), mine in spec()) {
        let live = applied(&Value::Null, &theirs, "them", false, NOW);
        let taken = applied(&live, &mine, "me", true, LATER);
        let said = field_set(&config(mine.clone()), Type::object(&GADGET));
        let mine_now = owned(&taken, "me");
        for path in said.paths().iter().filter(|path| path[0] == Element::field("spec")) {
            prop_assert!(mine_now.has(path), "{}", crate::ssa::show(path));
        }
        // Nobody is left with a claim to another value.
        let again = apply(&gadget(), &taken, &config(mine), "me", false, LATER);
        prop_assert!(again.is_ok());
    }

    #[test]
    fn a_conflict_changes_hands_only_by_force(theirs in spec(), mine in spec()) {
        let live = applied(&Value::Null, &theirs, "them", false, NOW);
        if let Ok(object) = apply(&gadget(), &live, &config(mine), "me", false, LATER) {
            prop_assert_eq!(owned(&object, "them"), owned(&live, "them"));
        }
    }

    #[test]
    fn a_plain_write_owns_what_it_changed(old in spec(), new in spec()) {
        let live = stored(track_update(&gadget(), &Value::Null, config(old), "first", NOW));
        let mut wanted = live.clone();
        wanted["spec"] = new;
        let written = track_update(&gadget(), &live, wanted.clone(), "second", LATER);
        managed::remove_from(&mut wanted);
        let mut bare = written.clone();
        managed::remove_from(&mut bare);
        prop_assert_eq!(&bare, &wanted, "tracking changes nothing else");
        let changed = crate::ssa::compare::compare(&live, &wanted, Type::object(&GADGET));
        let (first, second) = (owned(&written, "first"), owned(&written, "second"));
        for path in changed.added.union(&changed.modified).paths() {
            prop_assert!(second.has(&path) && !first.has(&path), "{}", crate::ssa::show(&path));
        }
        for path in changed.removed.paths().iter().filter(|path| path[0] == Element::field("spec")) {
            prop_assert!(!second.has(path) && !first.has(path), "{}", crate::ssa::show(path));
        }
        let again = track_update(&gadget(), &stored(written.clone()), stored(written.clone()), "third", LATER);
        prop_assert_eq!(again, written);
    }
}

fn pointer(path: &[Element]) -> String {
    path.iter()
        .map(|element| match element {
            Element::Field(name) => format!("/{name}"),
            Element::Key(_) | Element::Item(_) | Element::Index(_) => "/?".to_owned(),
        })
        .collect()
}

fn hollow(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}
