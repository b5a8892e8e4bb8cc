//! What the server is and serves: versions, health, discovery in both forms, OpenAPI.

mod left_out;
mod openapi;
mod openapi_v2;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::catalog::Catalog;
use crate::http::{Call, Outcome};
use crate::resource::{Resource, Subresource};
use crate::server::Core;
use crate::status::ApiError;

pub(crate) use left_out::left_out;

/// The Kubernetes version this server answers like.
const MAJOR: &str = "1";
const MINOR: &str = "34";
const GIT_VERSION: &str = concat!("v1.34.4+netferry.", env!("CARGO_PKG_VERSION"));

/// Built-in groups in the order a real server lists them; custom groups follow by name.
const GROUP_ORDER: [&str; 11] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

pub(crate) fn document(
    core: &Arc<Core>,
    catalog: &Catalog,
    call: &Call,
    segments: &[&str],
) -> Result<Outcome, ApiError> {
    if call.method != Method::GET {
        return Err(ApiError::no_such_method());
    }
    match segments {
        [] => Ok(Outcome::json(&json!({"paths": paths(catalog)}))),
        ["healthz" | "livez" | "readyz", ..] => Ok(Outcome::Plain(StatusCode::OK, "ok".to_owned())),
        ["version"] => Ok(Outcome::json(&version())),
        ["api"] if wants_aggregated(call) => Ok(aggregated(catalog, true)),
        ["apis"] if wants_aggregated(call) => Ok(aggregated(catalog, false)),
        ["api"] => Ok(Outcome::json(&json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host(call)}],
        }))),
        ["apis"] => {
            let groups: Vec<Value> =
                ordered_groups(catalog).iter().map(|(g, v)| group(g, v, false)).collect();
            Ok(Outcome::json(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})))
        }
        ["apis", name] => match ordered_groups(catalog).iter().find(|(group, _)| group == name) {
            Some((name, versions)) => Ok(Outcome::json(&group(name, versions, true))),
            None => Ok(Outcome::Plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
        },
        ["api", version] => resources(catalog, "", version),
        ["apis", group, version] => resources(catalog, group, version),
        ["openapi", rest @ ..] => openapi::document(core, catalog, call, rest),
        _ => Ok(Outcome::Plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
    }
}

fn host(call: &Call) -> &str {
    call.header(http::header::HOST).unwrap_or("localhost")
}

fn version() -> Value {
    json!({
        "major": MAJOR, "minor": MINOR, "emulationMajor": MAJOR, "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR, "minCompatibilityMinor": "33", "gitVersion": GIT_VERSION,
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": format!("linux/{}", std::env::consts::ARCH),
    })
}

fn paths(catalog: &Catalog) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in ordered_groups(catalog) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    paths.sort();
    paths
}

/// All named groups with their versions, preferred first.
pub(crate) fn ordered_groups(catalog: &Catalog) -> Vec<(String, Vec<String>)> {
    let mut groups = catalog.groups();
    groups.remove("");
    for (virtual_group, version) in [("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1")] {
        groups.entry(virtual_group.to_owned()).or_insert_with(|| vec![version.to_owned()]);
    }
    let mut ordered: Vec<(String, Vec<String>)> = groups.into_iter().collect();
    ordered.sort_by_key(|(group, _)| {
        let place = GROUP_ORDER.iter().position(|known| known == group).unwrap_or(GROUP_ORDER.len());
        (place, group.clone())
    });
    ordered
}

fn group(name: &str, versions: &[String], alone: bool) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let mut group = json!({
        "name": name,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    });
    if alone {
        group["kind"] = json!("APIGroup");
        group["apiVersion"] = json!("v1");
    }
    group
}

/// The reviews that are answered without being stored.
fn virtual_resources(group: &str) -> Vec<Value> {
    let review = |name: &str, singular: &str, kind: &str| {
        let namespaced = kind == "Binding";
        json!({"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": ["create"]})
    };
    match group {
        "" => vec![review("bindings", "binding", "Binding")],
        "authentication.k8s.io" => {
            vec![review("selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview")]
        }
        "authorization.k8s.io" => {
            vec![review("selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview")]
        }
        _ => Vec::new(),
    }
}

fn verbs(resource: &Resource) -> Value {
    if resource.custom {
        return json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
    }
    if resource.group.is_empty() && resource.plural == "namespaces" {
        return json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    }
    json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
}

/// What a subresource answers with, and its verbs.
fn part(resource: &Resource, part: Subresource) -> (&'static str, &'static str, String, Value) {
    let own = || resource.kind.clone();
    match part {
        Subresource::Status | Subresource::EphemeralContainers | Subresource::Resize => {
            ("", "", own(), json!(["get", "patch", "update"]))
        }
        Subresource::Scale => ("autoscaling", "v1", "Scale".to_owned(), json!(["get", "patch", "update"])),
        Subresource::Binding => ("", "", "Binding".to_owned(), json!(["create"])),
        Subresource::Eviction => ("policy", "v1", "Eviction".to_owned(), json!(["create"])),
        Subresource::Token => ("authentication.k8s.io", "v1", "TokenRequest".to_owned(), json!(["create"])),
        Subresource::Finalize => ("", "", own(), json!(["update"])),
    }
}

fn sorted_parts(resource: &Resource) -> Vec<Subresource> {
    let mut parts = resource.subresources.clone();
    if !resource.custom {
        parts.sort_by_key(|part| part.name());
    }
    parts
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Result<Outcome, ApiError> {
    let mut list = Vec::new();
    for resource in catalog.of_version(group, version) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": verbs(resource),
        });
        extend(&mut entry, resource);
        entry["storageVersionHash"] = json!(storage_hash(resource));
        list.push(entry);
        for sub in sorted_parts(resource) {
            let (group, version, kind, verbs) = part(resource, sub);
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name()), "singularName": "",
                "namespaced": resource.namespaced, "kind": kind, "verbs": verbs,
            });
            if !group.is_empty() {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            list.push(entry);
        }
    }
    if version == "v1" {
        // They come first in every group that has any: `bindings` before `configmaps`.
        list.splice(0..0, virtual_resources(group));
    }
    if list.is_empty() {
        let known = catalog.all().any(|resource| !resource.custom && resource.group == group);
        if known {
            return Err(ApiError::no_such_resource());
        }
        return Ok(Outcome::Plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut body = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": list});
    if !group.is_empty() {
        body["apiVersion"] = json!("v1");
    }
    Ok(Outcome::json(&body))
}

fn extend(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
}

fn storage_hash(resource: &Resource) -> String {
    // Two kinds a real server does not keep in the version it shows them in.
    let stored = match (resource.group.as_str(), resource.kind.as_str()) {
        ("events.k8s.io", "Event") => "/v1".to_owned(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => "apiextensions.k8s.io/v1beta1".to_owned(),
        (group, _) => format!("{group}/{}", resource.storage_version),
    };
    let text = format!("{stored}/{}", resource.kind);
    STANDARD.encode(&Sha256::digest(text.as_bytes())[..8])
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn wants_aggregated(call: &Call) -> bool {
    call.accept().is_some_and(|accept| {
        accept.split(',').next().is_some_and(|first| {
            let parts: Vec<&str> = first.split(';').map(str::trim).collect();
            parts.first() == Some(&"application/json")
                && parts.contains(&"as=APIGroupDiscoveryList")
                && parts.contains(&"v=v2")
        }) || (accept.contains("v=v2;as=APIGroupDiscoveryList")
            && accept.contains("application/json;g=apidiscovery"))
    })
}

fn aggregated(catalog: &Catalog, core_group: bool) -> Outcome {
    let groups =
        if core_group { vec![(String::new(), vec!["v1".to_owned()])] } else { ordered_groups(catalog) };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| json!({"version": version, "resources": aggregated_resources(catalog, group, version), "freshness": "Current"}))
                .collect();
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let body = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    Outcome::Typed(HeaderValue::from_static(AGGREGATED), Bytes::from(body.to_string()))
}

fn aggregated_resources(catalog: &Catalog, group: &str, version: &str) -> Vec<Value> {
    // Custom resources say their group and version, built-in ones leave it to the group they stand in.
    let kind_of = |resource: &Resource, group: &str, version: &str, kind: &str| {
        if resource.custom && group.is_empty() {
            json!({"group": resource.group, "version": resource.version, "kind": kind})
        } else {
            json!({"group": group, "version": version, "kind": kind})
        }
    };
    let mut list: Vec<Value> = catalog
        .of_version(group, version)
        .map(|resource| {
            let mut entry = json!({
                "resource": resource.plural,
                "responseKind": kind_of(resource, "", "", &resource.kind),
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular,
                "verbs": verbs(resource),
            });
            extend(&mut entry, resource);
            let parts: Vec<Value> = sorted_parts(resource)
                .into_iter()
                .map(|sub| {
                    let (group, version, kind, verbs) = part(resource, sub);
                    json!({"subresource": sub.name(), "responseKind": kind_of(resource, group, version, &kind), "verbs": verbs})
                })
                .collect();
            if !parts.is_empty() {
                entry["subresources"] = json!(parts);
            }
            entry
        })
        .collect();
    if version == "v1" {
        let made_up = virtual_resources(group).into_iter().map(|entry| {
            let mut out = Map::new();
            out.insert("resource".to_owned(), entry["name"].clone());
            out.insert("responseKind".to_owned(), json!({"group": "", "version": "", "kind": entry["kind"]}));
            let scope = if entry["namespaced"] == true { "Namespaced" } else { "Cluster" };
            out.insert("scope".to_owned(), json!(scope));
            out.insert("singularResource".to_owned(), entry["singularName"].clone());
            out.insert("verbs".to_owned(), entry["verbs"].clone());
            Value::Object(out)
        });
        list.splice(0..0, made_up.collect::<Vec<_>>());
    }
    list
}
