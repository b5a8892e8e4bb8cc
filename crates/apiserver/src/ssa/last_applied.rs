//! The annotation client-side `kubectl apply` keeps, and the way from it to server-side apply.

use serde_json::{Value, json};

use super::compare::compare;
use super::fields::Set;
use super::scalar;
use super::typed::{Duplicates, field_set, fits};
use super::types::Type;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The most bytes all annotations of an object may take.
const MOST_BYTES: usize = 256 * 1024;

/// The manager whose server-side applies stand for client-side ones, too.
pub(crate) const KUBECTL: &str = "kubectl";

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// The fields the last client-side apply set and that still have its values: the same user may take them over by a
/// server-side apply without a conflict. `None` where there was no such apply to go by.
pub(crate) fn adoptable(live: &Value, ty: Type<'_>, api_version: &str, kind: &str) -> Option<Set> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion") != Some(&json!(api_version)) || last.get("kind") != Some(&json!(kind)) {
        return None;
    }
    fits(live, ty, Duplicates::Refused).ok()?;
    fits(&last, ty, Duplicates::Refused).ok()?;
    let changed = compare(&last, live, ty);
    let set = field_set(&last, ty);
    Some(set.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}

/// Keeps the annotation in step, so that the next client-side apply does not undo the server-side one.
pub(crate) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut written = applied.clone();
    if let Some(annotations) = written.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{}\n", scalar::to_json(&written));
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION.to_owned(), json!(text));
        let size: usize =
            annotations.iter().map(|(k, v)| k.len() + v.as_str().unwrap_or_default().len()).sum();
        if size > MOST_BYTES {
            annotations.remove(ANNOTATION);
        }
    }
}
