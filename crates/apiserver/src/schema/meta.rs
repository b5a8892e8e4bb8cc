//! The schema of `metadata`, which custom resources have without declaring it.

use std::sync::LazyLock;

use serde_json::json;

use super::{Schema, SchemaRef};

static OBJECT_META: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let whole = json!({"type": "integer"});
    let flag = json!({"type": "boolean"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let time = json!({"type": "string", "format": "date-time"});
    Schema::from_crd(&json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text, "resourceVersion": text,
        "generation": whole, "creationTimestamp": time, "deletionTimestamp": time, "deletionGracePeriodSeconds": whole,
        "labels": texts, "annotations": texts,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object", "x-kubernetes-map-type": "atomic", "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": text, "kind": text, "name": text, "uid": text, "controller": flag, "blockOwnerDeletion": flag,
                },
            },
        },
        "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object", "properties": {
            "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text, "subresource": text,
            "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
    }}))
    .expect("the schema of metadata is well formed")
});

/// The schema of `metadata` as every resource has it.
pub fn object_meta() -> SchemaRef {
    OBJECT_META.clone()
}
