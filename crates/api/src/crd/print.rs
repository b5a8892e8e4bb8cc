//! Definitions as YAML.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

const HEADER: &str = "# Printed from the types in crates/api by `make crds`; a change made here is lost.\n";

pub(super) fn yaml(value: &Value) -> String {
    let body = serde_saphyr::to_string(&Sorted(value)).expect("JSON is YAML");
    format!("{HEADER}{}\n", body.trim_end())
}

/// Keys in alphabetical order, whatever order another crate of the build asks JSON objects to keep.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let mut keys: Vec<_> = map.iter().collect();
                keys.sort_by_key(|(key, _)| key.as_str());
                let mut out = serializer.serialize_map(Some(keys.len()))?;
                for (key, value) in keys {
                    out.serialize_entry(key, &Sorted(value))?;
                }
                out.end()
            }
            Value::Array(items) => {
                let mut out = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    out.serialize_element(&Sorted(item))?;
                }
                out.end()
            }
            leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                leaf.serialize(serializer)
            }
        }
    }
}
