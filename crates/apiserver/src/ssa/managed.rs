//! `metadata.managedFields`: who owns which fields, as stored and as used.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::Set;
use super::scalar;

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owner {
    pub(crate) manager: String,
    pub(crate) subresource: String,
    /// The version the set's fields are named in.
    pub(crate) api_version: String,
    /// By apply, or by create, update and the other patches.
    pub(crate) applied: bool,
    /// When the set last changed with the object. An entry that only confirmed what was there has none.
    pub(crate) time: Option<String>,
    pub(crate) set: Set,
}

impl Owner {
    fn operation(&self) -> &'static str {
        if self.applied { "Apply" } else { "Update" }
    }

    /// What makes two entries the same one. An applier stays itself when it moves to another version.
    pub(crate) fn identity(&self) -> String {
        let version = if self.applied { "" } else { &self.api_version };
        let parts: Vec<String> = [
            ("manager", self.manager.as_str()),
            ("operation", self.operation()),
            ("apiVersion", version),
            ("subresource", self.subresource.as_str()),
        ]
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("\"{name}\":{}", scalar::to_json(&json!(value))))
        .collect();
        format!("{{{}}}", parts.join(","))
    }

    /// The owner as a conflict names it.
    pub(crate) fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.applied {
            shown.push_str(&format!(" using {}", self.api_version));
        }
        shown
    }

    pub(crate) fn seconds(&self) -> i64 {
        self.time.as_deref().map_or(0, seconds)
    }

    fn encode(&self) -> Value {
        let mut entry = Map::new();
        for (name, value) in [
            ("manager", self.manager.as_str()),
            ("operation", self.operation()),
            ("apiVersion", &self.api_version),
            ("time", self.time.as_deref().unwrap_or_default()),
            ("fieldsType", "FieldsV1"),
            ("subresource", &self.subresource),
        ] {
            if !value.is_empty() {
                entry.insert(name.to_owned(), json!(value));
            }
        }
        entry.insert("fieldsV1".to_owned(), self.set.to_fields());
        Value::Object(entry)
    }
}

fn seconds(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second)
}

/// The owners of an object's fields, by [`Owner::identity`].
pub(crate) type Owners = BTreeMap<String, Owner>;

/// An object's `managedFields`, where it has the shape of one.
pub(crate) fn entries_of(object: &Value) -> Option<&Vec<Value>> {
    let entries = object.get("metadata")?.get("managedFields")?.as_array()?;
    let text = |entry: &Value, name: &str| entry.get(name).is_none_or(|v| v.is_string() || v.is_null());
    let readable = |entry: &Value| {
        entry.is_object()
            && ["manager", "operation", "apiVersion", "time", "fieldsType", "subresource"]
                .iter()
                .all(|name| text(entry, name))
    };
    entries.iter().all(readable).then_some(entries)
}

/// Whether a request asks for the field management to be forgotten: by one empty entry or, for a built-in kind, by
/// an empty list. A custom resource's empty list does not survive its decoding.
pub(crate) fn asks_for_reset(object: &Value, built_in: bool) -> bool {
    match entries_of(object).map(Vec::as_slice) {
        Some([]) => built_in,
        Some([only]) => only.as_object().is_some_and(|entry| entry.values().all(is_unset)),
        Some(_) | None => false,
    }
}

fn is_unset(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// Reads the owners an object carries.
pub(crate) fn decode(object: &Value) -> Result<Owners, String> {
    let mut owners = Owners::new();
    for (index, entry) in entries_of(object).into_iter().flatten().enumerate() {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let applied = match text("operation").as_str() {
            "Apply" => true,
            "Update" => false,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
        }
        let set = match entry.get("fieldsV1") {
            Some(fields) => Set::from_fields(fields).map_err(|error| {
                format!("error decoding versioned set from managed fields entry {index}: {error}")
            })?,
            None => Set::default(),
        };
        let time = Some(text("time")).filter(|time| !time.is_empty());
        let owner = Owner {
            manager: text("manager"),
            subresource: text("subresource"),
            api_version,
            applied,
            time,
            set,
        };
        owners.insert(owner.identity(), owner);
    }
    Ok(owners)
}

/// Writes the owners into an object: appliers first, then by time, manager, version and subresource.
pub(crate) fn encode_into(object: &mut Value, owners: &Owners) {
    remove_from(object);
    if owners.is_empty() {
        return;
    }
    let mut sorted: Vec<&Owner> = owners.values().collect();
    sorted.sort_by(|a, b| {
        (a.operation(), a.seconds(), &a.manager, &a.api_version, &a.subresource).cmp(&(
            b.operation(),
            b.seconds(),
            &b.manager,
            &b.api_version,
            &b.subresource,
        ))
    });
    let entries: Vec<Value> = sorted.into_iter().map(Owner::encode).collect();
    if let Value::Object(fields) = object {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }
}

/// Takes `managedFields` out of an object.
pub(crate) fn remove_from(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// How many entries of plain updates an object keeps. With every controller and `kubectl edit` adding one the
/// list would otherwise outgrow the object.
const MOST_UPDATERS: usize = 10;

/// Folds the oldest updaters, version by version, into one called `ancient-changes` until few enough are left.
pub(crate) fn cap_updaters(owners: &mut Owners) {
    let mut updaters: Vec<(i64, String)> = owners
        .iter()
        .filter(|(_, owner)| !owner.applied)
        .map(|(identity, owner)| (owner.seconds(), identity.clone()))
        .collect();
    let mut left = updaters.len();
    updaters.sort();
    // The first of each version is only remembered: alone it would gain nothing from a new name.
    let mut first_of: BTreeMap<String, String> = BTreeMap::new();
    for (_, identity) in updaters {
        if left <= MOST_UPDATERS {
            break;
        }
        let Some(owner) = owners.get(&identity).cloned() else { continue };
        let Some(first) = first_of.get(&owner.api_version) else {
            first_of.insert(owner.api_version.clone(), identity);
            continue;
        };
        let mut bucket = Owner {
            manager: "ancient-changes".to_owned(),
            subresource: String::new(),
            api_version: owner.api_version.clone(),
            applied: false,
            time: owner.time.clone(),
            set: Set::default(),
        };
        let bucket_identity = bucket.identity();
        let so_far = match owners.remove(&bucket_identity) {
            Some(there) => there.set,
            None => owners.remove(first).map(|first| first.set).unwrap_or_default(),
        };
        bucket.set = owner.set.union(&so_far);
        owners.remove(&identity);
        owners.insert(bucket_identity, bucket);
        left -= 1;
    }
}
