//! The objects field management starts from when something is created.

use serde_json::{Value, json};

use super::Target;
use crate::decode::written;
use crate::schema::Schema;

/// Whether the kind is one of the built-in ones.
pub(crate) fn is_built_in(schema: &Schema) -> bool {
    schema.name.is_some()
}

/// What a new object of this kind holds by being of it, besides what its creator wrote. It counts as the creator's.
pub(crate) fn inherent(target: &Target<'_>) -> Option<Value> {
    // The template's generation is a field of the server's own DaemonSets and an annotation of everybody else's.
    (target.api_version == "apps/v1" && target.kind == "DaemonSet")
        .then(|| json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "0"}}}))
}

/// What an object of this kind looks like before anybody has set anything.
///
/// Built-in kinds start with the parts that are always there, which therefore nobody owns: a new Pod's `spec` is
/// not its creator's, only what stands in it. A custom resource starts with nothing.
pub(crate) fn empty(target: &Target<'_>) -> Value {
    let mut object = if is_built_in(target.schema) { written::zero(target.schema) } else { json!({}) };
    object["apiVersion"] = json!(target.api_version);
    object["kind"] = json!(target.kind);
    object
}
