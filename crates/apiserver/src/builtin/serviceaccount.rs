//! ServiceAccounts.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{items, items_mut, text};
use super::table::{self, AGE, NAME, columns};
use crate::resource::{Behaviour, Column, Through};

pub(super) struct ServiceAccounts;

impl Behaviour for ServiceAccounts {
    fn prepare_create(&self, object: &mut Value) {
        only_names(object);
    }

    fn prepare_update(&self, _through: Through, object: &mut Value, _old: &Value) {
        only_names(object);
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[NAME, ("Secrets", "string", 0, "How many secrets its pods may mount."), AGE])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![table::name(object), json!(items(object, "/secrets").len()), table::age(object, now)]
    }

    fn has_generation(&self) -> bool {
        false
    }
}

/// A secret is referred to by its name alone: it lives in the account's namespace.
fn only_names(object: &mut Value) {
    for secret in items_mut(object, "/secrets") {
        *secret = match text(secret, "/name") {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}
