//! The store against a model that remembers everything.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Change, Event, Fields, HISTORY, Key, LogError, Store, Stored};

const TABLES: [&str; 3] = ["pods", "nodes", "widgets.example.com"];

/// One change a client could make.
#[derive(Clone, Debug)]
enum Op {
    Put { table: usize, name: usize, payload: u8, owner: Option<usize> },
    Delete { table: usize, name: usize },
}

fn an_op() -> impl Strategy<Value = Op> {
    let table = 0..TABLES.len();
    let name = 0..5_usize;
    prop_oneof![
        3 => (table.clone(), name.clone(), any::<u8>(), proptest::option::of(0..5_usize))
            .prop_map(|(table, name, payload, owner)| Op::Put { table, name, payload, owner }),
        1 => (table, name).prop_map(|(table, name)| Op::Delete { table, name }),
    ]
}

fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(an_op(), 1..most)
}

fn place(table: usize, name: usize) -> Key {
    // Cluster-scoped ones too: an empty namespace sorts first and must not swallow the others.
    let namespace = if TABLES[table] == "nodes" { "" } else { ["a", "ab", "b"][name % 3] };
    Key::new(namespace, &format!("n{name}"))
}

fn uid(table: usize, name: usize) -> String {
    format!("uid-{table}-{name}")
}

fn object(table: usize, name: usize, payload: u8, owner: Option<usize>) -> Value {
    let key = place(table, name);
    let mut object = json!({
        "kind": "Thing",
        "metadata": {"name": key.name, "uid": uid(table, name), "labels": {"payload": payload.to_string()}},
        "spec": {"text": format!("line\nbreak \"{payload}\"")},
    });
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = json!(key.namespace);
    }
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = json!([{"uid": uid(0, owner)}]);
    }
    object
}

fn fields(_: &str, object: &Value) -> Fields {
    vec![("spec.text", object["spec"]["text"].as_str().unwrap_or_default().to_owned())]
}

/// Table and key to the object as it was stored.
type Model = BTreeMap<(String, Key), Value>;

/// Does `op` on both, and gives the event the store made of it.
fn perform(store: &mut Store, model: &mut Model, op: &Op) -> Option<std::sync::Arc<Event>> {
    match *op {
        Op::Put { table, name, payload, owner } => {
            let object = object(table, name, payload, owner);
            let derived = fields(TABLES[table], &object);
            let event = store.put(TABLES[table], object, derived).expect("a put");
            model.insert((TABLES[table].to_owned(), place(table, name)), event.object.object());
            Some(event)
        }
        Op::Delete { table, name } => {
            let key = place(table, name);
            let event = store.delete(TABLES[table], &key).expect("a delete");
            let removed = model.remove(&(TABLES[table].to_owned(), key));
            assert_eq!(event.is_some(), removed.is_some());
            event
        }
    }
}

fn live(store: &Store) -> Model {
    store
        .tables()
        .flat_map(|(name, table)| {
            table.all().map(|stored| ((name.clone(), stored.key.clone()), stored.object()))
        })
        .collect()
}

fn of_table(model: &Model, table: &str) -> BTreeMap<Key, Value> {
    model
        .iter()
        .filter(|((in_table, _), _)| in_table == table)
        .map(|((_, key), object)| (key.clone(), object.clone()))
        .collect()
}

/// Everything derived from the objects, for comparing two stores.
fn derived(store: &Store) -> Vec<(String, Stored)> {
    store
        .tables()
        .flat_map(|(name, table)| {
            table.all().map(|stored| {
                let copy = Stored {
                    key: stored.key.clone(),
                    revision: stored.revision,
                    json: stored.json.clone(),
                    uid: stored.uid.clone(),
                    labels: stored.labels.clone(),
                    fields: stored.fields.clone(),
                    owners: stored.owners.clone(),
                };
                (name.clone(), copy)
            })
        })
        .collect()
}

fn assert_same(one: &Store, other: &Store) {
    assert_eq!(one.revision(), other.revision());
    assert_eq!(format!("{:?}", derived(one)), format!("{:?}", derived(other)));
    for table in 0..TABLES.len() {
        for name in 0..5 {
            let uid = uid(table, name);
            assert_eq!(one.find_uid(&uid), other.find_uid(&uid), "{uid}");
            assert_eq!(one.dependents_of(&uid), other.dependents_of(&uid), "{uid}");
        }
    }
}

fn scratch() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn reopened(path: &Path) -> Store {
    Store::open(path, fields).expect("the data file opens")
}

fn some(table: &str, name: &str, payload: u8) -> Value {
    json!({"kind": table, "metadata": {"name": name, "namespace": "a", "uid": format!("{table}/{name}")}, "n": payload})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn revisions_only_rise_and_objects_carry_the_one_they_were_stored_under(ops in ops(60)) {
        let (mut store, mut model) = (Store::in_memory(), Model::new());
        for op in &ops {
            let before = store.revision();
            let event = perform(&mut store, &mut model, op);
            prop_assert_eq!(store.revision(), before + u64::from(event.is_some()));
            if let Some(event) = event {
                prop_assert_eq!(event.revision(), store.revision());
                let written = event.object.object()["metadata"]["resourceVersion"].clone();
                prop_assert_eq!(written, json!(event.revision().to_string()));
            }
            prop_assert_eq!(live(&store), model.clone());
        }
    }

    #[test]
    fn every_past_state_inside_the_window_can_be_shown_again(ops in ops(60), forget in 0..60_u64) {
        let (mut store, mut model) = (Store::in_memory(), Model::new());
        let mut recorded = vec![Model::new()];
        for op in &ops {
            if perform(&mut store, &mut model, op).is_some() {
                recorded.push(model.clone());
            }
        }
        let forget = forget.min(store.revision());
        store.forget_until(forget);
        for name in TABLES {
            let Some(table) = store.table(name) else { continue };
            for (revision, past) in recorded.iter().enumerate() {
                match table.as_of(revision as u64) {
                    Err(floor) => {
                        prop_assert_eq!(floor, table.floor);
                        prop_assert!((revision as u64) < floor, "revision {} of {} is refused", revision, name);
                    }
                    Ok(shown) => {
                        prop_assert!(revision as u64 >= forget, "a forgotten revision is shown");
                        let shown: BTreeMap<Key, Value> =
                            shown.into_iter().map(|(key, stored)| (key, stored.object())).collect();
                        prop_assert_eq!(shown, of_table(past, name), "{} as of {}", name, revision);
                    }
                }
            }
        }
    }

    #[test]
    fn replaying_the_changes_since_any_position_gives_the_present(ops in ops(60), forget in 0..60_u64) {
        let (mut store, mut model) = (Store::in_memory(), Model::new());
        let mut recorded = vec![Model::new()];
        for op in &ops {
            if perform(&mut store, &mut model, op).is_some() {
                recorded.push(model.clone());
            }
        }
        let forget = forget.min(store.revision());
        store.forget_until(forget);
        for name in TABLES {
            let Some(table) = store.table(name) else { continue };
            for (position, past) in recorded.iter().enumerate() {
                let Ok(events) = table.since(position as u64) else {
                    prop_assert!((position as u64) < table.floor);
                    continue;
                };
                let mut objects = of_table(past, name);
                let mut last = position as u64;
                for event in events {
                    prop_assert!(event.revision() > last, "out of order");
                    last = event.revision();
                    let key = event.object.key.clone();
                    let before = event.before.as_ref().map(|before| before.object());
                    prop_assert_eq!(before.as_ref(), objects.get(&key));
                    match event.change {
                        Change::Added => prop_assert!(objects.insert(key, event.object.object()).is_none()),
                        Change::Modified => prop_assert!(objects.insert(key, event.object.object()).is_some()),
                        Change::Deleted => prop_assert!(objects.remove(&key).is_some()),
                    }
                }
                prop_assert_eq!(objects, of_table(&model, name));
            }
        }
    }

    #[test]
    fn a_reopened_data_file_gives_everything_that_was_acknowledged(
        ops in ops(200),
        kills in proptest::collection::vec(0..200_usize, 0..4),
    ) {
        let directory = scratch();
        let path = directory.path().join("data");
        let (mut reference, mut model) = (Store::in_memory(), Model::new());
        let mut store = reopened(&path);
        for (nth, op) in ops.iter().enumerate() {
            perform(&mut reference, &mut model, op);
            let mut seen = live(&store);
            perform(&mut store, &mut seen, op);
            if kills.contains(&nth) {
                drop(store);
                store = reopened(&path);
                assert_same(&store, &reference);
            }
        }
        drop(store);
        // Twice: the first opening may have rewritten the file.
        assert_same(&reopened(&path), &reference);
        assert_same(&reopened(&path), &reference);
    }

    #[test]
    fn a_write_the_kill_interrupted_is_cut_off_wherever_it_was_torn(ops in ops(40), cut in 1..400_usize) {
        let directory = scratch();
        let path = directory.path().join("data");
        let mut store = reopened(&path);
        let mut model = Model::new();
        for op in &ops {
            perform(&mut store, &mut model, op);
        }
        let whole = std::fs::metadata(&path).expect("the file").len();
        let acknowledged = store.revision();
        store.put("pods", object(0, 0, 7, None), Vec::new()).expect("a put");
        drop(store);
        let length = std::fs::metadata(&path).expect("the file").len();
        // The last record, with at least its newline missing.
        let torn = length - (cut as u64).min(length - whole);
        std::fs::OpenOptions::new().write(true).open(&path).expect("the file").set_len(torn).expect("cut");
        let mut store = reopened(&path);
        prop_assert_eq!(store.revision(), acknowledged);
        prop_assert_eq!(live(&store), model.clone());
        // What is written next starts on a line of its own.
        store.put("nodes", object(1, 1, 9, None), Vec::new()).expect("a put");
        drop(store);
        prop_assert_eq!(reopened(&path).revision(), acknowledged + 1);
    }
}

#[test]
fn positions_the_history_has_outgrown_are_refused_and_the_others_have_no_gaps() {
    let mut store = Store::in_memory();
    let extra = 100;
    for nth in 0..HISTORY + extra {
        store.put("pods", some("pods", &format!("p{}", nth % 7), 0), Vec::new()).expect("a put");
        // Another table's changes are no gaps in this one's, and forget nothing of it.
        store.put("nodes", some("nodes", "n", 0), Vec::new()).expect("a put");
    }
    let table = store.table("pods").expect("the table");
    let oldest = table.floor;
    assert_eq!(oldest, 2 * extra as u64 - 1, "the last change that was forgotten");
    assert_eq!(table.since(oldest - 1).map(|_| ()), Err(oldest));
    let events: Vec<u64> = table.since(oldest).expect("servable").map(|event| event.revision()).collect();
    assert_eq!(events.len(), HISTORY);
    assert!(events.windows(2).all(|pair| pair[1] == pair[0] + 2), "a gap");
    assert_eq!(table.as_of(oldest - 1).map(|_| ()), Err(oldest));
    assert!(table.as_of(oldest).is_ok());
}

#[test]
fn a_watcher_that_has_heard_everything_outlives_a_compaction() {
    let mut store = Store::in_memory();
    store.put("pods", some("pods", "one", 0), Vec::new()).expect("a put");
    let heard = store.revision();
    store.put("pods", some("pods", "two", 0), Vec::new()).expect("a put");
    let all = store.revision();
    for _ in 0..3 {
        store.put("nodes", some("nodes", "n", 0), Vec::new()).expect("a put");
    }
    store.forget_until(store.revision());
    let floor = store.revision();
    store.put("pods", some("pods", "three", 0), Vec::new()).expect("a put");
    let table = store.table("pods").expect("the table");
    assert_eq!(table.since(all).map(|_| ()), Err(floor), "nobody may begin there");
    let unheard: Vec<&str> =
        table.resume(all).expect("goes on").map(|e| e.object.key.name.as_str()).collect();
    assert_eq!(unheard, ["three"]);
    assert_eq!(table.resume(heard).map(|_| ()), Err(floor), "it has not heard of two");
}

#[test]
fn the_last_words_of_a_dropped_table_reach_its_watchers() {
    let mut store = Store::in_memory();
    store.put("widgets.example.com", some("Widget", "w", 0), Vec::new()).expect("a put");
    let heard = store.table("widgets.example.com").expect("the table").subscribe();
    store.delete("widgets.example.com", &Key::new("a", "w")).expect("a delete");
    store.drop_table("widgets.example.com");
    // A table of the same name is another table.
    store.put("widgets.example.com", some("Widget", "w", 1), Vec::new()).expect("a put");
    let signal = heard.borrow().clone();
    let farewell = signal.farewell.expect("a farewell");
    assert_eq!(farewell.last().map(|event| event.change), Some(Change::Deleted));
    assert_eq!(store.find_uid("Widget/w"), Some(("widgets.example.com".to_owned(), Key::new("a", "w"))));
}

#[test]
fn a_file_that_is_mostly_history_is_rewritten_and_loses_nothing() {
    let directory = scratch();
    let path = directory.path().join("data");
    let mut store = reopened(&path);
    for nth in 0..200_u8 {
        store.put("pods", some("pods", "busy", nth), Vec::new()).expect("a put");
    }
    store.put("nodes", some("nodes", "quiet", 1), Vec::new()).expect("a put");
    // The newest revision belongs to something that is gone: only the counter remembers it.
    store.put("pods", some("pods", "gone", 1), Vec::new()).expect("a put");
    store.delete("pods", &Key::new("a", "gone")).expect("a delete");
    let (revision, before) = (store.revision(), live(&store));
    drop(store);
    let long = std::fs::metadata(&path).expect("the file").len();
    let rewritten = reopened(&path);
    let short = std::fs::metadata(&path).expect("the file").len();
    assert!(short * 20 < long, "{long} bytes became {short}");
    assert_eq!((rewritten.revision(), live(&rewritten)), (revision, before.clone()));
    drop(rewritten);
    let mut again = reopened(&path);
    assert_eq!((again.revision(), live(&again)), (revision, before));
    let next = again.put("pods", some("pods", "new", 1), Vec::new()).expect("a put").revision();
    assert_eq!(next, revision + 1, "no revision is used twice");
}

/// It holds Secrets.
#[test]
fn the_data_file_is_its_owners_alone_also_after_a_rewrite_and_when_it_was_open_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let directory = scratch();
    let path = directory.path().join("data");
    let mode = || std::fs::metadata(&path).expect("the file").permissions().mode() & 0o777;
    let mut store = reopened(&path);
    assert_eq!(mode(), 0o600);
    for nth in 0..100_u8 {
        store.put("pods", some("pods", "busy", nth), Vec::new()).expect("a put");
    }
    drop(store);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("another mode");
    let rewriting = directory.path().join("data.rewriting");
    std::fs::write(&rewriting, "").expect("what a rewrite left");
    std::fs::set_permissions(&rewriting, std::fs::Permissions::from_mode(0o644)).expect("another mode");
    drop(reopened(&path));
    assert_eq!(mode(), 0o600);
}

#[test]
fn a_rewrite_that_was_interrupted_is_as_if_it_had_never_begun() {
    let directory = scratch();
    let path = directory.path().join("data");
    let mut store = reopened(&path);
    for nth in 0..100_u8 {
        store.put("pods", some("pods", "busy", nth), Vec::new()).expect("a put");
    }
    let (revision, before) = (store.revision(), live(&store));
    drop(store);
    std::fs::write(directory.path().join("data.rewriting"), "{\"op\":\"revision\",\"revi")
        .expect("half a rewrite");
    let store = reopened(&path);
    assert_eq!((store.revision(), live(&store)), (revision, before));
}

#[test]
fn a_file_that_cannot_be_rewritten_is_used_as_it_is() {
    let directory = scratch();
    let path = directory.path().join("data");
    let mut store = reopened(&path);
    for nth in 0..100_u8 {
        store.put("pods", some("pods", "busy", nth), Vec::new()).expect("a put");
    }
    let (revision, before) = (store.revision(), live(&store));
    drop(store);
    std::fs::create_dir(directory.path().join("data.rewriting")).expect("something in the way");
    let mut store = reopened(&path);
    assert_eq!((store.revision(), live(&store)), (revision, before));
    store.put("pods", some("pods", "new", 1), Vec::new()).expect("a put");
    let before = live(&store);
    drop(store);
    assert_eq!(live(&reopened(&path)), before);
}

#[test]
fn a_file_that_was_never_ours_is_refused_and_left_alone() {
    let directory = scratch();
    let path = directory.path().join("data");
    for text in ["a letter to somebody", "{}", "7", "two\nlines"] {
        std::fs::write(&path, text).expect("a file");
        match Store::open(&path, fields).map(|_| ()) {
            Err(LogError::Damaged { line, .. }) => assert_eq!(line, 1, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), text);
    }
}

#[test]
fn a_damaged_line_is_named_and_nothing_is_thrown_away() {
    let directory = scratch();
    let path = directory.path().join("data");
    let mut store = reopened(&path);
    store.put("pods", some("pods", "one", 1), Vec::new()).expect("a put");
    drop(store);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("the file");
    file.write_all(b"not a record\n{\"op\":\"revision\",\"revision\":9}\n").expect("damage");
    let length = std::fs::metadata(&path).expect("the file").len();
    match Store::open(&path, fields).map(|_| ()) {
        Err(LogError::Damaged { line, .. }) => assert_eq!(line, 2),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::metadata(&path).expect("the file").len(), length);
}

#[test]
fn two_servers_never_share_a_data_file() {
    let directory = scratch();
    let path = directory.path().join("data");
    let first = reopened(&path);
    assert!(matches!(Store::open(&path, fields).map(|_| ()), Err(LogError::InUse { .. })));
    drop(first);
    reopened(&path);
}

#[test]
fn watches_may_resume_a_restarted_server_only_from_where_it_stopped() {
    let directory = scratch();
    let path = directory.path().join("data");
    let mut store = reopened(&path);
    for name in ["one", "two"] {
        store.put("pods", some("pods", name, 1), Vec::new()).expect("a put");
    }
    drop(store);
    let store = reopened(&path);
    let table = store.table("pods").expect("the table");
    assert_eq!(table.since(1).map(|_| ()), Err(2));
    assert_eq!(table.since(2).map(Iterator::count), Ok(0));
}

#[test]
fn a_namespace_lists_its_own_objects_only() {
    let mut store = Store::in_memory();
    for (namespace, name) in [("a", "x"), ("ab", "x"), ("a", "b"), ("a-b", "x"), ("b", "x")] {
        let object = json!({"metadata": {"name": name, "namespace": namespace}});
        store.put("pods", object, Vec::new()).expect("a put");
    }
    let table = store.table("pods").expect("the table");
    let names = |namespace: &str| -> Vec<String> {
        table.in_namespace(namespace).map(|s| format!("{}/{}", s.key.namespace, s.key.name)).collect()
    };
    assert_eq!(names("a"), ["a/b", "a/x"]);
    assert_eq!(names("").len(), 5);
    assert_eq!(names("c"), Vec::<String>::new());
}

#[test]
fn a_name_with_letters_that_cannot_be_seen_comes_back_from_the_log() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("data");
    // Names of roles may hold whatever fits in a URL.
    let name = "a\u{200b}b\u{7f}\"\\";
    let object = |name: &str| json!({"metadata": {"name": name, "namespace": "n", "uid": name}});
    let mut store = Store::open(&path, |_, _| Fields::new()).unwrap();
    store.put("roles", object(name), Fields::new()).unwrap();
    store.put("roles", object("kept"), Fields::new()).unwrap();
    store.delete("roles", &Key::new("n", name)).unwrap();
    drop(store);
    let store = Store::open(&path, |_, _| Fields::new()).unwrap();
    assert!(store.get("roles", &Key::new("n", name)).is_none());
    assert!(store.get("roles", &Key::new("n", "kept")).is_some());
    assert_eq!(store.revision(), 3);
}
