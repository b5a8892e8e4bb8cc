//! ConfigMaps.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::entries;
use super::keyed;
use super::table::{self, AGE, NAME, columns};
use crate::field::{FieldError, Path};
use crate::resource::{Behaviour, Column, Through};

pub(super) struct ConfigMaps;

impl Behaviour for ConfigMaps {
    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = keyed::keys(object, "data");
        for (key, _) in entries(object, "/data") {
            if object.pointer("/binaryData").and_then(|b| b.get(key)).is_some() {
                errors.push(FieldError::invalid(
                    Path::new("data").key(key),
                    &json!(key),
                    "duplicate of key present in binaryData",
                ));
            }
        }
        errors.extend(keyed::keys(object, "binaryData"));
        // The whole object is at fault; upstream prints that as an empty key.
        errors.extend(keyed::size(object, &["data", "binaryData"], Path::new("[]")));
        errors
    }

    fn validate_update(&self, _through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = keyed::immutable(object, old, &["data", "binaryData"]);
        errors.extend(self.validate(object));
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[NAME, ("Data", "string", 0, "How many keys it holds, text and binary."), AGE])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let keys = entries(object, "/data").count() + entries(object, "/binaryData").count();
        vec![table::name(object), json!(keys), table::age(object, now)]
    }

    fn has_generation(&self) -> bool {
        false
    }
}
