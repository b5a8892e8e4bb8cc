//! The field numbers of the served types, read from the `generated.proto` files beside the Go types.
//!
//! Typed Go clients write built-in kinds in protobuf unless told otherwise. A message becomes a map from field number
//! to the field's JSON name and type: `string`, `bool`, `int`, `double`, `bytes` or a message, `[]` before a list, `{}`
//! before a map. A field whose struct JSON inlines has no name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::go::{PACKAGES, find_module};

/// Types the decoder knows by itself.
const SPECIAL: &[&str] = &["Time", "MicroTime", "Quantity", "IntOrString", "RawExtension", "FieldsV1"];

/// The table for the types in `wanted` and everything they reach.
pub(crate) fn numbers(modules: &Path, wanted: &BTreeMap<String, Value>) -> anyhow::Result<Value> {
    let mut messages = BTreeMap::new();
    // Clients write definitions of custom resources in JSON.
    for (module, package, prefix) in
        PACKAGES.iter().filter(|(module, ..)| *module != "apiextensions-apiserver@")
    {
        let path = find_module(modules, module)?.join(package).join("generated.proto");
        let source = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        read_messages(&source, prefix, &mut messages);
    }
    let mut open: Vec<String> = wanted.keys().cloned().collect();
    let mut seen = BTreeSet::new();
    let mut out = Map::new();
    while let Some(name) = open.pop() {
        let built_in = name.ends_with("List") || SPECIAL.iter().any(|s| name.rsplit('.').next() == Some(s));
        let Some(fields) = messages.get(&name).filter(|_| !built_in && seen.insert(name.clone())) else {
            continue;
        };
        let known = wanted.get(&name).and_then(|schema| schema["properties"].as_object());
        let mut entry = Map::new();
        for (number, field, kind) in fields {
            let plain = kind.trim_start_matches("[]").trim_start_matches("{}");
            open.push(plain.to_owned());
            // The two disagree about the case of one name (`uID`), and about structs JSON inlines.
            let spelled = known.and_then(|k| k.keys().find(|key| key.eq_ignore_ascii_case(field)));
            let inlined = known.is_some() && spelled.is_none() && messages.contains_key(plain);
            let json_name = if inlined { "" } else { spelled.map_or(field.as_str(), String::as_str) };
            entry.insert(number.clone(), json!([json_name, kind]));
        }
        out.insert(name, Value::Object(entry));
    }
    Ok(Value::Object(out))
}

type Fields = Vec<(String, String, String)>;

fn read_messages(source: &str, prefix: &str, into: &mut BTreeMap<String, Fields>) {
    let mut current: Option<(String, Fields)> = None;
    for line in source.lines().map(str::trim) {
        let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
        match (&mut current, &words[..]) {
            (None, ["message", name, "{"]) => current = Some((format!("{prefix}.{name}"), Vec::new())),
            (Some(_), ["}"]) => into.extend(current.take()),
            (Some((_, fields)), ["optional", kind, name, "=", number]) => {
                fields.push(((*number).to_owned(), (*name).to_owned(), code(kind, prefix)));
            }
            (Some((_, fields)), ["repeated", kind, name, "=", number]) => {
                fields.push(((*number).to_owned(), (*name).to_owned(), format!("[]{}", code(kind, prefix))));
            }
            (Some((_, fields)), [key, kind, name, "=", number]) if key.starts_with("map<string") => {
                let kind = code(kind.trim_end_matches('>'), prefix);
                fields.push(((*number).to_owned(), (*name).to_owned(), format!("{{}}{kind}")));
            }
            (Some(_) | None, _) => {}
        }
    }
}

fn code(kind: &str, prefix: &str) -> String {
    match kind {
        "int32" | "int64" => "int".to_owned(),
        "string" | "bool" | "bytes" | "double" => kind.to_owned(),
        _ => {
            let last = kind.rsplit('.').next().unwrap_or(kind);
            if SPECIAL.contains(&last) {
                last.to_owned()
            } else if let Some(path) = kind.strip_prefix(".k8s.io.") {
                format!("io.k8s.{path}")
            } else {
                format!("{prefix}.{last}")
            }
        }
    }
}
