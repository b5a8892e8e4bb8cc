use super::*;
use crate::overlay::names::marked;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn set(name: &str, members: &[u8]) -> AddressSet {
    let addresses = members.iter().map(|m| format!("10.0.0.{m}/32").parse().unwrap()).collect();
    AddressSet { name: name.to_owned(), addresses, external_ids: marked([]) }
}

fn group(name: &str) -> LoadBalancerGroup {
    LoadBalancerGroup { name: name.to_owned() }
}

#[test]
fn the_same_row_of_two_parts_is_one_and_a_different_one_is_refused() {
    let mut rows = Rows::default().with(set("a", &[1]));
    assert_eq!(rows.join(Rows::default().with(set("a", &[1])).with(group("g"))), Ok(()));
    assert_eq!(rows.len(), 2);
    let clash = Clash { table: "Address_Set", key: "a".into() };
    assert_eq!(rows.join(Rows::default().with(set("a", &[2]))), Err(clash));
}

#[test]
fn a_replaced_part_says_what_is_different_and_nothing_else() {
    let mut union = Union::default();
    let first = Rows::default().with(set("a", &[1])).with(set("b", &[1])).with(group("g"));
    assert_eq!(
        union.replace("p", first.clone()).unwrap(),
        Change { put: first.clone(), gone: BTreeSet::new() }
    );
    assert!(union.replace("p", first).unwrap().is_empty());
    let change = union.replace("p", Rows::default().with(set("a", &[1])).with(set("b", &[2]))).unwrap();
    assert_eq!(change.put, Rows::default().with(set("b", &[2])));
    assert_eq!(change.gone, BTreeSet::from([("Load_Balancer_Group", "g".to_owned())]));
}

#[test]
fn a_shared_row_stays_until_the_last_part_goes() {
    let mut union = Union::default();
    let shared = Rows::default().with(set("a", &[1]));
    union.replace("p", shared.clone()).unwrap();
    assert!(union.replace("q", shared.clone()).unwrap().is_empty());
    assert!(union.replace("p", Rows::default()).unwrap().is_empty());
    assert_eq!(union.part_of("Address_Set", "a"), Some(&"q"));
    assert_eq!(union.replace("q", Rows::default()).unwrap().gone.len(), 1);
    assert!(!union.contains("Address_Set", "a"));
    assert_eq!(union.parts().count(), 0);
}

#[test]
fn a_clash_changes_nothing() {
    let mut union = Union::default();
    union.replace("p", Rows::default().with(set("a", &[1]))).unwrap();
    union.replace("q", Rows::default().with(set("a", &[2])).with(group("g"))).unwrap_err();
    assert_eq!(names(&union), [("Address_Set", "a".to_owned())].into());
    assert!(union.replace("p", Rows::default().with(set("a", &[1]))).unwrap().is_empty());
    assert!(union.replace("p", Rows::default()).is_ok());
    assert!(names(&union).is_empty());
}

/// All rows of a union; those that are in one must say of which part.
fn names<P: Ord>(union: &Union<P>) -> BTreeSet<RowName> {
    let tables = [AddressSet::TABLE, LoadBalancerGroup::TABLE];
    let all = tables.into_iter().flat_map(|table| union.keys(table).map(move |key| (table, key.to_owned())));
    let all: BTreeSet<RowName> = all.collect();
    assert!(all.iter().all(|(table, key)| union.contains(table, key)));
    all
}

/// What a union should be like: the names of its parts' rows, each of a part that has it.
fn is_of(union: &Union<u8>, parts: &BTreeMap<u8, Rows>) -> bool {
    let expected: BTreeSet<RowName> =
        parts.values().flat_map(|rows| rows.names_by_table().into_iter().flatten()).collect();
    let fits = |(table, key): &RowName| {
        let part = union.part_of(table, key).and_then(|part| parts.get(part));
        part.is_some_and(|rows| rows.contains(table, key))
    };
    names(union) == expected && expected.iter().all(fits)
}

fn part() -> impl Strategy<Value = Rows> {
    let sets = prop::collection::btree_map(0_u8..4, 0_u8..2, 0..4);
    (sets, prop::collection::btree_set(0_u8..3, 0..3)).prop_map(|(sets, groups)| {
        let rows =
            sets.iter().fold(Rows::default(), |rows, (name, m)| rows.with(set(&format!("s{name}"), &[*m])));
        groups.iter().fold(rows, |rows, name| rows.with(group(&format!("g{name}"))))
    })
}

proptest! {
    #[test]
    fn the_union_is_always_that_of_the_parts_and_its_changes_lead_there(
        steps in prop::collection::vec((0_u8..4, part()), 0..20),
    ) {
        let mut union = Union::default();
        let mut parts: BTreeMap<u8, Rows> = BTreeMap::new();
        let mut followed = Rows::default();
        let mut whole_change = Change::default();
        for (name, rows) in steps {
            let whole = |parts: &BTreeMap<u8, Rows>| {
                let mut whole = Rows::default();
                parts.values().try_for_each(|part| whole.join(part.clone())).map(|()| whole)
            };
            let mut wanted = parts.clone();
            wanted.insert(name, rows.clone());
            match (union.replace(name, rows), whole(&wanted)) {
                (Ok(change), Ok(expected)) => {
                    whole_change.then(change.clone());
                    let mut at_once = Rows::default();
                    at_once.overwrite(whole_change.put.clone());
                    prop_assert_eq!(&at_once, &expected, "changes joined into one lead there too");
                    followed.overwrite(change.put);
                    for (table, key) in change.gone {
                        followed.remove(table, &key);
                    }
                    prop_assert_eq!(&followed, &expected);
                    parts = wanted;
                    prop_assert!(is_of(&union, &parts), "{:?} instead of {:?}", union, parts);
                }
                (Err(_), Err(_)) => prop_assert!(is_of(&union, &parts), "{:?} instead of {:?}", union, parts),
                (got, expected) => prop_assert!(false, "{:?} instead of {:?}", got, expected),
            }
        }
    }
}
