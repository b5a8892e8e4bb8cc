//! Namespaces: the finalizer that keeps one until it is empty, and the label it is selected by.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{fill_map, keep, object_at, present, text};
use super::table::{self, AGE, NAME, columns};
use crate::field::{FieldError, Path};
use crate::resource::{Behaviour, Column, NameRule, Subresource, Through};

/// The label every namespace carries its own name in, so that policies can select it.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer the namespace controller removes when nothing is left inside.
const FINALIZER: &str = "kubernetes";

pub(super) struct Namespaces;

impl Behaviour for Namespaces {
    fn default(&self, object: &mut Value) {
        label_with_name(object);
        fill_map(object_at(object, "status"), "phase", "Active");
    }

    fn prepare_create(&self, object: &mut Value) {
        // A generated name exists only now.
        label_with_name(object);
        object["status"] = json!({"phase": "Active"});
        let spec = object_at(object, "spec");
        fill_map(spec, "finalizers", json!([]));
        if let Some(Value::Array(finalizers)) = spec.get_mut("finalizers")
            && !finalizers.contains(&json!(FINALIZER))
        {
            finalizers.push(json!(FINALIZER));
        }
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        label_with_name(object);
        match through {
            Through::Main => {
                keep(object, old, "spec");
                keep(object, old, "status");
            }
            Through::Sub(Subresource::Status) => keep(object, old, "spec"),
            Through::Sub(_) => keep(object, old, "status"),
        }
    }

    fn validate_update(&self, through: Through, object: &Value, _old: &Value) -> Vec<FieldError> {
        let deleting = present(object, "/metadata/deletionTimestamp");
        let (wanted, when) = if deleting { ("Terminating", "not empty") } else { ("Active", "empty") };
        let phase = text(object, "/status/phase");
        if through != Through::Sub(Subresource::Status) || phase == wanted {
            return Vec::new();
        }
        // Spelled with a capital upstream; clients match on it.
        vec![FieldError::invalid(
            Path::new("status.Phase"),
            &json!(phase),
            format!("may only be '{wanted}' if `deletionTimestamp` is {when}"),
        )]
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.phase", text(object, "/status/phase").to_owned())]
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[NAME, ("Status", "string", 0, "Active, or Terminating while it is being emptied."), AGE])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![table::name(object), json!(text(object, "/status/phase")), table::age(object, now)]
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        match through {
            Through::Sub(Subresource::Status) => vec![vec!["spec"]],
            Through::Main | Through::Sub(_) => vec![vec!["status"]],
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn deletes_collections(&self) -> bool {
        false
    }
}

fn label_with_name(object: &mut Value) {
    let name = text(object, "/metadata/name").to_owned();
    if !name.is_empty() {
        let metadata = &mut object["metadata"];
        object_at(metadata, "labels").insert(NAME_LABEL.to_owned(), json!(name));
    }
}
