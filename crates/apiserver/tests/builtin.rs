//! The built-in kinds, held to what a real server answered: the tables under `tests/data/builtin` are recordings.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of a test fail it where its recorded data is not what it should be"
)]

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use netferry_apiserver::builtin::{self, Allocated, Ranges};
use netferry_apiserver::decode::{self, Expect};
use netferry_apiserver::resource::{Resource, Subresource, Through};
use netferry_apiserver::status::ApiError;
use serde_json::{Value, json};

macro_rules! recording {
    ($name:literal) => {
        serde_json::from_str::<Vec<Value>>(include_str!(concat!("data/builtin/", $name)))
            .expect("recordings are lists")
    };
}

fn resources() -> BTreeMap<String, Resource> {
    let place = |r: &Resource| match r.group.as_str() {
        "" => r.plural.clone(),
        group => format!("{}.{group}", r.plural),
    };
    builtin::resources().into_iter().map(|r| (place(&r), r)).collect()
}

fn ranges() -> Ranges {
    Ranges {
        networks: ["10.96.0.0/16", "fd00:96::/112"].map(|net| net.parse().expect("a network")).into(),
        ports: 30000..=32767,
    }
}

/// The object as a request that carries it is decoded.
fn decoded(resource: &Resource, object: &Value) -> Value {
    decode::normalise(object, &Expect::of(resource)).expect("the recorded objects fit their types").0
}

/// What the server does with a new object to store it.
fn create(resource: &Resource, object: &Value) -> Result<Value, ApiError> {
    let kind = &resource.behaviour;
    let mut object = decoded(resource, object);
    kind.default(&mut object);
    if resource.kind == "Pod" {
        let account = json!({"metadata": {"name": "default"}});
        let found = (builtin::pod_service_account(&object) == "default").then_some(&account);
        builtin::admit_pod(&mut object, "builtin-a", found, || "xxxxx".to_owned())?;
    }
    if resource.kind == "Service" && resource.group.is_empty() {
        builtin::allocate_service(&mut object, None, &Allocated::default(), &ranges())?;
    }
    kind.prepare_create(&mut object);
    refuse(resource, &object, kind.validate(&object))?;
    resource.settle(&mut object);
    if kind.has_generation() {
        object["metadata"]["generation"] = json!(1);
    }
    Ok(object)
}

/// The same for a replacement.
fn update(resource: &Resource, through: Through, object: &Value, old: &Value) -> Result<Value, ApiError> {
    let kind = &resource.behaviour;
    let mut object = decoded(resource, object);
    kind.default(&mut object);
    if resource.kind == "Service" && through == Through::Main {
        let used = Allocated::of([old]);
        builtin::allocate_service(&mut object, Some(old), &used, &ranges())?;
    }
    kind.prepare_update(through, &mut object, old);
    resource.settle(&mut object);
    refuse(resource, &object, kind.validate_update(through, &object, old))?;
    if kind.has_generation() {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        let changed = kind.spec_changed(through, &object, old);
        object["metadata"]["generation"] = json!(generation + i64::from(changed));
    }
    Ok(object)
}

fn refuse(
    resource: &Resource,
    object: &Value,
    errors: Vec<netferry_apiserver::field::FieldError>,
) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    // Events are one kind in two groups, and refused as the older one.
    let group = if resource.kind == "Event" { "" } else { &resource.group };
    Err(ApiError::invalid(group, &resource.kind, name, &errors))
}

/// Hides what a server makes up: allocated addresses and ports, and the token volume's name.
fn masked(object: &Value, input: &Value) -> Value {
    let mut text = object.to_string();
    for volume in object["spec"]["volumes"].as_array().into_iter().flatten() {
        if let Some(name) = volume["name"].as_str().filter(|n| n.starts_with("kube-api-access-")) {
            text = text.replace(name, "kube-api-access-?");
        }
    }
    let mut object: Value = serde_json::from_str(&text).expect("printed JSON");
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition["reason"] == "SchedulingGated" {
            condition["lastTransitionTime"] = json!("?");
        }
    }
    if object["kind"] == "Service" {
        let spec = &mut object["spec"];
        let asked: Vec<Value> = input["spec"]["clusterIPs"]
            .as_array()
            .into_iter()
            .flatten()
            .chain(input["spec"].get("clusterIP"))
            .cloned()
            .collect();
        let given = spec.get_mut("clusterIPs").and_then(Value::as_array_mut);
        for address in given.into_iter().flatten().filter(|a| !asked.contains(a)) {
            *address = json!(if address.as_str().expect("a text").contains(':') { "IPv6" } else { "IPv4" });
        }
        if input["spec"].get("clusterIP").is_none() && spec.get("clusterIP").is_some() {
            spec["clusterIP"] = json!("?");
        }
        if spec.get("healthCheckNodePort").is_some() {
            spec["healthCheckNodePort"] = json!("?");
        }
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            if port.get("nodePort").is_some() {
                port["nodePort"] = json!("?");
            }
        }
    }
    object
}

fn through(name: &Value) -> Through {
    match name.as_str() {
        None => Through::Main,
        Some("status") => Through::Sub(Subresource::Status),
        Some("finalize") => Through::Sub(Subresource::Finalize),
        Some("ephemeralcontainers") => Through::Sub(Subresource::EphemeralContainers),
        Some("resize") => Through::Sub(Subresource::Resize),
        Some(other) => panic!("no subresource {other}"),
    }
}

/// Compares one answer with the recorded one; the difference, if there is any.
fn difference(entry: &Value, answer: Result<Value, ApiError>) -> Option<String> {
    let word = |field: &str| entry[field].as_str().expect("every entry has one");
    let fact = format!("{} ({})", word("fact"), word("resource"));
    match (answer, entry.get("stored"), entry.get("refused")) {
        (Ok(ours), Some(theirs), _) => {
            let (ours, theirs) = (masked(&ours, &entry["input"]), masked(theirs, &entry["input"]));
            first_difference("", &ours, &theirs).map(|difference| format!("{fact}: {difference}"))
        }
        (Err(ours), _, Some(theirs)) => {
            let message = ours.message.split('\n').next().unwrap_or_default();
            let recorded =
                theirs["message"].as_str().unwrap_or_default().split('\n').next().unwrap_or_default();
            (ours.code.as_u16() != theirs["code"] || message != recorded).then(|| {
                format!("{fact}\n  ours:   {} {message}\n  theirs: {} {recorded}", ours.code, theirs["code"])
            })
        }
        (Ok(ours), None, Some(theirs)) => Some(format!("{fact}\n  accepted: {ours}\n  refused: {theirs}")),
        (Err(ours), Some(_), _) => Some(format!("{fact}\n  refused by us alone: {ours}")),
        (answer, None, None) => panic!("{fact} was recorded without an answer; ours is {answer:?}"),
    }
}

/// Where two values differ first.
fn first_difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(ours), Some(theirs)) => first_difference(&path, ours, theirs),
                    (ours, theirs) => Some(format!("{path}: ours {ours:?}, theirs {theirs:?}")),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(at, (ours, theirs))| first_difference(&format!("{path}[{at}]"), ours, theirs)),
        (ours, theirs) => (ours != theirs).then(|| format!("{path}: ours {ours}, theirs {theirs}")),
    }
}

fn assert_none(differences: Vec<String>) {
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn a_new_object_is_stored_or_refused_as_the_real_server_does() {
    let resources = resources();
    let recorded = recording!("creates.json");
    assert!(recorded.len() >= 60, "the recording is complete");
    let differences = recorded.iter().filter_map(|entry| {
        let resource = &resources[entry["resource"].as_str().unwrap()];
        difference(entry, create(resource, &entry["input"]))
    });
    assert_none(differences.collect());
}

#[test]
fn a_replacement_is_stored_or_refused_as_the_real_server_does() {
    let resources = resources();
    let recorded = recording!("updates.json");
    assert!(recorded.len() >= 60, "the recording is complete");
    let differences = recorded.iter().filter_map(|entry| {
        let resource = &resources[entry["resource"].as_str().unwrap()];
        let answer = update(resource, through(&entry["through"]), &entry["input"], &entry["old"]);
        difference(entry, answer)
    });
    assert_none(differences.collect());
}

#[test]
fn a_row_shows_what_the_real_server_prints() {
    let resources = resources();
    let recorded = recording!("rows.json");
    assert!(recorded.len() >= 50, "the recording is complete");
    let differences = recorded.iter().filter_map(|entry| {
        let kind = &resources[entry["resource"].as_str().unwrap()].behaviour;
        let now: Timestamp = entry["now"].as_str().unwrap().parse().unwrap();
        let ours = json!([kind.cells(&entry["object"], now), kind.row_conditions(&entry["object"])]);
        let conditions = entry.get("conditions").cloned().unwrap_or(json!([]));
        let theirs = json!([entry["cells"], conditions]);
        (ours != theirs).then(|| format!("{}\n  ours:   {ours}\n  theirs: {theirs}", entry["fact"]))
    });
    assert_none(differences.collect());
}

#[test]
fn reading_a_stored_object_and_writing_it_back_changes_nothing() {
    let resources = resources();
    let stored =
        recording!("creates.json").into_iter().chain(recording!("updates.json")).filter_map(|mut entry| {
            let stored = entry.get_mut("stored")?.take();
            Some((entry, stored))
        });
    let shown = recording!("rows.json").into_iter().map(|mut entry| {
        let object = entry["object"].take();
        (entry, object)
    });
    let differences = stored.chain(shown).filter_map(|(entry, object)| {
        let resource = &resources[entry["resource"].as_str().unwrap()];
        let mut again = decoded(resource, &object);
        resource.behaviour.default(&mut again);
        resource.settle(&mut again);
        first_difference("", &again, &object).map(|difference| format!("{}: {difference}", entry["fact"]))
    });
    assert_none(differences.collect());
}

#[test]
fn every_kind_has_the_columns_and_names_of_the_real_server() {
    let resources = resources();
    let recorded = recording!("kinds.json");
    assert_eq!(recorded.len(), resources.len(), "every kind was recorded");
    for entry in recorded {
        let resource = &resources[entry["resource"].as_str().unwrap()];
        let columns: Vec<Value> = resource
            .behaviour
            .columns()
            .iter()
            .map(|c| json!({"name": c.name, "type": c.kind, "format": c.format, "priority": c.priority}))
            .collect();
        assert_eq!(json!(columns), entry["columns"], "columns of {}", entry["resource"]);
        let own = &entry["discovery"][0];
        assert_eq!(own["kind"], json!(resource.kind));
        assert_eq!(own["singularName"], json!(resource.singular));
        assert_eq!(own["namespaced"], json!(resource.namespaced));
        let or_null = |names: &[String]| if names.is_empty() { Value::Null } else { json!(names) };
        assert_eq!(own["shortNames"], or_null(&resource.short_names), "short names of {}", entry["resource"]);
        assert_eq!(own["categories"], or_null(&resource.categories), "categories of {}", entry["resource"]);
        let collections = own["verbs"].as_array().unwrap().contains(&json!("deletecollection"));
        assert_eq!(collections, resource.behaviour.deletes_collections(), "{}", entry["resource"]);
        assert_eq!(
            entry["discovery"].as_array().unwrap().len() - 1,
            resource.subresources.len(),
            "subresources of {}",
            entry["resource"]
        );
    }
}

#[test]
fn an_event_survives_the_way_through_the_other_api() {
    for entry in recording!("rows.json").iter().filter(|e| e["resource"] == "events") {
        let newer = builtin::event_from_core(&entry["object"]);
        assert_eq!(newer["apiVersion"], "events.k8s.io/v1");
        assert!(newer.get("involvedObject").is_none() && newer.get("regarding").is_some());
        assert_eq!(builtin::event_to_core(&newer), entry["object"], "{}", entry["fact"]);
    }
}

#[test]
fn the_documents_name_every_served_kind_where_kubectl_looks_for_it() {
    for (place, resource) in resources() {
        let group_version = match resource.group.as_str() {
            "" => "api/v1".to_owned(),
            group => format!("apis/{group}/v1"),
        };
        let document: Value =
            serde_json::from_slice(builtin::openapi_document(&group_version).expect("a document")).unwrap();
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let patch =
            &document["paths"][format!("/{group_version}{scope}/{}/{{name}}", resource.plural)]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], json!(resource.kind), "{place}");
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(
            parameters.iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query"),
            "kubectl asks the server to validate {place} only when the patch says it can"
        );
        assert!(
            patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some(),
            "kubectl apply sends strategic merge patches for {place} only when they are listed"
        );
    }
}

#[test]
fn an_object_in_protobuf_is_the_same_object() {
    let resources = resources();
    let recorded = recording!("protobuf.json");
    assert!(recorded.len() >= 20, "the recording is complete");
    let differences = recorded.iter().filter_map(|entry| {
        let body = STANDARD.decode(entry["body"].as_str().unwrap()).unwrap();
        let read = builtin::protobuf_to_json(&body).expect("a real server's bytes are well-formed");
        let resource = &resources[entry["resource"].as_str().unwrap()];
        let mut read = decoded(resource, &read);
        resource.behaviour.default(&mut read);
        resource.settle(&mut read);
        let theirs = &entry["object"];
        first_difference("", &read, theirs).map(|difference| format!("{}: {difference}", entry["fact"]))
    });
    assert_none(differences.collect());
}

#[test]
fn a_protobuf_body_that_is_none_is_refused() {
    let recorded = recording!("protobuf.json");
    let body = STANDARD.decode(recorded[0]["body"].as_str().unwrap()).unwrap();
    assert_eq!(builtin::protobuf_to_json(b"{}"), Err(builtin::ProtobufError::Prefix));
    // The last four bytes are two empty fields nobody reads.
    for length in 5..body.len() - 4 {
        // Cut anywhere, it must not be taken for the whole, nor bring the server down.
        let cut = builtin::protobuf_to_json(&body[..length]);
        assert_ne!(cut.as_ref().ok(), builtin::protobuf_to_json(&body).as_ref().ok(), "cut at {length}");
    }
}
