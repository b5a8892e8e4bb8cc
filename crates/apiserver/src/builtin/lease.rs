//! Leases: who holds something, and until when.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::text;
use super::table::{self, AGE, NAME, columns};
use crate::field::{FieldError, Path};
use crate::resource::{Behaviour, Column, Through};

pub(super) struct Leases;

impl Behaviour for Leases {
    fn prepare_create(&self, object: &mut Value) {
        drop_coordinated(object);
    }

    fn prepare_update(&self, _through: Through, object: &mut Value, _old: &Value) {
        drop_coordinated(object);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let spec = Path::new("spec");
        let mut errors = Vec::new();
        let at = |field: &str| object.pointer(&format!("/spec/{field}"));
        if let Some(seconds) = at("leaseDurationSeconds").filter(|s| s.as_i64().is_some_and(|s| s <= 0)) {
            errors.push(FieldError::invalid(
                spec.child("leaseDurationSeconds"),
                seconds,
                "must be greater than 0",
            ));
        }
        if let Some(transitions) = at("leaseTransitions").filter(|t| t.as_i64().is_some_and(|t| t < 0)) {
            errors.push(FieldError::invalid(
                spec.child("leaseTransitions"),
                transitions,
                "must be greater than or equal to 0",
            ));
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[NAME, ("Holder", "string", 0, "Who holds the lease now."), AGE])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![table::name(object), json!(text(object, "/spec/holderIdentity")), table::age(object, now)]
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }
}

/// The fields of coordinated leader election belong to a feature that is off: they are dropped, not refused.
fn drop_coordinated(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}
