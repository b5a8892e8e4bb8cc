//! How large a document may become while it is decoded or patched: a few bytes can ask for gigabytes.

use serde_json::Value;

use super::BODY_LIMIT;
use super::doc::Doc;

/// How deep a document may nest, as it is sent and as a patch leaves it. The data file wraps objects in a record, and its
/// reader stops at 128. No Kubernetes object comes near.
pub(crate) const DEPTH: usize = 100;

/// The bytes that one request may still have copied inside the document it sends or changes.
#[derive(Debug)]
pub(crate) struct CopyBudget(usize);

impl Default for CopyBudget {
    /// As much as a body may hold.
    fn default() -> CopyBudget {
        CopyBudget(BODY_LIMIT)
    }
}

impl CopyBudget {
    /// Spends this many bytes; `None` if there are not as many left.
    pub(crate) fn spend(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(bytes)?;
        Some(())
    }
}

/// About what one node takes in memory besides its text.
const NODE: usize = 32;

/// About how many bytes a document takes.
pub(crate) fn bytes_of_doc(doc: &Doc) -> usize {
    NODE + match doc {
        Doc::Null | Doc::Bool(_) => 0,
        Doc::Number(text) | Doc::String(text) => text.len(),
        Doc::Array(items) => items.iter().map(bytes_of_doc).sum(),
        Doc::Object(fields) => fields.iter().map(|(key, value)| key.len() + bytes_of_doc(value)).sum(),
    }
}

/// About how many bytes of JSON a value is, which is what the real server counts of a patch's copies.
pub(crate) fn bytes_of_value(value: &Value) -> usize {
    2 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 2,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of_value).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + bytes_of_value(value)).sum(),
    }
}

/// Returns true if a value nests at most this deep. A scalar nests 0 deep.
pub(crate) fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => depth > 0 && items.iter().all(|item| fits(item, depth - 1)),
        Value::Object(fields) => depth > 0 && fields.values().all(|value| fits(value, depth - 1)),
    }
}
