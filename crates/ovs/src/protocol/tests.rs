use super::*;
use crate::spec::{Condition, Is, Spec};
use crate::table::Key;
use crate::value::Datum;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

mod toy {
    #![allow(missing_docs, unreachable_pub, reason = "a table of a test")]
    use super::*;
    crate::tables! { "Toy";
        Thing = "Thing" by Key::Columns(&["name"]) => {
            name: String,
            tag: Option<i64>,
            parts: crate::tables::StringSet,
            ids: crate::tables::Strings,
            novelty: bool [optional],
        }
    }
}

fn schema() -> Value {
    json!({ "name": "Toy", "version": "1.0.0", "tables": { "Thing": { "isRoot": true, "columns": {
        "name": {"type": "string"},
        "tag": {"type": {"key": "integer", "min": 0, "max": 1}},
        "parts": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
        "ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "unknown_to_us": {"type": "real"},
    }}}})
}

const A: &str = "0a000000-0000-4000-8000-000000000001";
const TXN: &str = "0b000000-0000-4000-8000-000000000002";

fn spec() -> Arc<Spec> {
    Arc::new(Spec::new("Toy").table::<toy::Thing>())
}

/// A server that answers from a script: per method what to say.
struct Script {
    session: Session,
    now: Instant,
    framer: Framer,
    methods: Vec<String>,
}

impl Script {
    fn new(spec: Arc<Spec>, resume: Option<Resume>) -> Script {
        let now = Instant::now();
        let session = Session::new(spec, SessionOptions::default(), resume, now);
        Script { session, now, framer: Framer::new(1 << 20), methods: Vec::new() }
    }

    fn say(&mut self, value: Value) -> Result<(), SessionError> {
        self.session.receive(value.to_string().as_bytes(), self.now)
    }

    fn requests(&mut self) -> Vec<(Value, String, Value)> {
        let out = std::mem::take(self.session.output());
        self.framer.push(&out);
        let mut found = Vec::new();
        while let Some(text) = self.framer.next().unwrap() {
            let value: Value = serde_json::from_slice(&text).unwrap();
            if let Some(method) = value["method"].as_str() {
                self.methods.push(method.to_owned());
                found.push((value["id"].clone(), method.to_owned(), value["params"].clone()));
            }
        }
        found
    }

    /// Answers everything asked so far, and what that leads to, with `answer`.
    fn serve(&mut self, answer: impl Fn(&str, &Value) -> Result<Value, Value>) -> Result<(), SessionError> {
        loop {
            let requests = self.requests();
            if requests.is_empty() {
                return Ok(());
            }
            for (id, method, params) in requests {
                match answer(&method, &params) {
                    Ok(result) => self.say(json!({ "id": id, "result": result, "error": null }))?,
                    Err(error) => self.say(json!({ "id": id, "error": error }))?,
                }
            }
        }
    }
}

fn modern(method: &str, params: &Value) -> Result<Value, Value> {
    match method {
        "set_db_change_aware" => Ok(json!({})),
        "monitor" if params[0] == "_Server" => Ok(json!({ "Database": { A: { "new": {
            "name": "Toy", "model": "standalone", "connected": true, "leader": true, "schema": "s" } } } })),
        "get_schema" => Ok(schema()),
        "monitor_cond_since" => Ok(
            json!([false, TXN, { "Thing": { A: { "initial": { "name": "a", "parts": ["set", ["x", "y"]] } } } }]),
        ),
        _ => Err(json!("unknown method")),
    }
}

fn started() -> Script {
    let mut script = Script::new(spec(), None);
    script.serve(modern).unwrap();
    assert!(script.session.is_ready());
    script
}

#[test]
fn a_modern_server_is_followed_by_monitor_cond_since_without_unknown_columns() {
    let mut script = Script::new(spec(), None);
    script
        .serve(|method, params| {
            if method == "monitor_cond_since" {
                assert_eq!(params[2], json!({ "Thing": [{ "columns": ["name", "tag", "parts", "ids"] }] }));
                assert_eq!(params[3], json!(Uuid::nil()));
            }
            modern(method, params)
        })
        .unwrap();
    let Some(Event::Loaded { whole: true, update, transaction }) = script.session.event() else { panic!() };
    assert_eq!(transaction.unwrap().to_string(), TXN);
    let RowChange::Is(row) = &update.rows[0].2 else { panic!() };
    assert_eq!(row[0], Datum::one("a"));
    assert_eq!(row[2], Datum::set(["y", "x"]));
    assert_eq!(row[4], Datum::one(false), "what the server does not have reads as empty");
}

#[test]
fn older_servers_are_asked_in_older_ways() {
    let spec = Arc::new(Spec::new("Toy").table_where::<toy::Thing>([Condition::on(
        toy::Thing::name(),
        Is::NotEqual,
        "b".to_owned(),
    )]));
    for (knows, expected) in [
        ("monitor_cond", vec!["monitor_cond_since", "monitor_cond"]),
        ("monitor", vec!["monitor_cond_since", "monitor_cond", "monitor"]),
    ] {
        let mut script = Script::new(Arc::clone(&spec), None);
        script
            .serve(|method, params| match method {
                "get_schema" => Ok(schema()),
                _ if method == knows && params[0] == "Toy" && knows == "monitor" => {
                    assert_eq!(params[2]["Thing"][0].get("where"), None);
                    let row = |name: &str| json!({ "new": { "name": name } });
                    Ok(json!({ "Thing": { A: row("a"), TXN: row("b") } }))
                }
                _ if method == knows && params[0] == "Toy" => {
                    assert_eq!(params[2]["Thing"][0]["where"], json!([["name", "!=", "b"]]));
                    Ok(json!({ "Thing": { A: { "initial": { "name": "a" } } } }))
                }
                _ => Err(json!("unknown method")),
            })
            .unwrap();
        assert!(script.methods.ends_with(&expected.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()));
        let Some(Event::Loaded { whole: true, update, transaction: None }) = script.session.event() else {
            panic!("not loaded by {knows}")
        };
        let there = update.rows.iter().filter(|r| matches!(r.2, RowChange::Is(_))).count();
        assert_eq!(there, 1, "the condition holds by {knows} too");
    }
}

#[test]
fn a_resumed_session_asks_from_its_transaction_and_only_under_the_same_schema() {
    let same = Arc::new(crate::Schema::parse(&schema()).unwrap());
    let other = Arc::new(crate::Schema { version: "0.9".into(), ..(*same).clone() });
    for (schema, asked, whole) in [(same, TXN.to_owned(), false), (other, Uuid::nil().to_string(), true)] {
        let resume = Resume { transaction: Uuid::parse_str(TXN).unwrap(), schema };
        let mut script = Script::new(spec(), Some(resume));
        script
            .serve(|method, params| {
                if method == "monitor_cond_since" {
                    assert_eq!(params[3], json!(asked));
                    return Ok(json!([true, TXN, {}]));
                }
                modern(method, params)
            })
            .unwrap();
        let Some(Event::Loaded { whole: found, .. }) = script.session.event() else { panic!() };
        assert_eq!(found, whole);
    }
}

#[test]
fn echo_is_answered_with_its_parameters_and_unknown_requests_with_an_error() {
    let mut script = started();
    script.say(json!({ "id": "echo", "method": "echo", "params": [1, "x"] })).unwrap();
    script.say(json!({ "id": 9, "method": "sing", "params": [] })).unwrap();
    let out = String::from_utf8(std::mem::take(script.session.output())).unwrap();
    assert_eq!(
        out,
        r#"{"error":null,"id":"echo","result":[1,"x"]}{"error":"unknown method","id":9,"result":null}"#
    );
}

#[test]
fn a_silent_server_is_asked_once_and_then_given_up() {
    let mut script = started();
    let probe = SessionOptions::default().probe;
    let start = script.now;
    assert_eq!(script.session.deadline(), start + probe);
    script.session.tick(start + probe / 2).unwrap();
    assert!(script.requests().is_empty());
    script.session.tick(start + probe).unwrap();
    let asked = script.requests();
    assert_eq!(asked[0].1, "echo");
    assert_eq!(script.session.deadline(), start + 2 * probe);
    // An answer makes it well again.
    script.now = start + probe + Duration::from_secs(1);
    script.say(json!({ "id": asked[0].0, "result": [], "error": null })).unwrap();
    assert_eq!(script.session.deadline(), script.now + probe);
    script.session.tick(script.now + probe).unwrap();
    let given_up = script.session.tick(script.now + 2 * probe);
    assert_eq!(given_up, Err(SessionError::Silent(2 * probe)));
}

#[test]
fn a_difference_replaces_single_values_and_toggles_elements() {
    let mut script = started();
    script.session.event();
    script
        .say(json!({ "id": null, "method": "update3", "params": ["netferry", TXN, { "Thing": { A: { "modify": {
            "tag": 6, "parts": ["set", ["x", "z"]], "ids": ["map", [["b", "3"], ["c", "4"], ["d", "5"]]] } } } }] }))
        .unwrap();
    let Some(Event::Updated { update, transaction: Some(_) }) = script.session.event() else { panic!() };
    let RowChange::Differs(difference) = &update.rows[0].2 else { panic!() };
    let old = [
        Datum::one("a"),
        Datum::one(5),
        Datum::set(["x", "y"]),
        Datum::map([("a", "1"), ("b", "2"), ("d", "5")]),
        Datum::one(false),
    ];
    let table = &script.session.layout().unwrap().tables[0];
    let new = table.apply(&old, difference);
    assert_eq!(new[1], Datum::one(6));
    assert_eq!(new[2], Datum::set(["y", "z"]));
    assert_eq!(new[3], Datum::map([("a", "1"), ("b", "3"), ("c", "4")]));
}

#[test]
fn leadership_connectedness_and_schema_are_followed_while_connected() {
    let row = |connected: bool, leader: bool, schema: &str| {
        json!({ "method": "update", "id": null, "params": ["netferry-server", { "Database": { A: { "new": {
            "name": "Toy", "model": "clustered", "connected": connected, "leader": leader, "schema": schema } } } }] })
    };
    let database = || "Toy".to_owned();
    started().say(row(true, false, "s")).unwrap();
    assert_eq!(started().say(row(false, true, "s")), Err(SessionError::CutOff { database: database() }));
    assert_eq!(
        started().say(row(true, true, "t")),
        Err(SessionError::SchemaChanged { database: database() })
    );
    let gone = json!({ "method": "update", "id": null, "params":
        ["netferry-server", { "Database": { A: { "old": {} }, TXN: { "new": { "name": "_Server" } } } }] });
    assert_eq!(started().say(gone), Err(SessionError::NoDatabase { database: database() }));

    let now = Instant::now();
    let options = SessionOptions { leader_only: true, ..SessionOptions::default() };
    let session = Session::new(spec(), options, None, now);
    let mut strict = Script { session, now, framer: Framer::new(1 << 20), methods: Vec::new() };
    strict.serve(modern).unwrap();
    assert_eq!(strict.say(row(true, false, "s")), Err(SessionError::NotLeader { database: database() }));
}

#[test]
fn locks_are_won_lost_and_given_back() {
    let mut script = started();
    script.session.event();
    script.session.lock("l", false);
    let asked = script.requests();
    assert_eq!((asked[0].1.as_str(), &asked[0].2), ("lock", &json!(["l"])));
    script.say(json!({ "id": asked[0].0, "result": { "locked": false }, "error": null })).unwrap();
    script.say(json!({ "id": null, "method": "locked", "params": ["l"] })).unwrap();
    script.say(json!({ "id": null, "method": "stolen", "params": ["l"] })).unwrap();
    script.session.unlock("l");
    let mut held = Vec::new();
    while let Some(Event::Lock { name, held: now }) = script.session.event() {
        assert_eq!(name, "l");
        held.push(now);
    }
    assert_eq!(held, [false, true, false, false]);
    assert_eq!(script.requests()[0].1, "unlock");
}

#[test]
fn hostile_input_is_refused_with_a_sentence() {
    let deep = "[".repeat(500);
    let update =
        |rows: &str| format!(r#"{{"id":null,"method":"update3","params":["netferry","{TXN}",{rows}]}}"#);
    let table: Vec<(String, &str)> = vec![
        ("hello".into(), "byte 0x68 stands where a message must begin with an opening brace"),
        ("]".into(), "byte 0x5d stands where"),
        (format!("{{\"a\":{deep}"), "nested deeper than 120 levels"),
        ("{]".into(), "a message is not JSON"),
        ("{\"a\":1}".into(), "neither request nor reply"),
        (r#"{"method":5,"params":[],"id":1}"#.into(), "neither request nor reply"),
        (update("[]"), "an update of table (all) is malformed"),
        (update(r#"{"Nothing":{}}"#), "an update is about table Nothing, which was not asked for"),
        (update(r#"{"Thing":{"x":{}}}"#), "an update of table Thing is malformed"),
        (update(&format!(r#"{{"Thing":{{"{A}":{{}}}}}}"#)), "an update of table Thing is malformed"),
        (
            update(&format!(r#"{{"Thing":{{"{A}":{{"insert":{{"colour":1}}}}}}}}"#)),
            "column colour of table Thing, which was not asked for",
        ),
        (
            update(&format!(r#"{{"Thing":{{"{A}":{{"insert":{{"name":null}}}}}}}}"#)),
            "null is not an OVSDB value",
        ),
        (
            update(&format!(r#"{{"Thing":{{"{A}":{{"insert":{{"name":["set",[["set",[]]]]}}}}}}}}"#)),
            "is not an OVSDB value",
        ),
        (r#"{"id":null,"method":"update3","params":["netferry",3,{}]}"#.into(), "answered update3 with 3"),
        (r#"{"id":null,"method":"monitor_canceled","params":["netferry"]}"#.into(), "ended the monitor"),
    ];
    for (input, expected) in table {
        let mut script = started();
        let error = script.session.receive(input.as_bytes(), script.now).expect_err(&input);
        let mut text = error.to_string();
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        assert!(text.contains(expected), "{input:.80}: {text}");
    }
}

#[test]
fn a_message_longer_than_allowed_is_refused_before_it_fills_the_memory() {
    let mut framer = Framer::new(1000);
    framer.push(b"{\"a\":\"");
    let mut refused = None;
    for _ in 0..100 {
        framer.push(&[b'x'; 100]);
        if let Err(e) = framer.next() {
            refused = Some(e);
            break;
        }
    }
    assert_eq!(refused, Some(FrameError::TooLong { limit: 1000 }));
}

fn events(pieces: &[&[u8]]) -> (Vec<Event>, Result<(), SessionError>) {
    let mut script = started();
    script.session.event();
    let mut result = Ok(());
    for piece in pieces {
        result = script.session.receive(piece, script.now);
        if result.is_err() {
            break;
        }
    }
    (std::iter::from_fn(|| script.session.event()).collect(), result)
}

fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, name) in ["plain", "q\"uo\\te", "br{ace]", "ünï\u{1F980}"].iter().enumerate() {
        let row = json!({ "insert": { "name": name, "tag": n, "ids": ["map", [["{", "}"]]] } });
        let update =
            json!({ "id": null, "method": "update3", "params": ["netferry", TXN, { "Thing": { A: row } }] });
        bytes.extend(update.to_string().bytes());
        bytes.extend(b" \n");
        bytes.extend(json!({ "id": null, "method": "locked", "params": [name] }).to_string().bytes());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn where_the_bytes_are_split_makes_no_difference(cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let bytes = stream();
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let whole = events(&[&bytes]);
        prop_assert_eq!(whole.0.len(), 8);
        prop_assert_eq!(events(&pieces), whole);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = events(&[&bytes]);
    }

    /// Nearly right is harder than random.
    #[test]
    fn no_damaged_message_makes_it_panic(
        at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = stream();
        let at = at.index(bytes.len());
        bytes[at] = with;
        bytes.truncate(cut.index(bytes.len()) + 1);
        let (_, result) = events(&[&bytes]);
        if let Err(error) = result {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_answer_to_the_greeting_makes_it_panic(
        which in 0usize..4, value in json_value(),
    ) {
        let method = ["set_db_change_aware", "monitor", "get_schema", "monitor_cond_since"][which];
        let mut script = Script::new(spec(), None);
        let _ = script.serve(|m, params| if m == method { Ok(value.clone()) } else { modern(m, params) });
    }

    #[test]
    fn a_value_survives_the_wire(
        atoms in proptest::collection::vec(any::<i64>(), 0..5), pairs in proptest::collection::btree_map(".{0,5}", ".{0,5}", 0..5),
        quarters in any::<i32>(),
    ) {
        for datum in [Datum::set(atoms), Datum::map(pairs), Datum::one(crate::Atom::real(f64::from(quarters) / 4.0))] {
            let text = datum.to_wire().unwrap().to_string();
            prop_assert_eq!(Datum::from_wire(&serde_json::from_str(&text).unwrap()).unwrap(), datum);
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("uuid"),
        Just("set"),
        Just("map"),
        Just("tables"),
        Just("Thing"),
        Just("columns"),
        Just("name"),
        Just("type"),
        Just("key"),
        Just("string"),
        Just(A),
        Just("new"),
        Just("initial"),
        Just("Database"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}
