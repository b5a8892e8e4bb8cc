//! CustomResourceDefinitions: which ones are accepted, what they are completed to, and the resources they bring.

mod accept;
mod admit;
mod behaviour;
mod columns;
mod defaults;
mod definition;
mod goshape;
pub mod jsonpath;
mod openapi;
mod scale;
mod structural;

use serde_json::Value;

use crate::catalog::version_rank;
use crate::resource::{Resource, Subresource};
use crate::schema::{ParseError, Schema, SchemaRef, object_meta};

pub use accept::{accept_names, is_established, set_terminating};
pub use behaviour::CustomBehaviour;
pub use definition::DefinitionBehaviour;
pub use scale::Scale;

/// CustomResourceDefinition itself.
pub fn definition_resource() -> Resource {
    Resource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        list_kind: "CustomResourceDefinitionList".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        singular: "customresourcedefinition".to_owned(),
        short_names: vec!["crd".to_owned(), "crds".to_owned()],
        categories: vec!["api-extensions".to_owned()],
        namespaced: false,
        subresources: vec![Subresource::Status],
        schema: crate::builtin::definition_schema(),
        behaviour: std::sync::Arc::new(DefinitionBehaviour),
        storage_version: "v1".to_owned(),
        custom: false,
        revised: false,
        deprecation: None,
    }
}

/// The resources of a definition, one per served version. The definition was accepted before; a version whose schema
/// cannot be read all the same brings nothing.
pub fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage = versions.iter().find(|version| version["storage"] == true);
    let storage_version = storage.and_then(|version| version["name"].as_str()).unwrap_or_default();
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .filter_map(|version| resource(definition, version, storage_version).ok())
        .collect()
}

fn resource(definition: &Value, version: &Value, storage_version: &str) -> Result<Resource, ParseError> {
    let spec = &definition["spec"];
    let accepted = &definition["status"]["acceptedNames"];
    let names = if accepted["plural"].as_str().is_some_and(|plural| !plural.is_empty()) {
        accepted
    } else {
        &spec["names"]
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let read = |version: &Value| {
        let raw = &version["schema"]["openAPIV3Schema"];
        Schema::from_crd(if raw.is_object() { raw } else { &spec["validation"]["openAPIV3Schema"] })
    };
    let schema = read(version)?;
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = match versions.iter().find(|other| other["name"] == storage_version) {
        Some(storage) if storage["schema"] != version["schema"] => read(storage)?,
        Some(_) | None => schema.clone(),
    };
    let group = text(&spec["group"]);
    let kind = text(&names["kind"]);
    let name = text(&version["name"]);
    let mut subresources = Vec::new();
    for (key, subresource) in [("status", Subresource::Status), ("scale", Subresource::Scale)] {
        if version["subresources"][key].is_object() {
            subresources.push(subresource);
        }
    }
    let deprecation = (version["deprecated"] == true).then(|| match version["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => deprecated(spec, &group, &name, &kind),
    });
    Ok(Resource {
        list_kind: match names["listKind"].as_str() {
            Some(list_kind) if !list_kind.is_empty() => list_kind.to_owned(),
            Some(_) | None => format!("{kind}List"),
        },
        plural: text(&names["plural"]),
        singular: match names["singular"].as_str() {
            Some(singular) if !singular.is_empty() => singular.to_owned(),
            Some(_) | None => kind.to_lowercase(),
        },
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        subresources,
        behaviour: behaviour::shared(version, schema.clone(), stored),
        schema: whole(&schema),
        storage_version: storage_version.to_owned(),
        custom: true,
        revised: definition["metadata"]["generation"].as_i64().unwrap_or(1) > 1 || one_of_several(spec),
        deprecation,
        group,
        version: name,
        kind,
    })
}

/// A condition of a definition's status.
fn condition<'d>(definition: &'d Value, kind: &str) -> Option<&'d Value> {
    definition["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// What is said of a deprecated version whose author says nothing: what to use instead, where there is something better.
fn deprecated(spec: &Value, group: &str, version: &str, kind: &str) -> String {
    let better = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .filter_map(|other| other["name"].as_str())
        .filter(|other| version_rank(other) > version_rank(version))
        .max_by_key(|other| version_rank(other));
    let mut warning = format!("{group}/{version} {kind} is deprecated");
    if let Some(better) = better {
        warning.push_str(&format!("; use {group}/{better} {kind}"));
    }
    warning
}

/// Whether the versions of a definition do not all have the same schema.
fn one_of_several(spec: &Value) -> bool {
    let schemas: Vec<&Value> =
        spec["versions"].as_array().into_iter().flatten().map(|v| &v["schema"]).collect();
    schemas.windows(2).any(|pair| pair[0] != pair[1])
}

/// The schema with the type and metadata every object has. Restrictions on the name stay where they were.
fn whole(schema: &SchemaRef) -> SchemaRef {
    let mut whole = (**schema).clone();
    let text = || SchemaRef::new(Schema { kind: Some(crate::schema::Kind::String), ..Schema::default() });
    for field in ["apiVersion", "kind"] {
        whole.properties.entry(field.to_owned()).or_insert_with(text);
    }
    let mut metadata = (*object_meta()).clone();
    if let Some(restricted) = schema.properties.get("metadata") {
        metadata.properties.extend(restricted.properties.clone());
        metadata.description.clone_from(&restricted.description);
    }
    whole.properties.insert("metadata".to_owned(), SchemaRef::new(metadata));
    SchemaRef::new(whole)
}

#[cfg(test)]
mod tests;
