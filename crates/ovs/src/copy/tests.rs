use super::*;
use crate::schema::Schema;
use crate::spec::Index;
use crate::table::Key;
use crate::value::Datum;
use serde_json::json;

mod toy {
    #![allow(missing_docs, unreachable_pub, reason = "a table of a test")]
    use super::*;
    crate::tables! { "Toy";
        Thing = "Thing" by Key::Columns(&["name"]) => {
            name: String,
            ids: crate::tables::Strings,
        }
        Other = "Other" by Key::Columns(&["name"]) => { name: String, }
    }
}
use toy::{Other, Thing};

fn start() -> (Replica, Arc<Layout>) {
    let spec = Spec::new("Toy")
        .table::<Thing>()
        .table::<Other>()
        .index::<Thing>(Index::MapKey("ids", "colour".into()));
    let map = json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}});
    let schema = json!({ "name": "Toy", "version": "1", "tables": {
        "Thing": { "isRoot": true, "columns": { "name": {"type": "string"}, "ids": map } },
        "Other": { "isRoot": true, "columns": { "name": {"type": "string"} } },
    }});
    let layout = Layout::new(&spec, Arc::new(Schema::parse(&schema).unwrap())).unwrap();
    (Replica::new(&spec), Arc::new(layout))
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn thing(n: u128, name: &str, colour: &str) -> (usize, Uuid, RowChange) {
    (0, id(n), RowChange::Is(Box::new([Datum::one(name), Datum::map([("colour", colour)])])))
}

fn rename(n: u128, name: &str) -> (usize, Uuid, RowChange) {
    (0, id(n), RowChange::Differs(vec![(0, Datum::one(name))]))
}

fn apply(
    replica: &mut Replica,
    layout: &Arc<Layout>,
    whole: bool,
    rows: Vec<(usize, Uuid, RowChange)>,
) -> usize {
    replica.apply(layout, whole, Update { rows }).unwrap()
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.all::<Thing>().unwrap().into_iter().map(|t| t.row.name).collect()
}

#[test]
fn a_snapshot_does_not_change_when_the_copy_does() {
    let (mut replica, layout) = start();
    apply(&mut replica, &layout, true, vec![thing(1, "a", "red")]);
    let before = replica.snapshot();
    apply(&mut replica, &layout, false, vec![rename(1, "b"), thing(2, "c", "red")]);
    assert_eq!(names(&before), ["a"]);
    assert_eq!(names(&replica.snapshot()), ["b", "c"]);
    assert!(before.sequence() < replica.snapshot().sequence());
}

#[test]
fn an_update_that_does_not_fit_changes_nothing() {
    let (mut replica, layout) = start();
    apply(&mut replica, &layout, true, vec![thing(1, "a", "red")]);
    let rows = vec![rename(1, "b"), rename(9, "x")];
    let refused = replica.apply(&layout, false, Update { rows }).unwrap_err();
    assert_eq!(refused, Inconsistent { table: "Thing", uuid: id(9) });
    assert_eq!(names(&replica.snapshot()), ["a"]);
}

#[test]
fn indexes_follow_every_change() {
    let (mut replica, layout) = start();
    apply(
        &mut replica,
        &layout,
        true,
        vec![thing(1, "a", "red"), thing(2, "b", "red"), thing(3, "c", "blue")],
    );
    let colour = Index::MapKey("ids", "colour".into());
    let count = |replica: &Replica, colour_is: &str| {
        let snapshot = replica.snapshot();
        snapshot.table("Thing").unwrap().find(&colour, &[Datum::one(colour_is)]).len()
    };
    assert_eq!((count(&replica, "red"), count(&replica, "blue")), (2, 1));
    apply(
        &mut replica,
        &layout,
        false,
        vec![thing(2, "b", "blue"), (0, id(3), RowChange::Gone), rename(1, "z")],
    );
    assert_eq!((count(&replica, "red"), count(&replica, "blue")), (1, 1));
    let snapshot = replica.snapshot();
    assert_eq!(snapshot.named::<Thing>("z").unwrap().unwrap().uuid, id(1));
    assert_eq!(snapshot.named::<Thing>("a").unwrap(), None);
    assert_eq!(snapshot.find::<Thing, _>(&Thing::name(), &"b".to_owned()).unwrap().len(), 1);
}

#[test]
fn loading_everything_again_shows_watchers_only_what_differs() {
    let (mut replica, layout) = start();
    apply(
        &mut replica,
        &layout,
        true,
        vec![thing(1, "a", "red"), thing(2, "b", "red"), thing(3, "c", "red")],
    );
    let mut watcher = replica.watch(&["Thing"]);
    assert_eq!(watcher.now().len(), 3, "what is there already comes first");
    let changed = apply(
        &mut replica,
        &layout,
        true,
        vec![thing(1, "a", "red"), thing(2, "B", "red"), thing(4, "d", "red")],
    );
    assert_eq!(changed, 3);
    let seen: Vec<(Uuid, bool, bool)> =
        watcher.now().iter().map(|c| (c.uuid, c.old.is_some(), c.new.is_some())).collect();
    assert_eq!(seen, [(id(2), true, true), (id(3), true, false), (id(4), false, true)]);
    assert_eq!(
        apply(
            &mut replica,
            &layout,
            true,
            vec![thing(1, "a", "red"), thing(2, "B", "red"), thing(4, "d", "red")]
        ),
        0
    );
    assert!(watcher.now().is_empty());
}

#[test]
fn a_slow_watcher_gets_one_net_change_per_row() {
    let (mut replica, layout) = start();
    apply(&mut replica, &layout, true, vec![thing(1, "a", "red"), thing(2, "b", "red")]);
    let mut watcher = replica.watch(&[]);
    watcher.now();
    for n in 0..1000 {
        apply(&mut replica, &layout, false, vec![rename(1, &format!("a{n}"))]);
    }
    apply(&mut replica, &layout, false, vec![rename(2, "x"), thing(3, "short-lived", "red")]);
    apply(&mut replica, &layout, false, vec![rename(2, "b"), (0, id(3), RowChange::Gone)]);
    let seen = watcher.now();
    assert_eq!(seen.len(), 1, "back where it was, or come and gone, is no change: {seen:?}");
    let (old, new) = seen[0].typed::<Thing>().unwrap().unwrap();
    assert_eq!((old.unwrap().name, new.unwrap().name), ("a".to_owned(), "a999".to_owned()));
    assert!(seen[0].typed::<Other>().is_none());
}

#[test]
fn a_watcher_of_one_table_hears_nothing_of_the_others() {
    let (mut replica, layout) = start();
    let mut watcher = replica.watch(&["Other"]);
    apply(&mut replica, &layout, true, vec![thing(1, "a", "red")]);
    assert!(watcher.now().is_empty());
    apply(&mut replica, &layout, false, vec![(1, id(7), RowChange::Is(Box::new([Datum::one("o")])))]);
    assert_eq!(watcher.now().len(), 1);
}
