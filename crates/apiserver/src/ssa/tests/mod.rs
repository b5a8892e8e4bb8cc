mod owners;
mod properties;
mod sets;
mod values;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::Target;
use crate::schema::{Schema, SchemaRef};

const NOW: &str = "2026-03-01T00:00:00Z";
const LATER: &str = "2026-03-02T00:00:00Z";

static GADGET: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = include_str!("../../../tests/data/ssa/gadget-schema.json");
    let schema: Value = serde_json::from_str(text).expect("JSON");
    Schema::from_crd(&schema).expect("a schema")
});

static STATUS: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| vec![vec!["status"]]);

fn gadget() -> Target<'static> {
    Target {
        schema: &GADGET,
        api_version: "ssa.test/v1",
        kind: "Gadget",
        served: &[],
        subresource: None,
        reset: &STATUS,
    }
}

fn config(spec: Value) -> Value {
    json!({"apiVersion": "ssa.test/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": spec})
}

/// What the server adds to an object it stores.
fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("0a1b");
    object
}

fn entry<'v>(object: &'v Value, manager: &str) -> Option<&'v Value> {
    object["metadata"]["managedFields"].as_array()?.iter().find(|entry| entry["manager"] == manager)
}
