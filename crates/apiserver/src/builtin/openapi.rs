//! The OpenAPI documents of the built-in kinds: what clients validate and explain with, and what our schemas are.
//!
//! They are reduced from a real server's documents by the `openapi-import` example.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

/// One served document: its place under `/openapi/v3`, and its JSON.
struct Document {
    place: &'static str,
    text: &'static str,
}

macro_rules! documents {
    ($($place:literal => $file:literal),* $(,)?) => {
        const DOCUMENTS: &[Document] =
            &[$(Document { place: $place, text: include_str!(concat!("../../openapi/", $file)) }),*];
    };
}

documents! {
    "api/v1" => "api_v1.json",
    "apis/apiextensions.k8s.io/v1" => "apis_apiextensions.k8s.io_v1.json",
    "apis/apps/v1" => "apis_apps_v1.json",
    "apis/authentication.k8s.io/v1" => "apis_authentication.k8s.io_v1.json",
    "apis/authorization.k8s.io/v1" => "apis_authorization.k8s.io_v1.json",
    "apis/coordination.k8s.io/v1" => "apis_coordination.k8s.io_v1.json",
    "apis/discovery.k8s.io/v1" => "apis_discovery.k8s.io_v1.json",
    "apis/events.k8s.io/v1" => "apis_events.k8s.io_v1.json",
    "apis/networking.k8s.io/v1" => "apis_networking.k8s.io_v1.json",
    "apis/policy/v1" => "apis_policy_v1.json",
    "apis/rbac.authorization.k8s.io/v1" => "apis_rbac.authorization.k8s.io_v1.json",
}

/// The document of a group-version, named as in `/openapi/v3/<group_version>`: `api/v1`, `apis/apps/v1`.
pub fn openapi_document(group_version: &str) -> Option<&'static [u8]> {
    DOCUMENTS.iter().find(|d| d.place == group_version).map(|d| d.text.as_bytes())
}

/// The types a group's document describes, by name.
pub(super) fn components(group: &str) -> Option<&'static Value> {
    static READ: LazyLock<BTreeMap<&'static str, Value>> = LazyLock::new(|| {
        let read = |document: &Document| -> Value {
            let mut whole: Value = serde_json::from_str(document.text)
                .expect("the OpenAPI documents are written by openapi-import");
            whole["components"]["schemas"].take()
        };
        DOCUMENTS.iter().map(|document| (document.place, read(document))).collect()
    });
    let place = if group.is_empty() { "api/v1".to_owned() } else { format!("apis/{group}/v1") };
    READ.get(place.as_str())
}
