//! Reduces the OpenAPI v3 documents of a real API server to what the embedded one serves.
//!
//! ```text
//! for gv in api/v1 apis/apps/v1 …; do
//!     kubectl get --raw /openapi/v3/$gv > raw/$(echo $gv | tr / _).json
//! done
//! cargo run -p netferry-apiserver --example openapi-import -- raw "$(go env GOMODCACHE)/k8s.io"
//! ```
//!
//! What is left of a document: the paths of the resources listed in [`SERVED`] and the types they reach,
//! without prose, with one media type per body, one path or type per line. The result is deterministic,
//! so that moving to another Kubernetes release is a diff somebody can read. `go.json` beside them says
//! which Go types the fields have and which are written when empty, `protobuf.json` how typed clients number them.

mod go;
mod protobuf;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

/// The group-versions and, of each, the resources (with the subresources after the slash) we serve.
const SERVED: &[(&str, &[&str])] = &[
    (
        "api/v1",
        &[
            "bindings",
            "configmaps",
            "events",
            "namespaces",
            "namespaces/finalize",
            "namespaces/status",
            "nodes",
            "nodes/status",
            "pods",
            "pods/binding",
            "pods/ephemeralcontainers",
            "pods/eviction",
            "pods/resize",
            "pods/status",
            "secrets",
            "serviceaccounts",
            "serviceaccounts/token",
            "services",
            "services/status",
        ],
    ),
    ("apis/apiextensions.k8s.io/v1", &["customresourcedefinitions", "customresourcedefinitions/status"]),
    (
        "apis/apps/v1",
        &[
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
        ],
    ),
    ("apis/authentication.k8s.io/v1", &["selfsubjectreviews"]),
    ("apis/authorization.k8s.io/v1", &["selfsubjectaccessreviews"]),
    ("apis/coordination.k8s.io/v1", &["leases"]),
    ("apis/discovery.k8s.io/v1", &["endpointslices"]),
    ("apis/events.k8s.io/v1", &["events"]),
    ("apis/networking.k8s.io/v1", &["networkpolicies"]),
    ("apis/policy/v1", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    ("apis/rbac.authorization.k8s.io/v1", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"]),
];

/// Where the reduced documents live.
const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi");

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(raw), Some(modules)) = (arguments.next(), arguments.next()) else {
        bail!(
            "usage: openapi-import <directory of raw documents: api_v1.json, …> <directory of k8s.io Go modules>"
        );
    };
    let mut types = BTreeMap::new();
    for (group_version, resources) in SERVED {
        let file = format!("{}.json", group_version.replace('/', "_"));
        let reduced = reduce(&read(&raw.join(&file))?, group_version, resources)
            .with_context(|| format!("reducing {file}"))?;
        let target = Path::new(TARGET).join(&file);
        write_by_line(&target, &reduced).with_context(|| format!("writing {}", target.display()))?;
        let schemas =
            reduced["components"]["schemas"].as_object().context("a reduced document has schemas")?;
        types.extend(schemas.iter().map(|(name, schema)| (name.clone(), schema.clone())));
    }
    let fields = go::fields(&modules, &types)?;
    let numbers = protobuf::numbers(&modules, &types)?;
    std::fs::write(Path::new(TARGET).join("protobuf.json"), format!("{{\n{}\n}}\n", lines(&numbers)))?;
    std::fs::write(Path::new(TARGET).join("go.json"), format!("{{\n{}\n}}\n", lines(&fields)))?;
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("parsing {}", path.display()))
}

fn reduce(document: &Value, group_version: &str, resources: &[&str]) -> anyhow::Result<Value> {
    let all = document["paths"].as_object().context("the document has no paths")?;
    let mut paths = Map::new();
    let mut found = BTreeSet::new();
    for (path, item) in all {
        if let Some(resource) = resource_of(path, group_version)
            && resources.contains(&resource.as_str())
        {
            found.insert(resource);
            paths.insert(path.clone(), reduced_path(item));
        }
    }
    if let Some(missing) = resources.iter().find(|r| !found.contains(**r)) {
        bail!("no path of {missing}");
    }
    let schemas = reached(&Value::Object(paths.clone()), &document["components"]["schemas"])?;
    Ok(json!({
        "openapi": document["openapi"],
        "info": {"title": "Kubernetes", "version": document["info"]["version"]},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// `pods/status` of `/api/v1/namespaces/{namespace}/pods/{name}/status`; nothing for watch and proxy paths.
fn resource_of(path: &str, group_version: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?.strip_prefix(group_version)?.strip_prefix('/')?;
    let rest = rest.strip_prefix("namespaces/{namespace}/").unwrap_or(rest);
    let parts: Vec<&str> = rest.split('/').collect();
    match parts[..] {
        [resource] | [resource, "{name}"] if !resource.is_empty() => Some(resource.to_owned()),
        [resource, "{name}", sub] => Some(format!("{resource}/{sub}")),
        _ => None,
    }
}

fn reduced_path(item: &Value) -> Value {
    let mut kept = Map::new();
    for (key, value) in item.as_object().into_iter().flatten() {
        let value = match key.as_str() {
            "parameters" => reduced_parameters(value),
            "get" | "post" | "put" | "patch" | "delete" => reduced_operation(value),
            _ => continue,
        };
        kept.insert(key.clone(), value);
    }
    Value::Object(kept)
}

fn reduced_operation(operation: &Value) -> Value {
    let mut kept = Map::new();
    for (key, value) in operation.as_object().into_iter().flatten() {
        let value = match key.as_str() {
            "operationId" => value.clone(),
            "parameters" => reduced_parameters(value),
            "requestBody" => without_prose(value),
            "responses" => reduced_responses(value),
            extension if extension.starts_with("x-kubernetes-") => value.clone(),
            _ => continue,
        };
        kept.insert(key.clone(), value);
    }
    Value::Object(kept)
}

/// Name and place: the types of Kubernetes' query parameters are plain scalars.
fn reduced_parameters(parameters: &Value) -> Value {
    let reduced = |p: &Value| {
        let mut kept = json!({"name": p["name"], "in": p["in"], "schema": {"type": p["schema"]["type"]}});
        if p["required"] == json!(true) {
            kept["required"] = json!(true);
        }
        kept
    };
    parameters.as_array().into_iter().flatten().map(reduced).collect()
}

fn reduced_responses(responses: &Value) -> Value {
    let mut kept = Map::new();
    for (code, response) in responses.as_object().into_iter().flatten() {
        let mut one = json!({"description": response["description"]});
        if let Some(body) = response["content"].get("application/json") {
            one["content"] = json!({"application/json": without_prose(body)});
        }
        kept.insert(code.clone(), one);
    }
    Value::Object(kept)
}

/// The types `paths` name, and the types those name.
fn reached(paths: &Value, schemas: &Value) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    let mut open = references(paths);
    while let Some(name) = open.pop_first() {
        let schema = schemas.get(&name).with_context(|| format!("no schema {name}"))?;
        let schema = without_prose(schema);
        open.extend(references(&schema).into_iter().filter(|n| *n != name && !found.contains_key(n)));
        found.insert(name, schema);
    }
    Ok(found)
}

fn references(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref")
                    && let Some(name) = reference.strip_prefix("#/components/schemas/")
                {
                    found.insert(name.to_owned());
                }
                open.extend(map.values());
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// Drops `description` where it is prose; a property of that name (as in an Event's schema) is an object and stays.
fn without_prose(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !(*key == "description" && value.is_string()))
            .map(|(key, value)| (key.clone(), without_prose(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_prose).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Writes `document` with one path and one type per line.
fn write_by_line(target: &Path, document: &Value) -> anyhow::Result<()> {
    let mut out = Vec::new();
    writeln!(out, "{{\"openapi\":{},\"info\":{},", document["openapi"], document["info"])?;
    writeln!(out, "\"paths\":{{\n{}\n}},", lines(&document["paths"]))?;
    writeln!(out, "\"components\":{{\"schemas\":{{\n{}\n}}}}}}", lines(&document["components"]["schemas"]))?;
    std::fs::write(target, out)?;
    Ok(())
}

fn lines(map: &Value) -> String {
    let lines: Vec<String> =
        map.as_object().into_iter().flatten().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    lines.join(",\n")
}
