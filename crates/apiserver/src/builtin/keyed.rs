//! What ConfigMaps and Secrets share: keys, a size limit, and being made immutable.

use serde_json::{Value, json};

use super::access::{entries, flag};
use crate::field::{FieldError, Path, Problem};

/// The most a ConfigMap or Secret may hold, so that it still fits into one stored object.
const LIMIT: usize = 1024 * 1024;

/// Keys become file names, so they may not escape a directory.
pub(super) fn keys(object: &Value, field: &'static str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, _) in entries(object, &format!("/{field}")) {
        for complaint in key_complaints(key) {
            errors.push(FieldError::invalid(Path::new(field).key(key), &json!(key), complaint));
        }
    }
    errors
}

/// What is wrong with a key of a ConfigMap or Secret.
pub(super) fn key_complaints(key: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if key.len() > 253 {
        complaints.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        complaints.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." | ".." => complaints.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => complaints.push("must not start with '..'".to_owned()),
        _ => {}
    }
    complaints
}

/// Refuses more than [`LIMIT`] bytes of values, base64 not counted.
pub(super) fn size(object: &Value, fields: &[&str], path: Path) -> Option<FieldError> {
    let bytes: usize = fields
        .iter()
        .flat_map(|field| {
            let encoded = *field != "data" || path.as_str() == "data";
            entries(object, &format!("/{field}")).map(move |(_, v)| (encoded, v.as_str().unwrap_or_default()))
        })
        .map(|(encoded, text)| if encoded { decoded_len(text) } else { text.len() })
        .sum();
    (bytes > LIMIT).then(|| FieldError {
        problem: Problem::TooLong,
        // A real server starts this path with a nameless field, which prints so.
        path: if path.as_str().is_empty() { Path::new("[]") } else { path },
        value: None,
        detail: format!("may not be more than {LIMIT} bytes"),
    })
}

fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|b| *b == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// What `immutable: true` forbids to change.
pub(super) fn immutable(object: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    let refused =
        |field: &str| FieldError::forbidden(Path::new(field), "field is immutable when `immutable` is set");
    if !flag(old, "/immutable") {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !flag(object, "/immutable") {
        errors.push(refused("immutable"));
    }
    errors.extend(fields.iter().filter(|f| object.get(**f) != old.get(**f)).map(|f| refused(f)));
    errors
}
