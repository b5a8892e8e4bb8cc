//! CustomResourceDefinitions as a table; what they mean is the business of `crd`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::text;
use super::table::{self, CREATED_AT, NAME, columns};
use crate::resource::Column;

/// The columns of `kubectl get crd`.
pub fn definition_columns() -> Vec<Column> {
    columns(&[NAME, CREATED_AT])
}

/// The cells of one definition's row.
pub fn definition_cells(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![table::name(object), json!(text(object, "/metadata/creationTimestamp"))]
}
