//! OpenAPI: the built-in v3 documents as they are, one per custom group and version made from its definitions, and
//! all of them together in v2.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::openapi_v2;
use crate::builtin;
use crate::catalog::Catalog;
use crate::http::{Call, Outcome};
use crate::server::Core;
use crate::status::ApiError;

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

pub(super) fn document(
    core: &Arc<Core>,
    catalog: &Catalog,
    call: &Call,
    rest: &[&str],
) -> Result<Outcome, ApiError> {
    match rest {
        ["v2"] => Ok(second_version(core, catalog, call)),
        ["v3"] => {
            let media = HeaderValue::from_static("text/plain; charset=utf-8");
            Ok(Outcome::Typed(media, Bytes::from(index(core, catalog).to_string())))
        }
        ["v3", path @ ..] => {
            let path = path.join("/");
            match built_in(&path).or_else(|| custom(core, &path)) {
                Some(body) => Ok(Outcome::Typed(HeaderValue::from_static("application/json"), body)),
                None => Ok(Outcome::Plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
            }
        }
        _ => Ok(Outcome::Plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
    }
}

fn built_in(path: &str) -> Option<Bytes> {
    builtin::openapi_document(path).map(Bytes::from_static)
}

/// Every document with its place under `/openapi/v3`.
fn documents(core: &Arc<Core>, catalog: &Catalog) -> Vec<(String, Bytes)> {
    let groups = super::ordered_groups(catalog).into_iter();
    let named = groups.flat_map(|(group, versions)| {
        versions.into_iter().map(move |version| format!("apis/{group}/{version}"))
    });
    std::iter::once("api/v1".to_owned())
        .chain(named)
        .filter_map(|path| built_in(&path).or_else(|| custom(core, &path)).map(|body| (path, body)))
        .collect()
}

fn index(core: &Arc<Core>, catalog: &Catalog) -> Value {
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    for (path, body) in documents(core, catalog) {
        let hash: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02X}")).collect();
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn second_version(core: &Arc<Core>, catalog: &Catalog, call: &Call) -> Outcome {
    let documents: Vec<Value> =
        documents(core, catalog).iter().filter_map(|(_, body)| serde_json::from_slice(body).ok()).collect();
    let version = format!("{}.{}", super::MAJOR, super::MINOR);
    let document = openapi_v2::document(documents.iter(), &version);
    if call.accept().is_some_and(|accept| accept.contains("proto-openapi.spec.v2@v1.0+protobuf")) {
        return Outcome::Typed(HeaderValue::from_static(V2_PROTOBUF), openapi_v2::protobuf(&document).into());
    }
    Outcome::Typed(HeaderValue::from_static("application/json"), document.to_string().into())
}

/// The document of a custom group and version.
fn custom(core: &Arc<Core>, path: &str) -> Option<Bytes> {
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let definitions: Vec<Value> = {
        let state = core.lock();
        state
            .store
            .table("customresourcedefinitions.apiextensions.k8s.io")?
            .all()
            .map(|stored| stored.object())
            .collect()
    };
    let mut schemas = BTreeMap::new();
    let mut paths = BTreeMap::new();
    for definition in definitions.iter().filter(|definition| definition["spec"]["group"] == group) {
        let Some(served) = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|candidate| candidate["name"] == version && candidate["served"] == true)
        else {
            continue;
        };
        describe(definition, served, group, version, &mut schemas, &mut paths);
    }
    if schemas.is_empty() {
        return None;
    }
    let core_v1: Value = serde_json::from_slice(&built_in("api/v1")?).ok()?;
    carry_over(&core_v1, OBJECT_META, &mut schemas);
    carry_over(&core_v1, LIST_META, &mut schemas);
    let body = json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths, "components": {"schemas": schemas},
    });
    Some(Bytes::from(body.to_string()))
}

/// Copies a schema and those it refers to.
fn carry_over(from: &Value, name: &str, into: &mut BTreeMap<String, Value>) {
    if into.contains_key(name) {
        return;
    }
    let schema = from["components"]["schemas"][name].clone();
    if schema.is_null() {
        return;
    }
    let text = schema.to_string();
    into.insert(name.to_owned(), schema);
    for reference in text.split("#/components/schemas/").skip(1) {
        if let Some((next, _)) = reference.split_once('"') {
            carry_over(from, next, into);
        }
    }
}

fn describe(
    definition: &Value,
    served: &Value,
    group: &str,
    version: &str,
    schemas: &mut BTreeMap<String, Value>,
    paths: &mut BTreeMap<String, Value>,
) {
    let names = &definition["spec"]["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, plural) = (text(&names["kind"]), text(&names["plural"]));
    let reversed: Vec<&str> = group.split('.').rev().collect();
    let name = format!("{}.{version}.{kind}", reversed.join("."));
    let gvk = json!({"group": group, "kind": kind, "version": version});
    let mut schema = served["schema"]["openAPIV3Schema"].clone();
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] =
        json!({"allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}]});
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    let reference = json!({"$ref": format!("#/components/schemas/{name}")});
    schemas.insert(name.clone(), schema);
    let list = text(&names["listKind"]);
    let list_gvk = json!({"group": group, "kind": list, "version": version});
    schemas.insert(
        format!("{name}List"),
        json!({
            "type": "object", "required": ["items"],
            "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"allOf": [{"$ref": format!("#/components/schemas/{LIST_META}")}]},
                           "items": {"type": "array", "items": reference}},
            "x-kubernetes-group-version-kind": [list_gvk],
        }),
    );
    let namespaced = definition["spec"]["scope"] == "Namespaced";
    let base = if namespaced {
        format!("/apis/{group}/{version}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("/apis/{group}/{version}/{plural}")
    };
    let media = json!({"application/json": {"schema": reference}});
    let query =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let write = json!([query("dryRun"), query("fieldManager"), query("fieldValidation")]);
    let operation = |action: &str| {
        json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "parameters": write,
               "responses": {"200": {"description": "OK", "content": media}}})
    };
    let mut post = operation("post");
    post["requestBody"] = json!({"content": media});
    paths.insert(
        base.clone(),
        json!({"get": operation("list"), "post": post, "delete": operation("deletecollection")}),
    );
    let mut put = operation("put");
    put["requestBody"] = json!({"content": media});
    let mut patch = operation("patch");
    patch["requestBody"] = json!({"content": {"application/apply-patch+yaml": {}, "application/json-patch+json": {}, "application/merge-patch+json": {}}});
    paths.insert(
        format!("{base}/{{name}}"),
        json!({"get": operation("get"), "put": put, "patch": patch, "delete": operation("delete")}),
    );
}
