//! What Go knows of the built-in types that their OpenAPI schemas do not say.
//!
//! A schema calls a pull policy a string; a message about one calls it `v1.PullPolicy`. A schema does not tell
//! `*int32`, where a nought is kept, from `int32`, where it is dropped, nor which fields are written even when
//! nobody set them. `openapi/go.json`, written by the `openapi-import` example, does: it gives every field as it is
//! declared, `*int32,omitempty`.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::doc::Doc;
use crate::schema::{Additional, Kind, Schema};

/// A struct's field.
pub(crate) struct Field {
    go_type: &'static str,
    /// When it is left out.
    pub(super) omitted: Omitted,
}

/// What makes a field not worth writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Omitted {
    Never,
    /// `omitempty`: zeros and empty texts, lists and maps. A struct is never empty.
    WhenEmpty,
    /// `omitzero`: those, and a struct without anything in it.
    WhenZero,
}

impl Field {
    /// Its type, without the star of a pointer.
    pub(super) fn go_type(&self) -> &'static str {
        self.go_type.trim_start_matches('*')
    }

    /// A pointer tells a zero from nothing.
    pub(super) fn is_pointer(&self) -> bool {
        self.go_type.starts_with('*')
    }
}

type Fields = HashMap<&'static str, Field>;

fn structs() -> &'static HashMap<&'static str, Fields> {
    static STRUCTS: OnceLock<HashMap<&'static str, Fields>> = OnceLock::new();
    STRUCTS.get_or_init(|| {
        let declared: HashMap<&str, HashMap<&str, &str>> =
            serde_json::from_str(include_str!("../../openapi/go.json"))
                .expect("go.json is written by openapi-import");
        let field = |declared: &'static str| {
            let mut words = declared.split(',');
            let go_type = words.next().unwrap_or_default();
            let omitted = words.fold(Omitted::Never, |omitted, word| match word {
                "omitzero" => Omitted::WhenZero,
                "omitempty" if omitted == Omitted::Never => Omitted::WhenEmpty,
                _ => omitted,
            });
            Field { go_type, omitted }
        };
        declared
            .into_iter()
            .map(|(name, fields)| (name, fields.into_iter().map(|(n, text)| (n, field(text))).collect()))
            .collect()
    })
}

/// The fields of the struct a schema stands for; none for a map, a scalar or a custom resource.
pub(super) fn fields(schema: &Schema) -> Option<&'static Fields> {
    structs().get(schema.name.as_deref()?)
}

/// `PodSpec` of `io.k8s.api.core.v1.PodSpec`.
pub(crate) fn short_name(component: &str) -> &str {
    component.rsplit('.').next().unwrap_or(component)
}

/// Whether this is a `resource.Quantity`, which takes numbers as well as strings.
pub(super) fn is_quantity(schema: &Schema) -> bool {
    schema.name.as_deref().is_some_and(|name| name.ends_with(".api.resource.Quantity"))
}

/// Whether this is a time. Go keeps it in a struct, JSON in a string.
pub(super) fn is_time(schema: &Schema) -> bool {
    schema.kind == Some(Kind::String) && schema.limits.format.as_deref() == Some("date-time")
}

/// Whether the schema says nothing of the type, or asks to keep what comes.
pub(super) fn is_anything(schema: &Schema) -> bool {
    schema.kind.is_none() && !schema.int_or_string && !is_quantity(schema)
        || (schema.preserve_unknown && schema.properties.is_empty())
}

/// The type of a value as an error message prints it; `declared` is that of the field it is in, where known.
pub(super) fn name_of(declared: Option<&str>, schema: &Schema) -> String {
    match declared {
        // These read themselves, as the type they are kept in.
        Some("v1.Time" | "v1.MicroTime" | "intstr.IntOrString") | None => of_schema(schema),
        Some(name) => name.to_owned(),
    }
}

fn of_schema(schema: &Schema) -> String {
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
pub(super) fn inconvertible(doc: &Doc, schema: &Schema, wanted: &str) -> String {
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
