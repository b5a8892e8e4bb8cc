//! Lists of resource amounts: `cpu: 500m`, `memory: 1Gi`.

use serde_json::{Value, json};

use super::access::entries;
use super::quantity::Quantity;
use crate::field::{FieldError, Path};

/// Rounds every amount of a list up to a thousandth, the finest a resource list holds.
pub(super) fn round(list: Option<&mut Value>) {
    for amount in list.and_then(Value::as_object_mut).into_iter().flat_map(|m| m.values_mut()) {
        if let Some(quantity) = amount.as_str().and_then(Quantity::parse) {
            *amount = json!(quantity.to_milli().to_string());
        }
    }
}

/// Refuses negative amounts.
pub(super) fn quantities(object: &Value, pointer: &str, path: &Path) -> Vec<FieldError> {
    entries(object, pointer)
        .filter_map(|(name, amount)| {
            let quantity = Quantity::parse(amount.as_str().unwrap_or_default())?;
            (quantity.nano() < 0)
                .then(|| FieldError::invalid(path.key(name), amount, "must be greater than or equal to 0"))
        })
        .collect()
}
