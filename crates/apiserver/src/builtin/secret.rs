//! Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{entries, object_at, remove, text};
use super::keyed;
use super::table::{self, AGE, NAME, columns};
use crate::field::{FieldError, Path};
use crate::resource::{Behaviour, Column, Through};

pub(super) struct Secrets;

impl Behaviour for Secrets {
    fn default(&self, object: &mut Value) {
        // `stringData` is a way of writing: it is never stored.
        if let Some(Value::Object(plain)) = object.get("stringData").cloned() {
            remove(object, "stringData");
            let data = object_at(object, "data");
            for (key, value) in plain {
                data.insert(key, json!(STANDARD.encode(value.as_str().unwrap_or_default())));
            }
        }
        if text(object, "/type").is_empty() {
            object["type"] = json!("Opaque");
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let data = Path::new("data");
        let mut errors = keyed::keys(object, "data");
        errors.extend(keyed::size(object, &["data"], data.clone()));
        let has = |key: &str| object.pointer("/data").and_then(|d| d.get(key)).is_some();
        let mut need = |key: &str| errors.push(FieldError::required(data.key(key), ""));
        match text(object, "/type") {
            "kubernetes.io/service-account-token" => {
                const ACCOUNT: &str = "kubernetes.io/service-account.name";
                let annotations = object.pointer("/metadata/annotations");
                if annotations
                    .and_then(|a| a.get(ACCOUNT))
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .is_empty()
                {
                    errors.push(FieldError::required(Path::new("metadata.annotations").key(ACCOUNT), ""));
                }
            }
            kind @ ("kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson") => {
                let key = if kind.ends_with("json") { ".dockerconfigjson" } else { ".dockercfg" };
                if !has(key) {
                    need(key);
                }
            }
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
                need("username");
                need("password");
            }
            "kubernetes.io/ssh-auth" if !has("ssh-privatekey") => need("ssh-privatekey"),
            "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().filter(|k| !has(k)).for_each(need),
            _ => {}
        }
        errors
    }

    fn validate_update(&self, _through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if object.get("type") != old.get("type") {
            errors.push(FieldError::invalid(Path::new("type"), &object["type"], "field is immutable"));
        }
        errors.extend(keyed::immutable(object, old, &["data"]));
        errors.extend(self.validate(object));
        errors
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("type", text(object, "/type").to_owned())]
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[
            NAME,
            ("Type", "string", 0, "What the data is for."),
            ("Data", "string", 0, "How many keys it holds."),
            AGE,
        ])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![
            table::name(object),
            json!(text(object, "/type")),
            json!(entries(object, "/data").count()),
            table::age(object, now),
        ]
    }

    fn has_generation(&self) -> bool {
        false
    }
}
