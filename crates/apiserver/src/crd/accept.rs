//! Accepting the names of a definition: who came first keeps them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The status a definition gets once its names are compared with those of its group. `others` are all definitions
/// (this one and those of other groups are skipped); `now` is the time conditions change at, as the API writes it.
/// `None` when nothing changes.
///
/// Names that are free are accepted even while others are not. A definition whose names are all free is established.
pub fn accept_names(definition: &Value, others: &[&Value], now: &str) -> Option<Value> {
    let (spec, status) = (&definition["spec"], &definition["status"]);
    let (wanted, accepted) = (&spec["names"], &status["acceptedNames"]);
    let taken = Taken::by(definition, others);
    let mut names = if accepted.is_object() { accepted.clone() } else { json!({}) };
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &Value| format!("{:?} is already in use", name.as_str().unwrap_or_default());

    for (field, reason, used) in
        [("plural", "PluralConflict", &taken.resources), ("singular", "SingularConflict", &taken.resources)]
    {
        if same(&wanted[field], &accepted[field]) || !used.contains(text(&wanted[field])) {
            set(&mut names, field, &wanted[field]);
        } else {
            conflict = Some((reason, in_use(&wanted[field])));
        }
    }
    if !same(&wanted["shortNames"], &accepted["shortNames"]) {
        let mine: Vec<&str> = list(&accepted["shortNames"]).collect();
        let lost: Vec<String> = list(&wanted["shortNames"])
            .filter(|name| !mine.contains(name) && taken.resources.contains(*name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        match lost.as_slice() {
            [] => set(&mut names, "shortNames", &wanted["shortNames"]),
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        if same(&wanted[field], &accepted[field]) || !taken.kinds.contains(text(&wanted[field])) {
            set(&mut names, field, &wanted[field]);
        } else {
            conflict = Some((reason, in_use(&wanted[field])));
        }
    }
    set(&mut names, "categories", &wanted["categories"]);
    // The two names that are never left out.
    for field in ["plural", "kind"] {
        if names[field].is_null() {
            names[field] = json!("");
        }
    }

    let naming = match &conflict {
        None => condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
        Some((reason, message)) => condition("NamesAccepted", "False", reason, message, now),
    };
    let was_established =
        super::condition(definition, "Established").is_some_and(|found| found["status"] == "True");
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    put(&mut conditions, naming);
    if conflict.is_none() && !was_established {
        let message = "the initial names have been accepted";
        put(&mut conditions, condition("Established", "True", "InitialNamesAccepted", message, now));
    } else if super::condition(definition, "Established").is_none() {
        put(
            &mut conditions,
            condition("Established", "False", "NotAccepted", "not all names are accepted", now),
        );
    }
    let mut after = status.clone();
    after["conditions"] = Value::Array(conditions);
    after["acceptedNames"] = names;
    (after != *status).then_some(after)
}

/// Whether the resources of a definition are served.
pub fn is_established(definition: &Value) -> bool {
    super::condition(definition, "Established").is_some_and(|condition| condition["status"] == "True")
}

/// The condition of a definition that is being deleted together with its objects, set on its status.
pub fn set_terminating(definition: &mut Value, done: bool, now: &str) {
    let new = if done {
        condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances", now)
    } else {
        condition(
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
            now,
        )
    };
    let mut conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    put(&mut conditions, new);
    definition["status"]["conditions"] = Value::Array(conditions);
}

struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by(definition: &Value, others: &[&Value]) -> Taken {
        let mut taken = Taken { resources: BTreeSet::new(), kinds: BTreeSet::new() };
        for other in others {
            let same_object = other["metadata"]["name"] == definition["metadata"]["name"];
            if same_object || other["spec"]["group"] != definition["spec"]["group"] {
                continue;
            }
            let names = &other["status"]["acceptedNames"];
            taken.resources.extend([text(&names["plural"]), text(&names["singular"])].map(str::to_owned));
            taken.resources.extend(list(&names["shortNames"]).map(str::to_owned));
            taken.kinds.extend([text(&names["kind"]), text(&names["listKind"])].map(str::to_owned));
        }
        taken
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message})
}

/// Sets a condition; its time is kept while its status stays.
fn put(conditions: &mut Vec<Value>, mut new: Value) {
    match conditions.iter_mut().find(|old| old["type"] == new["type"]) {
        Some(old) => {
            if old["status"] == new["status"] {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

fn set(names: &mut Value, field: &str, value: &Value) {
    let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if let Some(names) = names.as_object_mut() {
        if empty {
            names.remove(field);
        } else {
            names.insert(field.to_owned(), value.clone());
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn same(a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| {
        value.is_null() || value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
    };
    a == b || (empty(a) && empty(b))
}
