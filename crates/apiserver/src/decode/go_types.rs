//! What Go knows of the built-in types that their OpenAPI schemas do not say.
//!
//! A schema calls a pull policy a string; a message about one calls it `v1.PullPolicy`. A schema does not tell
//! `*int32`, where a nought is kept, from `int32`, where it is dropped, nor which fields are written even when
//! nobody set them. `go-types.txt` lists exactly these, one struct per paragraph:
//! `field  Go type or "-"  what is written when unset, or "-"`.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::doc::Doc;
use crate::schema::{Additional, Kind, Schema};

const TABLE: &str = include_str!("go-types.txt");

struct Field {
    go_type: Option<&'static str>,
    unset: Option<Value>,
}

fn table() -> &'static HashMap<&'static str, HashMap<&'static str, Field>> {
    static TABLES: OnceLock<HashMap<&'static str, HashMap<&'static str, Field>>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut structs: HashMap<&str, HashMap<&str, Field>> = HashMap::new();
        let mut current = "";
        for line in TABLE.lines() {
            let Some(entry) = line.strip_prefix(' ') else {
                current = line;
                continue;
            };
            let mut words = entry.split(' ');
            let (Some(name), Some(go_type), Some(unset)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let field = Field {
                go_type: Some(go_type).filter(|word| *word != "-"),
                unset: Some(unset).filter(|word| *word != "-").map(|word| {
                    serde_json::from_str(word).expect("the table holds JSON in its third column")
                }),
            };
            structs.entry(current).or_default().insert(name, field);
        }
        structs
    })
}

/// The Go type of a struct's field where the schema does not give it away. A leading `*` is a pointer.
pub(crate) fn of_field(structure: Option<&str>, field: &str) -> Option<&'static str> {
    table().get(structure?)?.get(field)?.go_type
}

/// The fields of a struct that are written even when unset, and what is written then.
pub(crate) fn always_written(
    structure: Option<&str>,
) -> impl Iterator<Item = (&'static str, &'static Value)> {
    structure
        .and_then(|name| table().get(name))
        .into_iter()
        .flatten()
        .filter_map(|(name, field)| field.unset.as_ref().map(|unset| (*name, unset)))
}

/// `PodSpec` of `io.k8s.api.core.v1.PodSpec`.
pub(crate) fn short_name(component: &str) -> &str {
    component.rsplit('.').next().unwrap_or(component)
}

/// Whether this is a `resource.Quantity`, which takes numbers as well as strings.
pub(crate) fn is_quantity(schema: &Schema) -> bool {
    schema.name.as_deref().is_some_and(|name| name.ends_with(".api.resource.Quantity"))
}

/// The Go type of a schema as an error message prints it.
pub(crate) fn of_schema(schema: &Schema) -> String {
    match (schema.kind, &schema.additional) {
        (Some(Kind::Object), _) if schema.name.is_some() => {
            let name = schema.name.as_deref().unwrap_or_default();
            let mut parts = name.rsplit('.');
            let (kind, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            format!("{package}.{kind}")
        }
        (Some(Kind::Object), Additional::Of(values)) => format!("map[string]{}", of_schema(values)),
        (Some(Kind::Object), Additional::Any | Additional::Refused) | (None, _) if !schema.int_or_string => {
            "map[string]interface {}".to_owned()
        }
        (Some(Kind::Array), _) => {
            format!(
                "[]{}",
                schema.items.as_ref().map_or_else(|| "interface {}".to_owned(), |item| of_schema(item))
            )
        }
        (Some(Kind::String), _) if schema.limits.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
        (Some(Kind::String), _) => "string".to_owned(),
        (Some(Kind::Integer), _) if schema.limits.format.as_deref() == Some("int64") => "int64".to_owned(),
        (Some(Kind::Integer | Kind::Object), _) | (None, _) => "int32".to_owned(),
        (Some(Kind::Number), _) => "float64".to_owned(),
        (Some(Kind::Boolean), _) => "bool".to_owned(),
    }
}

/// What the converter between loose and typed objects says of a value it cannot place.
pub(crate) fn inconvertible(doc: &Doc, schema: &Schema, wanted: &str) -> String {
    let (reflected, found) = match doc {
        Doc::Null => ("invalid", "<nil>"),
        Doc::Bool(_) => ("bool", "bool"),
        Doc::Number(text) if text.parse::<i64>().is_ok() => ("int64", "int64"),
        Doc::Number(_) => ("float64", "float64"),
        Doc::String(_) => ("string", "string"),
        Doc::Array(_) => ("slice", "[]interface {}"),
        Doc::Object(_) => ("map", "map[string]interface {}"),
    };
    match schema.kind {
        Some(Kind::Object) if !schema.properties.is_empty() => {
            format!("cannot restore struct from: {reflected}")
        }
        Some(Kind::Object) => format!("cannot restore map from {reflected}"),
        Some(Kind::Array) => format!("cannot restore slice from {reflected}"),
        // Go can turn an integer into a string and a float into an integer; the converter knows better, but only then
        // says what it was asked for.
        Some(Kind::String) if found == "int64" => format!("cannot convert int64 to {wanted}"),
        Some(Kind::Integer) if found == "float64" => format!("cannot convert float64 to {wanted}"),
        Some(Kind::String) => "unrecognized type: string".to_owned(),
        Some(Kind::Boolean) => "unrecognized type: bool".to_owned(),
        Some(Kind::Integer | Kind::Number) | None => format!("unrecognized type: {wanted}"),
    }
}
