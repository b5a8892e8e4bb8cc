//! Metadata: names, labels, annotations, finalizers, owners; what may be in them and what may not change.

mod format;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use self::format::{
    dns1035_label, dns1123_label, dns1123_subdomain, label_value, path_segment, port_name, qualified_name,
};
use crate::field::{FieldError, Path, Problem};
use crate::resource::Resource;
use crate::status::ApiError;

pub use crate::resource::NameRule;

impl NameRule {
    /// What is wrong with a name (or with the beginning of one).
    pub fn check(self, name: &str, is_prefix: bool) -> Vec<String> {
        // A prefix may end in a dash: something will follow it.
        let masked = match name.strip_suffix('-') {
            Some(head) if is_prefix && name.len() > 1 => {
                let mut masked = head.to_owned();
                masked.pop();
                masked.push('a');
                masked
            }
            Some(_) | None => name.to_owned(),
        };
        match self {
            NameRule::Subdomain => dns1123_subdomain(&masked),
            NameRule::Label => dns1123_label(&masked),
            NameRule::Label1035 => dns1035_label(&masked),
            NameRule::PathSegment => path_segment(name, is_prefix),
        }
    }
}

/// The longest name the server generates; the random part is the last five of it.
const GENERATED: usize = 63;
const RANDOM: usize = 5;
/// No vowels and nothing that looks like one, so that no words come out.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A name from `metadata.generateName`. `random` gives any number; each letter takes one.
pub fn generate(prefix: &str, mut random: impl FnMut() -> u32) -> String {
    let mut end = prefix.len().min(GENERATED - RANDOM);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    for _ in 0..RANDOM {
        let letter = random() as usize % ALPHABET.len();
        name.push(char::from(ALPHABET[letter]));
    }
    name
}

/// How an object's metadata is checked.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What its names look like.
    pub name: NameRule,
    /// Whether it lives in a namespace.
    pub namespaced: bool,
    /// Whether its finalizers need a domain. Custom resources are warned instead: [`finalizer_warnings`].
    pub qualified_finalizers: bool,
}

/// Which checks a kind runs on metadata besides those every kind gets. They find the same faults again, which shows in
/// a refusal's causes: a label that is wrong is listed once per check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Checks {
    /// None; its metadata is looked at only when all else is well.
    None,
    /// On create; on update against the old object.
    Update,
    /// On create; on update as if it were new.
    Anew,
    /// On create; on update both.
    Both,
    /// On create; on update both, and anew once more.
    Thrice,
}

fn checks_of(group: &str, kind: &str, custom: bool) -> Checks {
    match (group, kind) {
        _ if custom => Checks::Update,
        ("" | "events.k8s.io", "Event") | ("policy", "PodDisruptionBudget") => Checks::None,
        ("", "Service") | ("apps" | "coordination.k8s.io" | "apiextensions.k8s.io", _) => Checks::Update,
        ("discovery.k8s.io", _) => Checks::Anew,
        ("rbac.authorization.k8s.io", _) => Checks::Thrice,
        _ => Checks::Both,
    }
}

fn rules_of(resource: &Resource) -> (Rules, Checks) {
    let checks = checks_of(&resource.group, &resource.kind, resource.custom);
    let lenient = resource.custom
        || checks == Checks::None
        || matches!(resource.group.as_str(), "coordination.k8s.io" | "apiextensions.k8s.io");
    let name = resource.behaviour.name_rule();
    (Rules { name, namespaced: resource.namespaced, qualified_finalizers: !lenient }, checks)
}

impl Rules {
    /// The rules every object is held to, whatever its kind.
    fn common(self) -> Rules {
        Rules { name: NameRule::PathSegment, qualified_finalizers: false, ..self }
    }
}

/// Everything wrong with a new object, in the order it is told. `own` is what its kind finds in the rest of it.
pub fn create_errors(object: &Value, resource: &Resource, own: Vec<FieldError>) -> Vec<FieldError> {
    let (rules, checks) = rules_of(resource);
    let mut errors = if checks == Checks::None { Vec::new() } else { validate(object, rules) };
    errors.extend(own);
    if errors.is_empty() {
        errors = validate(object, rules.common());
    }
    errors
}

/// Everything wrong with a replacement, in the order it is told. `own` is what its kind finds in the rest of it.
pub fn update_errors(
    object: &Value,
    old: &Value,
    resource: &Resource,
    own: Vec<FieldError>,
) -> Vec<FieldError> {
    let (rules, checks) = rules_of(resource);
    let common = rules.common();
    let mut errors = validate(object, common);
    errors.extend(validate_update(object, old, common));
    match checks {
        Checks::None => {}
        Checks::Update => errors.extend(validate_update(object, old, rules)),
        Checks::Anew => errors.extend(validate(object, rules)),
        Checks::Both => {
            errors.extend(validate_update(object, old, rules));
            errors.extend(validate(object, rules));
        }
        Checks::Thrice => {
            errors.extend(validate(object, rules));
            errors.extend(validate(object, rules));
            errors.extend(validate_update(object, old, rules));
        }
    }
    errors.extend(own);
    errors
}

fn text<'m>(metadata: &'m Value, field: &str) -> &'m str {
    metadata.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn invalid(path: &Path, value: &str, why: impl Into<String>) -> FieldError {
    FieldError::invalid(path.clone(), &Value::String(value.to_owned()), why)
}

/// What is wrong with an object's metadata, seen alone.
pub fn validate(object: &Value, rules: Rules) -> Vec<FieldError> {
    let none = Value::Null;
    let metadata = object.get("metadata").unwrap_or(&none);
    let at = Path::new("metadata");
    let mut errors = Vec::new();
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        let path = at.child("generateName");
        errors.extend(rules.name.check(prefix, true).into_iter().map(|why| invalid(&path, prefix, why)));
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required(at.child("name"), "name or generateName is required"));
    } else {
        let path = at.child("name");
        errors.extend(rules.name.check(name, false).into_iter().map(|why| invalid(&path, name, why)));
    }
    let namespace = text(metadata, "namespace");
    let path = at.child("namespace");
    if rules.namespaced && namespace.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if rules.namespaced {
        errors.extend(dns1123_label(namespace).into_iter().map(|why| invalid(&path, namespace, why)));
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden(path, "not allowed on this type"));
    }
    if let Some(generation) = metadata.get("generation").filter(|g| g.as_i64().is_some_and(|g| g < 0)) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(at.child("generation"), generation, why));
    }
    errors.extend(validate_common(metadata, &at));
    errors.extend(validate_finalizers(metadata, &at, rules.qualified_finalizers));
    errors
}

fn validate_common(metadata: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = validate_labels(metadata.get("labels"), &at.child("labels"));
    errors.extend(validate_annotations(metadata.get("annotations"), &at.child("annotations")));
    errors.extend(validate_owners(metadata.get("ownerReferences"), &at.child("ownerReferences")));
    errors
}

/// What is wrong with a map of labels.
pub fn validate_labels(labels: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        errors.extend(qualified_name(key).into_iter().map(|why| invalid(path, key, why)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(label_value(value).into_iter().map(|why| invalid(path, value, why)));
    }
    errors
}

/// What is wrong with a map of annotations.
pub fn validate_annotations(annotations: Option<&Value>, path: &Path) -> Vec<FieldError> {
    const LIMIT: usize = 256 * 1024;
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        // Keys are compared without regard to case, so the prefix may be written in capitals.
        let wrong = qualified_name(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|why| invalid(path, key, why)));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > LIMIT {
        errors.push(FieldError {
            problem: Problem::TooLong,
            path: path.clone(),
            value: None,
            detail: format!("may not be more than {LIMIT} bytes"),
        });
    }
    errors
}

fn validate_owners(owners: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners.and_then(Value::as_array).into_iter().flatten() {
        let api_version = text(owner, "apiVersion");
        let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
        if version.is_empty() {
            errors.push(invalid(&path.child("apiVersion"), api_version, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                errors.push(invalid(&path.child(field), "", "must not be empty"));
            }
        }
        if (api_version, text(owner, "kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner".to_owned();
            let value = Some(shown_owner(owner));
            errors.push(FieldError { problem: Problem::Invalid, path: path.clone(), value, detail });
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(first) => {
                    let all = owners.and_then(Value::as_array).into_iter().flatten();
                    let shown: Vec<String> = all.map(shown_owner).collect();
                    errors.push(FieldError {
                        problem: Problem::Invalid,
                        path: path.clone(),
                        value: Some(format!("[{}]", shown.join(","))),
                        detail: format!(
                            "Only one reference can have Controller set to true. Found \"true\" in references for \
                             {first} and {this}"
                        ),
                    });
                }
                None => controller = Some(this),
            }
        }
    }
    errors
}

/// An owner as a message shows it: in the order its fields are declared, not the alphabet's.
fn shown_owner(owner: &Value) -> String {
    let mut fields: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .iter()
        .map(|field| format!("\"{field}\":{}", Value::from(text(owner, field))))
        .collect();
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(flag) = owner.get(field).filter(|flag| flag.is_boolean()) {
            fields.push(format!("\"{field}\":{flag}"));
        }
    }
    format!("{{{}}}", fields.join(","))
}

fn finalizers(metadata: &Value) -> Vec<&str> {
    metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn validate_finalizers(metadata: &Value, at: &Path, qualified: bool) -> Vec<FieldError> {
    let path = at.child("finalizers");
    let names = finalizers(metadata);
    let mut errors = Vec::new();
    for name in &names {
        errors.extend(qualified_name(name).into_iter().map(|why| invalid(&path, name, why)));
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        errors.push(FieldError::invalid(
            path.clone(),
            &json!(names),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    if qualified {
        errors.extend(unqualified_finalizers(&names, &path));
    }
    errors
}

/// Finalizers of built-ins are in a domain, or one of the three everybody knows.
fn unqualified_finalizers(names: &[&str], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let path = path.index(i);
        if !name.contains('/') && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(invalid(&path, name, why));
        }
    }
    errors
}

/// The warnings the server sends for custom resources whose finalizers have no domain, each name once. On a replacement
/// only those that `old` did not have are told.
pub fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let none = Value::Null;
    let mut names = finalizers(object.get("metadata").unwrap_or(&none));
    let before = finalizers(old.and_then(|old| old.get("metadata")).unwrap_or(&none));
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter(|name| !name.contains('/') && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion"))
        .filter(|name| !before.contains(name))
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts \
                 with other finalizer writers",
                crate::field::quoted(name)
            )
        })
        .collect()
}

/// What is wrong with a replacement's metadata, seen against the object it replaces. What a client may leave out
/// (uid, creation time, …) has been put back before: see [`inherit`].
pub fn validate_update(object: &Value, old: &Value, rules: Rules) -> Vec<FieldError> {
    let none = Value::Null;
    let new = object.get("metadata").unwrap_or(&none);
    let old = old.get("metadata").unwrap_or(&none);
    let at = Path::new("metadata");
    let mut errors = Vec::new();
    if old.get("deletionTimestamp").is_some() {
        let before = finalizers(old);
        let mut extra: Vec<&str> =
            finalizers(new).into_iter().filter(|name| !before.contains(name)).collect();
        extra.sort_unstable();
        extra.dedup();
        if !extra.is_empty() {
            let shown: Vec<String> = extra.iter().map(|name| crate::field::quoted(name)).collect();
            errors.push(FieldError::forbidden(
                at.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers \
                     []string{{{}}}",
                    shown.join(", ")
                ),
            ));
        }
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (is, was) = (new.get(field), old.get(field));
        if is != was {
            let path = at.child(field);
            errors.push(FieldError::invalid(path, is.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    errors.extend(validate_common(new, &at));
    if rules.qualified_finalizers {
        errors.extend(unqualified_finalizers(&finalizers(new), &at.child("finalizers")));
    }
    errors
}

/// Puts back what a replacement may leave out and what it may not set: uid, times, generation.
pub fn inherit(object: &mut Value, old: &Value) {
    let metadata = crate::object::meta_mut(object);
    let was = |field: &str| old.pointer(&format!("/metadata/{field}")).cloned();
    for (field, only_if_absent) in [
        ("generation", false),
        ("creationTimestamp", false),
        ("deletionTimestamp", false),
        ("uid", true),
        ("deletionGracePeriodSeconds", true),
    ] {
        match was(field) {
            Some(value) if !only_if_absent || metadata.get(field).is_none_or(|v| v == "") => {
                metadata.insert(field.to_owned(), value);
            }
            None if field == "generation" => {
                metadata.remove(field);
            }
            Some(_) | None => {}
        }
    }
}

/// Makes an object's namespace the request's. `namespace` is empty for resources of the whole cluster.
pub fn match_namespace(object: &mut Value, namespace: &str) -> Result<(), ApiError> {
    let metadata = crate::object::meta_mut(object);
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if given == namespace {
        return Ok(());
    }
    if namespace.is_empty() {
        metadata.remove("namespace");
        return Ok(());
    }
    if given.is_empty() {
        metadata.insert("namespace".to_owned(), json!(namespace));
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Refuses a replacement or patched object that is not the one the URL names.
pub fn match_name(object: &Value, name: &str) -> Result<(), ApiError> {
    match object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default() {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given if given != name => Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

/// Drops owner references that stand twice, and says so.
pub fn dedup_owners(object: &mut Value, after_admission: bool) -> Option<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences")?.as_array_mut()?;
    let mut kept: Vec<Value> = Vec::new();
    let mut twice = Vec::new();
    for owner in std::mem::take(owners) {
        if kept.contains(&owner) {
            twice.push(text(&owner, "uid").to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if twice.is_empty() {
        return None;
    }
    let when = if after_admission { " after mutating admission happens" } else { "" };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    ))
}

/// 409 for a write whose uid is not the stored object's. `key` is where the real server keeps the object
/// (`/registry/configmaps/ns/name`): the message says so.
pub fn uid_conflict(
    group: &str,
    resource: &str,
    name: &str,
    key: &str,
    given: &str,
    stored: &str,
) -> ApiError {
    ApiError::conflict(
        group,
        resource,
        name,
        &format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {given}, UID in object meta: {stored}"
        ),
    )
}
